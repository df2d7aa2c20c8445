//! What a worker is about to do: the same plan in the drivers of all libraries, and in ours.

use std::time::Duration;

use fastrand::Rng;

use crate::Arguments;

/// How often a long hold looks and writes.
const LONG_STEP: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) name: String,
    /// For the lock.
    pub(crate) wait: Duration,
    /// Inside.
    pub(crate) stay: Duration,
    pub(crate) step: Duration,
    /// It stays without looking, and looks and writes at the end only.
    pub(crate) is_paused: bool,
}

impl Plan {
    /// A quick one for workers with an even number, a long one for the others.
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
