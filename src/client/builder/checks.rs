//! The checked settings of a client.

use std::sync::Arc;
use std::time::Duration;

use super::ClientBuilder;
use crate::client_id::ClientId;
use crate::clock::{Clock, Counts};
use crate::error::ConfigError;
use crate::lease::Lease;
use crate::session::settings::{SAFETY_POLL, Settings, in_range};
use crate::transport::Timing;

const GRACE_MAX: Duration = Duration::from_secs(60 * 60);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
/// A server makes about a hundred TLS handshakes a second: a crowd that reconnects has to wait.
const CONNECT_TIMEOUT_TLS: Duration = Duration::from_secs(5);
/// How long a client may take to verify its holds, after it has noticed that its server is silent.
const NOTICE: Duration = Duration::from_millis(500);
const PREFIX_MAX: usize = 256;
/// The longest name in bytes: CLIENT LIST repeats it on a line for each connection.
const NAME_MAX: usize = 64;

impl ClientBuilder {
    fn clock(&self) -> Clock {
        let clock = Clock::new(if self.streams.are_of_an_engine() {
            Counts::TimerTime
        } else {
            Counts::AllTime
        });
        #[cfg(feature = "test-util")]
        let clock = clock.on(&self.machine);
        clock
    }

    pub(in crate::client) fn connection_name(&self, client_id: ClientId) -> String {
        format!(
            "{}:{client_id}",
            self.name.as_deref().unwrap_or("leasehold")
        )
    }

    pub(in crate::client) fn timing(&self) -> Timing {
        let timing = Timing {
            command: self.command_timeout,
            connect: self.time_to_connect(),
            grace: Duration::ZERO,
        };
        let default = timing.silence() + NOTICE;
        let grace = self.failover_grace.unwrap_or(default);
        Timing { grace, ..timing }
    }

    fn time_to_connect(&self) -> Duration {
        let is_secured = matches!(&self.deployment, Ok(deployment) if deployment.is_secured());
        let default = if is_secured {
            CONNECT_TIMEOUT_TLS
        } else {
            CONNECT_TIMEOUT_DEFAULT
        };
        self.connect_timeout.unwrap_or(default)
    }

    pub(in crate::client) fn settings(&self) -> Result<Settings, ConfigError> {
        self.check()?;
        let durability = self
            .durability
            .map(|durability| durability.checked(self.command_timeout))
            .transpose()?;
        Ok(Settings {
            lease: Lease::checked("lease", self.lease)?,
            command_timeout: self.command_timeout,
            key_prefix: self.key_prefix.clone(),
            streak: self.handover.streak(),
            safety_poll: self.safety_poll,
            wake: self.wake,
            fair_claim: self.fair_claim,
            clock: self.clock(),
            durability,
            telemetry: self.telemetry.clone(),
            name: self.name.as_deref().map(Arc::from),
            describe_holds: self.describe_holds,
        })
    }

    fn check(&self) -> Result<(), ConfigError> {
        let minute = Duration::from_secs(60);
        let short = Duration::from_millis(10)..=minute;
        in_range(
            "lease",
            self.lease,
            &(Duration::from_millis(100)..=Lease::MAX),
        )?;
        in_range("command_timeout", self.command_timeout, &short)?;
        in_range("connect_timeout", self.time_to_connect(), &short)?;
        in_range("safety_poll", self.safety_poll, &SAFETY_POLL)?;
        in_range(
            "fair_claim",
            self.fair_claim,
            &(Duration::from_millis(100)..=minute),
        )?;
        if let Some(grace) = self.failover_grace {
            in_range("failover_grace", grace, &(Duration::ZERO..=GRACE_MAX))?;
        }
        if self.key_prefix.len() > PREFIX_MAX {
            return Err(ConfigError::OutOfRange {
                what: "length of key_prefix",
                given: self.key_prefix.len().to_string(),
                allowed: format!("0 to {PREFIX_MAX}"),
            });
        }
        if let Some(name) = &self.name {
            let fits = (1..=NAME_MAX).contains(&name.len());
            if !fits || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(ConfigError::OutOfRange {
                    what: "name",
                    given: name.chars().take(NAME_MAX).collect(),
                    allowed: format!("1 to {NAME_MAX} printable ASCII characters without blanks"),
                });
            }
        }
        self.check_access()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;
    use crate::client::Client;
    use crate::error::Error;

    fn builder() -> ClientBuilder {
        ClientBuilder::new("redis://127.0.0.1")
    }

    #[test]
    fn every_span_has_limits_and_is_refused_with_value_and_limits() {
        type Set = fn(ClientBuilder, Duration) -> ClientBuilder;
        let (ms, tick) = (Duration::from_millis, Duration::from_nanos(1));
        let table: [(&str, Set, Duration, Duration); 5] = [
            ("lease", ClientBuilder::lease, ms(100), Lease::MAX),
            (
                "command_timeout",
                ClientBuilder::command_timeout,
                ms(10),
                ms(60_000),
            ),
            (
                "connect_timeout",
                ClientBuilder::connect_timeout,
                ms(10),
                ms(60_000),
            ),
            (
                "safety_poll",
                ClientBuilder::safety_poll,
                ms(10),
                ms(60_000),
            ),
            ("fair_claim", ClientBuilder::fair_claim, ms(100), ms(60_000)),
        ];
        for (setting, set, least, most) in table {
            for fits in [least, most] {
                assert!(
                    set(builder(), fits).settings().is_ok(),
                    "{setting}: {fits:?}"
                );
            }
            for given in [
                Duration::ZERO,
                tick,
                least.saturating_sub(tick),
                most + tick,
                Duration::MAX,
            ] {
                let text = set(builder(), given)
                    .settings()
                    .expect_err(setting)
                    .to_string();
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
    fn a_prefix_that_is_too_long_is_refused() {
        assert!(builder().key_prefix("p".repeat(256)).settings().is_ok());
        let refused = builder()
            .key_prefix("p".repeat(257))
            .settings()
            .expect_err("too long");
        assert!(refused.to_string().contains("257"), "{refused}");
    }

    #[test]
    fn a_name_is_one_word_that_can_be_shown() {
        for fits in ["billing@pod-7", "!", &"~".repeat(64)] {
            assert!(builder().name(fits).settings().is_ok(), "{fits}");
        }
        for given in [
            "",
            "two words",
            "line\n",
            "\t",
            "\u{7f}",
            "bill\u{ef}ng",
            &"n".repeat(65),
        ] {
            let refused = builder()
                .name(given)
                .settings()
                .expect_err(given)
                .to_string();
            let allowed = "1 to 64 printable ASCII characters without blanks";
            assert!(
                refused.contains("name") && refused.contains(allowed),
                "{refused}"
            );
        }
    }

    #[test]
    fn without_a_runtime_connecting_says_so() {
        let refused = Client::connect("redis://127.0.0.1:1")
            .now_or_never()
            .expect("at once");
        assert_eq!(
            refused.err().map(|error| error.to_string()),
            Some(ConfigError::NoRuntime.to_string())
        );
        let refused = builder()
            .connect_in_background()
            .now_or_never()
            .expect("at once");
        assert!(matches!(
            refused,
            Err(Error::Config(ConfigError::NoRuntime))
        ));
    }
}
