//! rueidislock: a lock that is a context.

use super::build::Driver;
use super::{Kind, Peer, Promise, Workload};

const README: &str = "rueidislock/README.md";

pub(super) const PEER: Peer = Peer {
    name: "rueidislock",
    language: "Go",
    places: &[Kind::Single, Kind::Sentinel, Kind::Cluster],
    workloads: &[Workload::Plain],
    knows_deadlines: false,
    tells_losses: true,
    settings: &[
        "WithContext with a context that is cancelled when the wait is over and the lock not held: a deadline of it \
         would end the lock as well",
        "KeyValidity is the lease; ExtendInterval is the default, half of it",
        "KeyMajority 1 on one server and with sentinels, as the README says for one instance; the default 2 in a cluster",
        "NoLoopTracking, as in the README's example, which needs Redis 7.0.5",
        "SentinelOption.TopologyRefreshInterval 5 s, which rueidis recommends; all else of rueidis is the default: \
         Dialer.Timeout 5 s, ConnWriteTimeout 10 s, TryNextAfter 20 ms",
        "the worker looks at the context before each write; a cancelled one ends the section, also between two writes",
        "a wait that is over is `Canceled`, whatever was the matter: WithContext tells of no other error. The release \
         has no result",
        "`block` keeps the goroutines of the callers only",
    ],
    promises: &[
        Promise {
            says: "The lock is extended periodically while it is held.",
            source: README,
        },
        Promise {
            says: "The context is cancelled automatically and immediately once the majority of keys is not held any \
                   more: Redis is down, or the keys were deleted.",
            source: README,
        },
        Promise {
            says: "A waiting WithContext tries again automatically and immediately once the lock was released.",
            source: README,
        },
        Promise {
            says: "Leases end at a moment of the client's wall clock (SET PXAT, PEXPIREAT): clocks of clients and servers \
                   must agree. The documentation does not say so.",
            source: "rueidislock/lock.go, acquire and script",
        },
    ],
    key: "rueidislock:*:{name}",
    driver: Driver::Go {
        library: "rueidislock",
        module: "github.com/redis/rueidis",
        client: None,
    },
};
