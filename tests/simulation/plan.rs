//! What one seed means: which kind of lock, how many clients, what they do, what goes wrong.

use std::time::Duration;

use leasehold::test_util::{Delay, Faults};

use crate::kind::Kind;

/// The kinds of weather.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Weather {
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

const WEATHERS: [Weather; 6] =
    [Weather::Calm, Weather::Busy, Weather::Lag, Weather::Lossy, Weather::Crash, Weather::Storm];

impl Weather {
    pub(crate) fn of(seed: u64) -> Weather {
        WEATHERS[usize::try_from(seed % 6).expect("small")]
    }
}

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    Usual,
    /// Each client has one user more, who does what is rare.
    Wild,
}

#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) seed: u64,
    /// Of the locks.
    pub(crate) kind: Kind,
    pub(crate) weather: Weather,
    /// Some users do what is rare: force locks open, hand holds on, keep futures without polling them.
    pub(crate) wild: bool,
    /// No message is lost without notice, so that the safety poll is not needed.
    pub(crate) hears: bool,
    pub(crate) clients: usize,
    pub(crate) actors: usize,
    pub(crate) names: usize,
    /// Of renewed holds, and the longest of fixed ones.
    pub(crate) lease: Duration,
    /// Fixed leases are short, and users forget to look at them.
    pub(crate) overrun: bool,
    pub(crate) poll: Duration,
    pub(crate) command_timeout: Duration,
    pub(crate) duration: Duration,
    pub(crate) faults: Faults,
    /// How long a place in the queue of a fair lock is kept.
    pub(crate) claim: Duration,
}

pub(crate) fn ms(span: u64) -> Duration {
    Duration::from_millis(span)
}

pub(crate) fn us(span: u64) -> Duration {
    Duration::from_micros(span)
}

impl Plan {
    pub(crate) fn new(kind: Kind, seed: u64, cast: Cast) -> Self {
        let mut rng = fastrand::Rng::with_seed(kind.stream(seed));
        let weather = Weather::of(seed);
        let slow = us(rng.u64(50..6000));
        let reply_max = if rng.u8(0..3) == 0 { ms(30) } else { slow };
        let mut faults = Faults {
            request: Delay::between(us(20), slow),
            reply: Delay::between(us(20), reply_max),
            message: Delay::between(us(20), slow),
            reconnect: Delay::between(ms(1), ms(60)),
            ..Faults::default()
        };
        match weather {
            Weather::Calm | Weather::Busy | Weather::Crash => {}
            Weather::Lag => faults.lag = 0.3,
            Weather::Lossy => faults.lose_reply = 0.04,
            Weather::Storm => {
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
        let (clients, actors, names) = match weather {
            Weather::Busy => (rng.usize(2..=3), rng.usize(2..=4), 1),
            _ => (rng.usize(2..=8), rng.usize(1..=4), rng.usize(1..=3)),
        };
        let mut plan = Plan {
            seed,
            kind,
            weather,
            wild: cast == Cast::Wild,
            hears: true,
            clients,
            actors,
            names,
            lease: if weather == Weather::Lossy { ms(20_000) } else { ms(rng.u64(400..2500)) },
            overrun: rng.u8(0..3) == 0,
            poll: ms(500),
            command_timeout: ms(300),
            duration: ms(if weather == Weather::Busy { 3000 } else { rng.u64(4000..10_000) }),
            faults,
            // A lost reply costs a beat: enough of it must be left for the next one.
            claim: ms(rng.u64(if weather == Weather::Lossy { 1500..4000 } else { 200..2000 })),
        };
        if weather == Weather::Storm {
            plan.hears = fastrand::Rng::with_seed(kind.stream(seed) ^ 0x8EA2).bool();
        }
        if plan.hears {
            plan.faults.lose_message = 0.0;
        }
        if plan.hears && weather != Weather::Lossy && !plan.reads_end_untold() {
            // Where waiters must be prompt, the safety poll must not be what makes them so.
            plan.poll = ms(30_000);
        }
        plan
    }

    /// Whether read holds end by their lease. A release that leaves a shorter lease of another reader
    /// behind tells nobody, so that the end of that one is found by the safety poll.
    pub(crate) fn reads_end_untold(&self) -> bool {
        let by_lease = match self.weather {
            // What is handed on and not taken over.
            _ if self.wild => true,
            Weather::Calm | Weather::Busy | Weather::Lag => self.overrun,
            Weather::Lossy | Weather::Crash | Weather::Storm => true,
        };
        self.kind == Kind::ReadWrite && by_lease
    }

    pub(crate) fn all_names(&self) -> Vec<String> {
        (0..self.names).map(|name| format!("lock:{name}")).collect()
    }

    /// The longest fixed lease, ms.
    pub(crate) fn fixed_lease_max(&self) -> u64 {
        let lease = u64::try_from(self.lease.as_millis()).expect("small");
        if self.overrun { lease / 3 } else { lease }
    }

    /// How long a lock may be free while somebody waits for it, in a storm when it is over.
    pub(crate) fn prompt_within(&self) -> Option<Duration> {
        let soon = ms(250) + self.kept_unpolled();
        match (self.weather, self.kind) {
            (Weather::Lossy, _) => None,
            _ if self.reads_end_untold() => Some(soon + 2 * self.poll),
            // Messages are lost without notice until then.
            (Weather::Storm, _) if !self.hears => Some(soon + 2 * self.poll),
            // The place of a dead waiter is kept for a claim; the next beat finds that it is over.
            (Weather::Crash, Kind::Fair) => Some(soon + self.claim + ms(20)),
            _ => Some(soon),
        }
    }

    /// Futures that nobody polls are passed over one after the other; each client has one at most.
    fn kept_unpolled(&self) -> Duration {
        let clients = u32::try_from(self.clients).expect("few");
        match self.kind {
            _ if !self.wild => ms(0),
            Kind::Fair => ms(130) * clients,
            _ => ms(130),
        }
    }

    /// Until when after a storm a client may find out what it missed: the longest pause of an outage,
    /// a command's time-out, and the leases of holds that the server forgot.
    pub(crate) fn recovers_within(&self) -> Duration {
        ms(2000) + self.lease
    }

    /// By how much a wait may be overrun.
    pub(crate) fn slack(&self) -> Duration {
        match self.weather {
            // A reply that was lost is waited for as long as replies usually take, a command's time at
            // most.
            Weather::Lossy => self.command_timeout,
            // Twice: the last answer, and the way out of a queue.
            Weather::Storm => 2 * self.command_timeout,
            _ => 2 * (self.faults.request.max + self.faults.reply.max),
        }
    }

    /// Whether waiters are served in the order in which they came to the engine.
    pub(crate) fn keeps_order(&self) -> bool {
        self.kind == Kind::Fair && self.weather != Weather::Storm
    }

    /// How long a hold may stand in Redis that no guard stands for.
    pub(crate) fn orphans_within(&self) -> Duration {
        match self.weather {
            Weather::Calm | Weather::Busy | Weather::Lag => ms(250),
            // A lost reply costs a command's time-out, and an undo may lose some of its own.
            Weather::Lossy if self.kind == Kind::ReadWrite => ms(2500),
            Weather::Lossy => ms(5000),
            // They end with their leases. In a storm who does not hear the reply asks again and again.
            Weather::Crash | Weather::Storm => self.lease + ms(250),
        }
    }

    /// How long a waiter may wait when nothing is wrong.
    pub(crate) fn served_within(&self) -> Duration {
        let shares = self.kind == Kind::ReadWrite;
        match self.weather {
            // Who asks only now and then cannot be let first, and readers pass waiting writers.
            Weather::Busy if self.kind.asks_within_ms().is_none() && !shares && !self.wild => {
                ms(1500)
            }
            _ => 4 * self.lease + ms(40_000),
        }
    }
}
