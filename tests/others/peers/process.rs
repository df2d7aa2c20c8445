//! A process with the locks of another library.

use std::path::Path;
use std::process::Command;

use leasehold_others::{Driver, Reply, Thrown};
use leasehold_testbed::{LIMIT, command};

/// A library, by the language of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    RedisPy,
    Redsync,
    Redislock,
    NodeRedlock,
}

impl Library {
    fn name(self) -> &'static str {
        match self {
            Library::RedisPy => "redis-py",
            Library::Redsync => "redsync",
            Library::Redislock => "redislock",
            Library::NodeRedlock => "node-redlock",
        }
    }

    /// How its driver is started, of what `tests/run` prepares.
    fn driver(self) -> Command {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("peers");
        let prepared = sources.join("../../../target/peers");
        let needed = prepared.join(match self {
            Library::RedisPy => "bin/python",
            Library::Redsync | Library::Redislock => "go/driver",
            Library::NodeRedlock => "node/node_modules",
        });
        let missing = format!("{} for {self:?}: see tests/run peers", needed.display());
        assert!(needed.exists(), "{missing}");
        if self == Library::NodeRedlock {
            let mut node = command("node");
            node.arg(sources.join("node/driver.js"))
                .env("NODE_PATH", &needed);
            return node;
        }
        let mut driver = command(needed);
        if self == Library::RedisPy {
            driver.arg(sources.join("python/driver.py"));
        }
        driver
    }
}

pub(crate) struct Process {
    library: Library,
    driver: Driver,
}

impl Process {
    /// A driver that uses these servers.
    pub(crate) fn start(library: Library, urls: &[String]) -> Self {
        let mut command = library.driver();
        let driver = Driver::start(library.name(), command.args(urls), LIMIT);
        Process { library, driver }
    }

    /// Sends a command that may throw.
    pub(crate) fn ask(&self, command: &str) -> Reply<Result<String, Thrown>> {
        self.driver.ask(command)
    }

    /// Sends a command that must not throw.
    pub(crate) fn tell(&self, command: &str) -> Reply<String> {
        self.driver.get(command)
    }

    /// The same for a command that says yes or no.
    pub(crate) fn is(&self, command: &str) -> Reply<bool> {
        self.driver.get(command)
    }

    /// Makes a lock known to the driver as `it`.
    pub(crate) async fn make(&self, key: &str, lease_ms: u32) {
        let name = self.library.name();
        self.tell(&format!("make {name} it {key} {lease_ms}")).await;
    }

    /// Starts a crowd in the driver. Returns how many tasks met another one inside.
    pub(crate) fn contend(&self, contenders: usize, rounds: usize, key: &str) -> Reply<u32> {
        let name = self.library.name();
        let contend = format!("contend {name} {contenders} {rounds} {key} 60000");
        self.driver.get(&contend)
    }
}
