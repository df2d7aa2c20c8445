//! Other lock libraries that go through the same run: what they are, what they promise, how they are started.
//!
//! Each has a driver in `tools/faults/peers`, a client process with the command line, the history and the orders of
//! our own. It is used as its documentation says.

mod build;
mod redis_py;
mod redislock;
mod redisson;
mod redsync;
mod rslock;
mod rueidislock;
#[cfg(test)]
mod tests;

use std::process::Command;

use build::Driver;

use crate::workload::Workload;
use crate::world::Kind;

/// What a documentation says, in our words, and where.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Promise {
    pub(crate) says: &'static str,
    pub(crate) source: &'static str,
}

/// A lock library.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peer {
    pub(crate) name: &'static str,
    pub(crate) language: &'static str,
    pub(crate) places: &'static [Kind],
    /// Which of its locks take part.
    pub(crate) workloads: &'static [Workload],
    /// Its client knows, without asking a server, until when a lock is held: its grants have `until`.
    pub(crate) knows_deadlines: bool,
    /// It says by itself, or when its lease is prolonged, that a lock is lost.
    pub(crate) tells_losses: bool,
    pub(crate) settings: &'static [&'static str],
    pub(crate) promises: &'static [Promise],
    /// What the lock is called in Redis; `{name}` is its name in the history, `*` a number.
    pub(crate) key: &'static str,
    driver: Driver,
}

pub(crate) const ALL: [Peer; 6] = [
    redisson::PEER,
    rueidislock::PEER,
    redsync::PEER,
    redislock::PEER,
    rslock::PEER,
    redis_py::PEER,
];

impl Peer {
    pub(crate) fn named(name: &str) -> Option<&'static Peer> {
        const { &ALL }.iter().find(|peer| peer.name == name)
    }

    /// As the files say that its driver is built from.
    pub(crate) fn version(&self) -> String {
        self.driver.version()
    }

    /// Builds or installs what is missing, with the tools of its language; blocks.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        self.driver.prepare()
    }

    /// The driver; `--url` and the others are for the caller to add.
    pub(crate) fn command(&self) -> Command {
        self.driver.command()
    }
}
