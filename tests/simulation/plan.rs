//! What one seed means: how many clients, what they do, what goes wrong.

use std::time::Duration;

use leasehold::test_util::{Delay, Faults};

/// The kinds of weather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No faults: everything must be prompt, nothing may be left behind for a moment.
    Calm,
    /// No faults, and one client that never lets go by itself: others must get their turn.
    Busy,
    /// Messages go missing, and the link knows it: waiters must be as prompt as ever.
    Lag,
    /// Replies go missing: what was taken in doubt must be undone long before its lease ends.
    Lossy,
    /// Clients die without a farewell: their locks end with their leases, not later.
    Crash,
    /// All of it: cuts, half-open links, restarts, evictions, clock jumps, frozen processes.
    Storm,
}

const KINDS: [Kind; 6] = [Kind::Calm, Kind::Busy, Kind::Lag, Kind::Lossy, Kind::Crash, Kind::Storm];

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    pub(crate) kind: Kind,
    pub(crate) clients: usize,
    pub(crate) actors: usize,
    pub(crate) names: usize,
    /// Of renewed holds, and the longest of fixed ones.
    pub(crate) lease: Duration,
    pub(crate) poll: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) duration: Duration,
    pub(crate) faults: Faults,
}

pub(crate) fn ms(span: u64) -> Duration {
    Duration::from_millis(span)
}

pub(crate) fn us(span: u64) -> Duration {
    Duration::from_micros(span)
}

impl Plan {
    pub(crate) fn new(seed: u64) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let kind = KINDS[usize::try_from(seed % 6).expect("small")];
        let slow = us(rng.u64(50..6000));
        let reply_max = if rng.u8(0..3) == 0 { ms(30) } else { slow };
        let mut faults = Faults {
            request: Delay::between(us(20), slow),
            reply: Delay::between(us(20), reply_max),
            message: Delay::between(us(20), slow),
            reconnect: Delay::between(ms(1), ms(60)),
            ..Faults::default()
        };
        match kind {
            Kind::Calm | Kind::Busy | Kind::Crash => {}
            Kind::Lag => faults.lag = 0.3,
            Kind::Lossy => faults.lose_reply = 0.04,
            Kind::Storm => {
                let mut chance = |most: f64| rng.f64() * most;
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
        let prompt = matches!(kind, Kind::Calm | Kind::Busy | Kind::Lag | Kind::Crash);
        Plan {
            seed,
            kind,
            clients: rng.usize(2..=if kind == Kind::Busy { 3 } else { 6 }),
            actors: rng.usize(if kind == Kind::Busy { 2 } else { 1 }..=4),
            names: if kind == Kind::Busy { 1 } else { rng.usize(1..=3) },
            lease: if kind == Kind::Lossy { ms(20_000) } else { ms(rng.u64(400..2500)) },
            // Where waiters must be prompt, the safety poll must not be what makes them so.
            poll: if prompt { ms(30_000) } else { ms(500) },
            command_timeout: ms(300),
            duration: ms(if kind == Kind::Busy { 3000 } else { rng.u64(4000..10_000) }),
            faults,
        }
    }

    pub(crate) fn all_names(&self) -> Vec<String> {
        (0..self.names).map(|name| format!("lock:{name}")).collect()
    }

    /// How long a lock may be free while somebody waits for it.
    pub(crate) fn prompt_within(&self) -> Option<Duration> {
        match self.kind {
            Kind::Calm | Kind::Busy | Kind::Lag | Kind::Crash => Some(ms(250)),
            Kind::Lossy | Kind::Storm => None,
        }
    }

    /// How long a hold may stand in Redis that no guard stands for.
    pub(crate) fn orphans_within(&self) -> Option<Duration> {
        match self.kind {
            Kind::Calm | Kind::Busy | Kind::Lag => Some(ms(250)),
            Kind::Lossy => Some(ms(5000)),
            Kind::Crash | Kind::Storm => None,
        }
    }

    /// How long a waiter may wait when nothing is wrong.
    pub(crate) fn served_within(&self) -> Duration {
        match self.kind {
            Kind::Busy => ms(1500),
            _ => 4 * self.lease + ms(40_000),
        }
    }
}
