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
        "client.lock(name, timeout=lease, blocking_timeout=wait); a waiter asks every 0.1 s, the default",
        "owned(), a call to the server, before each write: False, or an exception, ends the section",
        "reacquire() by the worker when a third of the lease is over, also while it pauses inside. LockNotOwnedError ends \
         the section; after other exceptions it is tried again a tenth of the lease later",
        "one client for the threads of a process, with the defaults: socket_timeout and socket_connect_timeout 5 s, \
         10 retries of a call up to 1 s apart",
        "an exception is a refusal or a failed release; False of acquire is a time-out",
        "`block` keeps the interpreter's lock: nothing of Python runs",
    ],
    promises: &[
        Promise {
            says: "timeout is a maximum life of the lock; blocking_timeout the most that acquire waits.",
            source: SOURCE,
        },
        Promise {
            says: "Nothing is renewed by itself; extend and reacquire are the user's to call. Nothing tells of a loss \
                   but LockNotOwnedError from extend, reacquire or release.",
            source: SOURCE,
        },
        Promise {
            says: "owned and locked ask the server. The client knows no deadline.",
            source: SOURCE,
        },
        Promise {
            says: "It is left to the user to resolve deadlocks and to make sure that clients play nicely together.",
            source: SOURCE,
        },
    ],
    key: "{name}",
    driver: Driver::Python,
};
