//! The count-down latch with blocking methods.

use std::time::Duration;

use super::driver::Driver;

/// A distributed count whose waiters go on when it reaches zero. See
/// [`CountDownLatch`](crate::CountDownLatch).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// use std::thread;
/// use std::time::Duration;
///
/// let client = leasehold::blocking::Client::embedded();
/// let parts = client.count_down_latch("import:7:parts");
/// parts.try_set_count(3)?;
/// for _part in 0..3 {
///     let parts = client.count_down_latch("import:7:parts");
///     thread::spawn(move || parts.count_down());
/// }
/// parts.wait(Duration::from_secs(10))?;
/// # Ok::<(), leasehold::Error>(())
/// ```
#[derive(Debug)]
pub struct CountDownLatch {
    inner: crate::CountDownLatch,
    driver: Driver,
}

impl CountDownLatch {
    pub(super) fn new(inner: crate::CountDownLatch, driver: &Driver) -> Self {
        CountDownLatch {
            inner,
            driver: driver.clone(),
        }
    }

    settings! {
        /// Like [`CountDownLatch::with_safety_poll`](crate::CountDownLatch::with_safety_poll). Does not block.
        with_safety_poll(every: Duration);
    }

    blocking_calls! {
        /// Blocks the thread; otherwise like [`CountDownLatch::try_set_count`](crate::CountDownLatch::try_set_count).
        try_set_count(count: u32) -> bool;
        /// Blocks the thread; otherwise like [`CountDownLatch::count_down`](crate::CountDownLatch::count_down).
        count_down() -> i64;
        /// Blocks the thread; otherwise like [`CountDownLatch::count`](crate::CountDownLatch::count).
        count() -> i64;
        /// Blocks the thread; otherwise like [`CountDownLatch::wait`](crate::CountDownLatch::wait).
        wait(wait: Duration) -> ();
        /// Blocks the thread; otherwise like [`CountDownLatch::delete`](crate::CountDownLatch::delete).
        delete() -> bool;
    }

    /// The name of this value; empty if the name is not allowed.
    pub fn name(&self) -> &str {
        self.inner.name()
    }
}
