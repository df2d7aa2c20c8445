//! rslock: Redlock in Rust.

use super::build::Driver;
use super::{Kind, Peer, Promise, Workload};

const SOURCE: &str = "src/lock.rs";

pub(super) const PEER: Peer = Peer {
    name: "rslock",
    language: "Rust",
    places: &[Kind::Single, Kind::Cluster, Kind::Five],
    workloads: &[Workload::Plain],
    knows_deadlines: true,
    tells_losses: true,
    settings: &[
        "LockManager::lock with the lease, and again 100 ms after a refusal until the wait is over, as in the example \
         of a shared lock; within a call the default, 3 tries up to 200 ms apart",
        "validity_time, which the client knows, before each write: the section ends when it is over. It counts from \
         before the call, to be certain: rslock does not say since when",
        "extend by the worker when a third of the lease is over, as in the README, also while it pauses inside. \
         `Unavailable` ends the section, since rslock has released the lock by then; after other errors it is tried \
         again a tenth of the lease later",
        "time-outs are those of the crate redis: 500 ms for an answer, 1 s for a connection",
        "`Unavailable` is counted as a time-out: it is the same for a lock that is held and for servers that are down",
        "the release has no result; a guard that is dropped releases nothing, and is not dropped here",
        "`block` keeps all threads of the runtime, and with them the library",
    ],
    promises: &[
        Promise {
            says: "validity_time is the time that the lock is still valid, slightly less than the TTL: less the time that \
                   the call took and a drift of 1 % and 2 ms.",
            source: SOURCE,
        },
        Promise {
            says: "lock and acquire do not renew; extend resets the time, and is the user's to call. `using` renews while \
                   a routine runs, but has no limit to its wait.",
            source: "README.md, Extending Locks; LockManager::using",
        },
        Promise {
            says: "The release is best effort: servers that cannot be reached keep the key until its TTL is over.",
            source: SOURCE,
        },
        Promise {
            says: "An extension that finds no majority releases the lock on all servers.",
            source: "LockManager::exec_or_retry, not in the documentation",
        },
    ],
    key: "{name}",
    driver: Driver::Rust,
};
