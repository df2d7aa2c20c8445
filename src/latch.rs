//! The count-down latch, which callers wait for but never hold.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use crate::error::Error;
use crate::lease::Lease;
use crate::protocol::counter::{self, number};
use crate::protocol::latch;
use crate::protocol::replies::yes_or_no;
use crate::session::poll_watch::Wait;
use crate::synchronizer::Synchronizer;

/// A distributed count whose waiters go on when it reaches zero, shared with Redisson's
/// `RCountDownLatch`.
///
/// Await the latch to wait as long as it takes, or call [`wait`](CountDownLatch::wait) to wait for
/// some time.
///
/// A latch that was never set is open. Waiters listen for a message and poll about once a second,
/// so a waiter that comes late or misses a message does not hang.
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
/// `w` is the number of times that the waiter is woken.
///
/// # Keys
///
/// The string at the name and the channel `redisson_countdownlatch__channel__{name}`, both as in
/// Redisson.
///
/// The reply to a change of the count is kept at `leasehold_reply:{name}:<id>`, for 30 s or four
/// command timeouts, whichever is longer. A client has one such key for each change in flight, and
/// reuses it.
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
#[derive(Clone, Debug)]
#[must_use = "nobody waits for a latch until it is awaited, or `wait` is"]
pub struct CountDownLatch {
    inner: Synchronizer,
}

impl CountDownLatch {
    pub(crate) fn new(inner: Synchronizer) -> Self {
        CountDownLatch { inner }
    }

    /// Sets how often waiters of this value poll, in case a message was lost. Default:
    /// [`ClientBuilder::safety_poll`](crate::ClientBuilder::safety_poll). From 10 ms to 60 s.
    ///
    /// One waiter of the client polls for all of them. The first call refuses a bad value.
    #[must_use = "the latch is moved into the returned value"]
    pub fn with_safety_poll(mut self, every: Duration) -> Self {
        self.inner.settings.safety_poll = Some(every);
        self
    }

    /// Sets the count if there is none yet; returns false if there is one.
    ///
    /// A count of zero sets nothing, because a latch that was never set is open.
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
    pub async fn try_set_count(&self, count: u32) -> Result<bool, Error> {
        if count == 0 {
            // A stored zero would stay forever, and no other count could be set.
            return Ok(self.count().await? == 0);
        }
        let call = |resource: &_, publish, reply_key| {
            counter::set(resource, publish, count.into(), "1", None, reply_key)
        };
        self.inner.change(call, yes_or_no).await
    }

    /// Lowers the count by one, but not below zero, and returns the new count. At zero, all waiters
    /// go on.
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
    pub async fn count_down(&self) -> Result<i64, Error> {
        self.inner.change(latch::count_down, number).await
    }

    /// Returns the count; 0 if it was never set.
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
    pub async fn count(&self) -> Result<i64, Error> {
        let call = |resource: &_, _publish| latch::count(resource);
        self.inner.ask(call, number).await
    }

    /// Waits until the count is zero, for at most `wait`.
    ///
    /// A `wait` of zero asks once. [`Duration::MAX`] waits as long as it takes.
    ///
    /// # Redis cost
    ///
    /// See the table on [`CountDownLatch`].
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Timeout`]: the count did not reach zero within `wait`.
    /// - [`Error::Unavailable`]: Redis could not be asked.
    /// - [`Error::Protocol`]: Redis refused the call.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    /// - [`Error::Config`]: the name or a setting cannot be used.
    pub async fn wait(&self, wait: Duration) -> Result<(), Error> {
        let request = self.inner.request(Wait::from(wait), Lease::Renewed)?;
        crate::session::acquire::wait_open(&self.inner.handle, request).await
    }

    /// Removes the latch and lets all waiters go on, including Java's; returns false if there was
    /// no latch.
    ///
    /// Redisson differs: its `delete` leaves the waiters waiting.
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
    pub async fn delete(&self) -> Result<bool, Error> {
        self.inner.ask(latch::delete, yes_or_no).await
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}

/// Awaiting a latch waits until its count is zero, as long as it takes: [`CountDownLatch::wait`].
impl IntoFuture for CountDownLatch {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.wait(Duration::MAX).await })
    }
}

/// Awaiting a latch waits until its count is zero, as long as it takes: [`CountDownLatch::wait`].
impl<'a> IntoFuture for &'a CountDownLatch {
    type Output = Result<(), Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.wait(Duration::MAX))
    }
}
