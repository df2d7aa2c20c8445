//! The kinds of locks and synchronizers: one row for each, with all properties except its calls.

use KeyName::{DoubleTagged, Ours, Prefixed, Suffixed, Tagged};
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

/// The kind of a lock or synchronizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// Re-entrant. Also used for the non-reentrant lock, which differs only in what its holder may
    /// do.
    Lock,
    /// The same as [`Kind::Lock`] on the wire, but its waiters poll instead of listening.
    Spin,
    /// Waiters have places in a queue.
    Fair,
    /// Grants have tokens.
    Fenced,
    /// The side of the readers.
    Read,
    /// The side of the writer.
    Write,
    /// `SET NX PX`.
    String,
    /// A number of permits.
    Semaphore,
    /// The permit-expirable semaphore.
    Permit,
    /// The latch, which is waited for and never held.
    Latch,
}

/// Which waiters of one client ask Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Contenders {
    /// One on behalf of all, until its hold ends.
    One,
    /// One on behalf of all. When it was granted, the next asks at once, because more may be
    /// available.
    Successive,
    /// Each for itself, because Redis keeps the order.
    All,
}

/// What a waiter does between two calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WaitMode {
    /// Listens, and asks when a message comes or the holder's lease ends.
    Listen,
    /// Listens, and polls about once a second, because some events that let it go on are not
    /// published.
    ListenAndPoll,
    /// Polls, with growing pauses.
    Poll { first: Duration, longest: Duration },
}

impl WaitMode {
    /// True if waiters receive a message when they should ask.
    pub(crate) fn listens(self) -> bool {
        !matches!(self, WaitMode::Poll { .. })
    }
}

/// The properties of a kind.
struct Row {
    name: &'static str,
    contenders: Contenders,
    /// A hold may pass to the next waiter of the same client without a call.
    hands_over: bool,
    wait_mode: WaitMode,
    /// There is one owner at a time, and the key exists exactly while the lock is held. So the
    /// safety poll can check the key.
    polled_by_key: bool,
    /// A missing remaining lease means a key without expiry, rather than a wait for a message.
    tells_of_missing_expiry: bool,
    /// The channel of its releases.
    channel: KeyName,
    /// The extra keys, in the order in which the scripts take them.
    extra_keys: &'static [KeyName],
}

/// The channel of the re-entrant lock and of the locks that Redisson derives from it.
const LOCK_CHANNEL: KeyName = Prefixed("redisson_lock__channel");

const LOCK: Row = Row {
    name: "lock",
    contenders: Contenders::One,
    hands_over: true,
    wait_mode: WaitMode::Listen,
    polled_by_key: true,
    tells_of_missing_expiry: true,
    channel: LOCK_CHANNEL,
    extra_keys: &[],
};

const SPIN: Row = Row {
    name: "spin lock",
    wait_mode: WaitMode::Poll {
        first: Duration::from_millis(1),
        longest: Duration::from_millis(128),
    },
    ..LOCK
};

const FAIR: Row = Row {
    name: "fair lock",
    contenders: Contenders::All,
    hands_over: false,
    polled_by_key: false,
    tells_of_missing_expiry: false,
    extra_keys: &[Prefixed(FAIR_QUEUE), Prefixed("redisson_lock_timeout")],
    ..LOCK
};

const FENCED: Row = Row {
    name: "fenced lock",
    // The next holder needs a token of its own.
    hands_over: false,
    extra_keys: &[Prefixed(FENCE_COUNTER)],
    ..LOCK
};

const WRITE: Row = Row {
    name: "write lock",
    channel: Prefixed("redisson_rwlock"),
    extra_keys: &[Tagged],
    ..LOCK
};

const READ: Row = Row {
    name: "read lock",
    contenders: Contenders::Successive,
    hands_over: false,
    wait_mode: WaitMode::ListenAndPoll,
    polled_by_key: false,
    ..WRITE
};

const STRING: Row = Row {
    name: "string lock",
    // Others may know the owner's text.
    hands_over: false,
    wait_mode: WaitMode::Poll {
        first: Duration::from_millis(5),
        longest: Duration::from_millis(100),
    },
    ..LOCK
};

const SEMAPHORE: Row = Row {
    name: "semaphore",
    tells_of_missing_expiry: false,
    channel: Prefixed("redisson_sc"),
    extra_keys: &[Ours(SEMAPHORE_HOLDS)],
    ..READ
};

const PERMIT: Row = Row {
    name: "permit",
    extra_keys: &[Suffixed("timeout")],
    ..SEMAPHORE
};

const LATCH: Row = Row {
    name: "latch",
    channel: DoubleTagged("redisson_countdownlatch__channel__"),
    extra_keys: &[],
    ..SEMAPHORE
};

/// The prefix of the queue of a fair lock.
pub const FAIR_QUEUE: &str = "redisson_lock_queue";
/// The prefix of the counter of a fenced lock.
pub const FENCE_COUNTER: &str = "redisson_lock_token";
/// The prefix of the holds of a semaphore.
pub const SEMAPHORE_HOLDS: &str = "leasehold_semaphore";
/// The prefix of the limit of a semaphore.
pub const SEMAPHORE_LIMIT: &str = "leasehold_limit";

impl Kind {
    fn row(self) -> &'static Row {
        match self {
            Kind::Lock => &LOCK,
            Kind::Spin => &SPIN,
            Kind::Fair => &FAIR,
            Kind::Fenced => &FENCED,
            Kind::Read => &READ,
            Kind::Write => &WRITE,
            Kind::String => &STRING,
            Kind::Semaphore => &SEMAPHORE,
            Kind::Permit => &PERMIT,
            Kind::Latch => &LATCH,
        }
    }

    /// A word for the kind that never changes, for telemetry.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Kind::Lock => "lock",
            Kind::Spin => "spin",
            Kind::Fair => "fair",
            Kind::Fenced => "fenced",
            Kind::Read => "read",
            Kind::Write => "write",
            Kind::String => "string",
            Kind::Semaphore => "semaphore",
            Kind::Permit => "permit",
            Kind::Latch => "latch",
        }
    }

    /// True if its owner could wait for itself. That does not apply to permits and latches.
    pub fn is_lock(self) -> bool {
        !matches!(self, Kind::Semaphore | Kind::Permit | Kind::Latch)
    }

    pub(crate) fn contenders(self) -> Contenders {
        self.row().contenders
    }

    pub(crate) fn hands_over(self) -> bool {
        self.row().hands_over
    }

    pub(crate) fn wait_mode(self) -> WaitMode {
        self.row().wait_mode
    }

    pub(crate) fn is_polled_by_key(self) -> bool {
        self.row().polled_by_key
    }

    pub(crate) fn tells_of_missing_expiry(self) -> bool {
        self.row().tells_of_missing_expiry
    }

    pub(super) fn channel(self, key: &str) -> Arc<str> {
        self.row().channel.of(key)
    }

    pub(super) fn extra_keys(self, key: &str) -> Box<[Arc<str>]> {
        self.row()
            .extra_keys
            .iter()
            .map(|name| name.of(key))
            .collect()
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().name)
    }
}

// Every key and channel name, following Redisson's `RedissonObject`.
//
// A name that contains a brace is used as it is, because its user has chosen the hash tag. Any
// other name is put in braces where a prefix or suffix is added, so that all keys of one lock
// share a slot.

/// How the name of a key or channel is made from the name of its lock.
#[derive(Clone, Copy, Debug)]
pub enum KeyName {
    /// `prefix:{name}`.
    Prefixed(&'static str),
    /// Like [`KeyName::Prefixed`], for a key that only this crate reads: a name that has braces
    /// gets a second colon, so that `x` and `{x}` do not share the key.
    Ours(&'static str),
    /// `{name}`.
    Tagged,
    /// `{name}:suffix`.
    Suffixed(&'static str),
    /// `prefix{name}`, always with braces, whatever the name contains.
    DoubleTagged(&'static str),
}

impl KeyName {
    /// The name for this lock.
    pub fn of(self, name: &str) -> Arc<str> {
        let tagged = if name.contains('{') {
            name.to_owned()
        } else {
            format!("{{{name}}}")
        };
        Arc::from(match self {
            Ours(prefix) if name.contains('{') => format!("{prefix}::{name}"),
            Ours(prefix) | Prefixed(prefix) => format!("{prefix}:{tagged}"),
            Tagged => tagged,
            Suffixed(suffix) => format!("{tagged}:{suffix}"),
            DoubleTagged(prefix) => format!("{prefix}{{{name}}}"),
        })
    }
}

/// True for `{x}`. Keys and channels that are made from this name are those that are made from `x`.
pub(crate) fn is_only_a_tag(name: &str) -> bool {
    let inner = name
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.contains(['{', '}']))
}

/// The reason why a name cannot be used, if any.
///
/// Redis hashes the text between the first `{` and the first `}` after it, if that is not
/// empty. A brace that makes no such tag would put the keys of one lock in different slots.
pub fn slot_fault(name: &str) -> Option<&'static str> {
    let Some(open) = name.find('{') else {
        return name
            .contains('}')
            .then_some("a closing brace without an opening one");
    };
    match name[open + 1..].find('}') {
        None => Some("an opening brace without a closing one"),
        Some(0) => Some("an empty pair of braces"),
        Some(_) if name[..open].contains('}') => Some("a closing brace before the opening one"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_of_a_plain_and_of_a_tagged_name() {
        let channel = Prefixed("redisson_lock__channel");
        assert_eq!(
            &*channel.of("orders:42"),
            "redisson_lock__channel:{orders:42}"
        );
        assert_eq!(
            &*channel.of("{shop}:orders:42"),
            "redisson_lock__channel:{shop}:orders:42"
        );
    }

    #[test]
    fn a_name_in_braces_shares_its_keys() {
        let queue = Prefixed("redisson_lock_queue");
        for (name, other) in [("x", "{x}"), ("{a}b", "{{a}b}"), ("a{b}", "{a{b}}")] {
            let shares = queue.of(name) == queue.of(other);
            assert_eq!(is_only_a_tag(other), shares, "{other}");
            assert!(!is_only_a_tag(name), "{name}");
        }
    }

    #[test]
    fn names_that_would_split_the_slots_are_found() {
        for bad in ["a}b", "a{b", "{}x", "a}b{c}", "{", "}"] {
            assert!(slot_fault(bad).is_some(), "{bad}");
        }
        for good in ["a", "orders:42", "{shop}:orders", "x{y}z", "{a}{b"] {
            assert_eq!(slot_fault(good), None, "{good}");
        }
    }
}
