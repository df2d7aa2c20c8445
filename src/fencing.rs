//! The number that a fenced lock hands out with each acquisition.

use std::fmt;

/// A number that grows with every acquisition of a fenced lock.
///
/// The resource remembers the highest token that it has seen and refuses lower ones. Then a holder that was
/// paused beyond its lease can do no harm. [Fencing](crate::guide::fencing) has patterns for SQL and for object stores.
/// [`Client::set_fenced`](crate::Client::set_fenced) and [`FencedValue`](crate::FencedValue) do it in Redis.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{EmbeddedRedis, Error};
///
/// let redis = EmbeddedRedis::new();
/// let (slow, fast) = (redis.client(), redis.client());
/// let paused = slow.fenced_lock("report").lock().await?;
/// redis.lose("report"); // the lease ended during the pause
///
/// let guard = fast.fenced_lock("report").lock().await?;
/// fast.set_fenced("report:latest", guard.token(), "new").await?;
///
/// // The holder that was paused comes back and writes: the resource refuses it.
/// let refused = slow.set_fenced("report:latest", paused.token(), "old").await;
/// assert!(matches!(refused, Err(Error::StaleToken { .. })));
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FencingToken(i64);

impl FencingToken {
    /// Makes a token from its number, for code that got the number from the holder. The number is not
    /// checked.
    pub fn from_value(value: i64) -> Self {
        FencingToken(value)
    }

    /// The number. For a token from a lock, it is at least 1.
    pub fn value(self) -> i64 {
        self.0
    }
}

impl fmt::Display for FencingToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}
