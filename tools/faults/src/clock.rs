//! The monotonic clock, which all processes of the machine share, and the wall clock.

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// Nanoseconds of `CLOCK_MONOTONIC`. Steps of the wall clock do not affect it.
pub(crate) fn monotonic() -> u64 {
    nanos(ClockId::CLOCK_MONOTONIC)
}

/// Nanoseconds since 1970 by the wall clock of this process, which a fault may have stepped.
pub(crate) fn wall() -> u64 {
    nanos(ClockId::CLOCK_REALTIME)
}

/// The instant at which that clock began. Read again and again until both clocks are read at the
/// same time.
pub(crate) fn zero() -> Instant {
    let read = || {
        let (before, instant, after) = (monotonic(), Instant::now(), monotonic());
        (after - before, before, instant)
    };
    let (_, at, instant) = (0..100)
        .map(|_| read())
        .min_by_key(|read| read.0)
        .expect("some");
    let zero = instant.checked_sub(Duration::from_nanos(at));
    zero.expect("both count from the start of the machine")
}

fn nanos(clock: ClockId) -> u64 {
    let now = clock_gettime(clock).expect("the system has the clock");
    u64::try_from(Duration::from(now).as_nanos()).expect("some hundred years")
}
