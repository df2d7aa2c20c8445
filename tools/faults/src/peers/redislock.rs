//! bsm/redislock: a lock on one server, refreshed by its user.

use super::build::Driver;
use super::{Kind, Peer, Promise, Workload};

pub(super) const PEER: Peer = Peer {
    name: "redislock",
    language: "Go",
    places: &[Kind::Single, Kind::Sentinel, Kind::Cluster],
    workloads: &[Workload::Plain],
    knows_deadlines: false,
    tells_losses: true,
    settings: &[
        "Obtain with the wait as the deadline of its context and LinearBackoff(100 ms), as in the example of retries",
        "TTL, a call to the server, before each write: 0, or an error, ends the section",
        "Refresh by the worker when a third of the lease is over, also while it pauses inside. ErrNotObtained ends the \
         section; after other errors it is tried again a tenth of the lease later",
        "TTL and Refresh have a context that ends after a third of the lease",
        "go-redis with ContextTimeoutEnabled, off by default: without it go-redis does not heed the deadline of a \
         call. All else of go-redis is the default: DialTimeout 5 s, ReadTimeout 5 s, MaxRetries 3",
        "ErrNotObtained, and the end of the wait, are counted as time-outs",
        "`block` keeps the goroutines of the callers only",
    ],
    promises: &[
        Promise {
            says: "Simplified distributed locking: Obtain takes a key with a TTL, or returns ErrNotObtained.",
            source: "README.md; Client.Obtain in redislock.go",
        },
        Promise {
            says: "Refresh extends the lock with a new TTL, or returns ErrNotObtained. Nothing is renewed by itself, and \
                   nothing else tells of a loss.",
            source: "Lock.Refresh in redislock.go",
        },
        Promise {
            says: "TTL returns the time that is left, 0 if the lock has expired: a call to the server. The client knows \
                   no deadline.",
            source: "Lock.TTL in redislock.go",
        },
        Promise {
            says: "Release may return ErrLockNotHeld.",
            source: "Lock.Release in redislock.go",
        },
    ],
    key: "{name}",
    driver: Driver::Go {
        library: "redislock",
        module: "github.com/bsm/redislock",
        client: Some("github.com/redis/go-redis/v9"),
    },
};
