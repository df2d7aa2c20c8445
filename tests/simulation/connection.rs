//! How a client reaches an engine: by calls of methods, or by connections on byte streams. The same
//! weather is other faults on each.

use leasehold::test_util::{ByteControl, ByteFaults, Delay, Direction, Faults, Flow, LinkControl};
use leasehold::{ClientBuilder, EmbeddedRedis};
use parking_lot::Mutex;

use crate::plan::{Plan, Weather, ms};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    Calls,
    Bytes,
}

/// What lasts until it is ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    Cut,
    /// The connection for messages alone.
    CutMessages,
    /// Messages vanish.
    Deaf,
    /// Nothing is answered.
    Mute,
}

/// The switches of one client.
#[derive(Clone)]
pub(crate) enum Connection {
    Calls(LinkControl),
    Bytes(Bytes),
}

/// Those of a client over bytes, with what is drawn for them.
#[derive(Clone)]
pub(crate) struct Bytes {
    control: ByteControl,
    rng: std::sync::Arc<Mutex<fastrand::Rng>>,
}

impl Way {
    pub(crate) fn builder(self, engine: &EmbeddedRedis) -> ClientBuilder {
        match self {
            Way::Calls => engine.builder(),
            Way::Bytes => engine.builder_over_bytes(),
        }
    }

    /// Of the client that was made last.
    pub(crate) fn connection(self, engine: &EmbeddedRedis) -> Connection {
        match self {
            Way::Calls => Connection::Calls(engine.links().pop().expect("its link")),
            Way::Bytes => {
                let control = engine.byte_links().pop().expect("its connections");
                let rng = fastrand::Rng::with_seed(control.id());
                Connection::Bytes(Bytes { control, rng: std::sync::Arc::new(Mutex::new(rng)) })
            }
        }
    }
}

impl Connection {
    pub(crate) fn set_faults(&self, plan: &Plan, seed: u64) {
        match self {
            Connection::Calls(link) => link.set_faults(plan.faults.clone(), seed),
            Connection::Bytes(bytes) => bytes.set_faults(plan, seed),
        }
    }

    /// Everything gets through again, without a fault.
    pub(crate) fn clear(&self, plan: &Plan) {
        let request = plan.faults.request;
        match self {
            Connection::Calls(link) => {
                link.set_messages(Flow::Passes);
                link.set_replies(Flow::Passes);
                link.set_faults(Faults { request, ..Faults::default() }, 1);
                link.heal();
            }
            Connection::Bytes(bytes) => {
                bytes.control.set_faults(&ByteFaults { request, ..ByteFaults::default() }, 1);
                bytes.control.heal();
            }
        }
    }

    pub(crate) fn begin(&self, trouble: Trouble) {
        match (self, trouble) {
            (Connection::Calls(link), Trouble::Cut) => link.cut(),
            (Connection::Calls(link), Trouble::CutMessages) => link.cut_pubsub(),
            (Connection::Calls(link), Trouble::Deaf) => link.set_messages(Flow::Vanishes),
            (Connection::Calls(link), Trouble::Mute) => link.set_replies(Flow::Vanishes),
            (Connection::Bytes(bytes), Trouble::Cut) => bytes.control.cut(),
            (Connection::Bytes(bytes), Trouble::CutMessages) => bytes.control.cut_pubsub(),
            (Connection::Bytes(bytes), Trouble::Deaf) => {
                bytes.control.listening().iter().for_each(|one| one.half_open(Direction::Replies));
            }
            (Connection::Bytes(bytes), Trouble::Mute) => bytes.mute(),
        }
    }

    pub(crate) fn end(&self, trouble: Trouble) {
        match (self, trouble) {
            (Connection::Calls(link), Trouble::Cut | Trouble::CutMessages) => link.heal(),
            (Connection::Calls(link), Trouble::Deaf) => link.set_messages(Flow::Passes),
            (Connection::Calls(link), Trouble::Mute) => link.set_replies(Flow::Passes),
            (Connection::Bytes(bytes), _) => bytes.control.heal(),
        }
    }

    /// The connection for messages breaks within the next one, and the client knows it.
    pub(crate) fn lag(&self) {
        if let Connection::Bytes(bytes) = self {
            let mut rng = bytes.rng.lock();
            for connection in bytes.control.listening() {
                connection.cut_after(Direction::Replies, rng.u64(1..60));
            }
        }
    }

    pub(crate) fn crash(&self) {
        match self {
            Connection::Calls(link) => link.crash(),
            Connection::Bytes(bytes) => bytes.control.crash(),
        }
    }
}

impl Bytes {
    fn set_faults(&self, plan: &Plan, seed: u64) {
        let mut rng = fastrand::Rng::with_seed(seed);
        *self.rng.lock() = rng.fork();
        let mut faults = ByteFaults {
            chunk_max: [1, 16, 16, 100, 100, 1000, usize::MAX, usize::MAX][rng.usize(0..8)],
            request: half(plan.faults.request),
            reply: half(plan.faults.reply),
            uneven: Delay::between(ms(0), plan.faults.request.max / 2),
            ..ByteFaults::default()
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
                faults.away = plan.faults.reconnect;
                faults.refuse = chance(0.03);
                faults.capacity = [256, 4096, 64 * 1024][rng.usize(0..3)];
            }
        }
        if faults.chunk_max < 100 {
            // Of each chunk: what is cut in pieces is not to break more often.
            faults.cut_request /= 8.0;
            faults.cut_reply /= 8.0;
            faults.hesitate /= 8.0;
        }
        self.control.set_faults(&faults, rng.u64(..));
    }

    /// Connections of today answer no more; the client may make others.
    fn mute(&self) {
        let mut rng = self.rng.lock();
        for connection in self.control.connections() {
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

/// The other half is what one connection may be slower than another.
fn half(delay: Delay) -> Delay {
    Delay::between(delay.min.min(delay.max / 2), delay.max / 2)
}
