//! How many permits there are, as far as that can be known while changes are under way or in doubt.

use std::sync::Arc;

use leasehold::Error;
use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Totals(Arc<Mutex<Vec<Total>>>);

struct Total {
    low: i64,
    /// The most there may have been, each since when.
    high: Vec<(Instant, i64)>,
}

impl Total {
    fn high(&self) -> i64 {
        self.high.last().expect("never empty").1
    }

    fn set_high(&mut self, high: i64) {
        self.high.push((Instant::now(), high));
    }
}

impl Totals {
    pub(crate) fn new(names: usize, permits: i64) -> Self {
        let total = || Total {
            low: permits,
            high: vec![(Instant::now(), permits)],
        };
        Totals(Arc::new(Mutex::new((0..names).map(|_| total()).collect())))
    }

    pub(crate) fn names(&self) -> std::ops::Range<usize> {
        0..self.0.lock().len()
    }

    /// The fewest and the most there may be now.
    pub(crate) fn range(&self, name: usize) -> (i64, i64) {
        let totals = self.0.lock();
        (totals[name].low, totals[name].high())
    }

    /// The most there may have been at any time since then.
    pub(crate) fn most_since(&self, name: usize, at: Instant) -> i64 {
        let totals = self.0.lock();
        let later = totals[name].high.iter().rev();
        let mut most = i64::MIN;
        for (since, high) in later {
            most = most.max(*high);
            if *since <= at {
                break;
            }
        }
        most
    }

    /// So many more, or fewer, may be there from now on.
    pub(crate) fn begins(&self, name: usize, change: i64) {
        let mut totals = self.0.lock();
        let total = &mut totals[name];
        if change > 0 {
            let high = total.high() + change;
            total.set_high(high);
        } else {
            total.low += change;
        }
    }

    /// What became of the change; false if nobody knows.
    pub(crate) fn ends<T>(&self, name: usize, change: i64, done: &Result<T, Error>) -> bool {
        let mut totals = self.0.lock();
        let total = &mut totals[name];
        let applied = match done {
            Ok(_) => true,
            Err(Error::Unavailable { .. }) => false,
            Err(_) => return false,
        };
        match (applied, change > 0) {
            (true, true) => total.low += change,
            (false, false) => total.low -= change,
            (true, false) | (false, true) => {
                let high = total.high() - change.abs();
                total.set_high(high);
            }
        }
        true
    }

    /// It may be this number from now on.
    pub(crate) fn may_become(&self, name: usize, number: i64) {
        let mut totals = self.0.lock();
        let total = &mut totals[name];
        total.low = total.low.min(number);
        let high = total.high().max(number);
        total.set_high(high);
    }

    /// It is this number.
    pub(crate) fn is(&self, name: usize, number: i64) {
        let mut totals = self.0.lock();
        totals[name].low = number;
        totals[name].set_high(number);
    }
}
