//! A clock that keeps counting while the machine is suspended, and shows the same time in all
//! processes.

use std::time::Duration;

#[cfg(any(target_os = "linux", target_os = "android"))]
const CLOCK: nix::time::ClockId = nix::time::ClockId::CLOCK_BOOTTIME;
/// On macOS, this clock includes the time in which the machine sleeps.
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const CLOCK: nix::time::ClockId = nix::time::ClockId::CLOCK_MONOTONIC;

/// A reading of the clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Moment(Duration);

/// The present time.
pub(crate) fn now() -> Moment {
    Moment(
        nix::time::clock_gettime(CLOCK)
            .expect("the system has this clock")
            .into(),
    )
}

impl Moment {
    pub(crate) fn after(self, span: Duration) -> Moment {
        Moment(self.0.saturating_add(span))
    }

    pub(crate) fn before(self, span: Duration) -> Moment {
        Moment(self.0.saturating_sub(span))
    }

    /// The time left until this moment, or zero if it has passed.
    pub(crate) fn left(self) -> Duration {
        self.0.saturating_sub(now().0)
    }

    /// The time since this moment, or zero if it has not come.
    pub(crate) fn passed(self) -> Duration {
        now().0.saturating_sub(self.0)
    }

    pub(crate) fn has_come(self) -> bool {
        now() >= self
    }

    /// The text from which another process can read the moment.
    pub(crate) fn to_text(self) -> String {
        self.0.as_nanos().to_string()
    }

    pub(crate) fn of_text(text: &str) -> Option<Moment> {
        text.parse()
            .ok()
            .map(|nanos| Moment(Duration::from_nanos(nanos)))
    }
}
