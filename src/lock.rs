//! Locks of every kind: one type, whatever is behind the name.

mod acquire;
mod group;
mod guard;
mod handle;
mod inspect;
mod many;
mod members;
pub(crate) mod one;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::ConfigError;
use crate::error::Error;
use crate::lease::{Lease, LossReason};
use crate::owner::Owner;
use crate::protocol::place::Place;
use crate::session::Handle;
use crate::session::rejoin::adopt;
use crate::session::request::{Request, Wait};

use many::Many;
use one::{One, Wanted};

pub use acquire::Acquire;
pub use guard::{FencingToken, LockGuard};
pub use handle::HoldHandle;
pub use inspect::Holder;

/// The longest owner text, in bytes: every call about the hold repeats it.
const OWNER_MAX: usize = 64 * 1024;

/// A lock, made by one of the calls of [`Client`](crate::Client): re-entrant, fair, fenced, one side
/// of a read/write lock, or several locks as one.
///
/// What is special to a kind stands at the call that makes it; the rest holds for all.
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
    target: Target,
}

enum Target {
    One(One),
    Many(Many),
}

impl Lock {
    pub(crate) fn new(
        handle: Arc<Handle>,
        place: Result<Place, ConfigError>,
        owner: Owner,
    ) -> Self {
        Lock { target: Target::One(One { handle, place: place.map(Arc::new), owner }) }
    }

    /// Several locks as one: all of them or none.
    ///
    /// They may be of any kinds and of any clients. They are taken in one order, by key and then by
    /// the address of the server, whatever the order in which they are given, so that two owners of
    /// overlapping sets do not wait for each other; a failure releases exactly what was taken. Plain,
    /// spin, fenced, string and write locks of one client are asked for by one script call while all
    /// of them are free. There is one deadline for all; the guard is lost when one member is. A fixed
    /// lease begins when the last one is taken: members that waited for it are extended.
    ///
    /// Whoever holds some of them waits for the next one about a second, then releases all, waits for
    /// that one with nothing held, and goes on with the others: nobody keeps what it cannot use, a
    /// member with a long queue is had in the end, and a program that takes such locks in another
    /// order (Redisson's `RMultiLock` keeps the given one) is given way.
    ///
    /// The same lock of one client twice, also within members that are several themselves, or of two
    /// clients of one address unless both read, one with a bad name, none at all, or more than 1024,
    /// are refused at the first call.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// use leasehold::Lock;
    ///
    /// let accounts = [client.lock("account:7"), client.fair_lock("account:9")];
    /// let mut both = Lock::multi(accounts);
    /// let guard = both.lock().await?;
    /// # guard.unlock().await
    /// # }
    /// ```
    pub fn multi(members: impl IntoIterator<Item = Lock>) -> Lock {
        Lock { target: Target::Many(Many::all(members.into_iter().collect())) }
    }

    /// A quorum lock (`RedLock`): held while a majority of its members is.
    ///
    /// Each member belongs on a server of its own, independent of the others: the lock survives the
    /// loss of a minority of them. All are asked at once, each for a small part of the lease only;
    /// it is granted if a majority agrees and validity is left, which is the lease less what the
    /// asking took and an allowance for clock drift (1 % and 2 ms). Otherwise everything is
    /// released, also where a reply was lost, and asked again after a random pause. Members are
    /// renewed one by one; the guard is lost when the deadline of the last needed member passes.
    ///
    /// The same lock of one client twice, one with a bad name, none at all, or more than 1024, are
    /// refused at the first call.
    ///
    /// String locks share it with redsync, node-redlock and others. `docs/guarantees.md` says what
    /// it does and does not give.
    ///
    /// # Errors
    ///
    /// Besides those of other locks, [`Error::Quorum`] if too few servers answered within the wait.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(clients: [leasehold::Client; 3]) -> Result<(), leasehold::Error> {
    /// use leasehold::Lock;
    ///
    /// let mut lock = Lock::quorum(clients.iter().map(|client| client.string_lock("orders:42")));
    /// let guard = lock.lock().await?;
    /// # guard.unlock().await
    /// # }
    /// ```
    pub fn quorum(members: impl IntoIterator<Item = Lock>) -> Lock {
        Lock { target: Target::Many(Many::majority(members.into_iter().collect())) }
    }

    /// Makes the lock belong to `owner`: it re-enters what any other lock value of that owner and
    /// this name holds.
    #[must_use = "the lock is moved into the returned value"]
    pub fn owned_by(mut self, owner: &Owner) -> Self {
        match &mut self.target {
            Target::One(one) => one.owner = owner.clone(),
            Target::Many(many) => many.change(|member| member.owned_by(owner)),
        }
        self
    }

    /// Makes a second acquisition by the owner that holds it an error, at once.
    #[must_use = "the lock is moved into the returned value"]
    pub fn non_reentrant(mut self) -> Self {
        match &mut self.target {
            Target::One(one) => one.change(|place| place.reentrant = false),
            Target::Many(many) => many.change(Lock::non_reentrant),
        }
        self
    }

    pub(crate) fn prefer_writers(&mut self) {
        if let Target::One(one) = &mut self.target {
            one.change(Place::prefer_writers);
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
    pub async fn lock(&mut self) -> Result<LockGuard, Error> {
        self.take(Wait::Forever, Lease::Renewed, None).await
    }

    /// Takes the lock, waiting at most `wait` for another owner to release it.
    ///
    /// The hold lasts for `lease`. With [`Lease::Renewed`] it is renewed in the background while
    /// the guard lives; with a fixed lease it ends by itself, even if the guard is still alive.
    /// A `wait` of zero asks once and does not listen; one of more than a year has no end. A fixed
    /// lease lasts [`Lease::MIN`] to [`Lease::MAX`], in whole milliseconds.
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
    /// the lease ends; it is being undone. [`Error::Protocol`] if Redis refuses the call for good,
    /// [`Error::Closed`] after shutdown, [`Error::AlreadyHeld`] if it would wait for its own owner,
    /// [`Error::Config`] for a bad name or lease. [`Error::Quorum`] from a quorum lock only.
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
        self.take_as(Wanted { wait, lease, max_hold, drifts: false }).await
    }

    async fn take_as(&self, wanted: Wanted) -> Result<LockGuard, Error> {
        match &self.target {
            Target::One(one) => one.take(wanted).await.map(LockGuard::new),
            Target::Many(many) => Box::pin(many.take(wanted)).await,
        }
    }

    /// Gives the guard of a hold back to whoever knows its owner text.
    ///
    /// The text is [`LockGuard::owner`], after [`LockGuard::forget`]; of a string lock it may come
    /// from another program: the owner of Laravel's lock, the value of redsync's mutex. The hold is
    /// renewed from now on. One that this client is ending (a dropped guard's release, a hand-over) is
    /// not given back, and of several that restore one text at once, one has it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; 2 for a fenced lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: a call on its way is undone, and with it the hold.
    ///
    /// # Errors
    ///
    /// [`Error::NotOwner`] if that owner does not hold the lock, or if this client is ending the hold,
    /// until that is confirmed or given up; [`Error::AlreadyHeld`] if a guard of this client holds it:
    /// nothing changed. [`Error::Unavailable`] and [`Error::Protocol`] if Redis did not take the call:
    /// the hold is as it was. [`Error::Unknown`] if the reply was lost: the hold is being released, as
    /// it is after [`Error::Closed`]. [`Error::Config`] for a bad name, for a lock of several, and for
    /// a text of more than 64 KiB.
    pub async fn restore(&mut self, owner_text: &str) -> Result<LockGuard, Error> {
        let Target::One(one) = &self.target else {
            let reason = "a lock of several has no owner text";
            return Err(Error::Config(ConfigError::Handle { reason }));
        };
        if owner_text.len() > OWNER_MAX {
            return Err(Error::Config(ConfigError::OutOfRange {
                what: "length of the owner text",
                given: owner_text.len().to_string(),
                allowed: format!("0 to {OWNER_MAX}"),
            }));
        }
        let wanted =
            Wanted { wait: Wait::Once, lease: Lease::Renewed, max_hold: None, drifts: false };
        let request: Request = one.request(wanted)?;
        if !request.place.may_be_field(owner_text) {
            return Err(Error::NotOwner { name: request.place.name.clone() });
        }
        match adopt(&one.handle, &request, owner_text).await {
            Err(Error::Lost { name, reason: LossReason::Gone }) => Err(Error::NotOwner { name }),
            done => done.map(LockGuard::new),
        }
    }

    /// The name as it was given; empty if it cannot be used.
    pub fn name(&self) -> &str {
        match &self.target {
            Target::One(one) => one.place.as_ref().map_or("", |place| &*place.name),
            Target::Many(many) => many.name(),
        }
    }
}

/// A wait that ends beyond all time is one without end.
pub(crate) fn patience(wait: Duration) -> Wait {
    if wait.is_zero() {
        return Wait::Once;
    }
    // Tokio's timers reach about two years.
    let limit = Lease::MAX;
    if wait > limit { Wait::Forever } else { Wait::Until(Instant::now() + wait) }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock").field("name", &self.name()).finish_non_exhaustive()
    }
}
