//! What happens to holds when a primary fails over.

use std::time::Duration;

use crate::durability::Durability;
use crate::error::ConfigError;

/// What happens to holds when a primary fails over; see [`ClientBuilder::failover`](crate::ClientBuilder::failover).
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
