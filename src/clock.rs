//! The clock of holds: tokio's clock, plus the time during which the machine was suspended.
//!
//! Redis keeps counting a lease while the machine of its holder is suspended. The clock of tokio's
//! timers may not: it is `CLOCK_MONOTONIC` on Linux and the uptime on macOS, and both stand still
//! meanwhile. So deadlines of holds are [`Moment`]s, which count that time. They are converted to
//! tokio's `Instant` where a timer is set.
//!
//! | system | what is counted in addition to tokio's clock |
//! | --- | --- |
//! | Linux, Android | the growth of `CLOCK_BOOTTIME` beyond `CLOCK_MONOTONIC` |
//! | macOS, iOS | the growth of `CLOCK_MONOTONIC_RAW`, which counts sleep there, beyond the uptime |
//! | others | nothing: on Windows tokio's clock counts sleep itself |
//!
//! If the host pauses a virtual machine, none of these clocks counts that time, unless the host
//! tells the guest.

use std::ops::Add;
use std::time::Duration;

use tokio::time::Instant;

#[cfg(any(test, feature = "test-util"))]
pub use self::machine::Machine;

/// A point in time that was read from a [`Clock`]: tokio's, plus the time of all suspensions before
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Instant);

/// One reading of the clock, for all that a step decides.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reading {
    /// By tokio's clock.
    pub(crate) instant: Instant,
    suspended: Duration,
}

impl Reading {
    pub(crate) fn moment(&self) -> Moment {
        Moment(self.instant + self.suspended)
    }

    /// When tokio's timers reach a moment, unless the machine is suspended first. A past moment
    /// gives a past instant.
    pub(crate) fn timer(&self, moment: Moment) -> Instant {
        let timer = moment.checked_sub(self.suspended);
        timer.map_or(self.instant, |timer| timer.0)
    }
}

/// The clock of a client. Only moments of the same clock are compared.
#[derive(Clone, Debug)]
pub(crate) struct Clock {
    counts: Counts,
    #[cfg(any(test, feature = "test-util"))]
    machine: Machine,
}

/// Which time counts for the leases of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counts {
    /// All time, because a server counts the leases.
    AllTime,
    /// The time of tokio's clock. The embedded engine counts leases by the same clock, which may be
    /// paused.
    TimerTime,
}

impl Clock {
    #[cfg(not(any(test, feature = "test-util")))]
    pub(crate) fn new(counts: Counts) -> Self {
        Clock { counts }
    }

    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn new(counts: Counts) -> Self {
        Clock {
            counts,
            machine: Machine::default(),
        }
    }

    /// The clock of a machine that a test suspends.
    #[cfg(any(test, feature = "test-util"))]
    pub(crate) fn on(self, machine: &Machine) -> Self {
        Clock {
            machine: machine.clone(),
            ..self
        }
    }

    /// A reading between the start and the end of this call. It asks the system three times.
    pub(crate) fn read(&self) -> Reading {
        // This order matters: if the thread stalls between the two, tokio's clock counts that time
        // as well.
        let suspended = self.suspended();
        let instant = Instant::now();
        Reading { instant, suspended }
    }

    pub(crate) fn now(&self) -> Moment {
        self.read().moment()
    }

    /// When tokio's timers reach a moment, as [`Reading::timer`].
    pub(crate) fn timer(&self, moment: Moment) -> Instant {
        self.read().timer(moment)
    }

    /// How long the machine was suspended since the process first asked.
    pub(crate) fn suspended(&self) -> Duration {
        let suspended = match self.counts {
            Counts::AllTime => system::suspended(),
            Counts::TimerTime => Duration::ZERO,
        };
        #[cfg(any(test, feature = "test-util"))]
        let suspended = suspended + self.machine.suspended();
        suspended
    }
}

impl Moment {
    pub(crate) fn instant(self) -> std::time::Instant {
        self.0.into_std()
    }

    pub(crate) fn checked_sub(self, span: Duration) -> Option<Moment> {
        self.0.checked_sub(span).map(Moment)
    }

    /// The time since an earlier moment; zero if that is not earlier.
    pub(crate) fn saturating_duration_since(self, earlier: Moment) -> Duration {
        self.0.saturating_duration_since(earlier.0)
    }
}

impl Add<Duration> for Moment {
    type Output = Moment;

    fn add(self, span: Duration) -> Moment {
        Moment(self.0 + span)
    }
}

/// How long the system says that it was suspended since this was first asked.
#[cfg(feature = "test-util")]
pub fn suspended() -> Duration {
    system::suspended()
}

/// Systems with a clock that continues while tokio's stands still, and at the same rate.
#[cfg(any(target_os = "linux", target_os = "android", target_vendor = "apple"))]
mod system {
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicI64, Ordering};
    use std::time::Duration;

    use nix::time::{ClockId, clock_gettime};

    #[cfg(any(target_os = "linux", target_os = "android"))]
    const COUNTS_SLEEP: ClockId = ClockId::CLOCK_BOOTTIME;
    #[cfg(any(target_os = "linux", target_os = "android"))]
    const TIMERS: ClockId = ClockId::CLOCK_MONOTONIC;
    // Neither clock is adjusted.
    #[cfg(target_vendor = "apple")]
    const COUNTS_SLEEP: ClockId = ClockId::from_raw(nix::libc::CLOCK_MONOTONIC_RAW);
    #[cfg(target_vendor = "apple")]
    const TIMERS: ClockId = ClockId::from_raw(nix::libc::CLOCK_UPTIME_RAW);

    /// The difference that reading two clocks one after the other may show, in nanoseconds. Far
    /// below the margin of a deadline.
    const NOISE: i64 = 100_000;

    /// The best of several first readings is used, because a thread may stall between two clocks.
    const FIRST_READINGS: usize = 5;

    /// By how many nanoseconds the clock that counts sleep is ahead of that of timers. It is not
    /// tokio's, which a test may pause: paused time is no suspension. A thread that stalls between
    /// the two readings sees less, so that its stall does not look like a suspension.
    fn ahead() -> i64 {
        let (counts_sleep, timers) = (nanoseconds(COUNTS_SLEEP), nanoseconds(TIMERS));
        counts_sleep - timers
    }

    fn nanoseconds(clock: ClockId) -> i64 {
        let read = clock_gettime(clock).map_or(Duration::ZERO, Duration::from);
        i64::try_from(read.as_nanos()).unwrap_or(i64::MAX)
    }

    pub(super) fn suspended() -> Duration {
        static FIRST: LazyLock<i64> =
            LazyLock::new(|| (0..FIRST_READINGS).map(|_| ahead()).max().unwrap_or(0));
        /// Nanoseconds. Only a suspension changes it, and it never decreases.
        static COUNTED: AtomicI64 = AtomicI64::new(0);
        let now = ahead() - *FIRST;
        let counted = COUNTED.load(Ordering::Relaxed);
        let counted = if now <= counted + NOISE {
            counted
        } else {
            now.max(COUNTED.fetch_max(now, Ordering::Relaxed))
        };
        Duration::from_nanos(counted.unsigned_abs())
    }
}

#[cfg(not(any(target_os = "linux", target_os = "android", target_vendor = "apple")))]
mod system {
    use std::time::Duration;

    pub(super) const fn suspended() -> Duration {
        Duration::ZERO
    }
}

#[cfg(any(test, feature = "test-util"))]
mod machine {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::time::Duration;

    /// A machine that a test suspends: its clients see time pass, their timers do not.
    #[derive(Clone, Debug, Default)]
    pub struct Machine {
        nanoseconds: Arc<AtomicU64>,
    }

    impl Machine {
        /// Acts as if the machine had just woken up after this time.
        pub fn suspend_for(&self, span: Duration) {
            let nanoseconds = u64::try_from(span.as_nanos()).unwrap_or(u64::MAX);
            self.nanoseconds.fetch_add(nanoseconds, Ordering::SeqCst);
        }

        pub(super) fn suspended(&self) -> Duration {
            Duration::from_nanos(self.nanoseconds.load(Ordering::SeqCst))
        }
    }
}

#[cfg(test)]
mod tests;
