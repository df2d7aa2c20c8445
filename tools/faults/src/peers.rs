//! Other lock libraries that take part in the same runs: what they promise, and how their clients
//! are started.
//!
//! Each library has a driver in `tools/faults/peers`: a client process with the same command line,
//! history and orders as our own client. The driver uses the library as its documentation says.

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

/// A promise of the documentation in our words, and its source.
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
    /// The kinds of locks that take part.
    pub(crate) workloads: &'static [Workload],
    /// Whether the client knows its deadline without asking a server. Then its grants have `until`.
    pub(crate) knows_deadlines: bool,
    /// Whether the library reports a lost lock, unasked or when the lease is extended.
    pub(crate) tells_losses: bool,
    pub(crate) settings: &'static [&'static str],
    pub(crate) promises: &'static [Promise],
    /// The key of the lock in Redis. `{name}` stands for its name in the history, and `*` for a
    /// number.
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

    /// The version of the library, from the files that the driver is built from.
    pub(crate) fn version(&self) -> String {
        self.driver.version()
    }

    /// Builds or installs what is missing, with the tools of the driver's language. Blocks.
    pub(crate) fn prepare(&self) -> Result<(), String> {
        self.driver.prepare()
    }

    /// The command of the driver. The caller adds `--url` and the other arguments.
    pub(crate) fn command(&self) -> Command {
        self.driver.command()
    }
}
