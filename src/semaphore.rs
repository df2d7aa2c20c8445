//! The semaphore: a number of permits under one name.

mod forced;
mod permit;

use std::time::Duration;

use crate::error::Error;
use crate::lease::Lease;
use crate::lock::LockGuard;
use crate::protocol::counter::{self, number};
use crate::protocol::replies::yes_or_no;
use crate::protocol::semaphore;
use crate::session::poll_watch::Wait;
use crate::synchronizer::Synchronizer;

pub use permit::SemaphorePermit;

/// A distributed semaphore: a number of permits under one name, shared with Redisson's
/// `RSemaphore`.
///
/// Redisson stores only the number of available permits. So the permits of a process that died are
/// gone. In this library each acquisition also has a hold with a lease, which is renewed while its
/// guard is alive. The permits of a dead holder come back: the next call of any client of this
/// library returns them, and waiters call about once a second.
///
/// # Fairness
///
/// Waiters of one client are served in the order of arrival. A waiter for many permits blocks the
/// waiters behind it. There is no order between clients.
///
/// # Redis cost
///
/// | Path             | Round trips | Sent                                              |
/// |------------------|-------------|---------------------------------------------------|
/// | enough permits   | 1           | `semaphore_acquire`                               |
/// | too few          | 2 + w, + 1  | `semaphore_acquire` each time, one `SUBSCRIBE`    |
/// | released         | 1           | `semaphore_release`                               |
/// | while held       | 1 per third of the lease | `semaphore_renew`, many holds in one call |
/// | while waited for | 1 a second  | `semaphore_acquire` of one waiter of the client   |
///
/// `w` is the number of times that the waiter is woken.
///
/// # Keys
///
/// The string at the name and the channel `redisson_sc:{name}`, both as in Redisson.
///
/// The holds are in the sorted set `leasehold_semaphore:{name}`, which Redisson does not know. If
/// the name has braces of its own, the set is `leasehold_semaphore::name`, with two colons.
///
/// A [limit](Semaphore::with_limit) is kept in the string `leasehold_limit:{name}`, as long as the
/// semaphore. If the name has braces, it is `leasehold_limit::name`.
///
/// The reply to a change of the number is kept at `leasehold_reply:{name}:<id>`, for 30 s or four
/// command timeouts, whichever is longer. A client has one such key for each change in flight, and
/// reuses it.
///
/// # Examples
///
/// At most three jobs at once, across all processes:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::Client;
///
/// let client = Client::embedded();
/// let encoders = client.semaphore("encoders").with_limit(3);
///
/// let permit = encoders.acquire(1).await?;
/// // … encode …
/// permit.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Semaphore {
    inner: Synchronizer,
}

impl Semaphore {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        Semaphore { inner }
    }

    /// Declares how many permits there are in all. Each acquisition of this value applies the
    /// limit, so nobody has to set the number before. From 1 to [`u32::MAX`]. The first call
    /// refuses a bad value.
    ///
    /// The first limit creates the semaphore, or replaces the number that it has. From then on,
    /// another limit changes the number by the difference to the limit before. Permits that are out
    /// stay out: if more are out than a lower limit allows, nobody gets a permit until enough have
    /// come back. A higher limit counts as soon as it lets an acquisition in.
    ///
    /// [`add_permits`](Self::add_permits), [`drain`](Self::drain) and [`SemaphorePermit::forget`]
    /// change the number beside the limit. [`set_permits`](Self::set_permits) counts as a limit:
    /// the next acquisition with another limit replaces it. The first limit counts only the permits
    /// that this library knows to be held, as `set_permits` does. If Java deletes the semaphore and
    /// creates it again, delete the limit's key too.
    ///
    /// # Two deployments with different limits
    ///
    /// While both run, the acquisition that came last decides. Each is granted by its own limit
    /// only: at most two permits are out after an acquisition with the limit 2, and at most five
    /// after one with the limit 5. So there are never more permits out than the higher limit. Those
    /// with the lower limit wait while the others hold more. A waiter may notice a free permit only
    /// at its next [poll](Self::with_safety_poll), about once a second, because the number is
    /// published only if it is positive by the limit that was applied last.
    ///
    /// # Redis cost
    ///
    /// An acquisition reads the limit's key: one `GET` more. One that changes the limit writes two
    /// keys more.
    ///
    /// # Errors
    ///
    /// An acquisition of more permits is [`Error::ExceedsLimit`], and nothing is sent.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::embedded();
    /// let encoders = client.semaphore("encoders").with_limit(2);
    /// let permit = encoders.acquire(2).await?; // nobody had to set the number
    ///
    /// // The next deployment wants five.
    /// let encoders = client.semaphore("encoders").with_limit(5);
    /// let more = encoders.acquire(3).await?;
    /// assert_eq!((encoders.available().await?, encoders.permits().await?), (0, 5));
    /// # drop((permit, more));
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_limit(mut self, permits: u32) -> Self {
        self.inner.settings.limit = Some(permits);
        self
    }

    /// Sets the lease of all permits that this value takes. Default:
    /// [`ClientBuilder::lease`](crate::ClientBuilder::lease). From 100 ms to a year.
    ///
    /// The permits of a holder that died come back after this lease. The first call refuses a bad
    /// value.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.inner.settings.lease = Some(lease);
        self
    }

    /// Sets how often waiters of this value poll, in case a message was lost or permits came back
    /// without one. Default: [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll).
    /// From 10 ms to 60 s.
    ///
    /// One waiter of the client polls for all of them. The first call refuses a bad value.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_safety_poll(mut self, every: Duration) -> Self {
        self.inner.settings.safety_poll = Some(every);
        self
    }

    /// Says what the permits of this value are held for. Others see it in
    /// [`Holder::purpose`](crate::inspect::Holder), for as long as the permits are held.
    ///
    /// 1 to 256 bytes without control characters. The next acquisition refuses a bad value.
    #[must_use = "the semaphore is moved into the returned value"]
    pub fn with_purpose(mut self, purpose: impl Into<String>) -> Self {
        self.inner.purpose = Some(purpose.into());
        self
    }

    /// Sets the number of permits if the semaphore does not exist yet; returns false if it does.
    ///
    /// It is no limit: everybody may add permits later, as Java does. So an acquisition of more
    /// permits than there are waits until somebody adds some. [`with_limit`](Self::with_limit) has
    /// it refused instead.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn try_set_permits(&self, permits: u32) -> Result<bool, Error> {
        self.set(permits, None).await
    }

    /// Like [`try_set_permits`](Semaphore::try_set_permits), for a semaphore that expires after
    /// `life`.
    ///
    /// Permits that are still held are lost then; their guards notice at the next renewal.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    /// - [`Error::Config`] also: `life` is not between [`Lease::MIN`] and [`Lease::MAX`].
    pub async fn try_set_permits_for(&self, permits: u32, life: Duration) -> Result<bool, Error> {
        let life = Lease::checked("life", life)?;
        self.set(permits, Some(life)).await
    }

    async fn set(&self, permits: u32, life: Option<Duration>) -> Result<bool, Error> {
        let message = permits.to_string();
        let call = |resource: &_, publish, reply_key| {
            counter::set(resource, publish, permits.into(), &message, life, reply_key)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Sets the total, including held permits. Returns how many are then available: negative if
    /// more are held.
    ///
    /// Creates the semaphore if it does not exist. Redisson does not store who holds permits, so
    /// the permits that Java holds do not count. Replaces a [limit](Semaphore::with_limit) that was
    /// applied before. If this value declares a limit, the total is kept as one even if there was
    /// none, and The crate leasehold-admin lists the semaphore while it is idle too.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn set_permits(&self, permits: u32) -> Result<i64, Error> {
        let total = self.inner.total();
        let call =
            |resource: &_, publish| semaphore::resize(resource, publish, permits.into(), total);
        self.inner.ask(call, number).await
    }

    /// Takes permits, and waits as long as it takes. Zero permits are granted at once, without
    /// Redis.
    ///
    /// **A task that holds permits of the semaphore may wait for its own release**, and no event
    /// says so. Take all permits in one call, or give the call a wait:
    /// [`try_acquire`](Self::try_acquire). In a loop around `select!`, make the future once, before
    /// the loop: see [`Lock::lock`](crate::Lock::lock).
    ///
    /// **More permits than there are** are waited for until somebody adds some, unless a
    /// [limit](Self::with_limit) refuses them.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Semaphore`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. Permits that are granted later are given back.
    ///
    /// # Errors
    ///
    /// - [`Error::Protocol`]: Redis refuses the call, and retrying does not help.
    /// - [`Error::NotDurable`]: too few copies of the grant were confirmed, and it is being undone.
    /// - [`Error::NoPermits`]: the number of permits was never set, and this value declares no
    ///   limit.
    /// - [`Error::ExceedsLimit`]: there are fewer permits in all, by the limit of this value.
    ///   Without one, by the limit that was applied last.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the name or a setting cannot be used.
    pub async fn acquire(&self, permits: u32) -> Result<SemaphorePermit, Error> {
        self.take(permits, Wait::Forever).await
    }

    /// Takes permits, and waits at most `wait`. A `wait` of zero tries once.
    ///
    /// # Redis cost
    ///
    /// See the table on [`Semaphore`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. Permits that are granted later are given back.
    ///
    /// # Errors
    ///
    /// - [`Error::Timeout`]: there were too few permits until `wait` ended. None is taken.
    /// - [`Error::Unavailable`]: Redis did not execute the call.
    /// - [`Error::Unknown`]: the reply was lost. The permits are given back in the background.
    /// - [`Error::NotDurable`]: too few copies of the grant were confirmed, and it is being undone.
    /// - [`Error::Protocol`]: Redis refuses the call, and retrying does not help.
    /// - [`Error::NoPermits`] or [`Error::ExceedsLimit`]: the number of permits was never set, or
    ///   is too small.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the name or a setting cannot be used.
    pub async fn try_acquire(
        &self,
        permits: u32,
        wait: Duration,
    ) -> Result<SemaphorePermit, Error> {
        self.take(permits, Wait::from(wait)).await
    }

    async fn take(&self, permits: u32, wait: Wait) -> Result<SemaphorePermit, Error> {
        self.inner.resource()?;
        if permits == 0 {
            return Ok(SemaphorePermit::of_none());
        }
        let share = self.inner.take(permits, wait, Lease::Renewed).await?;
        Ok(SemaphorePermit::new(LockGuard::new(share), permits))
    }

    /// Adds permits, or takes permits away if the number is negative. If the semaphore does not
    /// exist, it is created.
    ///
    /// It also gives back permits that no longer have a guard, after [`SemaphorePermit::forget`].
    /// At most [`u32::MAX`] permits can be added or taken at once. The number of available permits
    /// may become negative.
    ///
    /// # Redis cost
    ///
    /// 1 round trip. None for zero permits.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    /// - [`Error::Config`] also: the number is too large.
    pub async fn add_permits(&self, permits: i64) -> Result<(), Error> {
        self.inner.add(permits).await
    }

    /// Takes all available permits for good. Returns how many were taken, including those reclaimed
    /// from dead holders.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The change is either made or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn drain(&self) -> Result<i64, Error> {
        self.inner.change(semaphore::drain, number).await
    }

    /// Returns the number of available permits. It is negative if more were taken away than there
    /// were.
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
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn available(&self) -> Result<i64, Error> {
        self.inner.ask(semaphore::available, number).await
    }

    /// Returns the total number of permits, available and held.
    ///
    /// Redisson does not store who holds permits, so the permits that Java holds do not count.
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
    #[doc = include_str!("error/returned_by/call.md")]
    pub async fn permits(&self) -> Result<i64, Error> {
        let read = semaphore::available_and_held;
        let (available, held) = self.inner.ask(semaphore::count, read).await?;
        Ok(available + held)
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}
