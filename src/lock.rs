//! Locks of every kind: one type, one set of methods.

mod acquire;
mod awaited;
mod calls;
mod fenced;
mod guard;
mod inspect;
mod members;
mod multi;
mod restore;
mod settings;
mod single;

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use futures_util::TryFutureExt;
use futures_util::future::Either;

use crate::error::{ConfigError, Error};
use crate::protocol::resource::Resource;
use crate::session::acquire::acquire;
use crate::session::core::Handle;
use crate::session::hold::Hold;
use crate::session::poll_watch::POLL_WITHIN;
use crate::session::reentry;
use crate::session::request::Options;
use crate::session::settings::LockSettings;

use multi::MultiLock;
use single::SingleLock;

pub use acquire::Acquire;
pub use fenced::FencedGuard;
pub use guard::{Guard, LockGuard};
pub use inspect::Waiters;

/// A distributed lock of any kind: plain, fair, fenced, one side of a read/write lock, or several
/// locks as one.
///
/// The methods of [`Client`](crate::Client) make locks, and describe what is special about each
/// kind. Everything that all kinds share is described here. `G` is the type of the guards:
/// [`FencedGuard`] for a fenced lock, [`LockGuard`] for all others.
///
/// [Choosing](crate::guide::choosing) helps to find the kind, the wait and the lease. [What the
/// compiler cannot see](crate::guide::what_the_compiler_cannot_see) shows code that compiles and
/// protects nothing.
///
/// # Exclusion
///
/// **Every acquisition is its own owner.** Two acquisitions exclude each other, even if they come
/// from the same lock value, task or client. A lock value can be shared or cloned freely. A guard
/// does not borrow the lock, and can be moved to another thread and dropped there.
///
/// # Taking it again
///
/// A caller that can prove that it holds the lock takes it again without waiting, and the last
/// release frees the lock. The proof is a guard or a section:
///
/// - [`guard.reenter()`](LockGuard::reenter) returns another guard of the same hold.
/// - Code in a *section* takes the lock by its name, from the same client. A section is the work
///   passed to [`lock.run(..)`](Lock::run) or [`guard.run(..)`](LockGuard::run). Futures that run
///   concurrently in the section are all inside. Tasks spawned from it are not.
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
/// Every other acquisition waits for the release, even one in the task that holds the lock. The
/// [`Error::Timeout`] says whether a hold of this client was in the way.
///
/// # Futures that nobody polls
///
/// If a woken acquisition is not polled within [`POLL_WITHIN`](Lock::POLL_WITHIN), the next waiter
/// is served instead, or the lock is released. On a runtime that is slow for all its tasks, the
/// limit is about a second. When the future is polled again, it queues again behind the waiters
/// that came in the meantime, and its limit doubles. So a caller that polls late still gets the
/// lock. If its wait ends first, [`Error::Timeout`] reports how often this happened.
///
/// [`unlock`](LockGuard::unlock) does not depend on polling: the release is sent in any case. A
/// guard keeps the lock, even if its section is never polled. [`Acquire::max_hold`] limits that.
///
/// # Fairness
///
/// Waiters of one client are served in the order of arrival. An acquisition with a zero wait does
/// not queue. There is no order between clients. A client that has served its own waiters for a
/// while lets other clients go first.
///
/// # Lease
///
/// A hold with [`Lease::Renewed`](crate::Lease::Renewed) lasts while its guard is alive and its
/// process can reach Redis. A fixed lease expires even if the guard is alive. Taking the lock again
/// never shortens the lease, and releasing an inner guard does not change it.
///
/// # What it does not protect
///
/// A lock with a lease cannot stop a holder that is paused for longer than the lease. Check the
/// guard before each irreversible step. Where that is not enough, let the resource check a [fencing
/// token](crate::guide::fencing).
///
/// # Redis cost
///
/// | Path         | Round trips     | Sent                                               |
/// |--------------|-----------------|----------------------------------------------------|
/// | free         | 1               | `lock_acquire`                                     |
/// | held         | 2 + w, + 1      | `lock_acquire` each time, one `SUBSCRIBE` per name |
/// | timed out    | 1               | `lock_inspect`, by one waiter of a client: who is in the way |
/// | handed over  | 0               | none                                               |
/// | re-entered   | 1               | `lock_reenter`                                     |
/// | released     | 1               | `lock_release` |
/// | while held   | 1 per third of the lease | `lock_renew`, many holds in one call      |
/// | while waited for | 1 a second  | `keys_exist`, many names in one call               |
///
/// `w` is the number of times that the waiter is woken.
///
/// # Keys
///
/// The hash at the lock's name and the channel `redisson_lock__channel:{name}`, both as in
/// Redisson.
#[must_use = "a lock holds nothing until it is awaited, or `lock`, `try_lock` or `run` is"]
pub struct Lock<G = LockGuard> {
    set: LockSet,
    guard: PhantomData<fn() -> G>,
}

/// A fenced lock: its guards carry a growing number. Made by
/// [`Client::fenced_lock`](crate::Client::fenced_lock).
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

/// One lock, or several as one.
#[derive(Clone)]
enum LockSet {
    Single(SingleLock),
    Multi(Arc<MultiLock>),
}

impl LockSet {
    fn multi(multi: MultiLock) -> Self {
        LockSet::Multi(Arc::new(multi))
    }
}

impl Lock {
    /// If a woken acquisition is not polled within this time, the next waiter is served instead.
    pub const POLL_WITHIN: Duration = POLL_WITHIN;
}

impl<G: Guard> Lock<G> {
    pub(crate) fn new(handle: Arc<Handle>, resource: Result<Resource, ConfigError>) -> Self {
        Lock::of(LockSet::Single(SingleLock {
            handle,
            resource: resource.map(Arc::new),
            settings: LockSettings::default(),
        }))
    }

    /// The options are made by the future, because it would keep space for them otherwise.
    async fn take(&self, options: impl FnOnce() -> Options) -> Result<G, Error> {
        let taken = {
            let mut options = options();
            options.shows(reentry::holds());
            self.set.take(options)?
        };
        let guard = G::of(taken.await?)?;
        // Only now: an acquisition that never reached its caller is released at once.
        guard.as_ref().given_to_caller();
        Ok(guard)
    }

    /// Whether one of `holds` belongs to this lock or to one of its members.
    fn is_lock_of_any(&self, holds: &[Arc<Hold>]) -> bool {
        let singles = self.set.singles();
        singles
            .into_iter()
            .any(|single| holds.iter().any(|hold| single.is_lock_of(hold)))
    }
}

impl<G> Lock<G> {
    fn of(set: LockSet) -> Self {
        Lock {
            set,
            guard: PhantomData,
        }
    }
}

impl LockSet {
    fn name(&self) -> &str {
        match self {
            LockSet::Single(single) => single
                .resource
                .as_ref()
                .map_or("", |resource| &*resource.name),
            LockSet::Multi(multi) => multi.name(),
        }
    }

    fn take(
        &self,
        options: Options,
    ) -> Result<impl Future<Output = Result<LockGuard, Error>>, ConfigError> {
        Ok(match self {
            LockSet::Single(single) => {
                let request = single.request(&options)?;
                Either::Left(acquire(&single.handle, request).map_ok(LockGuard::new))
            }
            LockSet::Multi(multi) => Either::Right(multi.clone().attended(options)),
        })
    }

    /// Takes it as a member of several locks.
    async fn take_member(&self, options: Options) -> Result<LockGuard, Error> {
        self.take(options)?.await
    }
}

impl<G> Clone for Lock<G> {
    fn clone(&self) -> Self {
        Lock::of(self.set.clone())
    }
}

impl<G> fmt::Debug for Lock<G> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.set.name())
            .finish_non_exhaustive()
    }
}
