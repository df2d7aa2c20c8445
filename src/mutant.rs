//! Faults put into this library on purpose, to show that its tests find them.
//!
//! Without the feature `test-util` a client has none and every question is answered at compile time.
#![cfg_attr(
    not(feature = "test-util"),
    expect(dead_code, unreachable_pub, reason = "only tests choose a mutant")
)]

/// One deliberate fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Mutant {
    /// A waiter goes to sleep right after subscribing, without asking again.
    NoRecheckAfterSubscribe,
    /// A renewal extends the key, whoever holds it.
    RenewWithoutOwnerTest,
    /// A release deletes the key, whoever holds it.
    ReleaseWithoutOwnerTest,
    /// The local deadline is counted from the reply, not from before the request.
    DeadlineFromReply,
    /// A cancelled attempt is not undone.
    CancelNotUndone,
    /// Waiters are not woken when messages may have been missed.
    LagIgnored,
    /// A hold is handed to the next local waiter without end.
    HandOverUnbounded,
    /// The watchdog goes on renewing a hold that was released.
    DisarmAfterRelease,
    /// An attempt whose reply was lost is taken as granted.
    UnknownIsGranted,
    /// An attempt whose reply was lost is forgotten when its wait ends.
    UnknownForgotten,
    /// A hold is not lost when its local deadline passes.
    DeadlineIgnored,
    /// A dropped guard does not release.
    DropForgotten,
    /// A waiter that leaves the front does not pass the front on.
    FrontStranded,
    /// A lost renewal is taken as a success.
    LossIgnored,
    /// A waiter sleeps without a timer on the holder's lease, and there is no safety poll.
    NoTimer,
    /// A second acquisition of one owner takes a fresh hold instead of re-entering.
    ReentryForgotten,
    /// An inner release ends the whole hold.
    InnerReleaseEnds,
}

impl Mutant {
    /// Every mutant.
    pub const ALL: &'static [Mutant] = &[
        Mutant::NoRecheckAfterSubscribe,
        Mutant::RenewWithoutOwnerTest,
        Mutant::ReleaseWithoutOwnerTest,
        Mutant::DeadlineFromReply,
        Mutant::CancelNotUndone,
        Mutant::LagIgnored,
        Mutant::HandOverUnbounded,
        Mutant::DisarmAfterRelease,
        Mutant::UnknownIsGranted,
        Mutant::UnknownForgotten,
        Mutant::DeadlineIgnored,
        Mutant::DropForgotten,
        Mutant::FrontStranded,
        Mutant::LossIgnored,
        Mutant::NoTimer,
        Mutant::ReentryForgotten,
        Mutant::InnerReleaseEnds,
    ];
}

/// The mutant of one client, if any.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Mutants {
    #[cfg(feature = "test-util")]
    pub(crate) active: Option<Mutant>,
}

impl Mutants {
    #[cfg(feature = "test-util")]
    pub(crate) fn has(self, mutant: Mutant) -> bool {
        self.active == Some(mutant)
    }

    #[cfg(not(feature = "test-util"))]
    #[expect(clippy::unused_self, reason = "the same call sites with and without the feature")]
    pub(crate) fn has(self, _mutant: Mutant) -> bool {
        false
    }
}
