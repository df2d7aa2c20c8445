//! Whether holds pass between the waiters of one client without Redis.

use std::time::Duration;

/// May a released hold pass to the next waiter of the same client without going through Redis?
///
/// A hand-over saves the waiter two round trips. The streak of hand-overs is bounded, so that waiters of
/// other clients get their turn: after it the lock is released, and when it has had its turn, this client lets
/// others go first, for longer the further away they are.
///
/// # Examples
///
/// A client whose locks are fair to other clients rather than fast for its own waiters:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{EmbeddedRedis, LocalHandover};
///
/// let builder = EmbeddedRedis::new().builder(); // or Client::builder("redis://127.0.0.1:6379")
/// let _client = builder.local_handover(LocalHandover::Off).connect().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalHandover {
    /// Every release goes to Redis.
    Off,
    /// At most `count` hand-overs in a row, all within `time`. A count or a time of zero is
    /// [`Off`](LocalHandover::Off).
    Streak {
        /// Hand-overs in a row. Raising it favours this client's waiters over those of others.
        count: u32,
        /// Time from the first acquisition of the streak.
        time: Duration,
    },
}

impl Default for LocalHandover {
    fn default() -> Self {
        LocalHandover::Streak { count: 256, time: Duration::from_millis(5) }
    }
}
