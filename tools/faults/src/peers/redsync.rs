//! redsync: Redlock in Go.

use super::build::Driver;
use super::{Kind, Peer, Promise, Workload};

pub(super) const PEER: Peer = Peer {
    name: "redsync",
    language: "Go",
    places: &[Kind::Single, Kind::Sentinel, Kind::Cluster, Kind::Five],
    workloads: &[Workload::Plain],
    knows_deadlines: true,
    tells_losses: true,
    settings: &[
        "NewMutex with WithExpiry(lease); LockContext with the wait as its deadline, and with \
         unlimited tries (WithTries), so that only the deadline ends them. Delays between tries \
         are the default, 50 to 250 ms at random",
        "before each write, the worker checks Until(), which the client knows: the section ends \
         when it has passed",
        "the worker calls ExtendContext after a third of the lease, even while it pauses inside; \
         its context ends after another third, because redsync waits for all servers. ErrTaken \
         ends the section; after other errors the worker retries a tenth of the lease later",
        "drift factor 0.01 and timeout factor 0.05 of the lease, the defaults; no WithFailFast",
        "go-redis with ContextTimeoutEnabled, which is off by default: without it, go-redis \
         ignores the timeout that redsync sets for each server. All other settings of go-redis are \
         the defaults: DialTimeout 5 s, ReadTimeout 5 s, MaxRetries 3",
        "the client of each server connects before the first lock, because the timeout of a call \
         includes connecting",
        "ErrFailed and ErrTaken count as timeouts: redsync returns the same ErrFailed for a held \
         lock and for servers that do not answer",
        "`block` blocks only the goroutines of the callers",
    ],
    promises: &[
        Promise {
            says: "After Lock nobody else can have the mutex until it is unlocked (README); Until \
                   returns how long the lock is valid: the expiry minus the duration of the call \
                   and the drift.",
            source: "README.md; Mutex.Until and lockContext in mutex.go",
        },
        Promise {
            says: "The library does not renew the mutex: the user calls Extend, which returns \
                   whether it was extended. Losses are reported in no other way.",
            source: "Mutex.Extend in mutex.go",
        },
        Promise {
            says: "The algorithm is a proposal and was not formally analysed.",
            source: "README.md, Disclaimer",
        },
    ],
    key: "{name}",
    driver: Driver::Go {
        library: "redsync",
        module: "github.com/go-redsync/redsync/v4",
        client: Some("github.com/redis/go-redis/v9"),
    },
};
