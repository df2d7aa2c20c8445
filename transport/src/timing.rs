//! The timeouts of the transport, and how often a connection is looked at.

use tokio::time::Duration;

/// The timeouts of the transport.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// For the reply to one call.
    pub command: Duration,
    /// For one connection attempt, from the answer to the look-up of the name to the reply to the
    /// first command.
    pub connect: Duration,
    /// For how long nothing is taken on a server that has just become the primary.
    pub grace: Duration,
}

const PROBE_MIN: Duration = Duration::from_millis(100);
const PROBE_MAX: Duration = Duration::from_secs(1);
const EAGER_MAX: Duration = Duration::from_secs(10);

impl Timing {
    /// How often a connection is looked at, and how many looks after a PING it is given up if
    /// nothing has come. Together they are not shorter than the timeout of a call. A PING is sent
    /// after two looks at which nothing had come.
    pub(crate) fn probe(&self) -> (Duration, u32) {
        let look = self.command.clamp(PROBE_MIN, PROBE_MAX) / 2;
        let looks = self.command.as_micros().div_ceil(look.as_micros());
        (
            look,
            u32::try_from(looks).unwrap_or(u32::MAX).max(LOOKS_MIN),
        )
    }

    /// For how long a lost server is tried often. Who has set a long grace waits for the end of the
    /// leases, and not for those that come back.
    pub(crate) fn eager(&self) -> Duration {
        self.grace.min(EAGER_MAX)
    }

    /// The longest silence until a connection is given up.
    pub fn silence(&self) -> Duration {
        let (look, looks) = self.probe();
        look.saturating_mul(looks.saturating_add(PING_AFTER + 1))
    }
}

/// The looks at which nothing has come, until a PING is sent.
pub(crate) const PING_AFTER: u32 = 2;

/// The looks after a PING, at least, until a connection is given up.
const LOOKS_MIN: u32 = 3;
