//! How long temporary states may last, by weather and kind.

use std::time::Duration;

use crate::kind::Kind;
use crate::plan::{Plan, Weather, ms};

impl Plan {
    /// How long a lock may be free while somebody waits for it. In a storm, after the storm.
    pub(crate) fn prompt_within(&self) -> Option<Duration> {
        let soon = ms(250) + self.kept_unpolled();
        match (self.weather, self.kind) {
            // After a poll or two.
            (Weather::Lossy, Kind::Latch) => Some(ms(3500)),
            (Weather::Lossy | Weather::Minority, _) => None,
            (Weather::Storm, kind) if !kind.is_lock() => None,
            // A dead waiter of a fair lock keeps its place for a claim.
            (Weather::Crash, Kind::Multi) => Some(ms(900) + self.claim),
            // Each waiter polls for itself, after a pause.
            (_, Kind::Multi | Kind::Quorum) => Some(ms(800)),
            _ if self.reads_end_untold() => Some(soon + 2 * self.poll),
            // Until then, messages may be lost without notice.
            (Weather::Storm, _) if !self.hears => Some(soon + 2 * self.poll),
            // The place of a dead waiter lasts for a claim, and the next heartbeat finds that it is
            // over.
            (Weather::Crash, Kind::Fair) => Some(soon + self.claim + ms(20)),
            _ => Some(soon),
        }
    }

    /// Futures that nobody polls are cancelled one after the other. Each client has at most one.
    fn kept_unpolled(&self) -> Duration {
        let processes = u32::try_from(self.processes).expect("few");
        match self.kind {
            _ if !self.wild => ms(0),
            Kind::Fair => ms(130) * processes,
            _ => ms(130),
        }
    }

    /// When a client must have recovered after a storm: the longest pause of an outage, a command
    /// timeout, and the leases of holds that the server forgot.
    pub(crate) fn recovers_within(&self) -> Duration {
        match self.weather {
            Weather::Storm => ms(2000) + self.lease,
            _ => ms(0),
        }
    }

    /// By how much a wait may overrun, if that is known.
    pub(crate) fn slack(&self) -> Option<Duration> {
        let trip = 2 * (self.line.request.max + self.line.reply.max);
        let slack = match self.weather {
            Weather::Storm if !self.kind.is_lock() => return None,
            // Twice: the last reply, and leaving a queue.
            Weather::Storm => 2 * self.command_timeout,
            // The last reply is awaited for as long as replies usually take, at most for a command
            // timeout.
            Weather::Lossy if self.kind.is_lock() => self.command_timeout,
            // Plus the release of what was taken.
            Weather::Lossy | Weather::Minority => self.command_timeout + trip + ms(20),
            _ => trip,
        };
        Some(slack + ms(60))
    }

    /// True if waiters are served in the order in which they reached the engine.
    pub(crate) fn keeps_order(&self) -> bool {
        self.kind == Kind::Fair && self.weather != Weather::Storm
    }

    /// How long a hold without a guard may stay in Redis, if that is known.
    pub(crate) fn orphans_within(&self) -> Option<Duration> {
        match (self.weather, self.kind) {
            // A release grants to a waiter whose future nobody polls.
            (Weather::Calm | Weather::Busy | Weather::Lag, Kind::Fair) if self.wild => {
                Some(self.claim + ms(250))
            }
            (Weather::Calm | Weather::Busy | Weather::Lag, _) => Some(ms(250)),
            // A lost reply costs a command timeout, and an undo may lose some of its own.
            (Weather::Lossy, Kind::ReadWrite) => Some(ms(2500)),
            (Weather::Lossy, kind) if kind.is_lock() => Some(ms(5000)),
            (Weather::Lossy, _) => Some(ms(3000)),
            // They end with their leases. In a storm, a client that gets no reply asks again and
            // again.
            (_, kind) if kind.is_lock() => Some(self.lease + ms(250)),
            _ => None,
        }
    }

    /// How long a waiter may wait when nothing goes wrong.
    pub(crate) fn served_within(&self) -> Duration {
        let shares = self.kind == Kind::ReadWrite;
        match self.weather {
            // Clients that poll rarely cannot be let first, and readers pass waiting writers.
            Weather::Busy if self.kind.asks_within_ms().is_none() && !shares && !self.wild => {
                ms(1500)
            }
            _ => 4 * self.lease + ms(40_000),
        }
    }

    /// How long an undo may be repeated after the last fault: a lease. The reply to a change of a
    /// number is kept for half a minute, and as long a client remembers that others poll for a
    /// name.
    pub(crate) fn rests_within(&self) -> Duration {
        2 * self.lease + ms(50_000)
    }

    /// The longest pause of a server. A repeated change is recognized for at least half a minute.
    pub(crate) fn longest_pause(&self) -> Duration {
        if self.changes() || self.kind == Kind::Latch {
            ms(600)
        } else {
            Duration::MAX
        }
    }
}
