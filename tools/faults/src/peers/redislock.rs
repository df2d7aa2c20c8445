//! bsm/redislock: a lock on one server that its user refreshes.

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
        "Obtain with the wait as the deadline of its context and LinearBackoff(100 ms), as in the \
         example of retries",
        "before each write, the worker calls TTL, which asks the server: 0 or an error ends the \
         section",
        "the worker calls Refresh after a third of the lease, even while it pauses inside. \
         ErrNotObtained ends the section; after other errors the worker retries a tenth of the \
         lease later",
        "TTL and Refresh have a context that ends after a third of the lease",
        "go-redis with ContextTimeoutEnabled, which is off by default: without it, go-redis \
         ignores the deadline of a call. All other settings of go-redis are the defaults: \
         DialTimeout 5 s, ReadTimeout 5 s, MaxRetries 3",
        "ErrNotObtained and the end of the wait count as timeouts",
        "`block` blocks only the goroutines of the callers",
    ],
    promises: &[
        Promise {
            says: "Simplified distributed locking: Obtain takes a key with a TTL, or returns \
                ErrNotObtained.",
            source: "README.md; Client.Obtain in redislock.go",
        },
        Promise {
            says: "Refresh extends the lock with a new TTL, or returns ErrNotObtained. The library \
                   does not renew leases, and reports losses in no other way.",
            source: "Lock.Refresh in redislock.go",
        },
        Promise {
            says: "TTL asks the server for the remaining time, which is 0 if the lock has expired. \
                   The client does not know the deadline.",
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
