//! Faults of the engine and of a client's connections: how likely and how slow. Everything random
//! is drawn from one seed.

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
        Delay {
            min: time,
            max: time,
        }
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

/// Which way bytes go.
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
    /// So many bytes arrive at once at most. Each chunk has a random size, independent of the frames.
    pub chunk_max: usize,
    /// How many bytes a direction holds before its reader has read them.
    pub capacity: usize,
    /// From the client to the server.
    pub request: Delay,
    /// From the server to the client.
    pub reply: Delay,
    /// What each connection adds to both directions, drawn once.
    pub uneven: Delay,
    /// After a chunk the next chunk is late by `hesitation`.
    pub hesitate: f64,
    /// How late.
    pub hesitation: Delay,
    /// The connection breaks within a chunk in flight to the server.
    pub cut_request: f64,
    /// The connection breaks within a chunk in flight to the client.
    pub cut_reply: f64,
    /// When a connection breaks, some of the bytes in flight to the client still arrive.
    pub torn_reply: f64,
    /// When a connection breaks, the first bytes (none up to all) in flight to the server still arrive,
    /// `late` after the break, and only then does the server notice. When its client closes the
    /// connection, all bytes in flight are as late.
    pub late_after_cut: f64,
    /// How late.
    pub late: Delay,
    /// When a client closes a connection, the last bytes (none up to all) in flight to the server
    /// vanish.
    pub lost_at_close: f64,
    /// A connection cannot be made.
    pub refuse_dial: f64,
    /// How long after a break no connection can be made.
    pub away: Delay,
    /// The server refuses a script before it runs it.
    pub refuse: f64,
    /// The server runs a script, and answers what no script gives.
    pub garble: f64,
    /// The server drops a subscriber with more unsent bytes than that.
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
