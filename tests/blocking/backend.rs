//! One place where locks live, and what threads need of it.

use std::fmt::Debug;
use std::thread;
use std::time::Duration;

use leasehold::blocking::Guard;
use leasehold::test_util::Reply;
use leasehold::{ClientBuilder, EmbeddedRedis, Error, blocking};
use leasehold_testbed::{self as testbed, Borrowed, wait_until};

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(20);

pub(crate) enum Backend {
    Redis(Box<Borrowed>),
    Embedded(EmbeddedRedis),
}

impl Backend {
    pub(crate) fn redis() -> Self {
        Backend::Redis(Box::new(Borrowed::take()))
    }

    pub(crate) fn embedded() -> Self {
        Backend::Embedded(EmbeddedRedis::new())
    }

    /// Further places of the same kind.
    pub(crate) fn more(&self) -> Backend {
        match self {
            Backend::Redis(_) => Backend::redis(),
            Backend::Embedded(_) => Backend::embedded(),
        }
    }

    /// Without polls within a test: a waiter goes on when it is told, or not at all.
    pub(crate) fn builder(&self) -> ClientBuilder {
        let builder = match self {
            Backend::Redis(server) => {
                let builder = leasehold::Client::builder(&server.url());
                builder.connect_timeout(LIMIT).command_timeout(LIMIT / 2)
            }
            Backend::Embedded(engine) => engine.builder(),
        };
        builder.safety_poll(Duration::from_secs(60))
    }

    pub(crate) fn client(&self) -> blocking::Client {
        blocking::Client::connect_with(self.builder()).expect("a client")
    }

    /// Holds of this client are lost or renewed within a test.
    pub(crate) fn client_with_lease(&self, lease: Duration) -> blocking::Client {
        blocking::Client::connect_with(self.builder().lease(lease)).expect("a client")
    }

    fn integer(&self, words: &[&str]) -> i64 {
        match self {
            Backend::Redis(server) => match server.command(words) {
                testbed::Reply::Int(number) => number,
                other => panic!("{words:?} gave {other:?}"),
            },
            Backend::Embedded(engine) => match engine.command(words) {
                Ok(Reply::Int(number)) => number,
                other => panic!("{words:?} gave {other:?}"),
            },
        }
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.integer(&["EXISTS", key]) == 1
    }

    /// As by an operator: nobody is told.
    pub(crate) fn delete(&self, key: &str) {
        assert_eq!(self.integer(&["DEL", key]), 1, "it was there");
    }

    pub(crate) fn until_gone(&self, key: &str) {
        wait_until("the key is gone", LIMIT, || !self.exists(key));
    }

    /// How many scripts clients have run.
    pub(crate) fn calls(&self) -> u64 {
        match self {
            Backend::Redis(server) => {
                let stats = server.command(&["INFO", "commandstats"]).text();
                let calls = |line: &str| {
                    let count = line
                        .strip_prefix("cmdstat_evalsha:calls=")?
                        .split(',')
                        .next()?;
                    Some(count.parse::<u64>().expect("a number"))
                };
                stats.lines().filter_map(calls).sum()
            }
            Backend::Embedded(engine) => engine.scripts_run().values().sum(),
        }
    }
}

/// Waits in vain. A machine that stalls loses the last answer of a wait: then once more.
pub(crate) fn in_vain<T: Debug>(wait: impl Fn() -> Result<T, Error>) {
    wait_until("a wait is answered", LIMIT, || {
        let error = wait().expect_err("it is held");
        assert!(error.is_timeout() || error.may_be_held(), "{error}");
        error.is_timeout()
    });
}

/// Waits until so many threads and tasks of a client wait for a lock.
pub(crate) fn until_waiting(client: &blocking::Client, waiters: u64) {
    wait_until("they wait", LIMIT, || client.stats().waiting == waiters);
}

/// Waits for a renewal, which moves the deadline on.
pub(crate) fn until_renewed(guard: &Guard) {
    let first = guard.deadline();
    wait_until("it is renewed", LIMIT, || guard.deadline() > first);
    guard.check().expect("it is held");
}

/// What `work` gives on a thread of its own.
pub(crate) fn on_another_thread<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    thread::scope(|scope| scope.spawn(work).join().expect("no panic"))
}
