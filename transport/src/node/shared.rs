//! The state that callers and the tasks of a node share.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Notify, watch};
use tokio::time::Duration;

use crate::call_error::Fault;
use crate::grace::{Former, Grace};
use crate::identity::Identity;
use crate::lane::{Lane, Role};
use crate::remote::Remote;
use crate::setup::Setup;
use crate::slot::ConnectionSlot;
use crate::subscriptions::SubscriptionRegistry;

/// The lanes in the order of the slots.
pub(crate) const LANES: [Lane; 2] = [Lane::Caller, Lane::Background];

/// The role of the primary connection, which is opened first. It carries the renewals and is driven
/// by the library's own thread. So a client that gets only some of its connections can keep its
/// holds.
pub(super) const PRIMARY_CONNECTION: Role = Role::Calls(Lane::Background);

/// The first pause after a refused attempt to connect.
pub(super) const PAUSE_MIN: Duration = Duration::from_millis(5);
/// The longest pause between refused attempts to connect.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(1);

pub(crate) struct NodeState {
    pub(super) target: watch::Sender<Target>,
    pub(super) setup: Setup,
    pub(super) slots: [ConnectionSlot; LANES.len()],
    pub(super) grace: Grace,
    pub(super) subscriptions: Arc<SubscriptionRegistry>,
    pub(super) reconnects: AtomicU64,
    /// Notified when a connection was lost or could not be opened.
    pub(super) lost: Arc<Notify>,
    /// The progress of each role's connection.
    pub(super) progress: watch::Sender<[Progress; 3]>,
    /// Wakes the other supervisors in a fixed order, so that simulations are repeatable. A `watch`
    /// would not.
    pub(super) primary_connection_changed: Notify,
    /// Whether the transport was closed or dropped.
    pub(super) stopped: watch::Sender<bool>,
}

/// The target of a node's connections.
#[derive(Clone)]
pub(super) struct Target {
    pub(super) generation: u64,
    /// How to reach the server, or why none is known.
    pub(super) remote: Result<Arc<Remote>, Fault>,
    /// The identity of the server, once a connection has reached it.
    pub(super) server: Option<Identity>,
    /// The server before a switch of the target.
    pub(super) former: Former,
}

/// The progress of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Progress {
    /// The first connection attempt has not ended yet.
    Opening,
    Connected,
    NotConnected,
}

impl NodeState {
    pub(super) fn new(
        remote: Result<Arc<Remote>, Fault>,
        former: Former,
        setup: Setup,
        lost: Arc<Notify>,
    ) -> Arc<Self> {
        let grace = Grace::new(setup.timing.grace);
        Arc::new(NodeState {
            target: watch::Sender::new(Target {
                generation: 0,
                remote,
                server: None,
                former,
            }),
            setup,
            slots: LANES.map(|_| ConnectionSlot::new()),
            grace,
            subscriptions: Arc::new(SubscriptionRegistry::default()),
            reconnects: AtomicU64::new(0),
            lost,
            progress: watch::Sender::new([Progress::Opening; 3]),
            primary_connection_changed: Notify::new(),
            stopped: watch::Sender::new(false),
        })
    }

    pub(super) fn primary_connection(&self) -> Progress {
        self.progress.borrow()[position(PRIMARY_CONNECTION)]
    }

    /// How often the primary connection was lost.
    pub(super) fn primary_connection_losses(&self) -> u64 {
        self.slot(Lane::Background).epoch()
    }

    /// Records that the primary connection cannot be opened. The others are not tried.
    pub(super) fn unreachable(&self, fault: &Fault) {
        self.explain(fault);
        self.progress.send_modify(|all| {
            for progress in all
                .iter_mut()
                .filter(|progress| **progress == Progress::Opening)
            {
                *progress = Progress::NotConnected;
            }
        });
    }

    /// The error of calls until the first attempt to reach the target has ended.
    pub(super) fn begins(&self) {
        if let Ok(remote) = &self.target.borrow().remote {
            self.explain(&remote.no_answer_yet().into_fault());
        }
    }

    fn explain(&self, fault: &Fault) {
        self.slots
            .iter()
            .for_each(|slot| slot.unreachable(not_now(fault)));
        self.subscriptions.unreachable(not_now(fault));
    }

    pub(crate) fn slot(&self, lane: Lane) -> &ConnectionSlot {
        match lane {
            Lane::Caller => &self.slots[0],
            Lane::Background => &self.slots[1],
        }
    }

    pub(super) fn progressed(&self, role: Role, now: Progress) {
        self.progress
            .send_modify(|progress| progress[position(role)] = now);
        if role == PRIMARY_CONNECTION {
            self.primary_connection_changed.notify_waiters();
        }
    }

    pub(super) fn reconnected(&self) {
        self.reconnects.fetch_add(1, Ordering::Relaxed);
        self.setup.events.reconnected(&self.server());
    }

    pub(super) fn server(&self) -> String {
        match &self.target.borrow().remote {
            Ok(remote) => remote.endpoint.clone(),
            Err(fault) => fault.to_string(),
        }
    }

    /// Ends the supervisors. Every later call returns
    /// [`CallError::Closed`](crate::CallError::Closed).
    pub(super) fn close(&self) {
        self.refuse_calls();
        self.stopped.send_replace(true);
    }

    pub(super) fn refuse_calls(&self) {
        self.slots.iter().for_each(ConnectionSlot::close);
        self.subscriptions.close();
    }
}

pub(super) fn position(role: Role) -> usize {
    match role {
        Role::Calls(Lane::Caller) => 0,
        Role::Calls(Lane::Background) => 1,
        Role::Messages => 2,
    }
}

pub(super) fn not_now(fault: &Fault) -> Fault {
    Fault(format!("not connected: {fault}"))
}
