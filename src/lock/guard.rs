//! The guard: the right to be in the critical section, and what this process knows about the hold.

pub(super) mod multi;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use multi::MultiGuard;
use tokio::time::Instant;

use crate::error::Error;
use crate::fencing::FencingToken;
use crate::lease::{Ended, HoldState, Lease, LossReason};
use crate::session::acquire::reenter;
use crate::session::cleanup_queue::Cleanup;
use crate::session::hold::Hold;
use crate::session::reentry;
use crate::session::share::{HoldShare, extend};

/// A held lock, until the guard is dropped or unlocked.
///
/// # Release
///
/// [`unlock`](LockGuard::unlock) waits for Redis and reports the outcome. A drop sends the same
/// release, if there is a connection, and returns immediately. The background waits for the
/// outcome, and repeats the release if necessary. A drop never blocks, never panics and needs no
/// runtime.
///
/// The next acquisition of this client waits for the release. So do its questions, such as
/// [`Lock::is_locked`](crate::Lock::is_locked).
///
/// # Losing the lease
///
/// The guard has a local [`deadline`](LockGuard::deadline), which is counted from before the
/// request was sent. So it passes before Redis frees the lock. Time during which the machine was
/// suspended counts. [`state`](LockGuard::state), [`check`](LockGuard::check),
/// [`ended`](LockGuard::ended) and [`run`](LockGuard::run) compare the deadline with the clock.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let lock = leasehold::Client::embedded().lock("report");
/// let guard = lock.lock().await?;
/// let _report = guard.run(async { /* a long job, dropped if the lock is lost */ 42 }).await?;
/// guard.check()?; // before an irreversible step
/// // … publish the report …
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[must_use = "dropping the guard releases the lock"]
#[clippy::has_significant_drop]
pub struct LockGuard {
    share: Share,
}

enum Share {
    Single(HoldShare),
    /// The guards of several locks as one.
    Multi(MultiGuard),
}

impl LockGuard {
    pub(crate) fn new(share: HoldShare) -> Self {
        LockGuard {
            share: Share::Single(share),
        }
    }

    pub(crate) fn of(multi: MultiGuard) -> Self {
        LockGuard {
            share: Share::Multi(multi),
        }
    }

    /// The share in the hold; for several locks as one, the share in the first hold.
    pub(crate) fn share(&self) -> &HoldShare {
        match &self.share {
            Share::Single(share) => share,
            Share::Multi(multi) => multi.first().share(),
        }
    }

    /// The share in the hold; `None` for several locks as one.
    pub(crate) fn single(&self) -> Option<&HoldShare> {
        match &self.share {
            Share::Single(share) => Some(share),
            Share::Multi(_) => None,
        }
    }

    pub(super) fn loss(&self) -> Option<LossReason> {
        match &self.share {
            Share::Single(share) => share.hold().loss(),
            Share::Multi(multi) => multi.loss(),
        }
    }

    pub(super) fn ended_later(&self) -> BoxFuture<'static, Ended> {
        match &self.share {
            Share::Single(share) => {
                let hold = share.hold().clone();
                async move { hold.ended().await }.boxed()
            }
            Share::Multi(multi) => multi.ended().boxed(),
        }
    }

    /// All holds that this guard has a share in.
    pub(super) fn holds(&self) -> Vec<Arc<Hold>> {
        match &self.share {
            Share::Single(share) => vec![share.hold().clone()],
            Share::Multi(multi) => multi.holds(),
        }
    }

    /// Called when the caller gets the guard: from now on a release keeps the lock for as long as
    /// the caller asked.
    pub(super) fn record_taker(&self) {
        match &self.share {
            Share::Single(share) => share.record_taker(),
            Share::Multi(multi) => multi.record_taker(),
        }
    }

    pub(super) fn lost_error(&self, reason: LossReason) -> Error {
        match &self.share {
            Share::Single(share) => Error::lost(&share.hold().resource.name, reason),
            Share::Multi(multi) => Error::lost(multi.name(), reason),
        }
    }

    /// Releases the lock; the future waits until Redis has confirmed it.
    ///
    /// The release is sent within [`Lock::POLL_WITHIN`](crate::Lock::POLL_WITHIN), whether the
    /// future is polled or not. If the hold has several guards, the last one frees the lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip. None if the lock is handed to another waiter of this client.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The release continues in the background.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/release.md")]
    ///
    /// Except after [`Error::Lost`], the release is retried in the background until Redis confirms
    /// it. The client gives up two leases and 10 s later.
    pub fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        match self.share {
            Share::Single(share) => share.release().left_future(),
            Share::Multi(multi) => multi.unlock().right_future(),
        }
    }

    /// Returns another guard of the same hold; the lock is free when the last guard is gone.
    ///
    /// On the read side of a read/write lock, the new guard has its own hold.
    /// [`Acquire::within`](crate::Acquire::within) does the same with settings.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; for several locks as one, 1 for each member.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. The hold count is lowered again, and this guard is not affected.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/reentry.md")]
    pub async fn reenter(&self) -> Result<LockGuard, Error> {
        self.check()?;
        match &self.share {
            Share::Single(share) => reenter(share).await.map(LockGuard::new),
            Share::Multi(multi) => multi.reenter().await.map(LockGuard::of),
        }
    }

    /// What this process knows about the hold. Local and free.
    #[must_use = "it only tells, and the lock is held only while the guard lives"]
    pub fn state(&self) -> HoldState {
        match &self.share {
            Share::Single(share) => share.hold().look(),
            Share::Multi(multi) => multi.state(),
        }
    }

    /// Resolves when the hold ends, and returns how it ended: released, lost or forgotten.
    ///
    /// The future does not borrow the guard, so it can be spawned. It always resolves in the end.
    /// To stop work when the lock is lost, [`run`](LockGuard::run) is simpler.
    ///
    /// ```no_run
    /// # async fn example(guard: leasehold::LockGuard) {
    /// # fn alarm(_reason: leasehold::LossReason) {}
    /// let ended = guard.ended();
    /// tokio::spawn(async move {
    ///     if let leasehold::Ended::Lost(reason) = ended.await {
    ///         alarm(reason);
    ///     }
    /// });
    /// # }
    /// ```
    pub fn ended(&self) -> impl Future<Output = Ended> + Send + use<> {
        self.ended_later()
    }

    /// The instant until which the lock is certainly held, unless it is freed by force or Redis
    /// loses it. Local and free.
    ///
    /// A renewal moves the deadline forward. If a release has given the lock to this waiter, the
    /// deadline is at most a [`fair_claim`](crate::ClientBuilder::fair_claim) away until the first
    /// renewal, which comes after 100 ms; [`extend`](LockGuard::extend) does not wait for it. The
    /// instant is on tokio's clock, which may stand still while the machine is suspended. So a
    /// suspension moves the deadline back by as much.
    #[must_use = "it only tells, and the lock is held only while the guard lives"]
    pub fn deadline(&self) -> Instant {
        match &self.share {
            Share::Single(share) => share.hold().deadline(),
            Share::Multi(multi) => multi.deadline(),
        }
    }

    /// The time left until the [`deadline`](LockGuard::deadline); zero if the hold is lost. Local
    /// and free.
    #[must_use = "it only tells, and the lock is held only while the guard lives"]
    pub fn remaining(&self) -> Duration {
        match self.loss() {
            None => self.deadline().saturating_duration_since(Instant::now()),
            Some(_) => Duration::ZERO,
        }
    }

    /// Returns an error if the hold is lost. Local and free: call it before each irreversible step.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`].
    pub fn check(&self) -> Result<(), Error> {
        match self.loss() {
            None => Ok(()),
            Some(reason) => Err(self.lost_error(reason)),
        }
    }

    /// Extends the hold to at least `lease` from now. It is never shortened.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The lease is either extended or not.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the hold has ended.
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer,
    ///   or refused the call. The old deadline still holds.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the lease is out of range.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = Lease::checked("lease", lease)?;
        match &self.share {
            Share::Single(share) => extend(share.handle(), share.hold(), lease).await,
            Share::Multi(multi) => Box::pin(multi.extend(lease)).await,
        }
    }

    /// The number of live guards of this hold. Local and free.
    ///
    /// Each read acquisition has its own hold. For several locks as one, this is the number of
    /// times that all members are held; for a quorum lock, that a majority is held.
    pub fn hold_count(&self) -> u32 {
        match &self.share {
            Share::Single(share) => share.hold().guards(),
            Share::Multi(multi) => multi.hold_count(),
        }
    }

    /// The fencing token, if this is the guard of a fenced lock. Local and free.
    ///
    /// Code that knows that the lock is fenced can use
    /// [`FencedGuard::token`](crate::FencedGuard::token).
    #[must_use = "it only tells, and the lock is held only while the guard lives"]
    pub fn token(&self) -> Option<FencingToken> {
        match &self.share {
            Share::Single(share) => share.hold().token().map(FencingToken::from_value),
            Share::Multi(_) => None,
        }
    }

    /// The name of the lock.
    pub fn name(&self) -> &str {
        match &self.share {
            Share::Single(share) => &share.hold().resource.name,
            Share::Multi(multi) => multi.name(),
        }
    }

    /// The owner of the hold on the wire, as other clients see it. For several locks as one, the
    /// owner of the first member.
    ///
    /// It is useful in logs, and can be compared with [`Holder::owner`](crate::inspect::Holder).
    /// When a hold is handed to the next waiter of this client, the owner stays the same, except
    /// for string and fenced locks.
    pub fn owner(&self) -> &str {
        &self.share().hold().field
    }

    /// Leaves the lock to its lease: this client no longer renews or releases it.
    ///
    /// The lease of a lock that a release has given to this client is set by the first renewal,
    /// after 0.1 s. Until then it is [`fair_claim`](crate::ClientBuilder::fair_claim) at most.
    ///
    /// If the hold has other guards, only this guard ends.
    pub fn forget(self) {
        match self.share {
            Share::Single(share) => drop(share.let_go()),
            Share::Multi(multi) => multi.forget(),
        }
    }

    /// Keeps the permits of a semaphore for good: nothing gives them back when the hold ends.
    pub(crate) fn keep_for_good(self) {
        if let Share::Single(share) = self.share {
            let (handle, hold) = (share.handle().clone(), share.hold().clone());
            if share.let_go() {
                handle.core().cleanups.post(Cleanup::KeepPermits(hold));
            }
        }
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockGuard")
            .field("name", &self.name())
            .field("owner", &self.owner())
            .field("state", &self.state())
            .finish_non_exhaustive()
    }
}

// The trait that both guard types implement.

/// A guard of a [`Lock`](crate::Lock): either [`LockGuard`] or [`FencedGuard`](crate::FencedGuard).
///
/// Use it in code that is generic over both types. Only this crate can implement it.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{Client, Error, Guard, Lock};
///
/// async fn nightly<G: Guard>(lock: &Lock<G>) -> Result<(), Error> {
///     let guard = lock.lock().await?;
///     guard.as_ref().run(async { /* the job */ }).await?;
///     guard.into().unlock().await
/// }
///
/// let client = Client::embedded();
/// nightly(&client.lock("clean-up")).await?;
/// nightly(&client.fenced_lock("report")).await?;
/// # Ok(())
/// # }
/// ```
pub trait Guard:
    AsRef<LockGuard> + Into<LockGuard> + Send + Sync + Sized + 'static + Sealed
{
    #[doc(hidden)]
    fn of(guard: LockGuard) -> Result<Self, Error>;
}

/// Seals [`Guard`]: only this crate makes guards.
pub trait Sealed {}

impl Sealed for LockGuard {}

impl Guard for LockGuard {
    fn of(guard: LockGuard) -> Result<Self, Error> {
        Ok(guard)
    }
}

impl AsRef<LockGuard> for LockGuard {
    fn as_ref(&self) -> &LockGuard {
        self
    }
}

// Runs work while a lock is held, and releases the lock afterwards.

/// Runs `work` with the guard, then releases the lock.
///
/// Returns the result of `work` even if the release fails; the release continues in the background.
/// The one exception is [`Error::Lost`], if the hold was lost while `work` ran.
pub(in crate::lock) async fn run<G, F, W>(guard: G, work: F) -> Result<W::Output, Error>
where
    G: Guard,
    F: FnOnce(Arc<G>) -> W,
    W: Future,
{
    let guard = Arc::new(guard);
    let inside = guard.clone();
    // CANCEL: the guard is dropped, which releases the lock.
    let done = (*guard)
        .as_ref()
        .run(async move { work(inside).await })
        .await?;
    // A clone of the guard outlives the work: dropping that clone releases the lock.
    let Some(guard) = Arc::into_inner(guard) else {
        return Ok(done);
    };
    done_unless_lost(done, guard.into().unlock().await)
}

/// The result of the work, unless the release reports that the hold was lost.
pub(crate) fn done_unless_lost<T>(done: T, released: Result<(), Error>) -> Result<T, Error> {
    match released {
        Err(lost @ Error::Lost { .. }) => Err(lost),
        Ok(()) | Err(_) => Ok(done),
    }
}

impl LockGuard {
    /// Polls `work` while the lock is held, and drops it if the lock is lost.
    ///
    /// `work` is a *section*: the code that it calls can take the same lock again. See [taking it
    /// again](crate::Lock#taking-it-again). A task that `work` spawns is not part of it: it is not
    /// inside, and it goes on after `work` and after a loss. See [`Lock::run`](crate::Lock::run)
    /// for the form to write instead.
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// The same as `work`. The guard is not affected.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the hold ended before `work` did.
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, Error> {
        let (mut ended, mut work) = (self.ended_later(), pin!(work));
        let holds = Arc::from(self.holds());
        poll_fn(|context| {
            // A timer fires only when the runtime gets to it; the clock is accurate at any moment.
            if let Some(reason) = self.loss() {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            if let Poll::Ready(Ended::Lost(reason)) = ended.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            let polled = {
                let _inside = reentry::enter(&holds);
                work.as_mut().poll(context)
            };
            let Poll::Ready(done) = polled else {
                return Poll::Pending;
            };
            Poll::Ready(match self.loss() {
                None => Ok(done),
                // One poll of `work` took longer than the lease.
                Some(reason) => Err(self.lost_error(reason)),
            })
        })
        .await
    }

    /// Like [`run`](LockGuard::run), for work that returns a `Result`.
    ///
    /// If the compiler asks for the type of the error, end the work with `Ok::<_, Error>(())`: see
    /// [`Lock::try_run`](crate::Lock::try_run).
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// See [`run`](LockGuard::run).
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](LockGuard::run).
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        flat(self.run(work).await)
    }
}

/// Flattens the result of work that itself returns a result.
pub(in crate::lock) fn flat<T, E: From<Error>>(done: Result<Result<T, E>, Error>) -> Result<T, E> {
    done.map_err(E::from)?
}
