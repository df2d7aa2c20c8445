//! The faults, each with a name, where it applies, and what it may cost.
//!
//! A fault begins, may go on with something over and over, and is healed. While several are on, they are healed in
//! any order.

mod administration;
mod clients;
pub(crate) mod clocks;
mod network;
mod partition;
mod roles;
mod servers;

use std::ops::Range;
use std::time::Duration;

use fastrand::Rng;

use crate::history::Scope;
use crate::workload::Workload;
use crate::world::{Kind, World};

/// A fault that can be injected.
pub(crate) struct Fault {
    pub(crate) name: &'static str,
    /// One sentence, for the report.
    pub(crate) what: &'static str,
    pub(crate) on: &'static [Kind],
    /// How long it lasts, in hundredths of a lease.
    pub(crate) lasts: Range<u64>,
    /// Deployments on which servers may forget by it what they have granted.
    pub(crate) forgets: &'static [Kind],
    /// Then they forget by themselves what they had; if not, one that is behind takes the place of another one.
    pub(crate) empties: bool,
    /// Needs what only some processes have.
    pub(crate) needs: Needs,
    begin: Begin,
}

type Begin = fn(&mut World, &mut Rng) -> Injected;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Servers that write everything to disk.
    Disk,
    /// Clocks that can be stepped.
    Clocks,
    /// A network of its own, servers with users of their own, and a firewall.
    Namespace,
    /// A group of processes whose memory is limited.
    MemoryLimit,
}

type Again = Box<dyn FnMut(&mut World)>;

/// A fault that is on.
pub(crate) struct Injected {
    /// What was done to whom.
    pub(crate) detail: String,
    pub(crate) scope: Scope,
    /// Done over and over while it is on.
    pub(crate) meanwhile: Option<Again>,
    pub(crate) heal: Box<dyn FnOnce(&mut World)>,
}

impl Injected {
    fn new(detail: impl Into<String>, heal: impl FnOnce(&mut World) + 'static) -> Self {
        let (detail, scope) = (detail.into(), Scope::default());
        Injected {
            detail,
            scope,
            meanwhile: None,
            heal: Box::new(heal),
        }
    }

    /// It reaches no other processes, unless by slots.
    fn of_process(mut self, number: u32) -> Self {
        self.scope.processes.push(number);
        self
    }

    /// It reaches no other locks, unless by processes.
    fn of_slots(mut self, slots: Vec<(u16, u16)>) -> Self {
        self.scope.slots = slots;
        self
    }

    fn meanwhile(self, again: impl FnMut(&mut World) + 'static) -> Self {
        Injected {
            meanwhile: Some(Box::new(again)),
            ..self
        }
    }
}

/// Where.
const EVERYWHERE: &[Kind] = &[Kind::Single, Kind::Sentinel, Kind::Cluster, Kind::Five];
const REPLACED: &[Kind] = &[Kind::Sentinel, Kind::Cluster];
const ALONE: &[Kind] = &[Kind::Single, Kind::Five];
const NOWHERE: &[Kind] = &[];

/// All of them, in the order of the report.
pub(crate) fn all() -> impl Iterator<Item = &'static Fault> {
    let groups = [
        clients::FAULTS,
        servers::FAULTS,
        network::FAULTS,
        roles::FAULTS,
        administration::FAULTS,
        clocks::FAULTS,
    ];
    groups.into_iter().flatten()
}

pub(crate) fn named(name: &str) -> Option<&'static Fault> {
    all().find(|fault| fault.name == name)
}

impl Fault {
    /// What most faults have in common: they apply everywhere, need nothing, and no server forgets by them.
    const fn lasting(lasts: Range<u64>, begin: Begin) -> Self {
        let (on, forgets, needs) = (EVERYWHERE, NOWHERE, Needs::Nothing);
        Fault {
            name: "",
            what: "",
            on,
            lasts,
            forgets,
            empties: false,
            needs,
            begin,
        }
    }

    pub(crate) fn begin(&self, world: &mut World, random: &mut Rng) -> Injected {
        (self.begin)(world, random)
    }

    pub(crate) fn span(&self, lease: Duration, random: &mut Rng) -> Duration {
        lease * u32::try_from(random.u64(self.lasts.clone())).expect("few") / 100
    }

    pub(crate) fn applies_to(&self, kind: Kind, workload: Workload) -> bool {
        self.on.contains(&kind) && (kind == Kind::Five) == (workload == Workload::Quorum)
    }

    /// It stops servers, changes who is master, or waits for servers to agree.
    pub(crate) fn is_of_servers(&self) -> bool {
        let groups = [servers::FAULTS, roles::FAULTS, administration::FAULTS];
        groups
            .into_iter()
            .flatten()
            .any(|fault| fault.name == self.name)
    }

    /// It has to do with the ways between clients and servers.
    pub(crate) fn is_of_lines(&self) -> bool {
        network::FAULTS.iter().any(|fault| fault.name == self.name)
            || self.needs == Needs::Namespace
    }

    /// It makes servers silent, so that others take their places.
    pub(crate) fn replaces(&self) -> bool {
        self.changes_masters() || self.forgets == REPLACED
    }

    pub(crate) fn changes_masters(&self) -> bool {
        roles::FAULTS.iter().any(|fault| fault.name == self.name)
    }

    /// Whether servers may forget grants by it. Of five, too: a lock may be held by no more than a majority of them.
    pub(crate) fn forgets_on(&self, kind: Kind) -> bool {
        self.forgets.contains(&kind)
    }
}
