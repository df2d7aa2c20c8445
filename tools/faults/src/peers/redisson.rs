//! Redisson: its locks, with their watchdog, and its semaphore.

use super::build::Driver;
use super::{Kind, Peer, Promise, Workload};

pub(super) const PEER: Peer = Peer {
    name: "redisson",
    language: "Java",
    places: &[Kind::Single, Kind::Sentinel, Kind::Cluster],
    workloads: &[
        Workload::Plain,
        Workload::Fair,
        Workload::ReadWrite,
        Workload::Semaphore,
    ],
    knows_deadlines: false,
    tells_losses: false,
    settings: &[
        "getLock, getFairLock and getReadWriteLock with tryLock(wait, MILLISECONDS), without a lease, so that the \
         watchdog renews it; unlock(). Two readers for each writer",
        "one long hold of four has a fixed lease instead, tryLock(wait, lease, MILLISECONDS), and is left before four \
         fifths of it are over; one of eight is entered again inside, tryLock() and unlock()",
        "getSemaphore with trySetPermits(2), at the start and after each wait in vain, tryAcquire(wait) and release(). \
         trySetPermits does nothing if there is a count. If a server lost it, a release of an earlier hold makes or \
         raises the new one",
        "isHeldByCurrentThread(), a call to the server, before each write; an exception of it counts as a no, and a no \
         ends the section. A semaphore does not know its holders, and is not asked",
        "Config.lockWatchdogTimeout is the lease; renewed at a third of it",
        "all else is the default: timeout 3000 ms, connectTimeout 10000 ms, retryAttempts 4, retryDelay 1 to 2 s, \
         checkLockSyncedSlaves on with slavesSyncTimeout 1000 ms, scanInterval 1000 ms (sentinels) and 5000 ms (cluster), \
         fairLockWaitTimeout 300 s",
        "RedissonRedLock, for independent servers, is deprecated and does not take part",
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
            says: "A fair lock is acquired in the order of the requests. For a waiter that has died, the others wait \
                   5 seconds each (fairLockWaitTimeout, which is 300 s in the code).",
            source: "docs/data-and-services/locks-and-synchronizers.md, Fair Lock; Config",
        },
        Promise {
            says: "Many may own the read lock of a read/write lock, and only one its write lock.",
            source: "docs/data-and-services/locks-and-synchronizers.md, ReadWriteLock",
        },
        Promise {
            says: "A semaphore has as many permits as trySetPermits gave it. It has no leases and no owners: the permit \
                   of a client that has died stays taken.",
            source: "docs/data-and-services/locks-and-synchronizers.md, Semaphore; RedissonSemaphore.release",
        },
        Promise {
            says: "Only the thread that owns the lock can unlock it; otherwise IllegalMonitorStateException is thrown. \
                   Nothing tells a holder of a loss that does not ask.",
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
