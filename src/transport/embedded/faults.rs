//! What may go wrong with the engine and with a client by calls: how likely, and how slow. All of it is
//! drawn from one seed.

use std::time::Duration;

/// A time drawn evenly between two ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl Delay {
    /// Always the same.
    pub fn fixed(time: Duration) -> Self {
        Delay { min: time, max: time }
    }

    /// Anything between the two.
    pub fn between(min: Duration, max: Duration) -> Self {
        Delay { min, max }
    }

    pub(crate) fn draw(self, rng: &mut fastrand::Rng) -> Duration {
        let spread = self.max.saturating_sub(self.min);
        if spread.is_zero() {
            return self.min;
        }
        self.min + spread.mul_f64(rng.f64())
    }
}

/// Whether the engine executes requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Runs,
    Paused,
}

/// What a restart leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// As after a restart with an append-only file.
    WithData,
    /// As after a failover to an empty replica.
    Empty,
}

/// Whether a reply or a message gets through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// As it should.
    Passes,
    /// It is sent, and never seen again.
    Vanishes,
    /// A reply arrives as no script gives it. A message arrives as it should.
    Garbled,
}

/// The faults of one client by calls. Chances are between 0 and 1; the default has no faults and no delays.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Faults {
    /// The server refuses the call (or subscription) before it runs it.
    pub refuse: f64,
    /// The request (or subscription) vanishes: not applied, no reply.
    pub lose_request: f64,
    /// Applied, but the reply vanishes.
    pub lose_reply: f64,
    /// The call is applied twice, one right after the other; the second reply is answered.
    pub duplicate: f64,
    /// The connection breaks right after a call was sent, and comes back after `reconnect`.
    /// `late_after_cut` decides whether the call is applied.
    pub break_line: f64,
    /// When a connection breaks, the server still runs the first few requests in flight (none up to all),
    /// `late` after the break.
    pub late_after_cut: f64,
    /// A published message vanishes without a notice.
    pub lose_message: f64,
    /// A published message vanishes, and the client knows that it missed something.
    pub lag: f64,
    /// From the client to the server.
    pub request: Delay,
    /// From the server to the client.
    pub reply: Delay,
    /// From the server to a subscriber.
    pub message: Delay,
    /// How late a request of a broken connection may run.
    pub late: Delay,
    /// How long a broken connection stays away.
    pub reconnect: Delay,
}
