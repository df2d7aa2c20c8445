//! The faults: their names, the deployments to which they apply, and the data that they may cost.
//!
//! A fault begins, may repeat an action while it is active, and is healed. Several active faults
//! may be healed in any order.

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
    /// How long the fault lasts, in hundredths of a lease.
    pub(crate) lasts: Range<u64>,
    /// Deployments on which the fault may make servers lose granted locks.
    pub(crate) forgets: &'static [Kind],
    /// If locks may be lost: whether the server itself loses its data. Otherwise a replica that
    /// lags behind replaces it.
    pub(crate) empties: bool,
    /// What the fault requires from the machine and the user.
    pub(crate) needs: Needs,
    begin: Begin,
}

type Begin = fn(&mut World, &mut Rng) -> Injected;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Needs {
    Nothing,
    /// Servers that write every change to disk.
    Disk,
    /// Clocks that can be stepped.
    Clocks,
    /// A network namespace, a user for each server, and a firewall.
    Namespace,
    /// A group of processes whose memory is limited.
    MemoryLimit,
}

type Action = Box<dyn FnMut(&mut World)>;

/// An active fault.
pub(crate) struct Injected {
    /// What was done, and to which process or server.
    pub(crate) detail: String,
    pub(crate) scope: Scope,
    /// Performed again and again while the fault is active.
    pub(crate) repeated: Option<Action>,
    pub(crate) heal: Box<dyn FnOnce(&mut World)>,
}

impl Injected {
    fn new(detail: impl Into<String>, heal: impl FnOnce(&mut World) + 'static) -> Self {
        let (detail, scope) = (detail.into(), Scope::default());
        Injected {
            detail,
            scope,
            repeated: None,
            heal: Box::new(heal),
        }
    }

    /// Limits the fault to this process, and to the slots of [`of_slots`](Self::of_slots).
    fn of_process(mut self, number: u32) -> Self {
        self.scope.processes.push(number);
        self
    }

    /// Limits the fault to locks in these slots, and to the processes of
    /// [`of_process`](Self::of_process).
    fn of_slots(mut self, slots: Vec<(u16, u16)>) -> Self {
        self.scope.slots = slots;
        self
    }

    fn repeatedly(self, action: impl FnMut(&mut World) + 'static) -> Self {
        Injected {
            repeated: Some(Box::new(action)),
            ..self
        }
    }
}

/// All deployments.
const EVERYWHERE: &[Kind] = &[Kind::Single, Kind::Sentinel, Kind::Cluster, Kind::Five];
/// Deployments in which a replica can replace a master.
const REPLACED: &[Kind] = &[Kind::Sentinel, Kind::Cluster];
/// Deployments of independent servers.
const ALONE: &[Kind] = &[Kind::Single, Kind::Five];
const NOWHERE: &[Kind] = &[];

/// All faults, in the order of the report.
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
    /// A fault with the usual properties: it applies everywhere, requires nothing, and loses no
    /// locks.
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
        lease * u32::try_from(random.u64(self.lasts.clone())).expect("a small number") / 100
    }

    pub(crate) fn applies_to(&self, kind: Kind, workload: Workload) -> bool {
        self.on.contains(&kind) && workload.runs_on(kind)
    }

    /// Whether the fault stops servers, changes masters, or has to wait for servers to agree.
    pub(crate) fn is_of_servers(&self) -> bool {
        let groups = [servers::FAULTS, roles::FAULTS, administration::FAULTS];
        groups
            .into_iter()
            .flatten()
            .any(|fault| fault.name == self.name)
    }

    /// Whether the fault affects connections between clients and servers.
    pub(crate) fn is_of_lines(&self) -> bool {
        network::FAULTS.iter().any(|fault| fault.name == self.name)
            || self.needs == Needs::Namespace
    }

    /// Whether the fault can make another server take over.
    pub(crate) fn replaces(&self) -> bool {
        self.changes_masters() || self.forgets == REPLACED
    }

    pub(crate) fn changes_masters(&self) -> bool {
        roles::FAULTS.iter().any(|fault| fault.name == self.name)
    }

    /// Whether servers may lose granted locks. This matters for five independent servers too,
    /// because a lock may be held on a bare majority of them.
    pub(crate) fn forgets_on(&self, kind: Kind) -> bool {
        self.forgets.contains(&kind)
    }
}
