//! Redisson: `RLock` with its watchdog.

use super::build::Driver;
use super::{Kind, Peer, Promise};

pub(super) const PEER: Peer = Peer {
    name: "redisson",
    language: "Java",
    places: &[Kind::Single, Kind::Sentinel, Kind::Cluster],
    knows_deadlines: false,
    tells_losses: false,
    settings: &[
        "getLock(name).tryLock(wait, MILLISECONDS), without a lease, so that the watchdog renews it; unlock()",
        "Config.lockWatchdogTimeout is the lease; renewed at a third of it",
        "all else is the default: timeout 3000 ms, connectTimeout 10000 ms, retryAttempts 4, retryDelay 1 to 2 s, \
         checkLockSyncedSlaves on with slavesSyncTimeout 1000 ms, scanInterval 1000 ms (sentinels) and 5000 ms (cluster)",
        "RedissonRedLock, for independent servers, is deprecated and does not take part",
        "a worker goes on believing until it releases: only a call to the server says whether the lock is held",
        "a release is guarded against being repeated by a key redisson_unlock_latch:{name}:…, which stays for 16 s at \
         most if the process is killed before it deletes it",
        "a lock of another name is taken and released before the start: the JVM loads classes at the first",
        "`block` keeps the threads of the callers only: Redisson's own threads go on",
    ],
    promises: &[
        Promise {
            says: "The watchdog prolongs the lock while the Redisson instance that holds it is alive; after a crash the \
                   lock is free when the watchdog's time-out is over.",
            source: "docs/data-and-services/locks-and-synchronizers.md, Lock",
        },
        Promise {
            says: "Only the thread that owns the lock can unlock it; otherwise IllegalMonitorStateException is thrown. \
                   That is also how a loss is learned: nothing tells the holder before.",
            source: "docs/data-and-services/locks-and-synchronizers.md, Lock; RedissonBaseLock.unlock",
        },
        Promise {
            says: "Locks are advisory, and how safe they are depends on the deployment. A lock that has not reached a \
                   replica is lost with its master; the check of the replicas, on by default, is against that, and a \
                   risk remains.",
            source: "redisson.pro/docs, Locks and synchronizers, Lock reliability and fencing",
        },
        Promise {
            says: "An acquisition waits until the replicas have the lock (checkLockSyncedSlaves, on by default).",
            source: "docs/configuration.md, checkLockSyncedSlaves",
        },
        Promise {
            says: "isHeldByCurrentThread and remainTimeToLive ask the server; the client knows no deadline.",
            source: "RedissonBaseLock.isHeldByThreadAsync, RedissonLock.remainTimeToLive",
        },
    ],
    key: "{name}",
    driver: Driver::Java,
};
