//! Settings of one lock value that replace those of its client.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use crate::clock::Clock;
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::lease::Lease;
use crate::protocol::description::TEXT_MAX;
use crate::protocol::kind::Kind;
use crate::telemetry::Telemetry;
use crate::wake::Wake;

/// The settings of a session, which the builder has checked.
#[derive(Clone, Debug)]
pub(crate) struct Settings {
    pub(crate) lease: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) key_prefix: String,
    pub(crate) streak: Streak,
    pub(crate) safety_poll: Duration,
    pub(crate) wake: Wake,
    /// How long a waiter of a fair lock keeps its place without a sign of life.
    pub(crate) fair_claim: Duration,
    /// The clock that counts leases.
    pub(crate) clock: Clock,
    /// How many copies a grant and a renewal need before they count.
    pub(crate) durability: Option<Durability>,
    pub(crate) telemetry: Telemetry,
    /// The client's name.
    pub(crate) name: Option<Arc<str>>,
    /// Describe all holds, or only those that have a purpose.
    pub(crate) describe_holds: bool,
}

/// How long one client may keep a lock among its own waiters before others get their turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Streak {
    /// Hand-overs in a row; zero switches them off.
    pub(crate) count: u32,
    pub(crate) time: Duration,
}

/// How often the safety poll may check the names with waiters.
pub(crate) const SAFETY_POLL: RangeInclusive<Duration> =
    Duration::from_millis(10)..=Duration::from_secs(60);

/// How long a polling waiter may pause.
const RETRY_PAUSE: RangeInclusive<Duration> = Duration::from_millis(1)..=Duration::from_secs(60);

/// The settings of one lock value, as they were given. `None` means the default of the client or
/// the kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct LockSettings {
    pub(crate) lease: Option<Duration>,
    pub(crate) safety_poll: Option<Duration>,
    /// How often a waiter asks again before it gives up.
    pub(crate) retry_count: Option<u32>,
    /// The first and the longest pause of a polling waiter.
    pub(crate) retry_pause: Option<(Duration, Duration)>,
    /// The total number of permits of a semaphore.
    pub(crate) limit: Option<u32>,
}

impl LockSettings {
    /// Checks the settings for a single lock, a semaphore or a latch of this kind.
    pub(crate) fn check(&self, kind: Kind) -> Result<(), ConfigError> {
        if let Some(lease) = self.lease {
            Lease::renewable("with_lease", lease)?;
        }
        if let Some(every) = self.safety_poll {
            in_range("with_safety_poll", every, &SAFETY_POLL)?;
            if kind == Kind::Fair {
                let reason = "a heartbeat looks after its waiters: see `ClientBuilder::fair_claim`";
                return Err(not_for(kind, "with_safety_poll", reason));
            }
        }
        if self.limit == Some(0) {
            let allowed = format!("1 to {}", u32::MAX);
            return Err(ConfigError::out_of_range("with_limit", 0, allowed));
        }
        match self.check_retries()? {
            Some(setting) if kind.wait_mode().listens() => Err(not_for(kind, setting, LISTENS)),
            Some(_) | None => Ok(()),
        }
    }

    /// Checks the settings for polling waiters. Returns the name of one of them, if any is set.
    pub(crate) fn check_retries(&self) -> Result<Option<&'static str>, ConfigError> {
        let Some((first, longest)) = self.retry_pause else {
            return Ok(self.retry_count.map(|_| "with_retry_count"));
        };
        in_range("first pause of with_retry_pause", first, &RETRY_PAUSE)?;
        let allowed = first..=*RETRY_PAUSE.end();
        in_range("longest pause of with_retry_pause", longest, &allowed)?;
        Ok(Some("with_retry_pause"))
    }

    /// The lease of renewed holds.
    pub(crate) fn lease(&self, of_client: &Settings) -> Duration {
        // `check` has refused an invalid lease before.
        let own = self
            .lease
            .and_then(|lease| Lease::renewable("with_lease", lease).ok());
        own.unwrap_or(of_client.lease)
    }

    pub(crate) fn safety_poll(&self, of_client: &Settings) -> Duration {
        self.safety_poll.unwrap_or(of_client.safety_poll)
    }
}

const LISTENS: &str = "its waiters listen, and a message says when to ask";

fn not_for(kind: Kind, setting: &'static str, reason: &'static str) -> ConfigError {
    ConfigError::Setting {
        setting,
        kind: kind.to_string(),
        reason,
    }
}

/// Refuses a span outside its range.
pub(crate) fn in_range(
    what: &'static str,
    given: Duration,
    allowed: &RangeInclusive<Duration>,
) -> Result<(), ConfigError> {
    if allowed.contains(&given) {
        return Ok(());
    }
    let allowed = format!("{:?} to {:?}", allowed.start(), allowed.end());
    Err(ConfigError::out_of_range(
        what,
        format!("{given:?}"),
        allowed,
    ))
}

/// Checks a text that other clients show to people.
pub(crate) fn checked_text(what: &'static str, text: &str) -> Result<(), ConfigError> {
    let fits = (1..=TEXT_MAX).contains(&text.len());
    if fits && !text.chars().any(char::is_control) {
        return Ok(());
    }
    let start = text.chars().take(64);
    let given: String = start.flat_map(char::escape_debug).collect();
    let allowed = format!("1 to {TEXT_MAX} bytes without control characters");
    Err(ConfigError::out_of_range(what, given, allowed))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TICK: Duration = Duration::from_nanos(1);

    fn ms(span: u64) -> Duration {
        Duration::from_millis(span)
    }

    fn refused(settings: LockSettings, kind: Kind) -> Option<String> {
        settings.check(kind).err().map(|error| error.to_string())
    }

    #[test]
    fn spans_have_the_limits_of_the_client() {
        type Set = fn(Duration) -> LockSettings;
        let none = LockSettings::default;
        assert_eq!(refused(none(), Kind::Lock), None);
        let table: [(&str, Set, Duration, Duration); 4] = [
            (
                "with_lease",
                |span| LockSettings {
                    lease: Some(span),
                    ..LockSettings::default()
                },
                ms(100),
                Lease::MAX,
            ),
            (
                "with_safety_poll",
                |span| LockSettings {
                    safety_poll: Some(span),
                    ..LockSettings::default()
                },
                ms(10),
                ms(60_000),
            ),
            (
                "first pause of with_retry_pause",
                |span| LockSettings {
                    retry_pause: Some((span, ms(60_000))),
                    ..LockSettings::default()
                },
                ms(1),
                ms(60_000),
            ),
            (
                "longest pause of with_retry_pause",
                |span| LockSettings {
                    retry_pause: Some((ms(20), span)),
                    ..LockSettings::default()
                },
                ms(20),
                ms(60_000),
            ),
        ];
        for (setting, set, least, most) in table {
            for fits in [least, most] {
                assert_eq!(
                    refused(set(fits), Kind::String),
                    None,
                    "{setting}: {fits:?}"
                );
            }
            for given in [
                Duration::ZERO,
                least.saturating_sub(TICK),
                most + TICK,
                Duration::MAX,
            ] {
                let text = refused(set(given), Kind::String).expect(setting);
                for part in [
                    setting,
                    &format!("`{given:?}`"),
                    &format!("{least:?} to {most:?}"),
                ] {
                    assert!(text.contains(part), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_setting_without_meaning_for_a_kind_is_refused() {
        let count = LockSettings {
            retry_count: Some(0),
            ..LockSettings::default()
        };
        let pause = LockSettings {
            retry_pause: Some((ms(1), ms(1))),
            ..LockSettings::default()
        };
        let poll = LockSettings {
            safety_poll: Some(ms(10)),
            ..LockSettings::default()
        };
        for kind in [Kind::Spin, Kind::String] {
            for settings in [count, pause, poll] {
                assert_eq!(refused(settings, kind), None, "{kind}");
            }
        }
        for kind in [
            Kind::Lock,
            Kind::Fair,
            Kind::Fenced,
            Kind::Read,
            Kind::Write,
        ] {
            for (settings, name) in [(count, "with_retry_count"), (pause, "with_retry_pause")] {
                let text = refused(settings, kind).expect("refused");
                assert!(
                    text.contains(name) && text.contains(&kind.to_string()),
                    "{text}"
                );
            }
            assert_eq!(refused(poll, kind).is_some(), kind == Kind::Fair, "{kind}");
        }
    }
}
