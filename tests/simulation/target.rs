//! What one user takes: a lock of the kind that is simulated, or its two sides.

use leasehold::{Client, Lock, Owner, ReadWriteLock};

use crate::kind::Kind;

/// How a lock is held. What has no sides is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    Read,
    Write,
}

impl Side {
    pub(crate) fn excludes(self, other: Side) -> bool {
        (self, other) != (Side::Read, Side::Read)
    }
}

/// Whether readers let writers of their client go first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Manners {
    Plain,
    PreferWriters,
}

#[derive(Clone)]
pub(crate) enum Target {
    One(Lock),
    Sides(ReadWriteLock),
}

impl Target {
    pub(crate) fn new(
        kind: Kind,
        (number, client): (usize, &Client),
        name: &str,
        owner: Option<&Owner>,
        manners: Manners,
    ) -> Self {
        let one = match kind {
            Kind::Plain => client.lock(name),
            Kind::Fair => client.fair_lock(name),
            Kind::Fenced => client.fenced_lock(name).into(),
            Kind::NonReentrant => client.non_reentrant_lock(name),
            Kind::Spin if number.is_multiple_of(2) => client.lock(name),
            Kind::Spin => client.spin_lock(name),
            Kind::String => client.string_lock(name),
            Kind::ReadWrite => {
                let both = client.read_write_lock(name);
                let both = match owner {
                    Some(owner) => both.owned_by(owner),
                    None => both,
                };
                return Target::Sides(match manners {
                    Manners::Plain => both,
                    Manners::PreferWriters => both.prefer_writers(),
                });
            }
        };
        Target::One(match owner {
            Some(owner) => one.owned_by(owner),
            None => one,
        })
    }

    pub(crate) fn side(&self, side: Side) -> &Lock {
        match (self, side) {
            (Target::One(lock), _) => lock,
            (Target::Sides(both), Side::Read) => both.read(),
            (Target::Sides(both), Side::Write) => both.write(),
        }
    }
}
