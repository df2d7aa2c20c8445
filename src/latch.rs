//! The count-down latch: it is waited for and never held.

use std::fmt;
use std::time::Duration;

use crate::error::Error;
use crate::lease::Lease;
use crate::protocol::counter::{self, number};
use crate::protocol::latch;
use crate::protocol::replies::yes_or_no;
use crate::session::wait::Wait;
use crate::synchronizer::Synchronizer;

/// A count under one name, whose waiters go on when it is zero, shared with Redisson's
/// `RCountDownLatch`.
///
/// A latch that was never set is open. Waiters listen, and ask again about once a second, so that a
/// waiter that comes late or misses a message does not hang.
///
/// # Redis cost
///
/// | Path             | Round trips | Sent                                        |
/// |------------------|-------------|---------------------------------------------|
/// | waiting, open    | 1           | `latch_ask`                                 |
/// | waiting, closed  | 2 + w, + 1  | `latch_ask` each time, one `SUBSCRIBE`      |
/// | while waited for | 1 a second  | `latch_ask` of one waiter of the client     |
/// | a wait that ends | 1           | `latch_ask`: Redis decides                  |
///
/// # Keys
///
/// The string at the name, and the channel `redisson_countdownlatch__channel__{name}`; both as
/// Redisson's. The reply to a change of the count is kept for 30 s, or four command time-outs if that is
/// longer, at `leasehold_reply:{name}:<id>`. A client has one such key for each change under way, and uses it
/// again.
///
/// # Examples
///
/// Three parts of a job, and the step after all of them:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::Client;
///
/// let client = Client::embedded();
/// let parts = client.count_down_latch("import:7:parts");
/// parts.try_set_count(3).await?;
/// for _part in 0..3 {
///     let parts = client.count_down_latch("import:7:parts");
///     tokio::spawn(async move { parts.count_down().await });
/// }
/// parts.wait(Duration::from_secs(10)).await?;
/// # Ok(())
/// # }
/// ```
pub struct CountDownLatch {
    inner: Synchronizer,
}

impl CountDownLatch {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        CountDownLatch { inner }
    }

    /// How often a waiter of this value asks, in case a message was lost. Default:
    /// [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll). From 10 ms to 60 s.
    ///
    /// One waiter of the client asks for all. A bad value is refused by the first call.
    #[must_use = "the latch is moved into the returned value"]
    pub fn with_safety_poll(mut self, every: Duration) -> Self {
        self.inner.settings.own_mut().safety_poll = Some(every);
        self
    }

    /// Sets the count, unless there is one already; false then.
    ///
    /// A count of zero sets nothing: a latch that was never set is open.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer
    /// within a command time-out, [`Error::Closed`] after shutdown, [`Error::Config`] for a bad name.
    pub async fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        if count == 0 {
            // A count of zero would stay for ever, and no other count could be set.
            return Ok(self.count().await? == 0);
        }
        let publish = self.inner.publish();
        let call = |resource: &_, reply_key| {
            counter::set(resource, publish, count.into(), "1", None, reply_key)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Lowers the count by one, never below zero; at zero all waiters go on. Returns the new count.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_count`](CountDownLatch::try_set_count).
    pub async fn count_down(&self) -> Result<i64, Error> {
        let publish = self.inner.publish();
        self.inner
            .change(|resource, reply_key| latch::count_down(resource, publish, reply_key), number)
            .await
    }

    /// The count; 0 if it was never set.
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
    /// As [`try_set_count`](CountDownLatch::try_set_count).
    pub async fn count(&self) -> Result<i64, Error> {
        self.inner.ask(latch::count, number).await
    }

    /// Waits until the count is zero, at most `wait`.
    ///
    /// A `wait` of zero asks once; [`Duration::MAX`] waits as long as it takes.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`CountDownLatch`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Timeout`] if the count was not zero for all of the wait. [`Error::Unavailable`] if
    /// Redis could not be asked, [`Error::Protocol`] if Redis refuses the call. [`Error::Closed`] after
    /// shutdown, [`Error::Config`] for a bad name.
    pub async fn wait(&self, wait: Duration) -> Result<(), Error> {
        let request = self.inner.request(Wait::from(wait), Lease::Renewed)?;
        crate::session::acquire::wait_open(&self.inner.handle, request).await
    }

    /// Removes the latch and lets all waiters go on, Java's too; false if there was no latch.
    ///
    /// This differs from Redisson, whose `delete` leaves the waiters waiting.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the change is made or it is not.
    ///
    /// # Errors
    ///
    /// As [`try_set_count`](CountDownLatch::try_set_count).
    pub async fn delete(&self) -> Result<bool, Error> {
        let publish = self.inner.publish();
        self.inner.ask(|resource| latch::delete(resource, publish), yes_or_no).await
    }

    /// The name as it was given; empty if the name was refused.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

impl fmt::Debug for CountDownLatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CountDownLatch").field("name", &self.name()).finish_non_exhaustive()
    }
}
