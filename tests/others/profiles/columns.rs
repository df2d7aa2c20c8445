//! The columns of the table: each kind of lock, the synchronizers, and the client itself.

use leasehold_testbed::{KINDS, Kind};

use crate::behaviour::Behaviour;
use crate::locks::{OF_CLIENTS, OF_CLIENTS_OF_REAL, OF_KINDS};
use crate::synchronizers::{OF_LATCHES, OF_PERMITS, OF_SEMAPHORES};

/// The column of what does not depend on the kind.
pub(crate) const CLIENT: &str = "client";

/// A column and what must work there. Where the kind does not matter, it is the plain lock.
#[derive(Clone, Copy)]
pub(crate) struct Column {
    pub(crate) name: &'static str,
    pub(crate) kind: Kind,
    pub(crate) behaviours: &'static [Behaviour],
    pub(crate) of_real: &'static [Behaviour],
}

pub(crate) fn columns() -> impl Iterator<Item = Column> {
    let column = |name, kind, behaviours, of_real| Column {
        name,
        kind,
        behaviours,
        of_real,
    };
    let kinds = KINDS
        .iter()
        .map(move |kind| column(kind.name, *kind, OF_KINDS, OF_KINDS));
    let others = [
        ("semaphore", OF_SEMAPHORES, OF_SEMAPHORES),
        ("permits", OF_PERMITS, OF_PERMITS),
        ("latch", OF_LATCHES, OF_LATCHES),
        (CLIENT, OF_CLIENTS, OF_CLIENTS_OF_REAL),
    ];
    let others = others
        .into_iter()
        .map(move |(name, behaviours, of_real)| column(name, KINDS[0], behaviours, of_real));
    kinds.chain(others)
}
