//! Plans what a worker does next. The drivers of all libraries use the same plan.

use std::time::Duration;

use fastrand::Rng;

use crate::Arguments;

/// Time between two checks of a long hold.
const LONG_STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    /// How long to wait for the lock.
    pub(crate) wait: Duration,
    /// How long to hold the lock.
    pub(crate) stay: Duration,
    pub(crate) step: Duration,
    /// Whether the worker checks the lock and writes only at the end of the hold.
    pub(crate) is_paused: bool,
}

impl Plan {
    /// Plans a quick hold for workers with an even number, and a long hold for the others.
    pub(crate) fn next(worker: u32, arguments: &Arguments, random: &mut Rng) -> Self {
        let mut millis = |span| Duration::from_millis(random.u64(span));
        let Arguments { wait_ms, hold_ms, long_ms, step_ms, .. } = arguments;
        if worker % 2 == 0 {
            let (wait, stay) = (millis(wait_ms / 10..=*wait_ms), millis(hold_ms.clone()));
            let stay = if one_of(4, random) { Duration::ZERO } else { stay };
            let step = Duration::from_millis(*step_ms);
            let name = if one_of(8, random) { "plain:1" } else { "plain:0" }.to_owned();
            return Plan { name, wait, stay, step, is_paused: false };
        }
        let (wait, stay) = (Duration::from_millis(*wait_ms), millis(long_ms.clone()));
        let (name, is_paused) = ("plain:1".to_owned(), one_of(8, random));
        Plan { name, wait, stay, step: LONG_STEP, is_paused }
    }
}

fn one_of(number: u8, random: &mut Rng) -> bool {
    random.u8(0..number) == 0
}
