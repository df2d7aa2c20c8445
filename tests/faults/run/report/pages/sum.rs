//! Several cells as one.

use crate::result::{Cell, Overlaps};

#[derive(Default)]
pub(super) struct Sum {
    pub(super) cells: usize,
    pub(super) operations: u64,
    pub(super) overlaps: Overlaps,
    pub(super) violations: usize,
    pub(super) longest_wait_ms: u64,
    pub(super) keys_left: usize,
    pub(super) recovery_ms: Vec<u64>,
}

impl<'a> FromIterator<&'a Cell> for Sum {
    fn from_iter<T: IntoIterator<Item = &'a Cell>>(cells: T) -> Self {
        let mut sum = Self::default();
        for cell in cells {
            sum.cells += 1;
            sum.operations += cell.operations;
            sum.overlaps.valid += cell.overlaps.valid;
            sum.overlaps.excused += cell.overlaps.excused;
            sum.overlaps.invalid += cell.overlaps.invalid;
            sum.overlaps.longest_told_ms =
                sum.overlaps.longest_told_ms.max(cell.overlaps.longest_told_ms);
            sum.violations += cell.violations.len();
            sum.longest_wait_ms = sum.longest_wait_ms.max(cell.longest_wait_ms);
            sum.keys_left += cell.keys_left.len();
            sum.recovery_ms.extend(&cell.recovery_ms);
        }
        sum
    }
}

impl Sum {
    /// Two that both believed to hold the lock.
    pub(super) fn two_holders(&self) -> u64 {
        self.overlaps.valid + self.overlaps.excused
    }

    pub(super) fn told(&self) -> String {
        match self.two_holders() {
            0 => "–".to_owned(),
            _ => format!("within {}", super::markdown::duration(self.overlaps.longest_told_ms)),
        }
    }
}
