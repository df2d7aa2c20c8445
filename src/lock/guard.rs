//! The guard: the right to be in the critical section, and what this process knows of the hold.

pub(super) mod multi;
pub(super) mod run;
pub(super) mod sealed;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use crate::error::Error;
use crate::fencing::FencingToken;
use crate::lease::{Ended, HoldState, Lease, LossReason};
use crate::session::acquire::reenter;
use crate::session::existing_hold::extend;
use crate::session::hold::{Heir, Hold};
use crate::session::release::cleanup::Cleanup;
use crate::session::{HoldShare, section};

use multi::MultiGuard;
use run::flat;

pub use sealed::Guard;

/// Holds a lock until it is dropped or unlocked.
///
/// # Release
///
/// [`unlock`](LockGuard::unlock) waits for Redis and reports; a drop queues the same release and
/// returns at once. A drop never blocks, never panics and needs no runtime.
///
/// # Losing the lease
///
/// The guard compares clocks: its [`deadline`](LockGuard::deadline) is counted from before the
/// request was sent, so it passes before Redis frees the lock; time for which the machine was suspended
/// counts. [`state`](LockGuard::state), [`check`](LockGuard::check), [`ended`](LockGuard::ended) and
/// [`run`](LockGuard::run) build on it.
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
        LockGuard { share: Share::Single(share) }
    }

    pub(crate) fn of(multi: MultiGuard) -> Self {
        LockGuard { share: Share::Multi(multi) }
    }

    /// The share in the hold; of several locks, that in the hold of the first.
    pub(crate) fn share(&self) -> &HoldShare {
        match &self.share {
            Share::Single(share) => share,
            Share::Multi(multi) => multi.first().share(),
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

    /// All holds that the guard has a share in.
    pub(super) fn holds(&self) -> Vec<Arc<Hold>> {
        match &self.share {
            Share::Single(share) => vec![share.hold().clone()],
            Share::Multi(multi) => multi.holds(),
        }
    }

    /// The guard is given to its caller: from now on a release leaves the lock locked for as long as was asked for.
    pub(super) fn begins_to_linger(&self) {
        match &self.share {
            Share::Single(share) => share.begins_to_linger(),
            Share::Multi(multi) => multi.begins_to_linger(),
        }
    }

    fn lost_error(&self, reason: LossReason) -> Error {
        match &self.share {
            Share::Single(share) => Error::lost(&share.hold().resource.name, reason),
            Share::Multi(multi) => Error::lost(multi.name(), reason),
        }
    }

    /// Releases the lock; the future waits until Redis has confirmed it.
    ///
    /// The release is carried out whether the future is polled or not, within
    /// [`Lock::UNATTENDED`](crate::Lock::UNATTENDED). Of nested guards only the last one frees the lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none if the lock was handed to another waiter of this client.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: the release goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold had ended before: others may have been in the section.
    /// [`Error::Unavailable`] and [`Error::Unknown`] if Redis did not confirm the release within the command
    /// time-out, [`Error::Protocol`] if Redis refuses it. The release is then repeated in the background
    /// until Redis confirms it, and given up two leases and 10 s later.
    pub fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        match self.share {
            Share::Single(share) => share.release().left_future(),
            Share::Multi(multi) => multi.unlock().right_future(),
        }
    }

    /// A further guard of the same hold: the lock is free when its last guard is gone.
    ///
    /// On the read side of a read/write lock, the further guard has a hold of its own.
    /// [`Acquire::within`](crate::Acquire::within) is the same with settings.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; for several locks as one, 1 for each.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: the count is lowered again; this guard is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost. [`Error::AlreadyHeld`] if the lock is not re-entrant, and for
    /// permits of a semaphore. [`Error::Unavailable`], [`Error::Unknown`] and [`Error::Protocol`] if Redis
    /// did not confirm the call within a command time-out: this guard is as it was.
    pub async fn reenter(&self) -> Result<LockGuard, Error> {
        self.check()?;
        match &self.share {
            Share::Single(share) => reenter(share).await.map(LockGuard::new),
            Share::Multi(multi) => multi.reenter().await.map(LockGuard::of),
        }
    }

    /// What this process knows of the hold. Local and free.
    pub fn state(&self) -> HoldState {
        match &self.share {
            Share::Single(share) => share.hold().look(),
            Share::Multi(multi) => multi.state(),
        }
    }

    /// Resolves when the hold has come to its end, and says how: released, lost, or handed on.
    ///
    /// The future does not borrow the guard, so it may be spawned; it always resolves in the end. To stop
    /// work at a loss, [`run`](LockGuard::run) is simpler.
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

    /// The instant until which the lock is certainly held, unless the lock is freed by force or Redis
    /// fails. Local and free. A renewal moves the instant on. It is one of tokio's clock, which may stand still
    /// while the machine is suspended: a suspension moves the instant back.
    pub fn deadline(&self) -> Instant {
        match &self.share {
            Share::Single(share) => share.hold().deadline(),
            Share::Multi(multi) => multi.deadline(),
        }
    }

    /// What is left until the [`deadline`](LockGuard::deadline); zero if the hold is lost. Local and free.
    pub fn remaining(&self) -> Duration {
        match self.loss() {
            None => self.deadline().saturating_duration_since(Instant::now()),
            Some(_) => Duration::ZERO,
        }
    }

    /// Fails if the hold is lost. Local and free: call it before each irreversible step.
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

    /// Polls `work` only while the lock is held, and drops it when the lock is lost.
    ///
    /// `work` is a *section*: code that it calls may take the same lock again, by name or value, from the
    /// same client ([more](crate::Lock#taking-it-again)).
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// As `work`; the guard is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold ended before `work` did.
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, Error> {
        let (mut ended, mut work) = (self.ended_later(), pin!(work));
        let holds = Arc::from(self.holds());
        poll_fn(|context| {
            // A timer fires only when the runtime looks at it; the clock is right at once.
            if let Some(reason) = self.loss() {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            if let Poll::Ready(Ended::Lost(reason)) = ended.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            let polled = {
                let _inside = section::enter(&holds);
                work.as_mut().poll(context)
            };
            let Poll::Ready(done) = polled else { return Poll::Pending };
            Poll::Ready(match self.loss() {
                None => Ok(done),
                // One poll of `work` took longer than the lease.
                Some(reason) => Err(self.lost_error(reason)),
            })
        })
        .await
    }

    /// As [`run`](LockGuard::run), for work that may fail with an error of its own.
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// As [`run`](LockGuard::run).
    ///
    /// # Errors
    ///
    /// The errors of `work`, and those of [`run`](LockGuard::run).
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        flat(self.run(work).await)
    }

    /// Makes the hold last at least `lease` from now; never shortens it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lease is extended or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is gone. [`Error::Unavailable`] and [`Error::Unknown`] if Redis gave no
    /// answer, [`Error::Protocol`] if Redis refuses: the old deadline stands.
    /// [`Error::Config`] for a bad lease.
    pub async fn extend(&self, lease: Duration) -> Result<(), Error> {
        let lease = Lease::checked("lease", lease)?;
        match &self.share {
            Share::Single(share) => extend(share.handle(), share.hold(), lease).await,
            Share::Multi(multi) => Box::pin(multi.extend(lease)).await,
        }
    }

    /// How many guards of this hold live. Local and free.
    ///
    /// Each read acquisition is a hold of its own. Of several locks as one, this is how often all of them
    /// are held; of a quorum lock, how often a majority is held.
    pub fn hold_count(&self) -> u32 {
        match &self.share {
            Share::Single(share) => share.hold().guards(),
            Share::Multi(multi) => multi.hold_count(),
        }
    }

    /// The token, if this is a guard of a fenced lock. Local and free.
    ///
    /// [`FencedGuard::token`](crate::FencedGuard::token) is for code that knows the kind of the lock.
    pub fn token(&self) -> Option<FencingToken> {
        match &self.share {
            Share::Single(share) => share.hold().token().map(FencingToken::from_value),
            Share::Multi(_) => None,
        }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        match &self.share {
            Share::Single(share) => &share.hold().resource.name,
            Share::Multi(multi) => multi.name(),
        }
    }

    /// The owner's name on the wire, as other clients see it; of several locks, that of the first.
    ///
    /// For logs, and to compare with [`Holder::owner`](crate::Holder). A hold that is handed over to the
    /// next waiter of this client keeps its owner, except for string and fenced locks.
    pub fn owner(&self) -> &str {
        &self.share().hold().field
    }

    /// Leaves the lock to its lease: it is neither renewed nor released any more.
    ///
    /// While other guards of this hold live, it ends this guard only.
    pub fn forget(self) {
        match self.share {
            Share::Single(share) => drop(share.let_go(Heir::Nobody)),
            Share::Multi(multi) => multi.forget(),
        }
    }

    /// Keeps permits of a semaphore taken for good: no hold gives them back.
    pub(crate) fn keep_for_good(self) {
        if let Share::Single(share) = self.share {
            let (handle, hold) = (share.handle().clone(), share.hold().clone());
            if share.let_go(Heir::Nobody) {
                handle.session.cleanups.post(Cleanup::KeepPermits(hold));
            }
        }
    }

    /// The share of a single lock; the guard of several locks is released as by a drop.
    pub(super) fn into_single(self) -> Option<HoldShare> {
        match self.share {
            Share::Single(share) => Some(share),
            Share::Multi(_) => None,
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
