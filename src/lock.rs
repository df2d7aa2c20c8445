//! Locks of every kind: one type, whatever is behind the name.

mod acquire;
mod fenced;
mod guard;
mod hand_on;
mod inspect;
mod members;
mod multi;
mod owner_text;
mod single;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::resource::Resource;
use crate::session::attendance::UNATTENDED_MAX;
use crate::session::hold::Hold;
use crate::session::request::Options;
use crate::session::section;
use crate::session::wait::Wait;
use crate::session::{Handle, Owner};

use guard::run::{flat, run};
use multi::MultiLock;
use single::SingleLock;

pub use acquire::Acquire;
pub use fenced::FencedGuard;
pub use guard::{Guard, LockGuard};
pub use inspect::Holder;

/// A lock, made by one of the calls of [`Client`](crate::Client): re-entrant, fair, fenced, one side
/// of a read/write lock, or several locks as one.
///
/// What is special to a kind stands at the call that makes it; the rest holds for all. `G` is the guard
/// that it gives: a [`LockGuard`], of a fenced lock a [`FencedGuard`].
///
/// # Exclusion
///
/// **Every acquisition is an owner of its own**: two of them exclude each other, whichever value, clone,
/// task or client they come from. Share one lock, or clone it, as you like; a guard does not borrow it and
/// may be moved to and dropped on any thread.
///
/// # Taking it again
///
/// A caller that can show that the lock is held takes it again at once, and the last release frees it:
///
/// - [`guard.reenter()`](LockGuard::reenter) gives a further guard of the same hold;
/// - *inside a section*, which is whatever runs in [`lock.run(..)`](Lock::run) or in
///   [`guard.run(..)`](LockGuard::run), the same lock is taken again by its name, from the same client.
///   Tasks that are spawned there are not inside. Futures that run side by side there are all inside.
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # use std::time::Duration;
/// # use leasehold::{Client, Error, Lease};
/// const WAIT: Duration = Duration::from_secs(2);
///
/// async fn transfer(client: &Client) -> Result<(), Error> {
///     client
///         .lock("account:7")
///         .try_run(WAIT, Lease::Renewed, async |_guard| {
///             // …
///             book(client).await // takes the lock again: it is inside
///         })
///         .await
/// }
///
/// async fn book(client: &Client) -> Result<(), Error> {
///     let guard = client.lock("account:7").try_lock(WAIT, Lease::Renewed).await?;
///     // …
///     guard.unlock().await
/// }
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Error> { transfer(&Client::embedded()).await }
/// ```
///
/// Anything else that asks for a lock waits for its release, also the task that holds it:
/// [`Error::Timeout`] says whether the hold in the way is one of this client. [`Owner`] is for what
/// neither covers.
///
/// # Futures that nobody polls
///
/// A future of an acquisition that was woken and is not polled within [`UNATTENDED`](Lock::UNATTENDED) is
/// passed over: what it was granted goes to the next waiter, or back to Redis. (A runtime that is slow for
/// all its tasks gets a second.) If it is polled after all, it begins again, behind those that came meanwhile. An [`unlock`](LockGuard::unlock) is carried out
/// whether its future is polled or not. A guard keeps the lock, also within a section that nobody polls:
/// [`Acquire::max_hold`] bounds that.
///
/// # Fairness
///
/// Waiters of one client are served in the order in which they came, except that a zero wait asks
/// beside the queue. Between clients there is no order, but a client that served its own waiters
/// for a while lets others go first.
///
/// # Lease
///
/// [`Lease::Renewed`] lasts while the guard lives and its process can reach Redis; a fixed lease
/// ends by itself. A nested acquisition never shortens the lease and an inner release leaves it
/// alone.
///
/// # What it does not protect
///
/// A lease lock cannot stop a holder that is paused beyond its lease. Check the guard before each
/// irreversible step, and let the resource check a fencing token where that matters.
///
/// # Redis cost
///
/// | Path         | Round trips     | Sent                                               |
/// |--------------|-----------------|----------------------------------------------------|
/// | free         | 1               | `lock_acquire`                                     |
/// | held         | 2 + w, + 1      | `lock_acquire` each time, one `SUBSCRIBE` per name |
/// | handed over  | 0               | none; 1 `lock_take_over` for a fixed lease         |
/// | re-entered   | 1               | `lock_reenter`                                     |
/// | released     | 1               | `lock_release`                                     |
/// | while held   | 1 per third of the lease | `lock_renew`, many holds in one call      |
/// | while waited for | 1 a second  | `keys_exist`, many names in one call               |
///
/// # Keys
///
/// The hash at the name itself, and the channel `redisson_lock__channel:{name}`; both as Redisson's.
pub struct Lock<G = LockGuard> {
    target: Target,
    guard: PhantomData<fn() -> G>,
}

/// A lock whose guards carry a growing number; see [`Client::fenced_lock`](crate::Client::fenced_lock).
pub type FencedLock = Lock<FencedGuard>;

#[derive(Clone)]
enum Target {
    Single(SingleLock),
    Multi(Arc<MultiLock>),
}

impl Target {
    fn multi(multi: MultiLock) -> Self {
        Target::Multi(Arc::new(multi))
    }
}

impl Lock {
    /// A future that was woken and is not polled within this is passed over.
    pub const UNATTENDED: Duration = UNATTENDED_MAX;
}

impl<G: Guard> Lock<G> {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, ConfigError>) -> Self {
        Lock::of(Target::Single(SingleLock {
            handle,
            resource: resource.map(Arc::new),
            owner: None,
        }))
    }

    /// Makes acquisitions through this value belong to `owner`: they re-enter what the owner holds, so
    /// that **they do not exclude each other**. See [`Owner`] for what to take instead.
    #[must_use = "the lock is moved into the returned value"]
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.changed(&|one| one.owner = Some(owner.clone()))
    }

    /// Makes taking it again (inside a section, by a guard, or by an [`Owner`]) an error, at once.
    #[must_use = "the lock is moved into the returned value"]
    pub fn non_reentrant(self) -> Self {
        self.changed(&|one| one.change(|resource| resource.reentrant = false))
    }

    fn changed(mut self, change: &dyn Fn(&mut SingleLock)) -> Self {
        match &mut self.target {
            Target::Single(one) => change(one),
            Target::Multi(multi) => Arc::make_mut(multi).change(change),
        }
        self
    }

    pub(crate) fn prefer_writers(&mut self) {
        if let Target::Single(one) = &mut self.target {
            one.change(Resource::prefer_writers);
        }
    }

    /// Takes the lock, waiting as long as it takes; the lease is renewed.
    ///
    /// An unreachable Redis is waited for as well.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: as [`try_lock`](Lock::try_lock).
    ///
    /// # Errors
    ///
    /// [`Error::Protocol`] if Redis refuses the call for good, [`Error::Closed`] after shutdown,
    /// [`Error::AlreadyHeld`] if it would wait for its own owner, [`Error::Config`] for a bad name.
    pub async fn lock(&self) -> Result<G, Error> {
        self.take(Options::new(Wait::Forever, Lease::Renewed)).await
    }

    /// Takes the lock, waiting at most `wait` for others to release it.
    ///
    /// The hold lasts for `lease`. With [`Lease::Renewed`] it is renewed in the background while
    /// the guard lives; with a fixed lease it ends by itself, even if the guard is still alive.
    /// A `wait` of zero asks once, as [`try_lock_now`](Lock::try_lock_now); one of more than a year has no
    /// end. A call that is on its way when the wait ends still decides: its reply is waited for, for as
    /// long as replies usually take.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The place among this client's waiters is lost. If the future is
    /// dropped while a call is on its way, a release for this attempt is queued behind it; it
    /// undoes this attempt only, never an outer hold of the same owner.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if `wait` ends first: nothing is held; it says whether a hold of this client
    /// is in the way. [`Error::Unavailable`] if Redis
    /// did not take the call. [`Error::Unknown`] if the reply was lost: the lock may be held until
    /// the lease ends; it is being undone. [`Error::Protocol`] if Redis refuses the call for good,
    /// [`Error::Closed`] after shutdown, [`Error::AlreadyHeld`] if it would wait for its own owner,
    /// [`Error::Config`] for a bad name or lease. [`Error::Quorum`] from a quorum lock only.
    pub async fn try_lock(&self, wait: Duration, lease: Lease) -> Result<G, Error> {
        self.take(Options::new(Wait::from(wait), lease)).await
    }

    /// Takes the lock if it is free: asks once, and neither waits nor listens.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: as [`try_lock`](Lock::try_lock).
    ///
    /// # Errors
    ///
    /// As [`try_lock`](Lock::try_lock): [`Error::Timeout`] if it is held.
    pub async fn try_lock_now(&self, lease: Lease) -> Result<G, Error> {
        self.take(Options::new(Wait::Once, lease)).await
    }

    /// The fluent form, for settings that [`try_lock`](Lock::try_lock) has not.
    pub fn acquire(&self) -> Acquire<'_, G> {
        Acquire::new(self)
    }

    /// Takes the lock, runs `work` while it is held, and releases it.
    ///
    /// `work` gets the guard, and is a *section*: what it calls may take the same lock again. If the lock
    /// is lost `work` is dropped at its next await. The lock stays held until the last clone of the guard
    /// is dropped, so do not keep one beyond `work`.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`]: an acquisition and a release.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: as [`try_lock`](Lock::try_lock), and `work` is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Lock::try_lock), before `work` began; [`Error::Lost`] if the lock was lost
    /// before `work` ended. After that its result is returned whatever becomes of the release, which goes
    /// on in the background ([`Stats::releases_pending`](crate::Stats::releases_pending)).
    pub async fn run<F, W>(&self, wait: Duration, lease: Lease, work: F) -> Result<W::Output, Error>
    where
        F: FnOnce(Arc<G>) -> W,
        W: Future,
    {
        run(self.try_lock(wait, lease).await?, work).await
    }

    /// As [`run`](Lock::run), for work that may fail with an error of its own.
    ///
    /// # Redis cost
    ///
    /// As [`run`](Lock::run).
    ///
    /// # Cancel safety
    ///
    /// As [`run`](Lock::run).
    ///
    /// # Errors
    ///
    /// Those of `work`, and those of [`run`](Lock::run).
    pub async fn try_run<T, E, F, W>(&self, wait: Duration, lease: Lease, work: F) -> Result<T, E>
    where
        E: From<Error>,
        F: FnOnce(Arc<G>) -> W,
        W: Future<Output = Result<T, E>>,
    {
        flat(self.run(wait, lease, work).await)
    }

    async fn take(&self, mut options: Options) -> Result<G, Error> {
        let around = section::holds();
        if !around.is_empty() {
            options.shown = options.shown.iter().cloned().chain(around).collect();
        }
        G::of(self.target.take(options).await?)
    }

    /// The name as it was given; empty if it cannot be used.
    pub fn name(&self) -> &str {
        self.target.name()
    }

    /// Does one of these holds belong to it?
    fn is_under(&self, holds: &[Arc<Hold>]) -> bool {
        let ones = self.target.ones();
        ones.into_iter().any(|one| holds.iter().any(|hold| one.is_under(hold)))
    }
}

impl<G> Lock<G> {
    fn of(target: Target) -> Self {
        Lock { target, guard: PhantomData }
    }
}

impl Target {
    fn name(&self) -> &str {
        match self {
            Target::Single(one) => one.resource.as_ref().map_or("", |resource| &*resource.name),
            Target::Multi(multi) => multi.name(),
        }
    }

    async fn take(&self, options: Options) -> Result<LockGuard, Error> {
        match self {
            Target::Single(one) => one.take(&options).await.map(LockGuard::new),
            Target::Multi(multi) => multi.clone().attended(options).await,
        }
    }
}

impl<G> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Lock::of(self.target.clone())
    }
}

/// Its guards have their token as an [`Option`]: for sets of locks of several kinds.
impl From<FencedLock> for Lock {
    fn from(lock: FencedLock) -> Self {
        Lock::of(lock.target)
    }
}

impl<G> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.target.name()).finish_non_exhaustive()
    }
}
