//! What clients do with their locks.

use std::sync::Arc;
use std::time::Duration;

use clap::ValueEnum;
use leasehold::{
    Client, Error, ExpirablePermit, FencingToken, Lease, Lock, LockGuard, PermitExpirableSemaphore,
    Semaphore, SemaphorePermit,
};

use crate::history::Mode;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Workload {
    Plain,
    Fair,
    ReadWrite,
    /// Writes to a resource that checks its tokens.
    Fenced,
    /// Permits with leases.
    Permits,
    /// Permits that nobody takes back from the dead, as Redisson's.
    Semaphore,
    /// Two of several locks as one.
    Multi,
    String,
    /// A majority of five independent servers.
    Quorum,
}

/// Each shares its locks with others.
const QUICK_PAIRS: [&str; 3] = ["0+1", "1+2", "2+0"];
const LONG_PAIRS: [&str; 2] = ["3+4", "4+5"];

/// How many holds a name with permits admits.
pub(crate) const PERMITS: u32 = 2;

impl Workload {
    pub(crate) fn name(self) -> String {
        let value = self.to_possible_value().expect("none is skipped");
        value.get_name().to_owned()
    }

    /// One sentence, for the report.
    pub(crate) fn what(self) -> &'static str {
        match self {
            Workload::Plain => "the re-entrant lock",
            Workload::Fair => "the fair lock: in the order of asking",
            Workload::ReadWrite => "the read/write lock: two readers for each writer",
            Workload::Fenced => "the fenced lock, whose tokens the resource checks",
            Workload::Permits => "two permits with ids and leases",
            Workload::Semaphore => "a semaphore with two permits",
            Workload::Multi => "two of several locks as one",
            Workload::String => "the lock that is one string (`SET NX PX`)",
            Workload::Quorum => "a majority of five independent servers",
        }
    }

    /// What it takes locks by. Of several locks as one, each of them is a name of its own.
    pub(crate) fn places(self, clients: &[Client]) -> Vec<Place> {
        let name = |number: &str| format!("{}:{number}", self.name());
        let client = &clients[0];
        let quick = if self == Workload::Multi {
            &QUICK_PAIRS[..]
        } else {
            &["0"]
        };
        let place = |number: &str, way: Way| Place {
            name: name(number),
            is_long: !quick.contains(&number),
            workload: self,
            way,
        };
        let locks = |make: &dyn Fn(&str) -> Lock| {
            ["0", "1"]
                .map(|number| place(number, Way::Lock(make(&name(number)))))
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
                        Way::Shared(lock.read().clone()),
                        Way::Lock(lock.write().clone()),
                    ]
                    .map(|way| place(number, way))
                };
                // Two readers for each writer.
                [both("0"), both("0"), both("1")]
                    .into_iter()
                    .flatten()
                    .collect()
            }
            Workload::Multi => {
                let pair = |pair: &str| {
                    place(
                        pair,
                        Way::Lock(client.multi_lock(pair.split('+').map(name))),
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
                    place(number, Way::Permits(Arc::new(permits)))
                })
                .into(),
            Workload::Semaphore => ["0", "1"]
                .map(|number| {
                    place(
                        number,
                        Way::Semaphore(Arc::new(client.semaphore(name(number)))),
                    )
                })
                .into(),
        }
    }

    /// The keys that stay when nobody holds anything: counters, and for half a minute the replies to calls that
    /// must not be carried out twice.
    pub(crate) fn keeps(self, key: &str) -> bool {
        match self {
            Workload::Semaphore | Workload::Permits if key.starts_with("leasehold_reply:") => true,
            Workload::Fenced => key.starts_with("redisson_lock_token:"),
            Workload::Semaphore | Workload::Permits => key.starts_with(&self.name()),
            _ => false,
        }
    }
}

/// Something that a worker takes.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    pub(crate) name: String,
    /// Somebody may hold it for several leases.
    pub(crate) is_long: bool,
    workload: Workload,
    way: Way,
}

#[derive(Clone, Debug)]
enum Way {
    Lock(Lock),
    Shared(Lock),
    Permits(Arc<PermitExpirableSemaphore>),
    Semaphore(Arc<Semaphore>),
}

/// What a worker has.
pub(crate) enum Hold {
    Lock(LockGuard),
    Permit(ExpirablePermit),
    OfSemaphore(SemaphorePermit),
}

impl Place {
    pub(crate) fn mode(&self) -> Mode {
        match self.way {
            Way::Lock(_) => Mode::Exclusive,
            Way::Shared(_) => Mode::Shared,
            Way::Permits(_) | Way::Semaphore(_) => Mode::Permit,
        }
    }

    /// Permits without leases cannot have a fixed one.
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
        match &self.way {
            Way::Lock(lock) | Way::Shared(lock) => lock.try_lock(wait, lease).await.map(Hold::Lock),
            Way::Permits(permits) => permits.try_acquire(wait, lease).await.map(Hold::Permit),
            Way::Semaphore(semaphore) => {
                semaphore.try_acquire(1, wait).await.map(Hold::OfSemaphore)
            }
        }
    }

    /// Makes sure that there are permits: a server that came back empty has forgotten them.
    pub(crate) async fn prepare(&self) -> Result<(), Error> {
        match &self.way {
            Way::Permits(permits) => permits.try_set_permits(PERMITS).await.map(drop),
            Way::Semaphore(semaphore) => semaphore.try_set_permits(PERMITS).await.map(drop),
            Way::Lock(_) | Way::Shared(_) => Ok(()),
        }
    }
}

impl Hold {
    pub(crate) fn guard(&self) -> &LockGuard {
        match self {
            Hold::Lock(guard) => guard,
            Hold::Permit(permit) => permit,
            Hold::OfSemaphore(permit) => permit.guard().expect("one permit"),
        }
    }

    pub(crate) fn token(&self) -> Option<i64> {
        self.guard().token().map(FencingToken::value)
    }

    pub(crate) async fn release(self) -> Result<(), Error> {
        match self {
            Hold::Lock(guard) => guard.unlock().await,
            Hold::Permit(permit) => permit.release().await,
            Hold::OfSemaphore(permit) => permit.release().await,
        }
    }
}
