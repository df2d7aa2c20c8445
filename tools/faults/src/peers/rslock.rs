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
        "LockManager::lock with the lease, repeated 100 ms after each refusal until the wait is \
         over, as in the example of a shared lock; within a call the default, 3 tries up to 200 ms \
         apart",
        "before each write, the worker checks validity_time, which the client knows: the section \
         ends when it is over. It is counted from before the call, because rslock does not say \
         when it begins",
        "the worker calls extend after a third of the lease, as in the README, even while it \
         pauses inside. `Unavailable` ends the section, because rslock has released the lock by \
         then; after other errors the worker retries a tenth of the lease later",
        "the timeouts are those of the crate redis: 500 ms for a reply, 1 s for a connection",
        "`Unavailable` counts as a timeout: rslock returns it both for a held lock and for servers \
         that are down",
        "the release has no result; dropping a guard does not release the lock, so the driver \
         never drops a held guard",
        "`block` blocks all threads of the runtime, and with them the library",
    ],
    promises: &[
        Promise {
            says: "validity_time is how long the lock is still valid. It is slightly less than the \
                   TTL: the duration of the call and a drift of 1 % plus 2 ms are subtracted.",
            source: SOURCE,
        },
        Promise {
            says: "lock and acquire do not renew: the user calls extend, which resets the time. \
                   `using` renews while a routine runs, but its wait has no limit.",
            source: "README.md, Extending Locks; LockManager::using",
        },
        Promise {
            says: "The release is best effort: servers that cannot be reached keep the key until \
                its TTL is over.",
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
