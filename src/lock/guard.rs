//! The guard: the right to be in the critical section, and what is known of it.

pub(super) mod multi;
pub(super) mod run;

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::owner_text;
use crate::error::{ConfigError, Error};
use crate::fencing::FencingToken;
use crate::lease::{Ended, HoldState, Lease, LossReason};
use crate::protocol::kind::Kind;
use crate::session::acquire::reenter;
use crate::session::existing_hold::extend;
use crate::session::hold::Hold;
use crate::session::release::cleanup::Cleanup;
use crate::session::{HoldShare, section};

use multi::MultiGuard;
use run::flat;

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
/// request was sent, so it passes before Redis frees the lock. [`state`](LockGuard::state),
/// [`check`](LockGuard::check), [`ended`](LockGuard::ended) and [`run`](LockGuard::run) build on it.
///
/// # Examples
///
/// ```no_run
/// # async fn example(lock: leasehold::Lock) -> Result<(), leasehold::Error> {
/// let guard = lock.lock().await?;
/// let report = guard.run(async { /* a long job, dropped if the lock is lost */ 42 }).await?;
/// guard.check()?; // before an irreversible step
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
    /// Of several locks taken as one.
    Multi(MultiGuard),
}

/// What a [`Lock`](crate::Lock) gives: a [`LockGuard`], or a [`FencedGuard`](crate::FencedGuard).
pub trait Guard:
    AsRef<LockGuard> + Into<LockGuard> + Send + Sync + Sized + 'static + sealed::Sealed
{
    #[doc(hidden)]
    fn of(guard: LockGuard) -> Result<Self, Error>;
}

pub(super) mod sealed {
    /// Only this crate makes guards.
    pub trait Sealed {}
}

impl sealed::Sealed for LockGuard {}

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

impl LockGuard {
    pub(crate) fn new(share: HoldShare) -> Self {
        LockGuard { share: Share::Single(share) }
    }

    pub(crate) fn of(multi: MultiGuard) -> Self {
        LockGuard { share: Share::Multi(multi) }
    }

    /// The share in one hold: the first one, if there are several.
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

    /// All holds that it has a share in.
    pub(super) fn holds(&self) -> Vec<Arc<Hold>> {
        match &self.share {
            Share::Single(share) => vec![share.hold().clone()],
            Share::Multi(multi) => multi.holds(),
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
    /// [`Error::Unavailable`] and [`Error::Unknown`] if Redis did not confirm it within the command
    /// time-out, [`Error::Protocol`] if it refuses; it is repeated in the background until it does, or
    /// is given up two leases and 10 s later.
    pub fn unlock(self) -> impl Future<Output = Result<(), Error>> + Send + 'static {
        match self.share {
            Share::Single(share) => share.release().left_future(),
            Share::Multi(multi) => multi.unlock().right_future(),
        }
    }

    /// A further guard of the same hold: the lock is free when the last of them is gone.
    ///
    /// A further hold of its own on the read side of a read/write lock, which many may have.
    /// [`Acquire::within`](crate::Acquire::within) is the same with settings.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; 1 for each of several locks.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: the count is lowered again; this guard is not touched.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost. [`Error::AlreadyHeld`] if the lock is not re-entrant, and for
    /// permits of a semaphore. [`Error::Unavailable`], [`Error::Unknown`] and [`Error::Protocol`] if Redis
    /// did not confirm it within a command time-out: this guard is as it was.
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
    /// The future does not borrow the guard, so it may be spawned: it ends in every case. To stop work at
    /// a loss, [`run`](LockGuard::run) is simpler.
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

    /// The instant until which the lock is certainly held, unless it is forced or Redis fails. Local and
    /// free. A renewal moves it on.
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
    /// `work` is a *section*: what it calls may take the same lock again, by name or value, from the
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
            // A timer tells only when the runtime has looked at it; the clock is right at once.
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
                // It took longer than the lease without an await.
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
    /// Those of `work`, and those of [`run`](LockGuard::run).
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
    /// [`Error::Lost`] if the hold is gone, [`Error::Unavailable`] and [`Error::Unknown`] if Redis
    /// gave no answer and [`Error::Protocol`] if it refuses: the old deadline stands.
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
    /// Each read acquisition is a hold of its own. Of several locks it is as often as all of them are
    /// held, of a quorum as often as a majority is.
    pub fn hold_count(&self) -> u32 {
        match &self.share {
            Share::Single(share) => share.hold().guards(),
            Share::Multi(multi) => multi.hold_count(),
        }
    }

    /// The token, if this is a guard of a fenced lock. Local and free.
    ///
    /// [`FencedGuard::token`](crate::FencedGuard::token) is for code that knows its kind.
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

    /// The owner's name on the wire, as other clients see it; of several locks that of the first.
    ///
    /// For logs, and for other programs that speak of the owner. A hold that is unlocked and handed over
    /// to the next waiter of this client keeps its owner, but for string and fenced locks.
    pub fn owner(&self) -> &str {
        &self.share().hold().field
    }

    /// Leaves the lock to its lease: it is neither renewed nor released any more.
    ///
    /// With other guards of this hold alive it only ends this one.
    pub fn forget(self) {
        match self.share {
            // Nobody needs to know whether it was the only guard.
            Share::Single(share) => drop(share.let_go()),
            Share::Multi(multi) => multi.forget(),
        }
    }

    /// Leaves permits of a semaphore taken, with no hold that would give them back.
    pub(crate) fn keep_for_good(self) {
        if let Share::Single(share) = self.share {
            let (handle, hold) = (share.handle().clone(), share.hold().clone());
            if share.let_go() {
                handle.session.cleanups.post(Cleanup::KeepPermits(hold));
            }
        }
    }

    /// Hands the hold on: whoever gives the text to [`Lock::restore`](crate::Lock::restore) takes it
    /// over, in another task, client or process. Of several that do, one has it.
    ///
    /// The hold is not renewed any more, so it must be taken over before its lease ends; else it is free
    /// then. Whoever has the text can be the holder: treat it as the right to be in the section. For a
    /// string lock it is the value of the key.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost; [`Error::Config`] while other guards of the hold live, and for
    /// a lock of several. In each case this guard is released as by a drop.
    pub fn hand_on(self) -> Result<String, Error> {
        self.check()?;
        let Share::Single(share) = self.share else {
            return Err(Error::Config(ConfigError::Several { call: "hand_on" }));
        };
        let hold = share.hold();
        let (resource, name) = (&hold.resource, hold.resource.name.clone());
        let text = match resource.kind {
            Kind::String => hold.field.to_string(),
            _ => owner_text::text(&resource.key, &hold.field),
        };
        if share.let_go() {
            return Ok(text);
        }
        Err(Error::Config(ConfigError::OtherGuards { name: name.to_string() }))
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
