//! Whether holds pass between the waiters of one client without Redis.

use std::time::Duration;

use crate::session::settings::Streak;

/// Whether a released hold may pass to the next waiter of the same client without going through
/// Redis.
///
/// A hand-over saves the waiter two round trips. Hand-overs in a row are limited, so that waiters
/// of other clients get their turn. After such a streak the lock is released. When the client has
/// had its turn, it lets other clients go first, for longer if they are farther away.
///
/// # Examples
///
/// A client that favours fairness between clients over speed for its own waiters:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::EmbeddedRedis;
/// use leasehold::settings::LocalHandover;
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
    /// At most `count` hand-overs in a row, all within `time`. A count or time of zero means
    /// [`Off`](LocalHandover::Off).
    Streak {
        /// Hand-overs in a row. A higher count favours the waiters of this client over those of
        /// others.
        count: u32,
        /// The time since the first acquisition of the streak.
        time: Duration,
    },
}

impl Default for LocalHandover {
    fn default() -> Self {
        LocalHandover::Streak {
            count: 256,
            time: Duration::from_millis(5),
        }
    }
}

impl LocalHandover {
    pub(in crate::client) fn streak(self) -> Streak {
        let (count, time) = match self {
            LocalHandover::Off => (0, Duration::ZERO),
            LocalHandover::Streak { count, time } => (count, time),
        };
        Streak { count, time }
    }
}
