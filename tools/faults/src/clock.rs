//! Two clocks: one that all processes of the machine share, and the one that people read.

use std::time::Duration;

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`, which no step of the wall clock moves.
pub(crate) fn monotonic() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970, as this process sees it.
pub(crate) fn wall() -> u64 {
    nanos(ClockId::CLOCK_REALTIME)
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("the system has the clock");
    u64::try_from(Duration::from(now).as_nanos()).expect("some hundred years")
}
