//! When to stop a command whose lock is about to expire.

use std::time::Duration;

use crate::clock::Moment;
use crate::exit::Failure;

/// The longest default for the time between SIGTERM and SIGKILL.
const GRACE_MAX: Duration = Duration::from_secs(10);
/// The longest time between SIGKILL and the end of the lease.
const MARGIN_MAX: Duration = Duration::from_secs(1);

/// How long before the end of the lock each step is taken. The end is the instant until which the
/// lock is certainly held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub(crate) grace: Duration,
    pub(crate) margin: Duration,
}

impl Plan {
    /// For a lock that this process renews. Renewals must have enough time before the command is
    /// stopped.
    pub(super) fn of(lease: Duration, grace: Option<Duration>) -> Result<Plan, Failure> {
        let margin = (lease / 30).min(MARGIN_MAX);
        let grace = grace.unwrap_or((lease / 6).min(GRACE_MAX));
        if grace + margin > lease / 2 {
            let most = humantime::format_duration(whole_ms((lease / 2).saturating_sub(margin)));
            return Err(Failure::usage(format!(
                "--grace is more than {most}: with this --lease a renewal would come too late"
            )));
        }
        Ok(Plan { grace, margin })
    }

    /// For a lock that another process renews, with this much left of its lease.
    pub(super) fn of_rest(rest: Duration, grace: Option<Duration>) -> Plan {
        let margin = (rest / 30).min(MARGIN_MAX);
        let grace = grace.map_or((rest / 6).min(GRACE_MAX), |given| given.min(rest / 3));
        Plan { grace, margin }
    }

    /// When to send SIGTERM, unless a renewal moves the end before.
    pub(crate) fn stop_at(&self, until: Moment) -> Moment {
        until.before(self.margin + self.grace)
    }

    /// When to send SIGKILL.
    pub(crate) fn kill_at(&self, until: Moment) -> Moment {
        until.before(self.margin)
    }
}

/// As users read it.
pub(super) fn whole_ms(span: Duration) -> Duration {
    Duration::from_millis(u64::try_from(span.as_millis()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn a_renewal_has_enough_time_and_sigkill_comes_before_the_end() {
        for ms in [100, 1_000, 30_000, 600_000] {
            let lease = Duration::from_millis(ms);
            let plan = Plan::of(lease, None).expect("the default fits");
            let until = clock::now().after(lease);
            // A renewal is sent after a third of the lease.
            assert!(
                plan.stop_at(until) > until.before(lease / 3 * 2),
                "{plan:?}"
            );
            assert!(plan.stop_at(until) < plan.kill_at(until) && plan.kill_at(until) < until);
        }
    }

    #[test]
    fn a_grace_that_leaves_no_time_for_renewals_is_refused() {
        let lease = Duration::from_secs(30);
        assert!(Plan::of(lease, Some(Duration::from_secs(14))).is_ok());
        let refused = Plan::of(lease, Some(Duration::from_secs(15))).expect_err("too long");
        assert!(refused.text.contains("14s"), "{}", refused.text);
    }
}
