//! Settings of one lock value that override those of its client.

use std::sync::Arc;
use std::time::Duration;

use super::SingleLock;
use super::{Guard, Lock, LockSet};
use crate::session::settings::LockSettings;

/// # Settings
///
/// A lock value uses the settings of its client unless it overrides them. An override applies to
/// this value and its clones, and does no I/O. The first call checks it before anything is sent. A
/// value out of range is refused with [`ConfigError::OutOfRange`](crate::ConfigError::OutOfRange),
/// and a setting that this kind does not have with
/// [`ConfigError::Setting`](crate::ConfigError::Setting). On several locks as one, a setting
/// applies to each member.
///
/// Two values with the same name may have different settings. They still exclude each other and
/// share the local queue of their client:
///
/// - Each hold has the lease of its acquisition and is renewed every third of that lease.
/// - Within the client, a hold is handed only to a waiter whose lease is as long or longer.
///   Otherwise it is released and acquired again.
/// - Taking the lock again never shortens the lease. A hold is renewed with the longest lease among
///   its renewed guards.
/// - The first waiter in the queue asks at the interval of its own safety poll.
impl<G: Guard> Lock<G> {
    /// Refuses to take the lock again inside a section or with a guard.
    ///
    /// Such an acquisition fails at once with [`Error::AlreadyHeld`](crate::Error::AlreadyHeld).
    #[must_use = "the lock is moved into the returned value"]
    pub fn non_reentrant(self) -> Self {
        self.changed(&|single| single.change(|resource| resource.reentrant = false))
    }

    /// Sets the lease that [`Lease::Renewed`](crate::Lease::Renewed) means for this value, and so
    /// the lease of [`lock`](Lock::lock). Default:
    /// [`ClientBuilder::lease`](crate::ClientBuilder::lease). From 100 ms to a year.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let client = leasehold::Client::embedded();
    /// let lock = client.lock("leader").with_lease(Duration::from_secs(3));
    /// let guard = lock.lock().await?; // free three seconds after this process died
    /// assert!(guard.remaining() <= Duration::from_secs(3));
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_lease(self, lease: Duration) -> Self {
        self.changed(&|single| single.settings.lease = Some(lease))
    }

    /// Sets how often a waiter of this value asks for the lock, in case a message was lost. From 10
    /// ms to 60 s.
    ///
    /// The client checks the names of all its waiters anyway, as often as
    /// [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll) says. With this setting
    /// the first waiter of this name asks as well: one call each time. Fair locks do not have this
    /// setting: their waiters send heartbeats.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_safety_poll(self, every: Duration) -> Self {
        self.changed(&|single| single.settings.safety_poll = Some(every))
    }

    /// Limits how often an acquisition retries before it fails with
    /// [`Error::Timeout`](crate::Error::Timeout), even if its wait is longer. Default: no limit
    /// except the wait. Zero tries once.
    ///
    /// Only kinds that poll have this setting: spin, string and quorum locks.
    ///
    /// - Tries without an answer do not count. Nor does the time behind another waiter of this
    ///   client, which polls for all of them.
    /// - A quorum lock asks all its servers at once, and that counts as one try.
    /// - A multi lock gives up once one member has used up its retries while no other member is
    ///   held.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_retry_count(self, retries: u32) -> Self {
        self.changed_where_it_asks(&|settings| settings.retry_count = Some(retries))
    }

    /// Sets the pauses between tries: they double from `first` to `longest`, and each is shortened
    /// at random by up to half. Default: 1 to 128 ms for spin locks, 5 to 100 ms for string locks,
    /// 50 to 200 ms for quorum locks. From 1 ms to 60 s. If both are equal, the pauses do not grow.
    ///
    /// Only kinds that poll have this setting: spin, string and quorum locks. A pause never lasts
    /// beyond the lease of the holder, as far as that is known.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use std::time::Duration;
    ///
    /// let pause = Duration::from_millis(250);
    /// let client = leasehold::Client::embedded();
    /// // As redsync: 32 tries, with pauses up to a quarter of a second.
    /// let lock = client.string_lock("orders:42");
    /// let lock = lock.with_retry_count(31).with_retry_pause(pause, pause);
    /// lock.lock().await?.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_retry_pause(self, first: Duration, longest: Duration) -> Self {
        self.changed_where_it_asks(&|settings| settings.retry_pause = Some((first, longest)))
    }

    fn changed(mut self, change: &dyn Fn(&mut SingleLock)) -> Self {
        match &mut self.set {
            LockSet::Single(single) => change(single),
            LockSet::Multi(multi) => {
                Arc::make_mut(multi).change(|member| member.changed(change));
            }
        }
        self
    }

    /// A quorum retries as a whole; in a lock of all members, each member retries by itself.
    fn changed_where_it_asks(mut self, change: &dyn Fn(&mut LockSettings)) -> Self {
        match &mut self.set {
            LockSet::Single(single) => change(&mut single.settings),
            LockSet::Multi(multi) => {
                let multi = Arc::make_mut(multi);
                if multi.quorum {
                    change(&mut multi.settings);
                } else {
                    multi.change(|member| member.changed_where_it_asks(change));
                }
            }
        }
        self
    }
}
