//! How many copies of a grant must exist before it counts.

use std::time::Duration;

use crate::error::ConfigError;

/// How many copies of a grant must exist before it counts; see
/// [`ClientBuilder::durability`](crate::ClientBuilder::durability).
///
/// # Examples
///
/// ```
/// use std::time::Duration;
///
/// use leasehold::Client;
/// use leasehold::settings::Durability;
///
/// let url = "redis-sentinel://sentinel-1,sentinel-2,sentinel-3/locks";
/// let durability = Durability::replicas(1).within(Duration::from_millis(200));
/// let builder = Client::builder(url).durability(durability);
/// # let _ = builder;
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it does nothing until a builder has it"]
pub struct Durability {
    /// The number of copies that must exist.
    pub(crate) replicas: u32,
    within: Duration,
}

const WITHIN_DEFAULT: Duration = Duration::from_millis(500);
const REPLICAS_MAX: u32 = 1_000;

impl Durability {
    /// No replica needs a copy: a server that takes the command answers at once.
    pub(crate) const NONE: Durability = Durability {
        replicas: 0,
        within: Duration::from_millis(1),
    };

    /// `number` replicas have the grant in memory (`WAIT`).
    ///
    /// A failover to one of these replicas loses nothing. A failover to another replica does.
    pub fn replicas(number: u32) -> Self {
        Durability {
            replicas: number,
            within: WITHIN_DEFAULT,
        }
    }

    /// Sets how long the copies may take. Default: 500 ms. At least 1 ms, and less than the command
    /// timeout.
    pub fn within(mut self, span: Duration) -> Self {
        self.within = span;
        self
    }

    pub(crate) fn checked(self, command_timeout: Duration) -> Result<Self, ConfigError> {
        let least = Duration::from_millis(1);
        if self.within < least || self.within >= command_timeout {
            return Err(ConfigError::out_of_range(
                "within of durability",
                format!("{:?}", self.within),
                format!("{least:?} to less than the command_timeout {command_timeout:?}"),
            ));
        }
        if !(1..=REPLICAS_MAX).contains(&self.replicas) {
            let (what, allowed) = ("replicas of durability", format!("1 to {REPLICAS_MAX}"));
            return Err(ConfigError::out_of_range(what, self.replicas, allowed));
        }
        Ok(self)
    }

    /// The command that waits for the copies.
    pub(crate) fn command(self) -> [String; 3] {
        let within = self.within.as_millis();
        ["WAIT".into(), self.replicas.to_string(), within.to_string()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_that_no_server_can_keep_are_refused() {
        let second = Duration::from_secs(1);
        let refused = [
            Durability::replicas(0),
            Durability::replicas(1_001),
            Durability::replicas(1).within(Duration::ZERO),
            Durability::replicas(1).within(second),
        ];
        for durability in refused {
            assert!(durability.checked(second).is_err(), "{durability:?}");
        }
        assert!(
            Durability::replicas(1_000)
                .within(second / 2)
                .checked(second)
                .is_ok()
        );
    }
}
