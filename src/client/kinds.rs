//! The methods that make locks, semaphores and latches of each kind. They do no I/O.

use super::Client;
use crate::latch::CountDownLatch;
use crate::lock::{FencedLock, Guard, Lock};
use crate::permits::PermitExpirableSemaphore;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::read_write::ReadWriteLock;
use crate::semaphore::Semaphore;
use crate::synchronizer::Synchronizer;

impl Client {
    /// Makes a re-entrant lock, like Redisson's `getLock`.
    ///
    /// Each acquisition is its own owner; [`Lock`] says how to take it again.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::Lock, name.as_ref())
    }

    /// Makes a re-entrant lock that serves its waiters strictly in the order of arrival.
    ///
    /// It is like Redisson's `getFairLock`, and shares its queue. The queue is in Redis, so the
    /// order includes the waiters of all clients. A living waiter keeps its place with a heartbeat
    /// in the background. A dead waiter loses its place after
    /// [`fair_claim`](crate::ClientBuilder::fair_claim). An acquisition with a zero wait neither
    /// joins the queue nor overtakes it. Holds are not handed over within a client.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Lock`], with `fair_acquire` and `fair_release`. Each waiter costs one
    /// `SUBSCRIBE`. While the client has waiters, it sends one `fair_heartbeat` at least every
    /// third of the claim. While clients of Redisson are in the queue, each heartbeat and each new
    /// waiter visits the whole queue.
    ///
    /// # Keys
    ///
    /// Those of [`lock`](Client::lock), the list `redisson_lock_queue:{name}`, the sorted set
    /// `redisson_lock_timeout:{name}`, and for each waiter a channel
    /// `redisson_lock__channel:{name}:<owner>`. The deadlines in entries of this library are on the
    /// server's clock.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::Fair, name.as_ref())
    }

    /// Makes a re-entrant lock whose guards carry a growing number, like Redisson's
    /// `getFencedLock`.
    ///
    /// [`FencedGuard::token`](crate::FencedGuard::token) grows with every outermost acquisition of
    /// any client. Nested acquisitions keep the token; in Redisson they raise it. The resource
    /// should refuse numbers lower than the highest one it has seen: see
    /// [`FencingToken`](crate::FencingToken). The counter is never deleted and does not expire. It
    /// starts again only if the server loses its data.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Lock`], with `fenced_acquire`. A hand-over takes 1 round trip, for the
    /// next token.
    ///
    /// # Keys
    ///
    /// Those of [`lock`](Client::lock), and the counter `redisson_lock_token:{name}`.
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        self.lock_of(Kind::Fenced, name.as_ref())
    }

    /// Makes a re-entrant lock whose waiters poll instead of listening, like Redisson's
    /// `getSpinLock`.
    ///
    /// Use it with servers that do not allow subscriptions. The pauses between polls grow from half
    /// a millisecond to an eighth of a second, with jitter, and never exceed the lease of the
    /// holder. One waiter of a client polls for all its waiters. A release is still published, so
    /// waiters of [`lock`](Client::lock) on the same name wake at once.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::Spin, name.as_ref())
    }

    /// Makes a lock with `SET key value NX PX` and compare-and-delete, which many other libraries
    /// use.
    ///
    /// It interoperates with Laravel, redsync, bsm/redislock, node-redlock and redis-py, for
    /// example. The name is the whole key: for Laravel, that includes the prefix of its cache
    /// store. The value is [`LockGuard::owner`](crate::LockGuard::owner). [`Lock::restore`] makes a
    /// guard from the value. Nesting is counted in this process only.
    ///
    /// These libraries do not publish releases. So waiters poll, with pauses of up to a tenth of a
    /// second. One waiter of a client polls for all its waiters. A key without expiry is not
    /// touched; [`Error::Timeout`](crate::Error::Timeout) reports it.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Lock`], with `string_acquire` and so on, and without `SUBSCRIBE`. A
    /// hand-over takes 1 round trip, for the next owner text.
    pub fn string_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::String, name.as_ref())
    }

    /// Makes a lock for many readers or one writer, like Redisson's `getReadWriteLock`.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let side = |kind| self.lock_of(kind, name.as_ref());
        ReadWriteLock::new(side(Kind::Read), side(Kind::Write))
    }

    /// Makes a semaphore with a number of permits, like Redisson's `getSemaphore`.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.synchronizer(Kind::Semaphore, name.as_ref()))
    }

    /// Makes a semaphore whose permits have ids and leases, like Redisson's
    /// `getPermitExpirableSemaphore`.
    pub fn permit_expirable_semaphore(&self, name: impl AsRef<str>) -> PermitExpirableSemaphore {
        PermitExpirableSemaphore::new(self.synchronizer(Kind::Permit, name.as_ref()))
    }

    /// Makes a latch whose waiters go on when its count reaches zero, like Redisson's
    /// `getCountDownLatch`.
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.synchronizer(Kind::Latch, name.as_ref()))
    }

    fn lock_of<G: Guard>(&self, kind: Kind, name: &str) -> Lock<G> {
        let prefix = &self.handle.calls().settings.key_prefix;
        Lock::new(self.handle.clone(), Resource::new(kind, prefix, name))
    }

    fn synchronizer(&self, kind: Kind, name: &str) -> Synchronizer {
        let prefix = &self.handle.calls().settings.key_prefix;
        Synchronizer::new(self.handle.clone(), Resource::new(kind, prefix, name))
    }
}
