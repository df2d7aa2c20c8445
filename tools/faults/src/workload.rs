//! The workloads: which kinds of locks the workers take.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use leasehold::{
    Client, Error, ExpirablePermit, FencingToken, Lease, Lock, LockGuard, PermitExpirableSemaphore,
    Semaphore, SemaphorePermit,
};

use crate::history::Mode;
use crate::world::Kind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    Plain,
    Fair,
    ReadWrite,
    /// The resource checks the tokens of its writes.
    Fenced,
    /// Permits with leases.
    Permits,
    /// Permits without leases, as in Redisson. The permits of a dead client stay taken.
    Semaphore,
    /// A multi lock of two out of several locks.
    Multi,
    String,
    /// A majority of five independent servers.
    Quorum,
}

/// Pairs of locks for multi locks. Each pair shares its locks with other pairs.
const QUICK_PAIRS: [&str; 3] = ["0+1", "1+2", "2+0"];
const LONG_PAIRS: [&str; 2] = ["3+4", "4+5"];

/// The number of permits of each name.
pub(crate) const PERMITS: u32 = 2;

impl Workload {
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("no variant is skipped");
        value.get_name().to_owned()
    }

    /// A phrase for the report.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Workload::Plain => "the re-entrant lock",
            Workload::Fair => "the fair lock: granted in the order of the requests",
            Workload::ReadWrite => "the read/write lock: two readers for each writer",
            Workload::Fenced => "the fenced lock, whose tokens the resource checks",
            Workload::Permits => "two permits with ids and leases",
            Workload::Semaphore => "a semaphore with two permits",
            Workload::Multi => "a multi lock of two locks",
            Workload::String => "the lock that is one string (`SET NX PX`)",
            Workload::Quorum => "a majority of five independent servers",
        }
    }

    /// Whether it has a meaning on the deployment.
    pub(crate) fn runs_on(self, deployment: Kind) -> bool {
        match self {
            Workload::Quorum => deployment == Kind::Five,
            _ => deployment != Kind::Five,
        }
    }

    /// The locks and semaphores that the workers take. Each pair of a multi lock has its own name.
    pub(crate) fn targets(self, clients: &[Client]) -> Vec<Target> {
        let name = |number: &str| format!("{}:{number}", self.name());
        let client = &clients[0];
        let quick = if self == Workload::Multi {
            &QUICK_PAIRS[..]
        } else {
            &["0"]
        };
        let target = |number: &str, handle: Handle| Target {
            name: name(number),
            is_long: !quick.contains(&number),
            workload: self,
            handle,
        };
        let locks = |make: &dyn Fn(&str) -> Lock| {
            ["0", "1"]
                .map(|number| target(number, Handle::Lock(make(&name(number)))))
                .into()
        };
        match self {
            Workload::Plain => locks(&|name| client.lock(name)),
            Workload::Fair => locks(&|name| client.fair_lock(name)),
            Workload::Fenced => locks(&|name| client.fenced_lock(name).into()),
            Workload::String => locks(&|name| client.string_lock(name)),
            Workload::Quorum => {
                locks(&|name| Lock::quorum(clients.iter().map(|client| client.lock(name))))
            }
            Workload::ReadWrite => {
                let both = |number: &str| {
                    let lock = client.read_write_lock(name(number));
                    [
                        Handle::Shared(lock.read().clone()),
                        Handle::Lock(lock.write().clone()),
                    ]
                    .map(|handle| target(number, handle))
                };
                // Two readers for each writer.
                [both("0"), both("0"), both("1")]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Workload::Multi => {
                let pair = |pair: &str| {
                    target(
                        pair,
                        Handle::Lock(Lock::multi(
                            pair.split('+').map(name).map(|name| client.lock(name)),
                        )),
                    )
                };
                QUICK_PAIRS
                    .into_iter()
                    .chain(LONG_PAIRS)
                    .map(pair)
                    .collect()
            }
            Workload::Permits => ["0", "1"]
                .map(|number| {
                    let permits = client.permit_expirable_semaphore(name(number));
                    target(number, Handle::Permits(Arc::new(permits)))
                })
                .into(),
            Workload::Semaphore => ["0", "1"]
                .map(|number| {
                    target(
                        number,
                        Handle::Semaphore(Arc::new(client.semaphore(name(number)))),
                    )
                })
                .into(),
        }
    }

    /// Whether the key may stay although no client holds a lock. Counters stay. The saved replies
    /// to calls that must not run twice stay for half a minute.
    pub(crate) fn keeps(self, key: &str) -> bool {
        match self {
            Workload::Semaphore | Workload::Permits if key.starts_with("leasehold_reply:") => true,
            Workload::Fenced => key.starts_with("redisson_lock_token:"),
            Workload::Semaphore | Workload::Permits => key.starts_with(&self.name()),
            _ => false,
        }
    }
}

/// A lock or a semaphore that a worker takes.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) name: String,
    /// Whether workers may hold it for several leases.
    pub(crate) is_long: bool,
    workload: Workload,
    handle: Handle,
}

#[derive(Clone, Debug)]
enum Handle {
    Lock(Lock),
    Shared(Lock),
    Permits(Arc<PermitExpirableSemaphore>),
    Semaphore(Arc<Semaphore>),
}

/// A hold of a worker.
pub(crate) enum Hold {
    Lock(LockGuard),
    Permit(ExpirablePermit),
    Semaphore(SemaphorePermit),
}

impl Target {
    pub(crate) fn mode(&self) -> Mode {
        match self.handle {
            Handle::Lock(_) => Mode::Exclusive,
            Handle::Shared(_) => Mode::Shared,
            Handle::Permits(_) | Handle::Semaphore(_) => Mode::Permit,
        }
    }

    /// Whether the hold may have a fixed lease. A plain semaphore has no leases.
    pub(crate) fn has_leases(&self) -> bool {
        self.workload != Workload::Semaphore
    }

    pub(crate) fn can_be_reentered(&self) -> bool {
        !matches!(
            self.workload,
            Workload::Semaphore | Workload::Permits | Workload::String
        )
    }

    pub(crate) async fn take(&self, wait: Duration, lease: Lease) -> Result<Hold, Error> {
        match &self.handle {
            Handle::Lock(lock) | Handle::Shared(lock) => {
                lock.try_lock(wait, lease).await.map(Hold::Lock)
            }
            Handle::Permits(permits) => permits.try_acquire(1, wait, lease).await.map(Hold::Permit),
            Handle::Semaphore(semaphore) => {
                semaphore.try_acquire(1, wait).await.map(Hold::Semaphore)
            }
        }
    }

    /// Creates the permits if they do not exist. A server that restarted empty has lost them.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        match &self.handle {
            Handle::Permits(permits) => permits.try_set_permits(PERMITS).await.map(drop),
            Handle::Semaphore(semaphore) => semaphore.try_set_permits(PERMITS).await.map(drop),
            Handle::Lock(_) | Handle::Shared(_) => Ok(()),
        }
    }
}

impl Hold {
    pub(crate) fn guard(&self) -> &LockGuard {
        match self {
            Hold::Lock(guard) => guard,
            Hold::Permit(permit) => permit,
            Hold::Semaphore(permit) => permit.guard().expect("one permit"),
        }
    }

    pub(crate) fn token(&self) -> Option<i64> {
        self.guard().token().map(FencingToken::value)
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Hold::Lock(guard) => guard.unlock().await,
            Hold::Permit(permit) => permit.release().await,
            Hold::Semaphore(permit) => permit.release().await,
        }
    }
}
