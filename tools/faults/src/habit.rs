//! What workers mean to do with their next hold: brief ones, and some of several leases.

use std::time::Duration;

use fastrand::Rng;
use leasehold::Lease;

use crate::history::Doing;
use crate::orders::Span;
use crate::workload::Place;

/// One quick hold of so many ends after one step: a client hands holds on to its own waiters only within some
/// milliseconds.
const BRIEF_ONE_OF: u8 = 4;
/// One quick acquisition of so many is dropped if it takes longer than some milliseconds.
const DROPPED_ONE_OF: u8 = 6;
const DROPPED_WITHIN: Duration = Duration::from_millis(3);
/// A quick worker takes a long name once in so many times: somebody else must want what is held for long.
const LONG_NAME_ONE_OF: u8 = 8;
/// One quick hold of so many is entered again.
const REENTERED_ONE_OF: u8 = 4;
/// So many common leases are a large one.
pub(crate) const LARGE: u32 = 4;
/// One quick hold of so many has a large lease.
const LARGE_ONE_OF: u8 = 6;
/// Of a long hold, between two looks.
const LONG_STEP: Duration = Duration::from_millis(20);

/// Every other worker is quick; the others stay for up to several leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Habit {
    Quick,
    Long,
}

/// How long everything takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) lease: Duration,
    pub(crate) wait: Duration,
    pub(crate) hold: Span,
    pub(crate) long: Span,
    pub(crate) step: Duration,
}

/// What is done with one hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) wait: Duration,
    /// The acquisition is dropped after this, as callers do that have another limit.
    pub(crate) patience: Duration,
    pub(crate) lease: Lease,
    pub(crate) stay: Duration,
    pub(crate) step: Duration,
    /// Beside looking at it and writing.
    pub(crate) doing: Option<Doing>,
}

impl Habit {
    pub(crate) fn of(number: u32) -> Self {
        if number.is_multiple_of(2) {
            Habit::Quick
        } else {
            Habit::Long
        }
    }

    /// What is taken next.
    pub(crate) fn place<'a>(self, places: &'a [Place], random: &mut Rng) -> &'a Place {
        let is_long = self == Habit::Long || random.u8(0..LONG_NAME_ONE_OF) == 0;
        let these: Vec<_> = places
            .iter()
            .filter(|place| place.is_long == is_long)
            .collect();
        these[random.usize(0..these.len())]
    }

    pub(crate) fn plan(self, place: &Place, times: &Times, random: &mut Rng) -> Plan {
        match self {
            Habit::Quick => times.quick(place, random),
            Habit::Long => times.long(place, random),
        }
    }
}

impl Times {
    fn quick(&self, place: &Place, random: &mut Rng) -> Plan {
        let is_dropped = random.u8(0..DROPPED_ONE_OF) == 0;
        let is_brief = random.u8(0..BRIEF_ONE_OF) == 0;
        let is_large = place.has_leases() && random.u8(0..LARGE_ONE_OF) == 0;
        let is_reentered = place.can_be_reentered() && random.u8(0..REENTERED_ONE_OF) == 0;
        Plan {
            wait: self.wait * random.u32(10..=100) / 100,
            patience: if is_dropped {
                DROPPED_WITHIN.mul_f64(random.f64())
            } else {
                Duration::MAX
            },
            lease: if is_large {
                self.large()
            } else {
                Lease::Renewed
            },
            stay: if is_brief {
                Duration::ZERO
            } else {
                self.hold.pick(random)
            },
            step: self.step,
            doing: is_reentered.then_some(Doing::Reentered),
        }
    }

    /// If it is forgotten it keeps a lock from the others for so long that they notice.
    fn large(&self) -> Lease {
        Lease::RenewedFor(self.lease * LARGE)
    }

    /// Some are just renewed; the others come in all ways that the kind has.
    fn long(&self, place: &Place, random: &mut Rng) -> Plan {
        let stay = self.long.pick(random);
        let renewed = Plan {
            wait: self.wait,
            patience: Duration::MAX,
            lease: Lease::Renewed,
            stay,
            step: LONG_STEP,
            doing: None,
        };
        let fixed = Plan {
            lease: Lease::Fixed(self.lease),
            ..renewed
        };
        match random.u8(0..8) {
            0 => Plan {
                doing: Some(Doing::Paused),
                ..renewed
            },
            1 if place.can_be_reentered() => Plan {
                doing: Some(Doing::Reentered),
                ..renewed
            },
            // Out again in time.
            2 if place.has_leases() => Plan {
                stay: stay.min(self.lease * 4 / 5),
                ..fixed
            },
            5 if place.has_leases() => Plan {
                lease: self.large(),
                ..renewed
            },
            // Careless: it may run out.
            3 if place.has_leases() => fixed,
            4 if place.has_leases() => Plan {
                doing: Some(Doing::Extended),
                ..fixed
            },
            _ => renewed,
        }
    }
}
