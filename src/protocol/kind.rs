//! What sorts of locks there are, and what sets them apart beyond their scripts.

use std::fmt;

/// The sort of a lock or synchronizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Kind {
    /// Re-entrant; also the non-reentrant lock, which differs in what its holder may do.
    Lock,
    /// As [`Kind::Lock`] on the wire; its waiters ask again instead of listening.
    Spin,
    Fair,
    Fenced,
    Read,
    Write,
    /// `SET NX PX`.
    String,
    Semaphore,
    /// Of the permit-expirable semaphore.
    Permit,
    /// Waited for, never held.
    Latch,
}

/// Who of one client asks Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    /// One for all, until its hold ends.
    Single,
    /// One for all; when it was granted the next asks at once, as there may be room for more.
    Chain,
    /// Everybody for itself: Redis keeps the order.
    Open,
}

/// How a hold passes to the next waiter of the same client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HandOver {
    Free,
    /// Only by a call that makes it a new acquisition.
    ByCall,
    Never,
}

/// What a waiter does between two questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Pace {
    /// Listens; asks when it is told or when the holder's lease ends.
    Told,
    /// Listens, and asks about once in a safety poll: not everything that lets it in is told.
    ToldOrPoll,
    /// Asks, with growing pauses up to so many milliseconds.
    Ask { first_ms: u64, most_ms: u64 },
}

impl Pace {
    /// Waiters are told when to ask.
    pub(crate) fn listens(self) -> bool {
        !matches!(self, Pace::Ask { .. })
    }
}

impl Kind {
    /// Its holder may stand in its own way; those of permits and latches do not.
    pub(crate) fn is_lock(self) -> bool {
        !matches!(self, Kind::Semaphore | Kind::Permit | Kind::Latch)
    }

    pub(crate) fn line(self) -> Line {
        match self {
            Kind::Lock | Kind::Spin | Kind::Fenced | Kind::Write | Kind::String => Line::Single,
            Kind::Read | Kind::Semaphore | Kind::Permit | Kind::Latch => Line::Chain,
            Kind::Fair => Line::Open,
        }
    }

    pub(crate) fn hand_over(self) -> HandOver {
        match self {
            Kind::Lock | Kind::Spin | Kind::Write => HandOver::Free,
            // The next one gets a token of its own; of a string lock the old one may be in other hands.
            Kind::Fenced | Kind::String => HandOver::ByCall,
            Kind::Fair | Kind::Read | Kind::Semaphore | Kind::Permit | Kind::Latch => {
                HandOver::Never
            }
        }
    }

    pub(crate) fn pace(self) -> Pace {
        match self {
            Kind::Lock | Kind::Fair | Kind::Fenced | Kind::Write => Pace::Told,
            Kind::Read | Kind::Semaphore | Kind::Permit | Kind::Latch => Pace::ToldOrPoll,
            Kind::Spin => Pace::Ask { first_ms: 1, most_ms: 128 },
            Kind::String => Pace::Ask { first_ms: 5, most_ms: 100 },
        }
    }

    /// Held by one owner at a time, at a key that exists just as long: the safety poll may ask for
    /// the key.
    pub(crate) fn is_polled_by_key(self) -> bool {
        matches!(self, Kind::Lock | Kind::Spin | Kind::Fenced | Kind::Write | Kind::String)
    }

    /// A remaining lease of none means a key without expiry, not a wait for a message.
    pub(crate) fn tells_of_missing_expiry(self) -> bool {
        !matches!(self, Kind::Fair | Kind::Semaphore | Kind::Permit | Kind::Latch)
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Lock => "lock",
            Kind::Spin => "spin lock",
            Kind::Fair => "fair lock",
            Kind::Fenced => "fenced lock",
            Kind::Read => "read lock",
            Kind::Write => "write lock",
            Kind::String => "string lock",
            Kind::Semaphore => "semaphore",
            Kind::Permit => "permit",
            Kind::Latch => "latch",
        })
    }
}
