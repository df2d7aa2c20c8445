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
        "NewMutex with WithExpiry(lease); LockContext with the wait as its deadline, and no limit of tries \
         (WithTries): the deadline ends them. Delays between tries are the default, 50 to 250 ms at random",
        "Until(), which the client knows, before each write: the section ends when it has passed",
        "ExtendContext by the worker when a third of the lease is over, also while it pauses inside; with a context that \
         ends after a third of the lease, since redsync waits for all servers. ErrTaken ends the section; after other \
         errors it is tried again a tenth of the lease later",
        "drift factor 0.01 and time-out factor 0.05 of the lease are the defaults; no WithFailFast",
        "go-redis with ContextTimeoutEnabled, off by default: without it go-redis does not heed the time-outs that \
         redsync gives each server. All else of go-redis is the default: DialTimeout 5 s, ReadTimeout 5 s, \
         MaxRetries 3",
        "the client of a server is connected before the first lock: the time-out of a call would cover that",
        "ErrFailed and ErrTaken are counted as time-outs: redsync has one ErrFailed for a lock that is held and for \
         servers that do not answer",
        "`block` keeps the goroutines of the callers only",
    ],
    promises: &[
        Promise {
            says: "After Lock nobody else can have the mutex until it is unlocked (README); Until says how long the lock \
                   is valid: the expiry, less the time that the call took and the drift.",
            source: "README.md; Mutex.Until and lockContext in mutex.go",
        },
        Promise {
            says: "The mutex is not renewed: Extend is the user's to call, and returns whether it was extended. Nothing \
                   else tells of a loss.",
            source: "Mutex.Extend in mutex.go",
        },
        Promise {
            says: "The algorithm is a proposal that was not formally analysed.",
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
