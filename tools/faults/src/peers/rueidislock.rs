//! rueidislock: locks that are represented by a Go context.

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
        "WithContext with a context that is cancelled if the lock is not held when the wait is \
         over. A deadline would end the held lock too",
        "KeyValidity is the lease; ExtendInterval is the default, half of it",
        "KeyMajority 1 on one server and with sentinels, as the README says for one instance; the \
         default 2 in a cluster",
        "NoLoopTracking, as in the README's example, which needs Redis 7.0.5",
        "SentinelOption.TopologyRefreshInterval 5 s, which rueidis recommends; all other settings \
         are the defaults: Dialer.Timeout 5 s, ConnWriteTimeout 10 s, TryNextAfter 20 ms",
        "the worker checks the context before each write; a cancelled context ends the section, \
         even between two writes",
        "a failed wait is `Canceled`, whatever the cause, because WithContext reports no other \
         error. The release has no result",
        "`block` blocks only the goroutines of the callers",
    ],
    promises: &[
        Promise {
            says: "The lock is extended periodically while it is held.",
            source: README,
        },
        Promise {
            says: "The context is cancelled automatically and immediately once the majority of the \
                   keys is no longer held, because Redis is down or the keys were deleted.",
            source: README,
        },
        Promise {
            says: "A waiting WithContext retries automatically and immediately once the lock is \
                released.",
            source: README,
        },
        Promise {
            says: "Leases end at a time of the client's wall clock (SET PXAT, PEXPIREAT), so the \
                   clocks of clients and servers must agree. The documentation does not say so.",
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
