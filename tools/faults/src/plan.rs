//! Plans what a worker does with its next hold. Most holds are short, and some last for several
//! leases.

use std::time::Duration;

use fastrand::Rng;
use leasehold::Lease;

use crate::history::Doing;
use crate::orders::Span;
use crate::workload::Target;

/// One of this many quick holds ends after one step. A client passes a hold on to its own waiters
/// only if the hold has lasted a few milliseconds at most, and such short holds exercise that.
const BRIEF_ONE_OF: u8 = 4;
/// One of this many quick acquisitions is dropped if it takes longer than a few milliseconds.
const DROPPED_ONE_OF: u8 = 6;
const DROPPED_WITHIN: Duration = Duration::from_millis(3);
/// A quick worker asks for a long-held name once in this many times, so that long holds have
/// contention.
const LONG_NAME_ONE_OF: u8 = 8;
/// One of this many quick holds is re-entered.
const REENTERED_ONE_OF: u8 = 4;
/// A large lease is this many usual leases.
pub(crate) const LARGE: u32 = 4;
/// One of this many quick holds has a large lease.
const LARGE_ONE_OF: u8 = 6;
/// Time between two checks of a long hold.
const LONG_STEP: Duration = Duration::from_millis(20);

/// Every other worker is quick. The others hold locks for up to several leases.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WorkerKind {
    Quick,
    Long,
}

/// The durations of acquisitions and holds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Times {
    pub(crate) lease: Duration,
    pub(crate) wait: Duration,
    pub(crate) hold: Span,
    pub(crate) long: Span,
    pub(crate) step: Duration,
}

/// What a worker does with one hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    pub(crate) wait: Duration,
    /// The future of the acquisition is dropped after this time, as callers with their own timeout
    /// do.
    pub(crate) patience: Duration,
    pub(crate) lease: Lease,
    pub(crate) stay: Duration,
    pub(crate) step: Duration,
    /// What else the worker does besides checking the hold and writing.
    pub(crate) doing: Option<Doing>,
}

impl WorkerKind {
    pub(crate) fn of(number: u32) -> Self {
        if number.is_multiple_of(2) {
            WorkerKind::Quick
        } else {
            WorkerKind::Long
        }
    }

    /// Chooses the lock to take next.
    pub(crate) fn choose_target<'a>(self, targets: &'a [Target], random: &mut Rng) -> &'a Target {
        let is_long = self == WorkerKind::Long || random.u8(0..LONG_NAME_ONE_OF) == 0;
        let candidates: Vec<_> = targets
            .iter()
            .filter(|target| target.is_long == is_long)
            .collect();
        candidates[random.usize(0..candidates.len())]
    }

    pub(crate) fn plan(self, target: &Target, times: &Times, random: &mut Rng) -> Plan {
        match self {
            WorkerKind::Quick => times.quick(target, random),
            WorkerKind::Long => times.long(target, random),
        }
    }
}

impl Times {
    fn quick(&self, target: &Target, random: &mut Rng) -> Plan {
        let is_dropped = random.u8(0..DROPPED_ONE_OF) == 0;
        let is_brief = random.u8(0..BRIEF_ONE_OF) == 0;
        let is_large = target.has_leases() && random.u8(0..LARGE_ONE_OF) == 0;
        let is_reentered = target.can_be_reentered() && random.u8(0..REENTERED_ONE_OF) == 0;
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

    /// A lease that blocks other clients long enough for the checker to notice if its release is
    /// forgotten.
    fn large(&self) -> Lease {
        Lease::RenewedFor(self.lease * LARGE)
    }

    /// Some long holds are only renewed. The others use everything that the kind of lock offers.
    fn long(&self, target: &Target, random: &mut Rng) -> Plan {
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
            1 if target.can_be_reentered() => Plan {
                doing: Some(Doing::Reentered),
                ..renewed
            },
            // Ends before the fixed lease expires.
            2 if target.has_leases() => Plan {
                stay: stay.min(self.lease * 4 / 5),
                ..fixed
            },
            5 if target.has_leases() => Plan {
                lease: self.large(),
                ..renewed
            },
            // Careless: the fixed lease may expire during the hold.
            3 if target.has_leases() => fixed,
            4 if target.has_leases() => Plan {
                doing: Some(Doing::Extended),
                ..fixed
            },
            _ => renewed,
        }
    }
}
