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
        "getLock, getFairLock and getReadWriteLock with tryLock(wait, MILLISECONDS), without a \
         lease, so that the watchdog renews the lock; unlock(). Two readers for each writer",
        "one long hold of four has a fixed lease instead, tryLock(wait, lease, MILLISECONDS), and \
         is released before four fifths of the lease have passed; one of eight is re-entered with \
         tryLock() and unlock()",
        "getSemaphore with tryAcquire(wait), release(), and trySetPermits(2) at the start and \
         after each failed wait. trySetPermits does nothing if a count exists. If a server has \
         lost the count, the release of an earlier hold creates or raises a new one",
        "before each write, the worker calls isHeldByCurrentThread(), which asks the server; false \
         or an exception ends the section. A semaphore does not know its holders, so it is not \
         asked",
        "Config.lockWatchdogTimeout is the lease; the watchdog renews after a third of it",
        "all other settings are the defaults: timeout 3000 ms, connectTimeout 10000 ms, \
         retryAttempts 4, retryDelay 1 to 2 s, checkLockSyncedSlaves on with slavesSyncTimeout \
         1000 ms, scanInterval 1000 ms (sentinels) and 5000 ms (cluster), fairLockWaitTimeout 300 \
         s",
        "RedissonRedLock, for independent servers, is deprecated and does not take part",
        "a key redisson_unlock_latch:{name}:… prevents that a release is repeated. It stays for at \
         most 16 s if the process is killed before it deletes the key",
        "a lock of another name is taken and released before the start, because the JVM loads \
         classes at the first lock",
        "`block` blocks only the threads of the callers: Redisson's own threads continue",
    ],
    promises: &[
        Promise {
            says: "The watchdog extends the lock while the Redisson instance that holds it is \
                   alive; after a crash the lock becomes free after the watchdog's timeout.",
            source: "docs/data-and-services/locks-and-synchronizers.md, Lock",
        },
        Promise {
            says: "A fair lock is acquired in the order of the requests. For each waiter that has \
                   died, the others wait 5 seconds (fairLockWaitTimeout, which is 300 s in the \
                   code).",
            source: "docs/data-and-services/locks-and-synchronizers.md, Fair Lock; Config",
        },
        Promise {
            says: "A read/write lock allows many owners of its read lock, and one owner of its \
                write lock.",
            source: "docs/data-and-services/locks-and-synchronizers.md, ReadWriteLock",
        },
        Promise {
            says: "A semaphore has as many permits as trySetPermits gave it. It has no leases and \
                   no owners: the permit of a client that has died stays taken.",
            source: "docs/data-and-services/locks-and-synchronizers.md, Semaphore; \
                RedissonSemaphore.release",
        },
        Promise {
            says: "Only the thread that owns the lock can unlock it; otherwise \
                   IllegalMonitorStateException is thrown. A holder learns of a loss only if it \
                   asks.",
            source: "docs/data-and-services/locks-and-synchronizers.md, Lock; \
                RedissonBaseLock.unlock",
        },
        Promise {
            says: "Locks are advisory, and how safe they are depends on the deployment. A lock \
                   that has not reached a replica is lost with its master; the check of the \
                   replicas, on by default, reduces this risk but does not remove it.",
            source: "redisson.pro/docs, Locks and synchronizers, Lock reliability and fencing",
        },
        Promise {
            says: "An acquisition waits until the replicas have the lock (checkLockSyncedSlaves, \
                on by default).",
            source: "docs/configuration.md, checkLockSyncedSlaves",
        },
        Promise {
            says: "isHeldByCurrentThread and remainTimeToLive ask the server; the client does not \
                know the deadline.",
            source: "RedissonBaseLock.isHeldByThreadAsync, RedissonLock.remainTimeToLive",
        },
    ],
    key: "{name}",
    driver: Driver::Java,
};
