//! The guard: the right to be in the critical section, and what is known of it.

use std::fmt;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::Instant;

use super::HoldHandle;
use super::group::Group;
use crate::config::ConfigError;
use crate::error::Error;
use crate::lease::{HoldState, Lease, LossReason};
use crate::protocol::kind::Kind;
use crate::session::Tenancy;
use crate::session::rejoin::extend;
use crate::session::releases::Chore;

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
/// [`check`](LockGuard::check), [`lost`](LockGuard::lost) and [`run`](LockGuard::run) build on it.
///
/// # Examples
///
/// ```no_run
/// # async fn example(mut lock: leasehold::Lock) -> Result<(), leasehold::Error> {
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
    One(Tenancy),
    /// Of several locks taken as one.
    Group(Group),
}

/// A number that grows with every acquisition of a fenced lock.
///
/// Let the resource remember the highest one it has seen and refuse lower ones: then a holder that
/// was paused beyond its lease can do no harm. `docs/fencing.md` has patterns for SQL and for object
/// stores; [`Client::set_fenced`](crate::Client::set_fenced) is one for Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// The token of that number, for code that was given it by the holder. It is not checked.
    pub fn from_value(value: i64) -> Self {
        FencingToken(value)
    }

    /// The number: at least 1, if a lock gave it.
    pub fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl LockGuard {
    pub(crate) fn new(tenancy: Tenancy) -> Self {
        LockGuard { share: Share::One(tenancy) }
    }

    pub(crate) fn of(group: Group) -> Self {
        LockGuard { share: Share::Group(group) }
    }

    /// The share in one hold: the first one, if there are several.
    pub(crate) fn tenancy(&self) -> &Tenancy {
        match &self.share {
            Share::One(tenancy) => tenancy,
            Share::Group(group) => group.first().tenancy(),
        }
    }

    pub(super) fn loss(&self) -> Option<LossReason> {
        match &self.share {
            Share::One(tenancy) => tenancy.hold().loss(),
            Share::Group(group) => group.loss(),
        }
    }

    pub(super) fn lost_later(&self) -> BoxFuture<'static, LossReason> {
        match &self.share {
            Share::One(tenancy) => {
                let hold = tenancy.hold().clone();
                async move { hold.lost().await }.boxed()
            }
            Share::Group(group) => group.lost().boxed(),
        }
    }

    fn lost_error(&self, reason: LossReason) -> Error {
        match &self.share {
            Share::One(tenancy) => Error::lost(&tenancy.hold().place.name, reason),
            Share::Group(group) => Error::lost(group.name(), reason),
        }
    }

    /// Releases the lock and waits until Redis has confirmed it.
    ///
    /// Of nested guards only the last one frees the lock.
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
    pub async fn unlock(self) -> Result<(), Error> {
        match self.share {
            Share::One(tenancy) => tenancy.release().await,
            Share::Group(group) => Box::pin(group.unlock()).await,
        }
    }

    /// What this process knows of the hold. Local and free.
    pub fn state(&self) -> HoldState {
        match &self.share {
            Share::One(tenancy) => tenancy.hold().look(),
            Share::Group(group) => group.state(),
        }
    }

    /// Resolves with the reason when the hold is lost.
    ///
    /// The future does not borrow the guard. It never resolves for a hold that is released in time.
    pub fn lost(&self) -> impl Future<Output = LossReason> + Send + 'static {
        self.lost_later()
    }

    /// Until when the lock is surely held, unless it is forced or Redis fails. Local and free.
    pub fn deadline(&self) -> Instant {
        match &self.share {
            Share::One(tenancy) => tenancy.hold().deadline(),
            Share::Group(group) => group.deadline(),
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
    pub async fn run<F: Future>(&self, work: F) -> Result<F::Output, Error> {
        let (mut lost, mut work) = (self.lost_later(), pin!(work));
        poll_fn(|context| {
            // A timer tells only when the runtime has looked at it; the clock is right at once.
            if let Some(reason) = self.loss() {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            if let Poll::Ready(reason) = lost.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            work.as_mut().poll(context).map(Ok)
        })
        .await
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
            Share::One(tenancy) => extend(tenancy.handle(), tenancy.hold(), lease).await,
            Share::Group(group) => Box::pin(group.extend(lease)).await,
        }
    }

    /// How many guards of this hold live. Local and free.
    ///
    /// Each read acquisition is a hold of its own. Of several locks it is as often as all of them are
    /// held, of a quorum as often as a majority is.
    pub fn hold_count(&self) -> u32 {
        match &self.share {
            Share::One(tenancy) => tenancy.hold().guards(),
            Share::Group(group) => group.hold_count(),
        }
    }

    /// The token of a fenced lock: always there for one, never for another kind. Local and free.
    ///
    /// Nested guards of one hold have the same token.
    pub fn token(&self) -> Option<FencingToken> {
        match &self.share {
            Share::One(tenancy) => tenancy.hold().token().map(FencingToken),
            Share::Group(_) => None,
        }
    }

    /// The lock's name.
    pub fn name(&self) -> &str {
        match &self.share {
            Share::One(tenancy) => &tenancy.hold().place.name,
            Share::Group(group) => group.name(),
        }
    }

    /// The owner's name on the wire, as other clients see it; of several locks that of the first.
    ///
    /// [`Lock::restore`](crate::Lock::restore) gives the guard back to whoever knows it: forget the
    /// guard when you give the text away. But for string and fenced locks, a hold that is unlocked and
    /// handed over to the next waiter of this client keeps its text.
    pub fn owner(&self) -> &str {
        &self.tenancy().hold().field
    }

    /// Leaves the lock to its lease: it is neither renewed nor released any more.
    ///
    /// With other guards of this hold alive it only ends this one.
    pub fn forget(self) {
        match self.share {
            // Nobody needs to know whether it was the only guard.
            Share::One(tenancy) => drop(tenancy.let_go()),
            Share::Group(group) => group.forget(),
        }
    }

    /// Leaves permits of a semaphore taken, with no hold that would give them back.
    pub(crate) fn keep_for_good(self) {
        if let Share::One(tenancy) = self.share {
            let (handle, hold) = (tenancy.handle().clone(), tenancy.hold().clone());
            if tenancy.let_go() {
                handle.session.releases.post(Chore::Keep(hold));
            }
        }
    }

    /// Turns the hold into text, to be adopted by another task, client or process.
    ///
    /// The hold is not renewed any more; [`Client::adopt`](crate::Client::adopt) must take it over
    /// before its lease ends.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold is lost; [`Error::Config`] for any kind but the plain lock, and
    /// while other guards of the hold live. In each case this guard is released as by a drop.
    pub fn into_handle(self) -> Result<HoldHandle, Error> {
        self.check()?;
        let refused = |reason| Err(Error::Config(ConfigError::Handle { reason }));
        let Share::One(tenancy) = self.share else {
            return refused("a lock of several has no handle");
        };
        let hold = tenancy.hold();
        if hold.place.kind != Kind::Lock {
            return refused("only a plain lock has one: use the owner text and `restore`");
        }
        let handle = HoldHandle::new(&hold.place.key, &hold.field);
        if tenancy.let_go() {
            return Ok(handle);
        }
        refused("other guards of this hold are alive")
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
