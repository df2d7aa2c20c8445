//! What a cell runs on.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{ClientBuilder, EmbeddedRedis, Stats};
use leasehold_testbed::{Kind, ms};

use crate::real::Running;

/// A waiter that gets no message asks so late that it can be told from one that got it.
const SAFETY_POLL: Duration = Duration::from_secs(10);

/// An engine in paused time, or something real.
pub(crate) enum Backend {
    Engine(EmbeddedRedis),
    Real(Arc<Running>),
}

impl Backend {
    pub(crate) fn builder(&self) -> ClientBuilder {
        match self {
            Backend::Engine(engine) => engine.builder().safety_poll(SAFETY_POLL),
            Backend::Real(running) => running.builder(),
        }
    }

    /// For what only an engine can say.
    pub(crate) fn engine(&self) -> &EmbeddedRedis {
        let engine = match self {
            Backend::Engine(engine) => Some(engine),
            Backend::Real(_) => None,
        };
        engine.expect("BUG: a behaviour of engines runs on a real server")
    }

    pub(crate) fn remove(&self, key: &str) {
        match self {
            Backend::Engine(engine) => drop(engine.remove(key.as_bytes())),
            Backend::Real(running) => running.remove(key),
        }
    }

    /// How long a renewed hold lasts.
    pub(crate) fn lease(&self) -> Duration {
        match self {
            Backend::Engine(_) => Duration::from_secs(3),
            // A busy machine does not renew in time what is short.
            Backend::Real(_) => Duration::from_secs(6),
        }
    }

    /// How many leases a hold must survive.
    pub(crate) fn leases(&self) -> u32 {
        match self {
            Backend::Engine(_) => 4,
            Backend::Real(_) => 2,
        }
    }

    /// How many holds are many. On a real server, all kinds have so many at the same time.
    pub(crate) fn many(&self) -> u32 {
        match self {
            Backend::Engine(_) => 600,
            Backend::Real(running) => running.many,
        }
    }

    /// Whether a waiter that was so late asked again, because no message came.
    pub(crate) fn asked(&self, kind: Kind, late: Duration, stats: &Stats) -> bool {
        // A waiter of these kinds always asks.
        if kind.quorum || ["spin", "string"].contains(&kind.name) {
            return matches!(self, Backend::Engine(_)) && late > ms(kind.late_ms());
        }
        // A waiter may ask just when the message comes. On an engine, the message comes first.
        stats.wakes == 0
            && (matches!(self, Backend::Engine(_)) || stats.subscriptions == 0 || late > ms(500))
    }
}
