//! The calls that make locks, semaphores and latches of each kind. They do no I/O.

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
    /// A re-entrant lock, as Redisson's `getLock`. Does no I/O; a bad name is refused at the first
    /// call.
    ///
    /// Each acquisition is an owner of its own; [`Lock`] says how to take it again.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::Lock, name.as_ref())
    }

    /// A re-entrant lock that serves its waiters strictly in the order in which they came.
    ///
    /// The order holds over all clients; as Redisson's `getFairLock`, in one queue with it. The queue is
    /// in Redis and knows every waiter. A living waiter keeps its place by a heartbeat in the background; a
    /// dead waiter is passed over after [`fair_claim`](crate::ClientBuilder::fair_claim). An acquisition
    /// with a zero wait is not in the queue and never passes it. Holds are not handed over within a client.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`], with `fair_acquire` and `fair_release`; one `SUBSCRIBE` for each
    /// waiter, and while the client has waiters one `fair_heartbeat` at least every third of the claim. The
    /// heartbeat, and queueing, look at the whole queue while clients of Redisson are in it.
    ///
    /// # Keys
    ///
    /// Those of [`lock`](Client::lock), the list `redisson_lock_queue:{name}`, the sorted set
    /// `redisson_lock_timeout:{name}`, and for each waiter a channel
    /// `redisson_lock__channel:{name}:<owner>`. Entries of this library carry deadlines of the
    /// server's clock.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::Fair, name.as_ref())
    }

    /// A re-entrant lock whose guards carry a growing number, as Redisson's `getFencedLock`.
    ///
    /// [`FencedGuard::token`](crate::FencedGuard::token) grows with every outermost acquisition of any
    /// client, and is the same in nested sections. Let the resource refuse lower numbers than it has seen:
    /// see [`FencingToken`](crate::FencingToken). The counter is never deleted and gets no expiry; it
    /// begins again only if the server loses its data. Redisson raises it for nested acquisitions too.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`], with `fenced_acquire`; a hand-over takes 1 round trip, for the next
    /// token.
    ///
    /// # Keys
    ///
    /// Those of [`lock`](Client::lock), and the counter `redisson_lock_token:{name}`.
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        self.lock_of(Kind::Fenced, name.as_ref())
    }

    /// A lock that its holder cannot take again, as Redisson's non-reentrant lock.
    ///
    /// Inside its section, by its guard or by its [`Owner`](crate::Owner), a second acquisition is refused
    /// at once with [`Error::AlreadyHeld`](crate::Error::AlreadyHeld). Other acquisitions wait. The same as
    /// [`lock`](Client::lock) with [`Lock::non_reentrant`], which works for the other kinds as well.
    pub fn non_reentrant_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock(name).non_reentrant()
    }

    /// A re-entrant lock whose waiters ask again instead of listening, as Redisson's `getSpinLock`.
    ///
    /// For servers where subscribing is not possible. Pauses grow from half a millisecond to an eighth of
    /// a second, with jitter, and never beyond the lease of the holder. One waiter of a client asks for all
    /// its waiters. A release is published all the same, so that waiters of [`lock`](Client::lock) on the
    /// same name wake at once.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::Spin, name.as_ref())
    }

    /// A lock by `SET key value NX PX` and compare-and-delete, as many other libraries have it.
    ///
    /// Laravel, redsync, bsm/redislock, node-redlock and redis-py are among them. The name is the whole key:
    /// Laravel's has the prefix of its cache store. The value is
    /// [`LockGuard::owner`](crate::LockGuard::owner). Nesting is counted in this process only. These
    /// libraries publish nothing, so waiters ask again, with pauses up to a tenth of a second; one waiter
    /// of a client asks for all its waiters.
    ///
    /// [`Lock::restore`] makes a guard from the value. A key without expiry is left alone, and
    /// [`Error::Timeout`](crate::Error::Timeout) reports it.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`], with `string_acquire` and so on, and without `SUBSCRIBE`; a
    /// hand-over takes 1 round trip, for the next owner text.
    pub fn string_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock_of(Kind::String, name.as_ref())
    }

    /// Many readers or one writer, as Redisson's `getReadWriteLock`.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let side = |kind| self.lock_of(kind, name.as_ref());
        ReadWriteLock::new(side(Kind::Read), side(Kind::Write))
    }

    /// Several re-entrant locks of this client as one: all of them or none.
    ///
    /// [`Lock::multi`] takes locks of any kinds and clients.
    pub fn multi_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Lock {
        Lock::multi(names.into_iter().map(|name| self.lock(name)))
    }

    /// A quorum lock (`RedLock`) over the server of this client and the servers of `others`.
    ///
    /// The servers must be independent of each other. The members are string locks, as in redsync and
    /// node-redlock; [`Lock::quorum`] takes locks of any kind.
    #[doc(alias = "RedLock")]
    #[doc(alias = "red_lock")]
    pub fn quorum_lock(&self, others: &[Client], name: impl AsRef<str>) -> Lock {
        let clients = std::iter::once(self).chain(others);
        Lock::quorum(clients.map(|client| client.string_lock(&name)))
    }

    /// A number of permits, as Redisson's `getSemaphore`.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.synchronizer(Kind::Semaphore, name.as_ref()))
    }

    /// Permits with ids and leases, as Redisson's `getPermitExpirableSemaphore`.
    pub fn permit_expirable_semaphore(&self, name: impl AsRef<str>) -> PermitExpirableSemaphore {
        PermitExpirableSemaphore::new(self.synchronizer(Kind::Permit, name.as_ref()))
    }

    /// A count; its waiters go on when it is zero. As Redisson's `getCountDownLatch`.
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.synchronizer(Kind::Latch, name.as_ref()))
    }

    fn lock_of<G: Guard>(&self, kind: Kind, name: &str) -> Lock<G> {
        let prefix = &self.handle.session.settings.key_prefix;
        Lock::new(self.handle.clone(), Resource::new(kind, prefix, name))
    }

    fn synchronizer(&self, kind: Kind, name: &str) -> Synchronizer {
        let prefix = &self.handle.session.settings.key_prefix;
        Synchronizer::new(self.handle.clone(), Resource::new(kind, prefix, name))
    }
}
