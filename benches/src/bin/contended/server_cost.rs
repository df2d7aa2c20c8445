//! What a server has done so far, by its own count.

use leasehold_testbed::{Outside, Server, command_stats, info_line};

use crate::Failure;

/// This program's own.
const ASKED: [&str; 5] = ["info", "ping", "llen", "config|resetstat", "del"];

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerCost {
    /// Also those that scripts run, but not this program's own.
    pub(crate) commands: u64,
    /// To the append-only file. Each replica gets this too, and the messages that scripts publish.
    pub(crate) written: u64,
    /// In seconds.
    pub(crate) cpu: f64,
}

/// A server that writes all changes to a file, as `ServerCost` needs it.
pub(crate) fn server() -> Server {
    Server::start_with(&[
        "--appendonly",
        "yes",
        "--appendfsync",
        "no",
        "--auto-aof-rewrite-percentage",
        "0",
    ])
}

impl ServerCost {
    pub(crate) fn of(outside: &mut Outside) -> Result<Self, Failure> {
        let info = outside.command(&["INFO", "everything"]).text();
        let line = |name: &str| info_line(&info, name).ok_or_else(|| format!("INFO has no {name}"));
        let stats = command_stats(&info);
        let others = stats
            .iter()
            .filter(|(name, _)| !ASKED.contains(&name.as_str()));
        Ok(ServerCost {
            commands: others.map(|(_, stats)| stats.calls).sum(),
            written: line("aof_current_size")?.parse()?,
            cpu: line("used_cpu_user")?.parse::<f64>()? + line("used_cpu_sys")?.parse::<f64>()?,
        })
    }

    /// From there until here.
    pub(crate) fn since(self, before: Self) -> Self {
        ServerCost {
            commands: self.commands - before.commands,
            written: self.written - before.written,
            cpu: self.cpu - before.cpu,
        }
    }
}
