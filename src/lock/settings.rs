//! Settings of one lock value, in place of its client's.

use std::sync::Arc;
use std::time::Duration;

use super::single::SingleLock;
use super::{Guard, Lock, Target};
use crate::protocol::resource::Resource;
use crate::session::Owner;
use crate::session::lock_settings::OwnSettings;

/// # Settings
///
/// A lock value has the settings of its client, unless it has settings of its own. They belong to the value and
/// its clones, do no I/O, and are checked by the first call, which refuses a bad value with
/// [`ConfigError::OutOfRange`](crate::ConfigError::OutOfRange) and one that means nothing for the kind with
/// [`ConfigError::Setting`](crate::ConfigError::Setting) before anything is sent. Of several locks as one, a
/// setting is made for each member.
///
/// Two values of one name may have different settings. They exclude each other and share the queue of their
/// client as ever:
///
/// - Each hold has the lease of the acquisition that got it, and is renewed every third of that.
/// - A hold passes within the client only to a waiter whose lease is as long, or longer. Otherwise it is
///   released and taken again.
/// - A nested acquisition never shortens a lease: a hold is renewed with the longest lease that a renewed guard
///   of it asked for.
/// - Each waiter is looked after as often as its own safety poll says.
impl<G: Guard> Lock<G> {
    /// Makes `owner` the owner of all acquisitions through this value.
    ///
    /// They re-enter the holds of the owner, so that **they do not exclude each other**. See [`Owner`] for
    /// what to take instead.
    #[must_use = "the lock is moved into the returned value"]
    pub fn owned_by(self, owner: &Owner) -> Self {
        self.changed(&|single| single.owner = Some(owner.clone()))
    }

    /// Makes it an error to take the lock again: inside a section, by a guard, or by an [`Owner`].
    ///
    /// The error is [`Error::AlreadyHeld`](crate::Error::AlreadyHeld), at once.
    #[must_use = "the lock is moved into the returned value"]
    pub fn non_reentrant(self) -> Self {
        self.changed(&|single| single.change(|resource| resource.reentrant = false))
    }

    /// What [`Lease::Renewed`](crate::Lease::Renewed) means for this value, and so the lease of
    /// [`lock`](Lock::lock). Default: [`ClientBuilder::lease`](crate::ClientBuilder::lease). From 100 ms to a
    /// year.
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
        self.changed(&|single| single.settings.own_mut().lease = Some(lease))
    }

    /// How often this value's waiters are looked after, in case a message was lost. Default:
    /// [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll). From 10 ms to 60 s.
    ///
    /// Waiters with similar spans share their calls, one for each 500 names: the span is shortened, by less than a
    /// quarter, to 10, 12, 15, 20, 25, 30, 40, 50, 60 or 80 ms, or to one of these times ten, a hundred or a
    /// thousand. Not for fair locks, whose waiters have a heartbeat.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_safety_poll(self, every: Duration) -> Self {
        self.changed(&|single| single.settings.own_mut().safety_poll = Some(every))
    }

    /// How often an acquisition asks again before it ends with [`Error::Timeout`](crate::Error::Timeout), even
    /// if its wait is longer. Default: no limit but the wait. Zero asks once.
    ///
    /// For kinds that ask: spin, string and quorum locks. Questions without an answer do not count, nor does
    /// the time behind another waiter of this client, which asks for all. A quorum lock asks all its servers at
    /// once, and counts that as one question. Several locks as one end when one of them has asked so often with
    /// none of the others held.
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_retry_count(self, retries: u32) -> Self {
        self.changed_where_it_asks(&|settings| settings.retry_count = Some(retries))
    }

    /// The pauses between two questions: they double from `first` to `longest`, each shortened by up to a half
    /// at random. Default: 1 to 128 ms for spin locks, 5 to 100 ms for string locks, 50 to 200 ms for quorum
    /// locks. From 1 ms to 60 s; equal ones do not grow.
    ///
    /// For kinds that ask: spin, string and quorum locks. A pause never goes beyond the lease of the holder, as
    /// far as it is known.
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
    /// let lock = client.string_lock("orders:42").with_retry_count(31).with_retry_pause(pause, pause);
    /// lock.lock().await?.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "the lock is moved into the returned value"]
    pub fn with_retry_pause(self, first: Duration, longest: Duration) -> Self {
        self.changed_where_it_asks(&|settings| settings.retry_pause = Some((first, longest)))
    }

    pub(crate) fn prefer_writers(&mut self) {
        if let Target::Single(single) = &mut self.target {
            single.change(Resource::prefer_writers);
        }
    }

    fn changed(mut self, change: &dyn Fn(&mut SingleLock)) -> Self {
        match &mut self.target {
            Target::Single(single) => change(single),
            Target::Multi(multi) => {
                Arc::make_mut(multi).change(|member| member.changed(change));
            }
        }
        self
    }

    /// A quorum asks as a whole; several locks of which all are needed ask one by one.
    fn changed_where_it_asks(mut self, change: &dyn Fn(&mut OwnSettings)) -> Self {
        match &mut self.target {
            Target::Single(single) => change(single.settings.own_mut()),
            Target::Multi(multi) => {
                let multi = Arc::make_mut(multi);
                if multi.quorum {
                    change(multi.settings.own_mut());
                } else {
                    multi.change(|member| member.changed_where_it_asks(change));
                }
            }
        }
        self
    }
}
