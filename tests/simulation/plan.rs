//! What one seed means: its kind, the number of clients, what they do, and what goes wrong.
//!
//! The order of the draws is part of the meaning of a seed: a new draw comes after the others, or
//! has its own stream.

use std::time::Duration;

use leasehold::test_util::Delay;
use leasehold_testbed::NOISE;

use crate::kind::{Cast, Kind};

/// The kinds of weather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
    /// No faults: everything must be prompt, and nothing may be left behind even for a moment.
    Calm,
    /// No faults, but one client that never yields on its own: others must get their turn.
    Busy,
    /// Messages are lost, and the client knows it: waiters must be as prompt as ever.
    Lag,
    /// Replies are lost: what was taken in doubt must be undone long before its lease ends.
    Lossy,
    /// Clients die without closing anything: their locks end with their leases, not later.
    Crash,
    /// At any time, less than half of the servers are down, slow or restarted.
    Minority,
    /// All of it: cuts, half-open links, restarts, evictions, clock jumps, frozen processes.
    Storm,
}

impl Weather {
    pub(crate) fn of(kind: Kind, seed: u64) -> Weather {
        use Weather::{Busy, Calm, Crash, Lag, Lossy, Minority, Storm};
        let all: &[Weather] = match kind {
            Kind::Quorum => &[Calm, Minority, Lossy, Crash, Storm],
            kind if kind.is_lock() => &[Calm, Busy, Lag, Lossy, Crash, Storm],
            _ => &[Calm, Lag, Lossy, Crash, Storm],
        };
        all[usize::try_from(seed).expect("64 bits") % all.len()]
    }
}

/// What makes the ledger of a synchronizer harder to keep. Not both at once, so that it can be
/// kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upset {
    /// The number of permits changes while they are used.
    Changes,
    /// Servers forget what they hold, or their clocks jump.
    Breaks,
}

/// How slow the connections of a client are.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) request: Delay,
    pub(crate) reply: Delay,
    /// How long no new connection can be made after one broke.
    pub(crate) away: Delay,
}

#[expect(clippy::struct_excessive_bools, reason = "each is drawn for itself")]
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) weather: Weather,
    /// Some users do rare things: force locks open, hand holds on, keep futures without polling
    /// them.
    pub(crate) wild: bool,
    /// No message is lost without notice, so the safety poll is not needed.
    pub(crate) hears: bool,
    pub(crate) engines: usize,
    /// Each process has one client for each engine.
    pub(crate) processes: usize,
    pub(crate) actors: usize,
    pub(crate) names: usize,
    /// The permits of a semaphore.
    pub(crate) permits: u32,
    pub(crate) upset: Option<Upset>,
    /// The servers' clocks run ahead, but within the margin of a lease.
    pub(crate) drifts: bool,
    /// The lease of renewed holds, and the longest fixed one.
    pub(crate) lease: Duration,
    /// Fixed leases are short, and users forget to check them.
    pub(crate) overrun: bool,
    pub(crate) poll: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) duration: Duration,
    pub(crate) line: Line,
    /// The claim of fair waiters.
    pub(crate) claim: Duration,
}

pub(crate) const fn ms(span: u64) -> Duration {
    Duration::from_millis(span)
}

pub(crate) fn in_ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).expect("short")
}

pub(crate) fn us(span: u64) -> Duration {
    Duration::from_micros(span)
}

pub(crate) fn name_of(number: usize) -> String {
    format!("name:{number}")
}

impl Plan {
    pub(crate) fn new(kind: Kind, seed: u64, cast: Cast) -> Self {
        let mut rng = kind.rng(seed, 0);
        let weather = Weather::of(kind, seed);
        let line = line(kind, &mut rng);
        let (engines, processes, actors, names) = numbers(kind, weather, &mut rng);
        let storm = weather == Weather::Storm;
        let mut plan = Plan {
            seed,
            kind,
            weather,
            wild: cast == Cast::Wild && kind.is_lock(),
            hears: if storm {
                kind.rng(seed, 0x8EA2).bool()
            } else {
                kind.is_lock() || weather != Weather::Lossy
            },
            engines,
            processes,
            actors,
            names,
            permits: 1,
            upset: (storm && kind.is_lock()).then_some(Upset::Breaks),
            drifts: false,
            lease: match (kind, weather) {
                (_, Weather::Lossy) => ms(20_000),
                (Kind::Quorum, _) => ms(rng.u64(1000..3000)),
                _ => ms(rng.u64(400..2500)),
            },
            overrun: rng.u8(0..3) == 0,
            poll: ms(500),
            command_timeout: ms(300),
            duration: match (kind.is_lock(), weather) {
                (true, Weather::Busy) => ms(3000),
                (true, _) => ms(rng.u64(4000..10_000)),
                (false, Weather::Lossy) => ms(rng.u64(6000..9000)),
                (false, _) => ms(rng.u64(3000..6000)),
            },
            line,
            // A lost reply costs a heartbeat, and enough of the claim must be left for the next
            // one.
            claim: ms(rng.u64(if weather == Weather::Lossy {
                1500..4000
            } else {
                200..2000
            })),
        };
        if plan.hears && weather != Weather::Lossy && !plan.reads_end_untold() {
            // If waiters must be prompt, the safety poll must not be the cause.
            plan.poll = ms(30_000);
        }
        if !kind.is_lock() {
            plan.permits = rng.u32(1..=6);
            plan.drifts = kind == Kind::Quorum && rng.bool();
            plan.upset = match rng.bool() {
                true => Some(Upset::Changes),
                false if matches!(weather, Weather::Storm | Weather::Minority) => {
                    Some(Upset::Breaks)
                }
                false => None,
            };
        }
        plan
    }

    pub(crate) fn changes(&self) -> bool {
        self.upset == Some(Upset::Changes)
    }

    pub(crate) fn breaks(&self) -> bool {
        self.upset == Some(Upset::Breaks)
    }

    /// True if nothing noticeable goes wrong.
    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.weather, Weather::Calm | Weather::Busy | Weather::Lag)
    }

    /// True if read holds may end with their leases. A release that leaves another reader with a
    /// shorter lease publishes nothing, so the safety poll finds the end of that lease.
    pub(crate) fn reads_end_untold(&self) -> bool {
        // A wild hold may be forgotten.
        self.kind == Kind::ReadWrite && (self.wild || self.overrun || !self.is_calm())
    }

    /// The longest fixed lease.
    pub(crate) fn fixed_lease_max(&self) -> Duration {
        if self.overrun {
            self.lease / 3
        } else {
            self.lease
        }
    }

    /// The names on a server: all of them, except that each member of a multi lock is on one
    /// server.
    pub(crate) fn names_on(&self, engine: usize) -> impl Iterator<Item = usize> {
        let here = move |name: &usize| self.kind != Kind::Multi || name % self.engines == engine;
        (0..self.names).filter(here)
    }

    /// How far a server's clock may run ahead within a lease without being noticed: a hundredth of
    /// the shortest lease.
    pub(crate) fn drift(&self) -> Duration {
        self.lease / 200
    }

    /// By how many milliseconds the clocks of servers and clients may differ within a lease.
    pub(crate) fn noise(&self) -> u32 {
        let drift = if self.drifts { in_ms(self.drift()) } else { 0 };
        u32::try_from(drift).expect("a part of a lease") + NOISE
    }
}

/// The numbers of engines, processes, users of each process, and names.
fn numbers(kind: Kind, weather: Weather, rng: &mut fastrand::Rng) -> (usize, usize, usize, usize) {
    match kind {
        Kind::Quorum => {
            // Fields of one process cannot be told apart, which matters where votes are counted.
            let actors = if matches!(weather, Weather::Storm | Weather::Minority) {
                1
            } else {
                2
            };
            (
                [3, 5][rng.usize(0..2)],
                rng.usize(2..=5),
                rng.usize(1..=actors),
                rng.usize(1..=2),
            )
        }
        Kind::Multi => (
            rng.usize(1..=2),
            rng.usize(2..=5),
            rng.usize(1..=4),
            rng.usize(3..=6),
        ),
        Kind::Latch => (1, rng.usize(2..=5), rng.usize(1..=4), 2),
        Kind::Semaphore | Kind::Permits => {
            (1, rng.usize(2..=5), rng.usize(1..=4), rng.usize(1..=2))
        }
        _ if weather == Weather::Busy => (1, rng.usize(2..=3), rng.usize(2..=4), 1),
        _ => (1, rng.usize(2..=8), rng.usize(1..=4), rng.usize(1..=3)),
    }
}

fn line(kind: Kind, rng: &mut fastrand::Rng) -> Line {
    // Timers count in milliseconds. With smaller differences, the same polling clients would always
    // be first.
    let slow = us(rng.u64(if kind.is_lock() { 50 } else { 2500 }..6000));
    let reply_max = if rng.u8(0..3) == 0 { ms(30) } else { slow };
    Line {
        request: Delay::between(us(20), slow),
        reply: Delay::between(us(20), reply_max),
        away: Delay::between(ms(1), ms(60)),
    }
}
