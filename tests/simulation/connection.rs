//! The connections of a client to an engine, and what the weather does to them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use leasehold::EmbeddedRedis;
use leasehold::test_util::{Delay, Direction, Faults, LinkControl};
use parking_lot::Mutex;

use crate::plan::{Plan, Weather, ms};

/// Troubles that last until they are ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Cut,
    /// Only the connection for messages is cut.
    CutMessages,
    /// Messages vanish.
    Deaf,
    /// Nothing is answered.
    Mute,
}

/// The switches of one client, and the random values drawn for it.
#[derive(Clone)]
pub(crate) struct Connection {
    link: LinkControl,
    rng: Arc<Mutex<fastrand::Rng>>,
    /// The last connection for messages that `lag` has met.
    met: Arc<AtomicU64>,
}

impl Connection {
    /// Of the client that was made last.
    pub(crate) fn of(engine: &EmbeddedRedis) -> Self {
        let link = engine.links().pop().expect("a link");
        let rng = fastrand::Rng::with_seed(link.id());
        Connection {
            link,
            rng: Arc::new(Mutex::new(rng)),
            met: Arc::default(),
        }
    }

    /// Everything passes again without faults.
    pub(crate) fn clear(&self, plan: &Plan) {
        let request = plan.line.request;
        self.link.set_faults(
            Faults {
                request,
                ..Faults::default()
            },
            1,
        );
        self.link.heal();
    }

    pub(crate) fn begin(&self, trouble: Trouble) {
        match trouble {
            Trouble::Cut => self.link.cut(),
            Trouble::CutMessages => self.link.cut_pubsub(),
            Trouble::Deaf => self.link.deafen(),
            Trouble::Mute => self.mute(),
        }
    }

    pub(crate) fn end(&self) {
        self.link.heal();
    }

    /// The connection for messages breaks with the next message, and the client knows it. Not one
    /// that is new: its subscriptions may not be complete, and a connection that breaks twice in a
    /// row is no lag.
    pub(crate) fn lag(&self) {
        let mut rng = self.rng.lock();
        for connection in self.link.listening() {
            if self.met.swap(connection.number(), Relaxed) != connection.number() {
                continue;
            }
            connection.cut_after(Direction::Replies, rng.u64(1..60));
        }
    }

    pub(crate) fn crash(&self) {
        self.link.crash();
    }

    pub(crate) fn set_faults(&self, plan: &Plan, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        *self.rng.lock() = rng.fork();
        let mut faults = Faults {
            chunk_max: [1, 16, 16, 100, 100, 1000, usize::MAX, usize::MAX][rng.usize(0..8)],
            request: half(plan.line.request),
            reply: half(plan.line.reply),
            uneven: Delay::between(ms(0), plan.line.request.max / 2),
            ..Faults::default()
        };
        match plan.weather {
            Weather::Calm | Weather::Busy | Weather::Crash | Weather::Lag | Weather::Minority => {}
            Weather::Lossy => faults.cut_reply = 0.01,
            Weather::Storm => {
                let mut chance = |most: f64| rng.f64() * most;
                faults.hesitate = chance(0.02);
                faults.hesitation = Delay::between(ms(0), ms(200));
                faults.cut_request = chance(0.004);
                faults.cut_reply = chance(0.01);
                faults.torn_reply = chance(1.0);
                faults.late_after_cut = chance(1.0);
                faults.late = Delay::between(ms(0), ms(200));
                faults.lost_at_close = chance(0.5);
                faults.refuse_dial = chance(0.2);
                faults.away = plan.line.away;
                faults.refuse = chance(0.03);
                faults.capacity = [256, 4096, 64 * 1024][rng.usize(0..3)];
            }
        }
        if faults.chunk_max < 100 {
            // Per chunk, because a request that is cut in pieces must not break more often.
            faults.cut_request /= 8.0;
            faults.cut_reply /= 8.0;
            faults.hesitate /= 8.0;
        }
        self.link.set_faults(faults, rng.u64(..));
    }

    /// Present connections no longer answer. The client may make new ones.
    fn mute(&self) {
        let mut rng = self.rng.lock();
        for connection in self.link.connections() {
            match rng.u8(0..5) {
                0 => connection.half_open(Direction::Requests),
                1 => connection.half_open(Direction::Replies),
                2 => connection.stall(Direction::Requests),
                3 => connection.stall(Direction::Replies),
                _ => {}
            }
        }
    }
}

/// The other half is how much slower one connection may be than another.
fn half(delay: Delay) -> Delay {
    Delay::between(delay.min.min(delay.max / 2), delay.max / 2)
}
