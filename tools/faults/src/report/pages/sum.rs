//! Several cells as one.

use std::collections::{BTreeMap, BTreeSet};

use crate::report::runs::Run;
use crate::report::statistics;
use crate::result::{Cell, Holds, Losses, Met, Overlaps, Renewals};

#[derive(Default)]
pub(super) struct Sum {
    pub(super) cells: u64,
    /// The injections of each: all cells of a run share them.
    runs: BTreeMap<Run, u64>,
    seeds: BTreeSet<u64>,
    pub(super) operations: u64,
    pub(super) timeouts: u64,
    pub(super) holds: Holds,
    pub(super) renewals: Renewals,
    /// Here an injection counts for each cell.
    pub(super) met: Met,
    pub(super) losses: Losses,
    pub(super) overlaps: Overlaps,
    /// Of cells.
    excusable_permille: u64,
    pub(super) refused_writes: u64,
    /// Of each cell.
    pub(super) longest_waits_ms: Vec<u64>,
    pub(super) recovery_ms: Vec<u64>,
    pub(super) out_of_turn: u64,
    pub(super) keys_left: u64,
    pub(super) errors: BTreeMap<String, u64>,
    pub(super) violations: u64,
    /// Cells in which two valid holders were seen.
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

    fn add_holds(&mut self, of: &Holds) {
        self.holds.brief += of.brief;
        self.holds.beyond_a_lease += of.beyond_a_lease;
        self.holds.fixed += of.fixed;
        self.holds.extended += of.extended;
        self.holds.reentered += of.reentered;
        self.holds.paused += of.paused;
    }

    fn add_losses(&mut self, of: &Losses) {
        let all = &mut self.losses;
        all.with_cause += of.with_cause;
        all.without_cause += of.without_cause;
        all.longest_told_ms = all.longest_told_ms.max(of.longest_told_ms);
        all.said_held += of.said_held;
        all.longest_said_held_ms = all.longest_said_held_ms.max(of.longest_said_held_ms);
    }

    /// Starts of the program.
    pub(super) fn runs(&self) -> u64 {
        self.runs.len() as u64
    }

    pub(super) fn seeds(&self) -> u64 {
        self.seeds.len() as u64
    }

    /// Each once, however many cells it met.
    pub(super) fn injections(&self) -> u64 {
        self.runs.values().sum()
    }

    /// Two that both believed to hold the lock.
    pub(super) fn two_holders(&self) -> u64 {
        self.overlaps.valid + self.overlaps.excused
    }

    /// The mean of the cells.
    pub(super) fn excusable(&self) -> String {
        super::markdown::percent(self.excusable_permille / self.cells.max(1))
    }

    pub(super) fn longest_wait(&self) -> String {
        super::longest(&self.longest_waits_ms)
    }

    /// The middle and the longest.
    pub(super) fn recovery(&self) -> String {
        let Some(median) = statistics::median(&self.recovery_ms) else {
            return "–".to_owned();
        };
        let median = super::markdown::duration(median);
        format!("{median}, {}", super::longest(&self.recovery_ms))
    }

    pub(super) fn told(&self) -> String {
        match self.losses.longest_told_ms {
            0 => "–".to_owned(),
            ms => super::markdown::duration(ms),
        }
    }

    /// How often, and for how long at most.
    pub(super) fn said_held(&self) -> String {
        match self.losses.said_held {
            0 => "0".to_owned(),
            times => format!(
                "{}, {}",
                super::markdown::number(times),
                super::markdown::duration(self.losses.longest_said_held_ms)
            ),
        }
    }
}
