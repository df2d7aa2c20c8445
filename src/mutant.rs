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
    /// After its turn a client asks again as soon as the others do.
    NoPoliteness,

    // Of semaphores, latches and locks of several.
    /// An acquisition of permits leaves the holds of the dead where they are.
    DeadHoldersKept,
    /// A release gives back twice what was held.
    GivenBackTwice,
    /// An acquisition whose reply was lost is repeated under another name.
    RepeatIsFresh,
    /// A change of a number is repeated as if it were a new one.
    RepliesNotKept,
    /// Of all permits that expired one comes back.
    PurgeOne,
    /// A renewal takes permits again that are gone.
    RenewalResurrects,
    /// A message lets waiters pass a latch.
    MessageIsOpen,
    /// Where some of several locks could not be had, the first one is forgotten.
    RollbackForgetsFirst,
    /// Several locks are taken in the given order, and waited for while others are held.
    GivenOrder,
    /// One server less than a majority suffices.
    MinorityIsEnough,
    /// A quorum lock lasts as long as its last member.
    LastDeadline,
    /// The clocks of servers are taken for exact.
    DriftIgnored,

    // Of one kind of lock each.
    /// A waiter of a fair lock gives no sign of life.
    PlaceNotKept,
    /// A waiter that leaves the queue of a fair lock keeps its place.
    PlaceOfLeaverKept,
    /// A zero wait takes a free fair lock although others wait for it.
    ZeroWaitPasses,
    /// A waiter of a fair lock puts itself at the front of the queue.
    NewcomerFirst,
    /// The release of a fair lock does not tell the next in the queue.
    NextUntold,
    /// A hand-over of a fenced lock keeps the token of the hold before.
    TokenTakenOver,
    /// The release of a fenced lock deletes its counter.
    CounterEnds,
    /// Each hand-over by a call begins a new streak.
    TurnBeginsAgain,
    /// The renewal of a read hold forgets the key that lives as long as it.
    ReadRenewsHashOnly,
    /// Who reads and asks for the write side waits for itself.
    UpgradeWaits,
    /// The release of a write hold ends the read holds of its owner.
    DowngradeEndsReads,
    /// A write hold is handed on although its owner reads.
    WriteHandedOverReaders,
    /// A read hold is granted whoever writes.
    ReaderPassesWriter,
    /// A second acquisition of a non-reentrant lock joins the first.
    SecondJoins,
    /// A second acquisition of a non-reentrant lock waits for the first.
    SecondWaits,
    /// A waiter that does not listen asks again and again.
    SpinWithoutPause,
    /// A release tells nobody.
    ReleaseUntold,
    /// The release of a string lock deletes the key, whoever holds it.
    StringReleaseBlind,
    /// The renewal of a string lock extends the key, whoever holds it.
    StringRenewBlind,
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
        Mutant::NoPoliteness,
        // Of semaphores, latches and locks of several.
        Mutant::DeadHoldersKept,
        Mutant::GivenBackTwice,
        Mutant::RepeatIsFresh,
        Mutant::RepliesNotKept,
        Mutant::PurgeOne,
        Mutant::RenewalResurrects,
        Mutant::MessageIsOpen,
        Mutant::RollbackForgetsFirst,
        Mutant::GivenOrder,
        Mutant::MinorityIsEnough,
        Mutant::LastDeadline,
        Mutant::DriftIgnored,
        // Of one kind of lock each.
        Mutant::PlaceNotKept,
        Mutant::PlaceOfLeaverKept,
        Mutant::ZeroWaitPasses,
        Mutant::NewcomerFirst,
        Mutant::NextUntold,
        Mutant::TokenTakenOver,
        Mutant::CounterEnds,
        Mutant::TurnBeginsAgain,
        Mutant::ReadRenewsHashOnly,
        Mutant::UpgradeWaits,
        Mutant::DowngradeEndsReads,
        Mutant::WriteHandedOverReaders,
        Mutant::ReaderPassesWriter,
        Mutant::SecondJoins,
        Mutant::SecondWaits,
        Mutant::SpinWithoutPause,
        Mutant::ReleaseUntold,
        Mutant::StringReleaseBlind,
        Mutant::StringRenewBlind,
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
