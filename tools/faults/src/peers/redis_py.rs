//! redis-py: `redis.lock.Lock`.

use super::build::Driver;
use super::{Kind, Peer, Promise, Workload};

const SOURCE: &str = "redis/lock.py";

pub(super) const PEER: Peer = Peer {
    name: "redis-py",
    language: "Python",
    places: &[Kind::Single, Kind::Sentinel, Kind::Cluster],
    workloads: &[Workload::Plain],
    knows_deadlines: false,
    tells_losses: true,
    settings: &[
        "client.lock(name, timeout=lease, blocking_timeout=wait); a waiter retries every 0.1 s, \
         the default",
        "before each write, the worker calls owned(), which asks the server: False or an exception \
         ends the section",
        "the worker calls reacquire() after a third of the lease, even while it pauses inside. \
         LockNotOwnedError ends the section; after other exceptions the worker retries a tenth of \
         the lease later",
        "one client for the threads of a process, with the defaults: socket_timeout and \
         socket_connect_timeout 5 s, 10 retries of a call up to 1 s apart",
        "an exception counts as a refusal or as a failed release; False from acquire counts as a \
         timeout",
        "`block` holds the interpreter's lock, so that no Python code runs",
    ],
    promises: &[
        Promise {
            says: "timeout limits the life of the lock; blocking_timeout limits how long acquire \
                waits.",
            source: SOURCE,
        },
        Promise {
            says: "The library does not renew leases: the user calls extend or reacquire. A loss \
                   is reported only by LockNotOwnedError from extend, reacquire or release.",
            source: SOURCE,
        },
        Promise {
            says: "owned and locked ask the server. The client does not know the deadline.",
            source: SOURCE,
        },
        Promise {
            says: "The user must resolve deadlocks and make sure that clients cooperate.",
            source: SOURCE,
        },
    ],
    key: "{name}",
    driver: Driver::Python,
};
