//! Locks of every kind: one type, one set of calls.

mod acquire;
mod fenced;
mod guard;
mod hand_on;
mod inspect;
mod members;
mod multi;
mod settings;
mod single;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::resource::Resource;
use crate::session::Handle;
use crate::session::attendance::UNATTENDED_MAX;
use crate::session::hold::Hold;
use crate::session::lock_settings::LockSettings;
use crate::session::request::Options;
use crate::session::section;
use crate::session::wait::Wait;

use guard::run::{flat, run};
use multi::MultiLock;
use single::SingleLock;

pub(crate) use guard::run::done_unless_lost;

pub use acquire::Acquire;
pub use fenced::FencedGuard;
pub use guard::{Guard, LockGuard};
pub use inspect::Waiters;

/// A lock, made by one of the calls of [`Client`](crate::Client): re-entrant, fair, fenced, one side
/// of a read/write lock, or several locks as one.
///
/// The call that makes a lock says what is special to its kind; the rest is here. `G` is the type of its
/// guards: [`LockGuard`], or [`FencedGuard`] for a fenced lock.
///
/// # Exclusion
///
/// **Every acquisition is an owner of its own**: two acquisitions exclude each other, even from one lock
/// value, one task or one client. Share one lock value or clone it, as you like. A guard does not borrow
/// the lock, and may be moved to and dropped on any thread.
///
/// # Taking it again
///
/// A caller that can show that the lock is held takes it again at once, and the last release frees it:
///
/// - [`guard.reenter()`](LockGuard::reenter) gives a further guard of the same hold;
/// - *inside a section*, which is the work that [`lock.run(..)`](Lock::run) or
///   [`guard.run(..)`](LockGuard::run) polls, the same lock is taken again by its name, from the same
///   client. Tasks that are spawned there are not inside. Futures that run side by side there are all
///   inside.
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
/// Any other acquisition waits for the release, even in the task that holds the lock:
/// [`Error::Timeout`] says whether the hold in the way is one of this client. [`Owner`](crate::Owner) is for code that
/// has neither a guard nor a section.
///
/// # Futures that nobody polls
///
/// An acquisition that was woken and is not polled within [`UNATTENDED`](Lock::UNATTENDED) is passed over:
/// its grant goes to the next waiter, or back to Redis. (A runtime that is slow for all its tasks gets a
/// second.) A future that is polled later begins again, behind the waiters that came meanwhile, and is allowed twice
/// as long. So a caller that polls late gets the lock in the end; if its wait ends first, [`Error::Timeout`] says so. An
/// [`unlock`](LockGuard::unlock) is carried out whether its future is polled or not. A guard keeps the
/// lock, also in a section that nobody polls: [`Acquire::max_hold`] bounds that.
///
/// # Fairness
///
/// Waiters of one client are served in the order in which they came; an acquisition with a zero wait does
/// not queue. Between clients there is no order, but a client that served its own waiters for a while
/// lets other clients go first.
///
/// # Lease
///
/// [`Lease::Renewed`] lasts while the guard lives and its process can reach Redis; a fixed lease
/// ends by itself. A nested acquisition never shortens the lease, and the release of an inner guard does
/// not change it.
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
/// | released     | 1               | `lock_release`; `lock_linger` if it is to [stay locked](Acquire::unlock_not_before) |
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

/// A lock whose guards carry a growing number, made by [`Client::fenced_lock`](crate::Client::fenced_lock).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, FencedLock};
///
/// let lock: FencedLock = Client::embedded().fenced_lock("report");
/// let first = lock.lock().await?;
/// let earlier = first.token(); // goes with each write to the resource
/// first.unlock().await?;
///
/// let second = lock.lock().await?;
/// assert!(second.token() > earlier);
/// second.unlock().await?;
/// # Ok(())
/// # }
/// ```
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
    /// An acquisition that was woken and is not polled within this time is passed over.
    pub const UNATTENDED: Duration = UNATTENDED_MAX;
}

impl<G: Guard> Lock<G> {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, ConfigError>) -> Self {
        Lock::of(Target::Single(SingleLock {
            handle,
            resource: resource.map(Arc::new),
            owner: None,
            settings: LockSettings::default(),
        }))
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
    /// [`Error::AlreadyHeld`] if the call would wait for its own owner, [`Error::Config`] for a bad name.
    pub async fn lock(&self) -> Result<G, Error> {
        self.take(Options::new(Wait::Forever, Lease::Renewed)).await
    }

    /// Takes the lock, waiting at most `wait` for others to release it.
    ///
    /// The hold lasts for `lease`. With [`Lease::Renewed`] it is renewed in the background while
    /// the guard lives; with a fixed lease it ends by itself, even if the guard is still alive.
    /// A `wait` of zero asks once, as [`try_lock_now`](Lock::try_lock_now); a `wait` of more than a year has
    /// no end. If a call is on its way when the wait ends, its reply still counts: it is waited for as long
    /// as replies usually take.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The place among this client's waiters is lost. If the future is
    /// dropped while a call is on its way, a release is queued behind the call. The release undoes this
    /// attempt only, never an outer hold of the same owner.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if `wait` ends first: nothing is held. The error says whether a hold of this
    /// client is in the way. [`Error::Unavailable`] if Redis did not take the call. [`Error::Unknown`] if
    /// the reply was lost: the lock may be held until the lease ends, and a release is queued.
    /// [`Error::Protocol`] if Redis refuses the call for good, [`Error::Closed`] after shutdown,
    /// [`Error::AlreadyHeld`] if the call would wait for its own owner, [`Error::Config`] for a bad name or
    /// lease. [`Error::Quorum`] from a quorum lock only.
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
    /// As [`try_lock`](Lock::try_lock): [`Error::Timeout`] if the lock is held.
    pub async fn try_lock_now(&self, lease: Lease) -> Result<G, Error> {
        self.take(Options::new(Wait::Once, lease)).await
    }

    /// Starts an acquisition with settings that [`try_lock`](Lock::try_lock) does not have.
    pub fn acquire(&self) -> Acquire<'_, G> {
        Acquire::new(self)
    }

    /// Takes the lock, runs `work` while it is held, and releases it.
    ///
    /// `work` gets the guard, and is a *section*: code that it calls may take the same lock again. If the
    /// lock is lost, `work` is dropped at its next await. The lock stays held until the last clone of the
    /// guard is dropped, so do not keep a clone beyond `work`.
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
    /// The errors of [`try_lock`](Lock::try_lock), before `work` began; [`Error::Lost`] if the lock was lost
    /// before `work` ended. Once `work` has ended its result is returned, also if the release fails: that
    /// goes on in the background ([`Stats::releases_pending`](crate::Stats::releases_pending)).
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
    /// The errors of `work`, and those of [`run`](Lock::run).
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
        let guard = G::of(self.target.take(options).await?)?;
        // Not before: what its caller never had is released at once.
        guard.as_ref().begins_to_linger();
        Ok(guard)
    }

    /// The name as it was given; empty if the name was refused.
    pub fn name(&self) -> &str {
        self.target.name()
    }

    /// Is one of `holds` a hold of this lock, or of one of its members?
    fn is_lock_of_any(&self, holds: &[Arc<Hold>]) -> bool {
        let singles = self.target.singles();
        singles.into_iter().any(|single| holds.iter().any(|hold| single.is_lock_of(hold)))
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
            Target::Single(single) => {
                single.resource.as_ref().map_or("", |resource| &*resource.name)
            }
            Target::Multi(multi) => multi.name(),
        }
    }

    async fn take(&self, options: Options) -> Result<LockGuard, Error> {
        match self {
            Target::Single(single) => single.take(&options).await.map(LockGuard::new),
            Target::Multi(multi) => multi.clone().attended(options).await,
        }
    }
}

impl<G> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Lock::of(self.target.clone())
    }
}

/// For sets of locks of several kinds. The guards have their token as an [`Option`].
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
