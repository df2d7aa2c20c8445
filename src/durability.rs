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
    replicas: u32,
    fsync: Fsync,
    within: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fsync {
    No,
    /// On the replicas only.
    Replicas,
    PrimaryAndReplicas,
}

const WITHIN_DEFAULT: Duration = Duration::from_millis(500);
const REPLICAS_MAX: u32 = 1_000;

impl Durability {
    /// `number` replicas have the grant in memory (`WAIT`).
    ///
    /// A failover to one of these replicas loses nothing. A failover to another replica does.
    pub fn replicas(number: u32) -> Self {
        Durability {
            replicas: number,
            fsync: Fsync::No,
            within: WITHIN_DEFAULT,
        }
    }

    /// The primary and `replicas` replicas have the grant on disk (`WAITAOF`: Redis 7.2 and Valkey).
    ///
    /// A restart loses nothing. All these servers must run with `appendonly yes`.
    pub fn on_disk(replicas: u32) -> Self {
        Durability {
            replicas,
            fsync: Fsync::PrimaryAndReplicas,
            within: WITHIN_DEFAULT,
        }
    }

    /// `number` replicas have the grant on disk (`WAITAOF`). The disk of the primary does not count.
    pub fn on_disk_of_replicas(number: u32) -> Self {
        Durability {
            replicas: number,
            fsync: Fsync::Replicas,
            within: WITHIN_DEFAULT,
        }
    }

    /// Sets how long the copies may take. Default: 500 ms. At least 1 ms, and less than the command timeout.
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
        if self.replicas > REPLICAS_MAX || self.wanted() == 0 {
            let (what, allowed) = ("replicas of durability", format!("1 to {REPLICAS_MAX}"));
            return Err(ConfigError::out_of_range(what, self.replicas, allowed));
        }
        Ok(self)
    }

    /// The number of copies that must exist.
    pub(crate) fn wanted(self) -> u32 {
        self.replicas + self.on_primary()
    }

    /// How many of them are on the primary's own disk: none or one.
    pub(crate) fn on_primary(self) -> u32 {
        u32::from(self.fsync == Fsync::PrimaryAndReplicas)
    }

    /// Whether copies in memory are not enough.
    pub(crate) fn needs_disk(self) -> bool {
        self.fsync != Fsync::No
    }

    /// The same, but no replica needs a copy: a server that takes the command answers at once.
    pub(crate) fn without_replicas(self) -> Self {
        Durability {
            replicas: 0,
            within: Duration::from_millis(1),
            ..self
        }
    }

    /// The command that waits for the copies.
    pub(crate) fn command(self) -> Vec<String> {
        let (replicas, within) = (
            self.replicas.to_string(),
            self.within.as_millis().to_string(),
        );
        match self.fsync {
            Fsync::No => vec!["WAIT".into(), replicas, within],
            Fsync::Replicas | Fsync::PrimaryAndReplicas => {
                vec![
                    "WAITAOF".into(),
                    self.on_primary().to_string(),
                    replicas,
                    within,
                ]
            }
        }
    }

    /// The number of copies that exist, out of those that must.
    pub(crate) fn obtained(self, on_primary: i64, replicas: i64) -> u32 {
        let most = |number: i64, most: u32| u32::try_from(number).unwrap_or(0).min(most);
        most(on_primary, self.on_primary()) + most(replicas, self.replicas)
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
            Durability::on_disk(u32::MAX),
            Durability::on_disk_of_replicas(0),
            Durability::replicas(1).within(Duration::ZERO),
            Durability::replicas(1).within(second),
        ];
        for durability in refused {
            assert!(durability.checked(second).is_err(), "{durability:?}");
        }
        assert!(
            Durability::on_disk(0).checked(second).is_ok(),
            "the primary's disk alone"
        );
        assert!(
            Durability::replicas(1_000)
                .within(second / 2)
                .checked(second)
                .is_ok()
        );
    }

    #[test]
    fn each_form_is_a_command_and_counts_its_copies() {
        let words = |durability: Durability| durability.command().join(" ");
        assert_eq!(words(Durability::replicas(2)), "WAIT 2 500");
        assert_eq!(words(Durability::on_disk(1)), "WAITAOF 1 1 500");
        assert_eq!(words(Durability::on_disk_of_replicas(1)), "WAITAOF 0 1 500");
        assert_eq!(
            Durability::replicas(2).obtained(1, 3),
            2,
            "no more than wanted"
        );
        assert_eq!(
            Durability::on_disk(1).obtained(0, 5),
            1,
            "the primary's disk is missing"
        );
    }
}
