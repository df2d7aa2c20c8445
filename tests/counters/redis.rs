//! The counters of the server.

use leasehold_testbed::{Server, command_stats, info_line};

use crate::operation::Prepared;

/// Of this program, each.
const PING: [u64; 2] = [b"PING\r\n".len() as u64, b"+PONG\r\n".len() as u64];

#[derive(Clone, Copy, Debug)]
pub(crate) struct Counters {
    /// Without those of this program.
    pub(crate) commands: u64,
    pub(crate) bytes_in: u64,
    pub(crate) bytes_out: u64,
}

impl Counters {
    pub(crate) fn of(server: &Server, prepared: &Prepared) -> Self {
        let stats = command_stats(&server.command(&["INFO", "commandstats"]).text());
        let all = stats.iter().filter(|(name, _)| *name != "info");
        let commands: u64 = all.map(|(_, stats)| stats.calls).sum();
        let text = server.command(&["INFO", "stats"]).text();
        let number = |name: &str| {
            let value = info_line(&text, name).and_then(|value| value.parse::<u64>().ok());
            value.expect("a number")
        };
        let pings = prepared.pings();
        Counters {
            commands: commands - pings,
            bytes_in: number("total_net_input_bytes") - pings * PING[0],
            bytes_out: number("total_net_output_bytes") - pings * PING[1],
        }
    }

    /// What was spent from here to `end`, without what looking at the counters costs. The `idle`
    /// ones are from directly before `self`.
    pub(crate) fn until(self, end: &Self, idle: &Self) -> Self {
        let spent =
            |of: fn(&Self) -> u64| (of(end) - of(&self)).saturating_sub(of(&self) - of(idle));
        Counters {
            commands: end.commands - self.commands,
            bytes_in: spent(|of| of.bytes_in),
            bytes_out: spent(|of| of.bytes_out),
        }
    }
}
