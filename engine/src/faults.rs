//! Faults of the engine and of a client's connections: how likely and how slow. Everything random
//! is drawn from one seed.

use std::time::Duration;

/// A random time, uniformly distributed between two bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Delay {
    /// The shortest.
    pub min: Duration,
    /// The longest.
    pub max: Duration,
}

impl Delay {
    /// Always the same time.
    pub fn fixed(time: Duration) -> Self {
        Delay {
            min: time,
            max: time,
        }
    }

    /// Any time between the two.
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

/// What is left after a restart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// Everything, like with an append-only file.
    WithData,
    /// Nothing, like after a failover to an empty replica.
    Empty,
}

/// The direction of bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Direction {
    /// From the client to the server.
    Requests,
    /// From the server to the client: replies and messages.
    Replies,
}

/// The faults of one client's connections. Chances are between 0 and 1; the default has no faults
/// and no delays.
#[derive(Clone, Debug, PartialEq)]
pub struct Faults {
    /// The largest number of bytes that arrive at once. Each chunk has a random size, independent
    /// of frames.
    pub chunk_max: usize,
    /// How many unread bytes fit into one direction.
    pub capacity: usize,
    /// From the client to the server.
    pub request: Delay,
    /// From the server to the client.
    pub reply: Delay,
    /// An additional delay of each connection in both directions, drawn once.
    pub uneven: Delay,
    /// The chance that the chunk after this one is late by `hesitation`.
    pub hesitate: f64,
    /// How late.
    pub hesitation: Delay,
    /// The chance that the connection breaks within a chunk in flight to the server.
    pub cut_request: f64,
    /// The chance that the connection breaks within a chunk in flight to the client.
    pub cut_reply: f64,
    /// The chance that some bytes in flight to the client still arrive when the connection breaks.
    pub torn_reply: f64,
    /// The chance that the first bytes (none to all) in flight to the server still arrive, `late`
    /// after the connection broke. Only then does the server notice the break. When the client
    /// closes the connection, all bytes in flight are as late.
    pub late_after_cut: f64,
    /// How late.
    pub late: Delay,
    /// The chance that the last bytes (none to all) in flight to the server vanish when a client
    /// closes a connection.
    pub lost_at_close: f64,
    /// The chance that a connection cannot be made.
    pub refuse_dial: f64,
    /// For how long no connection can be made after a break.
    pub away: Delay,
    /// The chance that the server refuses a script before running it.
    pub refuse: f64,
    /// The chance that the server runs a script and sends a reply that no script sends.
    pub garble: f64,
    /// The server disconnects a subscriber with more unsent bytes than this.
    pub output_max: usize,
}

impl Default for Faults {
    fn default() -> Self {
        Faults {
            chunk_max: usize::MAX,
            capacity: 64 * 1024,
            request: Delay::default(),
            reply: Delay::default(),
            uneven: Delay::default(),
            hesitate: 0.0,
            hesitation: Delay::default(),
            cut_request: 0.0,
            cut_reply: 0.0,
            torn_reply: 0.0,
            late_after_cut: 0.0,
            late: Delay::default(),
            lost_at_close: 0.0,
            refuse_dial: 0.0,
            away: Delay::default(),
            refuse: 0.0,
            garble: 0.0,
            // The default of Redis for subscribers.
            output_max: 32 * 1024 * 1024,
        }
    }
}
