//! The runs of the server, and what it says about them.

use std::sync::atomic::{AtomicU64, Ordering};

/// The version that the server gives.
pub(crate) const SERVER_VERSION: &str = "7.0.15";

/// Each run of a server in this process has another id.
static RUNS: AtomicU64 = AtomicU64::new(1);

/// The id of a run that begins now.
fn next() -> u64 {
    RUNS.fetch_add(1, Ordering::Relaxed)
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct ServerRun {
    number: u64,
    /// When it began, by the server's clock.
    since_us: i64,
}

/// How long a new engine counts as having run.
const LONG_US: i64 = 1_000_000_000_000;

impl ServerRun {
    /// A run that began long ago.
    pub(crate) fn of_old(now_us: i64) -> Self {
        ServerRun::from(now_us - LONG_US)
    }

    pub(crate) fn from(since_us: i64) -> Self {
        ServerRun {
            number: next(),
            since_us,
        }
    }

    /// The run of another server, which has run for as long.
    pub(crate) fn of_another(self) -> Self {
        ServerRun::from(self.since_us)
    }

    /// Each restart and each failover begins a run with another id.
    pub(crate) fn id(self) -> String {
        format!("{:040x}", self.number)
    }

    /// The reply to INFO: one section, or both that the engine has.
    pub(crate) fn info(self, now_us: i64, section: Option<&[u8]>) -> String {
        let (run_id, up_s) = (self.id(), (now_us - self.since_us) / 1_000_000);
        let server = format!(
            "# Server\r\nredis_version:{SERVER_VERSION}\r\nrun_id:{run_id}\r\n\
             uptime_in_seconds:{up_s}\r\n"
        );
        let replication = format!("# Replication\r\nrole:master\r\nmaster_replid:{run_id}\r\n");
        match section {
            Some(section) if section.eq_ignore_ascii_case(b"server") => server,
            Some(section) if section.eq_ignore_ascii_case(b"replication") => replication,
            _ => format!("{server}\r\n{replication}"),
        }
    }
}
