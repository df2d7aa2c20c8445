//! Adds up the results of several cells.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::runs::Run;
use crate::report::statistics;
use crate::result::{Cell, Holds, Losses, Met, Overlaps, Renewals};

#[derive(Default)]
pub(super) struct Sum {
    pub(super) cells: u64,
    /// Each run with its number of injections. All cells of a run share them.
    runs: BTreeMap<Run, u64>,
    seeds: BTreeSet<u64>,
    pub(super) operations: u64,
    pub(super) timeouts: u64,
    pub(super) holds: Holds,
    pub(super) renewals: Renewals,
    /// What the injections affected. Here an injection counts once for each cell.
    pub(super) met: Met,
    pub(super) losses: Losses,
    pub(super) overlaps: Overlaps,
    /// The sum over the cells.
    excusable_permille: u64,
    pub(super) refused_writes: u64,
    /// One value for each cell.
    pub(super) longest_waits_ms: Vec<u64>,
    pub(super) recovery_ms: Vec<u64>,
    pub(super) out_of_turn: u64,
    pub(super) keys_left: u64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) violations: u64,
    /// Cells with at least one valid or excused overlap.
    pub(super) with_two_holders: u64,
}

impl<'a> FromIterator<&'a Cell> for Sum {
    fn from_iter<T: IntoIterator<Item = &'a Cell>>(cells: T) -> Self {
        let mut sum = Self::default();
        for cell in cells {
            sum.add(cell);
        }
        sum
    }
}

impl Sum {
    fn add(&mut self, cell: &Cell) {
        self.cells += 1;
        let injections = self.runs.entry(Run::of(cell)).or_default();
        *injections = cell.met.injections.max(*injections);
        self.seeds.insert(cell.seed);
        self.operations += cell.operations;
        self.timeouts += cell.timeouts;
        self.add_holds(&cell.holds);
        self.renewals.done += cell.renewals.done;
        self.renewals.failed += cell.renewals.failed;
        self.renewals.lost += cell.renewals.lost;
        self.met.injections += cell.met.injections;
        self.met.holders += cell.met.holders;
        self.met.waiters += cell.met.waiters;
        self.met.renewals += cell.met.renewals;
        self.add_losses(&cell.losses);
        self.overlaps.valid += cell.overlaps.valid;
        self.overlaps.excused += cell.overlaps.excused;
        self.overlaps.invalid += cell.overlaps.invalid;
        self.with_two_holders += u64::from(cell.overlaps.valid + cell.overlaps.excused > 0);
        self.excusable_permille += cell.excusable_permille;
        self.refused_writes += cell.refused_writes;
        self.longest_waits_ms.push(cell.longest_wait_ms);
        self.recovery_ms.extend(&cell.recovery_ms);
        self.out_of_turn += cell.out_of_turn;
        self.keys_left += cell.keys_left.len() as u64;
        for (kind, times) in &cell.errors {
            *self.errors.entry(kind.clone()).or_default() += times;
        }
        self.violations += cell.violations.len() as u64;
    }

    fn add_holds(&mut self, holds: &Holds) {
        self.holds.brief += holds.brief;
        self.holds.beyond_a_lease += holds.beyond_a_lease;
        self.holds.fixed += holds.fixed;
        self.holds.extended += holds.extended;
        self.holds.reentered += holds.reentered;
        self.holds.paused += holds.paused;
    }

    fn add_losses(&mut self, losses: &Losses) {
        let sum = &mut self.losses;
        sum.with_cause += losses.with_cause;
        sum.without_cause += losses.without_cause;
        sum.longest_notice_ms = sum.longest_notice_ms.max(losses.longest_notice_ms);
        sum.reported_held += losses.reported_held;
        sum.longest_reported_held_ms = sum
            .longest_reported_held_ms
            .max(losses.longest_reported_held_ms);
    }

    /// Number of program runs.
    pub(super) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    pub(super) fn seeds(&self) -> u64 {
        self.seeds.len() as u64
    }

    /// Number of injections. Each counts once, however many cells it affected.
    pub(super) fn injections(&self) -> u64 {
        self.runs.values().sum()
    }

    /// Number of overlaps in which both holders had been told that they hold the lock.
    pub(super) fn two_holders(&self) -> u64 {
        self.overlaps.valid + self.overlaps.excused
    }

    /// The share of the held time in which a second holder would have been excused: the mean over
    /// the cells.
    pub(super) fn excusable(&self) -> String {
        super::markdown::percent(self.excusable_permille / self.cells.max(1))
    }

    pub(super) fn longest_wait(&self) -> String {
        super::longest(&self.longest_waits_ms)
    }

    /// The median and the longest recovery time.
    pub(super) fn recovery(&self) -> String {
        let Some(median) = statistics::median(&self.recovery_ms) else {
            return "–".to_owned();
        };
        let median = super::markdown::duration(median);
        format!("{median}, {}", super::longest(&self.recovery_ms))
    }

    /// The longest time until a previous holder was told of its loss.
    pub(super) fn longest_notice(&self) -> String {
        match self.losses.longest_notice_ms {
            0 => "–".to_owned(),
            ms => super::markdown::duration(ms),
        }
    }

    /// How often a holder reported `Held` while another client had the lock, and for how long at
    /// most.
    pub(super) fn reported_held(&self) -> String {
        match self.losses.reported_held {
            0 => "0".to_owned(),
            times => format!(
                "{}, {}",
                super::markdown::number(times),
                super::markdown::duration(self.losses.longest_reported_held_ms)
            ),
        }
    }
}
