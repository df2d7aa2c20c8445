//! What happens to holds when a primary fails over.

use std::time::Duration;

use crate::durability::Durability;
use crate::error::ConfigError;

/// What happens to holds when a primary fails over; see [`ClientBuilder::failover`](crate::ClientBuilder::failover).
///
/// # Examples
///
/// A hold outlives a failover to a replica that did not have it:
///
/// ```
/// use leasehold::EmbeddedRedis;
/// use leasehold::settings::Failover;
///
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let redis = EmbeddedRedis::new();
/// let builder = redis.builder().failover(Failover::Reclaim { replicas: 1 });
/// let client = builder.connect().await?;
/// client.lock("first").lock().await?.unlock().await?; // its session begins
///
/// redis.set_replicas(0);
/// let guard = client.lock("orders:42").lock().await?;
/// redis.fail_over();
/// redis.set_replicas(1);
///
/// let other = redis.client();
/// client.lock("another").lock().await?.unlock().await?; // after all have come back
/// assert!(other.lock("orders:42").is_locked().await?);
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Failover {
    /// Holders reclaim their locks at the new primary, and nobody else gets a lock there until they have.
    Reclaim {
        /// The number of replicas of each primary, which must be all that can be promoted: 1 to 1,000.
        replicas: u32,
    },
}

/// How long the copies of a registration may take.
const WITHIN: Duration = Duration::from_millis(500);

impl Failover {
    pub(crate) fn checked(self, command_timeout: Duration) -> Result<Self, ConfigError> {
        self.copies(command_timeout)
            .checked(command_timeout)
            .map(|_| self)
    }

    /// The copies that a registration needs.
    pub(crate) fn copies(self, command_timeout: Duration) -> Durability {
        let Failover::Reclaim { replicas } = self;
        Durability::replicas(replicas).within(WITHIN.min(command_timeout / 2))
    }
}
