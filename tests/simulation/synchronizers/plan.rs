//! What one seed means: which synchronizer, how many use it, what goes wrong.

use std::time::Duration;

use leasehold::test_util::{Delay, Faults};

use crate::plan::{ms, us};

/// How long a waiter of a fair lock keeps its place without a sign of life.
pub(crate) const FAIR_CLAIM: Duration = Duration::from_millis(400);

/// What is played with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sort {
    Semaphore,
    Permits,
    Latch,
    Multi,
    Quorum,
}

pub(crate) const SORTS: [Sort; 5] =
    [Sort::Semaphore, Sort::Permits, Sort::Latch, Sort::Multi, Sort::Quorum];

/// What goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sky {
    /// Nothing: everything must be prompt, nothing may be left behind for a moment.
    Calm,
    /// Messages go missing, and the link knows it.
    Lag,
    /// Replies and messages go missing, connections break: what was taken in doubt must be undone long before its lease ends.
    Lossy,
    /// Clients die without a farewell.
    Crash,
    /// Less than half of the servers are down, slow, or were restarted, at any time.
    Minority,
    /// All of it, and frozen processes.
    Storm,
}

const SKIES: [Sky; 5] = [Sky::Calm, Sky::Lag, Sky::Lossy, Sky::Crash, Sky::Storm];
const QUORUM_SKIES: [Sky; 5] = [Sky::Calm, Sky::Minority, Sky::Lossy, Sky::Crash, Sky::Storm];

/// What makes the books harder to keep; not both, so that they can be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Upset {
    /// The number of permits changes while they are used.
    Changes,
    /// Servers forget what they hold, or their clocks jump.
    Breaks,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) sort: Sort,
    pub(crate) sky: Sky,
    pub(crate) engines: usize,
    pub(crate) processes: usize,
    pub(crate) actors: usize,
    pub(crate) names: usize,
    /// Permits of a semaphore.
    pub(crate) permits: u32,
    pub(crate) upset: Option<Upset>,
    /// The servers' clocks run ahead, by no more than a lease allows for.
    pub(crate) drifts: bool,
    pub(crate) lease: Duration,
    /// Holds end with their leases, as their users forget to look at them.
    pub(crate) overrun: bool,
    pub(crate) poll: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) duration: Duration,
    pub(crate) faults: Faults,
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let kinds = SORTS.len() as u64;
        let sort = SORTS[usize::try_from(seed % kinds).expect("small")];
        let skies = if sort == Sort::Quorum { QUORUM_SKIES } else { SKIES };
        let sky = skies[usize::try_from(seed / kinds % 5).expect("small")];
        let quiet = matches!(sky, Sky::Calm | Sky::Lag | Sky::Crash | Sky::Minority);
        let upset = match rng.u8(0..2) {
            0 if matches!(sky, Sky::Storm | Sky::Minority) => Some(Upset::Breaks),
            1 => Some(Upset::Changes),
            _ => None,
        };
        let lease = match (sort, sky) {
            (_, Sky::Lossy) => ms(20_000),
            (Sort::Quorum, _) => ms(rng.u64(1000..3000)),
            _ => ms(rng.u64(400..2500)),
        };
        Plan {
            seed,
            sort,
            sky,
            engines: match sort {
                Sort::Quorum => [3, 5][rng.usize(0..2)],
                Sort::Multi => rng.usize(1..=2),
                _ => 1,
            },
            processes: rng.usize(2..=5),
            actors: match sort {
                // Fields of one process cannot be told apart, which matters where votes are counted.
                Sort::Quorum if sky == Sky::Storm || sky == Sky::Minority => 1,
                Sort::Quorum => rng.usize(1..=2),
                _ => rng.usize(1..=4),
            },
            names: match sort {
                Sort::Multi => rng.usize(3..=6),
                Sort::Latch => 2,
                _ => rng.usize(1..=2),
            },
            permits: rng.u32(1..=6),
            upset,
            drifts: sort == Sort::Quorum && rng.bool(),
            lease,
            overrun: rng.u8(0..3) == 0,
            // Where waiters must be prompt, the safety poll must not be what makes them so.
            poll: if quiet { ms(30_000) } else { ms(500) },
            command_timeout: ms(300),
            duration: ms(rng.u64(3000..6000)) + if sky == Sky::Lossy { ms(3000) } else { ms(0) },
            faults: faults(&mut rng, sky),
        }
    }

    pub(crate) fn changes(&self) -> bool {
        self.upset == Some(Upset::Changes)
    }

    pub(crate) fn breaks(&self) -> bool {
        self.upset == Some(Upset::Breaks)
    }

    /// Nothing goes wrong that anybody may notice.
    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.sky, Sky::Calm | Sky::Lag)
    }

    /// How long what somebody waits for may be there.
    pub(crate) fn prompt_within(&self) -> Option<Duration> {
        match (self.sky, self.sort) {
            // After a poll or two.
            (Sky::Lossy, Sort::Latch) => Some(ms(3500)),
            (Sky::Lossy | Sky::Storm | Sky::Minority, _) => None,
            // A dead waiter of a fair lock keeps its place for a claim.
            (Sky::Crash, Sort::Multi) => Some(ms(900) + FAIR_CLAIM),
            // They ask again after a pause, each for itself.
            (_, Sort::Multi | Sort::Quorum) => Some(ms(800)),
            _ => Some(ms(250)),
        }
    }

    /// How long a hold may stand in Redis that nobody has.
    pub(crate) fn orphans_within(&self) -> Option<Duration> {
        match self.sky {
            Sky::Calm | Sky::Lag => Some(ms(250)),
            Sky::Lossy => Some(ms(3000)),
            Sky::Crash | Sky::Storm | Sky::Minority => None,
        }
    }

    /// By how much a wait may be overrun, where that can be said.
    pub(crate) fn slack(&self) -> Option<Duration> {
        let trip = self.faults.request.max + self.faults.reply.max;
        match (self.sky, self.sort) {
            (Sky::Storm, _) => None,
            // The last answer, which may be lost, and the release of what was taken.
            (Sky::Lossy | Sky::Minority, _) => Some(ms(80) + 2 * trip + self.command_timeout),
            _ => Some(ms(50) + 2 * trip),
        }
    }

    /// How long anybody may wait without end once nothing goes wrong any more.
    pub(crate) fn served_within(&self) -> Duration {
        4 * self.lease + ms(40_000)
    }

    /// How far a server's clock may run ahead within a lease, unnoticed: a hundredth of the
    /// shortest one.
    pub(crate) fn drift(&self) -> Duration {
        self.lease / 200
    }
}

fn faults(rng: &mut fastrand::Rng, sky: Sky) -> Faults {
    // Timers count in milliseconds: with less between them the same clients would be first for ever.
    let slow = us(rng.u64(2500..6000));
    let reply_max = if rng.u8(0..3) == 0 { ms(30) } else { slow };
    let mut faults = Faults {
        request: Delay::between(us(20), slow),
        reply: Delay::between(us(20), reply_max),
        message: Delay::between(us(20), slow),
        reconnect: Delay::between(ms(1), ms(60)),
        ..Faults::default()
    };
    let mut chance = |most: f64| rng.f64() * most;
    match sky {
        Sky::Calm | Sky::Crash | Sky::Minority => {}
        Sky::Lag => faults.lag = 0.3,
        Sky::Lossy => {
            faults.lose_reply = 0.04;
            faults.lose_message = 0.2;
            faults.break_line = 0.03;
            faults.late_after_cut = 1.0;
            faults.late = Delay::between(ms(0), ms(20));
        }
        Sky::Storm => {
            faults.refuse = chance(0.03);
            faults.lose_request = chance(0.03);
            faults.lose_reply = chance(0.04);
            faults.duplicate = chance(0.02);
            faults.break_line = chance(0.02);
            faults.late_after_cut = chance(1.0);
            faults.late = Delay::between(ms(0), ms(200));
            faults.lose_message = chance(0.2);
            faults.lag = chance(0.1);
        }
    }
    faults
}
