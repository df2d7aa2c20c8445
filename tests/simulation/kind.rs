//! The kinds of locks and synchronizers that are simulated.

use std::fmt;

/// Who takes part.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cast {
    Usual,
    /// Each client of a lock has an additional user that does rare things.
    Wild,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Fair,
    Fenced,
    ReadWrite,
    NonReentrant,
    /// Half of the clients take it as a plain lock, which is the same on the wire.
    Spin,
    String,
    Semaphore,
    /// Semaphores whose permits have ids and leases of their own.
    Permits,
    Latch,
    Multi,
    Quorum,
}

const NAMES: [(Kind, &str); 12] = [
    (Kind::Plain, "plain"),
    (Kind::Fair, "fair"),
    (Kind::Fenced, "fenced"),
    (Kind::ReadWrite, "read_write"),
    (Kind::NonReentrant, "non_reentrant"),
    (Kind::Spin, "spin"),
    (Kind::String, "string"),
    (Kind::Semaphore, "semaphore"),
    (Kind::Permits, "permits"),
    (Kind::Latch, "latch"),
    (Kind::Multi, "multi"),
    (Kind::Quorum, "quorum"),
];

/// How often each lock occurs in consecutive seeds. Each meets every weather in turn.
const LOCKS: [Kind; 12] = [
    Kind::Plain,
    Kind::Fair,
    Kind::ReadWrite,
    Kind::Fenced,
    Kind::Plain,
    Kind::Spin,
    Kind::Fair,
    Kind::String,
    Kind::Plain,
    Kind::ReadWrite,
    Kind::NonReentrant,
    Kind::Plain,
];

/// The other kinds come after the locks, once in each round. They have no wild users.
const OTHERS: [Kind; 5] = [
    Kind::Semaphore,
    Kind::Permits,
    Kind::Latch,
    Kind::Multi,
    Kind::Quorum,
];

impl Kind {
    pub(crate) fn all() -> impl Iterator<Item = Kind> {
        NAMES.into_iter().map(|(kind, _)| kind)
    }

    /// The kind of a seed when none was chosen.
    pub(crate) fn of(seed: u64, cast: Cast) -> Kind {
        let round = match cast {
            Cast::Usual => LOCKS.len() + OTHERS.len(),
            Cast::Wild => LOCKS.len(),
        };
        let at = usize::try_from(seed / 6 % round as u64).expect("small");
        LOCKS
            .into_iter()
            .chain(OTHERS)
            .nth(at)
            .expect("within a round")
    }

    pub(crate) fn named(name: &str) -> Option<Kind> {
        NAMES
            .into_iter()
            .find(|(_, own)| *own == name)
            .map(|(kind, _)| kind)
    }

    /// The random numbers for one purpose. Each kind has its own sequence of seeds.
    pub(crate) fn rng(self, seed: u64, purpose: u64) -> fastrand::Rng {
        fastrand::Rng::with_seed(seed ^ (self as u64) << 40 ^ purpose)
    }

    /// A lock of one name on one server.
    pub(crate) fn is_lock(self) -> bool {
        !OTHERS.contains(&self)
    }

    /// A release gives it to a waiter that is listed. The others do not learn the new lease then,
    /// and notice by their safety poll if it ends without a release
    /// (`docs/dev/decisions/0014-a-plain-lock-is-handed-over.md`).
    pub(crate) fn is_given(self) -> bool {
        // The same on the wire.
        matches!(self, Kind::Plain | Kind::NonReentrant)
    }

    /// The longest pause between two polls in ms, for kinds that poll.
    pub(crate) fn asks_within_ms(self) -> Option<u64> {
        match self {
            Kind::Spin => Some(128),
            Kind::String => Some(100),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAMES[*self as usize].1)
    }
}
