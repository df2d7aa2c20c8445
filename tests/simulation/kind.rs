//! The kinds of locks that are simulated.

use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Plain,
    Fair,
    Fenced,
    ReadWrite,
    NonReentrant,
    /// Half of the clients take it as a plain lock: the two are one on the wire.
    Spin,
    String,
}

/// How often each comes in seeds that follow each other; each meets every weather in its turn.
const ROUND: [Kind; 12] = [
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

impl Kind {
    pub(crate) const ALL: [Kind; 7] = [
        Kind::Plain,
        Kind::Fair,
        Kind::Fenced,
        Kind::ReadWrite,
        Kind::NonReentrant,
        Kind::Spin,
        Kind::String,
    ];

    /// The kind of a seed when none was chosen.
    pub(crate) fn of(seed: u64) -> Kind {
        ROUND[usize::try_from(seed / 6 % 12).expect("small")]
    }

    pub(crate) fn named(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|kind| kind.to_string() == name)
    }

    /// The seeds of each kind are worlds of their own.
    pub(crate) fn stream(self, seed: u64) -> u64 {
        seed ^ (self as u64) << 40
    }

    /// The longest pause between two questions, ms, of those that ask instead of listening.
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
        f.write_str(match self {
            Kind::Plain => "plain",
            Kind::Fair => "fair",
            Kind::Fenced => "fenced",
            Kind::ReadWrite => "read_write",
            Kind::NonReentrant => "non_reentrant",
            Kind::Spin => "spin",
            Kind::String => "string",
        })
    }
}
