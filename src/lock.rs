//! The re-entrant lock.

mod acquire;
mod guard;
mod handle;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::ConfigError;
use crate::error::Error;
use crate::lease::Lease;
use crate::owner::Owner;
use crate::protocol::{Call, Unexpected, Value, lock};
use crate::session::Handle;
use crate::session::hold::Terms;
use crate::session::place::Place;
use crate::session::request::{Request, Wait};
use crate::transport::Lane;

pub use acquire::Acquire;
pub use guard::LockGuard;
pub use handle::HoldHandle;

/// A re-entrant lock under one name, shared with Redisson's `RLock`.
///
/// # Ownership
///
/// The value is the owner. Taking it needs `&mut self`, so two futures cannot both walk in with one
/// value; taken again while a guard of it lives, it re-enters. Two values of one name exclude each
/// other. For re-entrance across call layers that know only the name, share an [`Owner`] with
/// [`owned_by`](Lock::owned_by). Guards do not borrow the lock and may be dropped on any thread.
///
/// ```compile_fail,E0499
/// # async fn example(mut lock: leasehold::Lock) -> Result<(), leasehold::Error> {
/// // One value cannot be taken by two futures at once.
/// let both = futures::join!(lock.lock(), lock.lock());
/// # Ok(())
/// # }
/// ```
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
pub struct Lock {
    handle: Arc<Handle>,
    place: Result<Arc<Place>, ConfigError>,
    owner: Owner,
}

/// Who holds a lock, as Redis sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Holder {
    /// The owner's name on the wire, `<client uuid>:<number>`.
    pub owner: String,
    /// How many times it is held.
    pub holds: u64,
    /// What is left of the lease; `None` if the key has no expiry, which no client should do.
    pub lease: Option<Duration>,
}

impl Lock {
    pub(crate) fn new(
        handle: Arc<Handle>,
        place: Result<Arc<Place>, ConfigError>,
        owner: Owner,
    ) -> Self {
        Lock { handle, place, owner }
    }

    /// Makes the lock belong to `owner`: it re-enters what any other lock value of that owner and
    /// this name holds.
    #[must_use = "the lock is moved into the returned value"]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        self.owner = owner.clone();
        self
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
    /// [`Error::Config`] for a bad name.
    pub async fn lock(&mut self) -> Result<LockGuard, Error> {
        self.take(Wait::Forever, Lease::Renewed, None).await
    }

    /// Takes the lock, waiting at most `wait` for another owner to release it.
    ///
    /// The hold lasts for `lease`. With [`Lease::Renewed`] it is renewed in the background while
    /// the guard lives; with a fixed lease it ends by itself, even if the guard is still alive.
    /// A `wait` of zero asks once and does not listen.
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
    /// [`Error::Timeout`] if `wait` ends first: nothing is held. [`Error::Unavailable`] if Redis
    /// did not take the call. [`Error::Unknown`] if the reply was lost: the lock may be held until
    /// the lease ends; it is being undone. [`Error::Config`] for a bad name or lease.
    pub async fn try_lock(
        &mut self,
        wait: Duration,
        lease: impl Into<Lease>,
    ) -> Result<LockGuard, Error> {
        self.take(patience(wait), lease.into(), None).await
    }

    /// The fluent form, for settings that [`try_lock`](Lock::try_lock) has not.
    pub fn acquire(&mut self) -> Acquire<'_> {
        Acquire::new(self)
    }

    /// Takes the lock, runs `work` while it is held, and releases it.
    ///
    /// If the lock is lost `work` is dropped at its next await.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: as [`try_lock`](Lock::try_lock), and `work` is dropped.
    ///
    /// # Errors
    ///
    /// Those of [`try_lock`](Lock::try_lock); [`Error::Lost`] if the lock was lost before `work`
    /// ended; those of [`LockGuard::unlock`] after it, in which case its result is dropped.
    pub async fn run<T>(
        &mut self,
        wait: Duration,
        lease: impl Into<Lease>,
        work: impl AsyncFnOnce() -> T,
    ) -> Result<T, Error> {
        let guard = self.try_lock(wait, lease).await?;
        let done = guard.run(work()).await?;
        guard.unlock().await?;
        Ok(done)
    }

    pub(crate) async fn take(
        &mut self,
        wait: Wait,
        lease: Lease,
        max_hold: Option<Duration>,
    ) -> Result<LockGuard, Error> {
        let terms = self.terms(lease, max_hold)?;
        let place = self.place()?.clone();
        let request =
            Request { place, owner: self.owner.clone(), terms, wait, started: Instant::now() };
        crate::session::acquire::acquire(&self.handle, &request).await.map(LockGuard::new)
    }

    fn terms(&self, lease: Lease, max_hold: Option<Duration>) -> Result<Terms, ConfigError> {
        let max_hold = max_hold.map(|span| Lease::checked("max_hold", span)).transpose()?;
        let (lease, renewed) = match lease {
            Lease::Renewed => (self.handle.session.settings.lease, true),
            Lease::Fixed(lease) => (Lease::checked("lease", lease)?, false),
        };
        Ok(Terms { lease, renewed, max_hold })
    }

    fn place(&self) -> Result<&Arc<Place>, ConfigError> {
        self.place.as_ref().map_err(Clone::clone)
    }

    /// The name as it was given; empty if it cannot be used.
    pub fn name(&self) -> &str {
        self.place.as_ref().map_or("", |place| &*place.name)
    }

    /// Is the lock held by anybody?
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        Ok(self.inspect().await?.is_some())
    }

    /// Does Redis say that this owner holds the lock?
    ///
    /// [`LockGuard::check`] answers locally and at no cost.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none if this process knows that it does not.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn is_held(&self) -> Result<bool, Error> {
        Ok(self.hold_count().await? > 0)
    }

    /// How many times does Redis say that this owner holds the lock?
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none if this process knows that it does not hold the lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn hold_count(&self) -> Result<u64, Error> {
        let Some(hold) = self.owner.hold_of(&self.place()?.key) else { return Ok(0) };
        let seen = self.inspect().await?;
        let holds = seen.iter().flat_map(|seen| &seen.holds);
        Ok(holds.filter(|(owner, _)| **owner == *hold.field).map(|(_, count)| *count).sum())
    }

    /// What is left of the holder's lease; `None` if the lock is free.
    ///
    /// [`Duration::MAX`] for a key without expiry, which no well-behaved client leaves.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn remaining_lease(&self) -> Result<Option<Duration>, Error> {
        Ok(self.inspect().await?.map(|seen| seen.left.unwrap_or(Duration::MAX)))
    }

    /// Who holds the lock; `None` if it is free.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        let Some(seen) = self.inspect().await? else { return Ok(None) };
        let lease = seen.left;
        let first = seen.holds.into_iter().next();
        Ok(first.map(|(owner, holds)| Holder { owner, holds, lease }))
    }

    /// Frees the lock, whoever holds it; false if nobody did.
    ///
    /// A holder whose lease is renewed learns of it at its next renewal, at the latest after a third
    /// of the lease; one with a fixed lease when it extends, re-enters or releases the lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        let place = self.place()?;
        let publish = self.handle.session.transport.publish_command();
        let call = lock::force_release(&place.key, &place.channel, publish);
        self.ask(call, lock::force_released).await
    }

    async fn inspect(&self) -> Result<Option<lock::Inspected>, Error> {
        let call = lock::inspect(&self.place()?.key);
        self.ask(call, lock::inspected).await
    }

    async fn ask<T>(
        &self,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let name = &self.place()?.name;
        let session = &self.handle.session;
        if session.is_closed() {
            return Err(Error::Closed);
        }
        let reply = session.call(Lane::Caller, call).await;
        let value = reply.map_err(|error| Error::from_call(name, Duration::ZERO, error))?;
        read(value).map_err(|reply| Error::unexpected(name, &reply))
    }
}

/// A wait that ends beyond all time is one without end.
fn patience(wait: Duration) -> Wait {
    if wait.is_zero() {
        return Wait::Once;
    }
    // Tokio's timers reach about two years.
    let limit = Lease::MAX;
    if wait > limit { Wait::Forever } else { Wait::Until(Instant::now() + wait) }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("name", &self.name())
            .field("owner", &self.owner)
            .finish_non_exhaustive()
    }
}
