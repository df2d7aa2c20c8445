//! A supervisor maintains one connection of a node: it opens the connection, watches it, gives it
//! up and replaces it. Each is a task on the library's own runtime, so that it survives the
//! caller's runtime.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | waiting | the primary connection is up, or is the one of this supervisor | pause |
//! | pause | the pause is over, or the node has another target | opening |
//! | opening | the handshake with the node's server is done (and registered channels are restored) | up |
//! | opening | another server answers, and another connection of the node lives | opening, up to `OTHER_SERVERS_MAX` times |
//! | opening | another server answers, otherwise | the node moves to that server; up |
//! | opening | the node has another target | pause |
//! | opening | the attempt fails, or takes longer than `timing.connect` after the look-up | waiting; calls fail with this reason |
//! | up | the stream ends or is not RESP3; its runtime ends or is blocked; the server is silent | lost |
//! | up | READONLY, NOAUTH, or ROLE does not report a primary | lost, with all connections of the node |
//! | up | the name leads to another server (only the supervisor of the primary connection looks) | lost, with all connections of the node |
//! | up | the node has another target; the credentials expired and the login was not renewed | lost |
//! | lost | the epoch rises, then every call gets its outcome | waiting |
//! | any | the transport is closed | wait up to [`CLOSING_MAX`] for replies; end |

mod watch;

use std::future::pending;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, timeout};

use super::generation::OTHER_TARGET;
use super::{NodeState, PRIMARY_CONNECTION, Progress, not_now};
use crate::call_error::Fault;
use crate::connection::Connection;
use crate::events::Missed;
use crate::lane::Role;
use crate::login::{Login, Validity};
use crate::pacer::Pacer;
use crate::remote::Remote;
use crate::task::AbortOnDrop;
use crate::timer::why_silent;

/// After a connection that lived this long, the next attempt does not back off.
const LASTING: Duration = Duration::from_secs(1);

/// A runtime that does not run a task within this time counts as blocked.
const RESPONSE_MAX: Duration = Duration::from_millis(250);

/// Part of the error for a new connection to a server that has reached `maxclients`.
const FULL: &str = "max number of clients";

/// How long closing waits for outstanding answers.
pub(crate) const CLOSING_MAX: Duration = Duration::from_millis(500);

pub(super) struct Supervisor {
    pub(super) shared: Arc<NodeState>,
    pub(super) role: Role,
    pub(super) driven_by: DrivenBy,
    pub(super) pacer: Pacer,
}

/// Which runtime drives the connection. A connection that was moved to the library's runtime stays
/// there, because each move loses the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrivenBy {
    CallerRuntime,
    OwnThread,
}

/// Whether both lead to the same address.
fn is_same(before: &Result<Arc<Remote>, Fault>, now: &Result<Arc<Remote>, Fault>) -> bool {
    match (before, now) {
        (Ok(before), Ok(now)) => Arc::ptr_eq(before, now),
        (Err(_), Err(_)) => true,
        _ => false,
    }
}

/// A connection and the task that drives it.
pub(super) struct DrivenConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) driver: AbortOnDrop<Fault>,
    /// The generation of its target.
    pub(super) generation: u64,
    pub(super) primary_only: bool,
    /// The login, and how long it is valid.
    pub(super) login: (Login, Validity),
}

/// Why a connection must be given up.
enum GiveUpReason {
    Lost(Fault),
    /// The server has changed its role or forgotten the login.
    Refused(Fault),
    /// The runtime that drives the connection was shut down or is blocked.
    NoRuntime,
}

/// Ends all calls and waiters if the caller's runtime is shut down. For a client of an engine in
/// this process, that runtime drives everything. Nobody would replace the connections, so calls and
/// waiters would wait forever. (Other clients use the library's thread, which ends after its
/// nodes.)
impl Drop for Supervisor {
    fn drop(&mut self) {
        if *self.shared.stopped.borrow() || self.back().is_none() {
            return;
        }
        self.shared
            .begin(&Fault("the runtime is shut down".into()), |_| true);
        // Before the waiters wake, because they ask at once.
        self.shared.refuse_calls();
        self.shared.setup.events.missed(Missed::All);
        self.shared.progressed(self.role, Progress::NotConnected);
    }
}

impl Supervisor {
    /// Runs until the transport is closed. Begins with the first connection if there is one
    /// already.
    pub(super) async fn run(mut self, mut first: Option<DrivenConnection>) {
        let mut stopped = self.shared.stopped.subscribe();
        let stopped = async move { drop(stopped.wait_for(|stopped| *stopped).await) };
        tokio::pin!(stopped);
        let mut was_lost = false;
        loop {
            let mut living = if let Some(first) = first.take() {
                first
            } else {
                tokio::select! {
                    biased;
                    () = &mut stopped => return,
                    driven = self.reopen() => driven,
                }
            };
            if std::mem::replace(&mut was_lost, true) {
                self.shared.reconnected();
            }
            let since = Instant::now();
            let end = tokio::select! {
                biased;
                () = &mut stopped => {
                    living.connection.close(&self.shared.subscriptions);
                    // Calls without an answer after this time end with the connection.
                    drop(timeout(CLOSING_MAX, living.connection.drained()).await);
                    let closed = Fault("the client was closed".into());
                    return living.connection.end(&closed, &self.shared.subscriptions);
                }
                end = self.watch(&mut living) => end,
            };
            if since.elapsed() > LASTING {
                self.pacer.begin_anew();
            }
            self.give_up(&living, end);
        }
    }

    /// Ends the connection for its callers. Called before there is another connection.
    fn give_up(&mut self, driven: &DrivenConnection, end: GiveUpReason) {
        let fault = match end {
            GiveUpReason::Lost(fault) => fault,
            GiveUpReason::Refused(fault) => {
                // The other connections lead to the same server, so all of them end first.
                self.shared.leave(driven.generation, &fault);
                fault
            }
            GiveUpReason::NoRuntime => {
                self.driven_by = DrivenBy::OwnThread;
                Fault("the runtime of the connection is gone".into())
            }
        };
        let events = &self.shared.setup.events;
        events.disconnected(&self.shared.server(), &fault.0);
        if self.role == PRIMARY_CONNECTION {
            events.out_of_reach(&|_| true);
        }
        match self.role {
            // INVARIANT SLOT-1: the epoch rises here, before `end` below completes any call.
            Role::Calls(lane) => self.shared.slot(lane).disconnected(not_now(&fault)),
            Role::Messages => self.shared.subscriptions.disconnected(),
        }
        self.shared.progressed(self.role, Progress::NotConnected);
        driven.connection.end(&fault, &self.shared.subscriptions);
        self.shared.lost.notify_one();
    }

    /// Tries to connect until it succeeds, and gives the connection to the callers. The pause grows
    /// from attempt to attempt, and also from one connection to the next if connections do not
    /// last.
    async fn reopen(&mut self) -> DrivenConnection {
        loop {
            // Before the first wait, so that no change of the target is missed.
            let mut target = self.shared.target.subscribe();
            if self.role != PRIMARY_CONNECTION
                && self.shared.primary_connection() != Progress::Connected
            {
                self.until_primary_connection_is(Progress::Connected).await;
                self.pacer.reset();
            }
            tokio::select! {
                biased;
                // Another server: the failures of the former one do not count.
                Ok(()) = target.changed() => self.pacer.begin_anew(),
                () = self.until_primary_connection_is(Progress::NotConnected),
                    if self.role != PRIMARY_CONNECTION => continue,
                () = self.until_back() => self.pacer.reset(),
                () = self.pacer.rest() => {}
            }
            let losses = self.shared.primary_connection_losses();
            let before = target.borrow().remote.clone();
            let opened = tokio::select! {
                biased;
                // The server of before may be silent for as long as an attempt may take.
                Ok(_) = target.wait_for(|target| !is_same(&target.remote, &before)) => {
                    self.pacer.begin_anew();
                    continue;
                }
                opened = self.open() => opened,
            };
            let fault = match opened {
                Ok(driven) => match self.fill_slot(driven) {
                    Ok(driven) => {
                        self.report_connected();
                        return driven;
                    }
                    Err(fault) => fault,
                },
                Err(error) => error.into_fault(),
            };
            self.not_connected(&fault);
            if losses != self.shared.primary_connection_losses() {
                // The attempt began before the primary connection was lost, so it says nothing
                // about the present server.
                self.pacer.begin_anew();
            }
        }
    }

    fn back(&self) -> Option<Arc<Notify>> {
        let target = self.shared.target.borrow();
        target.remote.as_ref().ok()?.back().cloned()
    }

    async fn until_back(&self) {
        match self.back() {
            Some(back) => back.notified().await,
            None => pending().await,
        }
    }

    /// Makes the other connections wait for the primary connection. So a server that is down, or
    /// that many clients reconnect to, gets one attempt of each client, and the connection for
    /// renewals comes first.
    async fn until_primary_connection_is(&self, wanted: Progress) {
        loop {
            // Before the look, so that no change in between is missed.
            let changes = self.shared.primary_connection_changed.notified();
            if self.shared.primary_connection() == wanted {
                return;
            }
            changes.await;
        }
    }

    /// Stores for callers why there is no connection.
    pub(super) fn not_connected(&self, fault: &Fault) {
        match self.role {
            PRIMARY_CONNECTION => {
                self.shared.unreachable(fault);
                if fault.0.contains(FULL) {
                    // A client that cannot renew must not acquire. So close another connection to
                    // make room for the primary connection.
                    let generation = self.shared.target.borrow().generation;
                    self.shared.leave(generation, fault);
                }
            }
            Role::Calls(lane) => self.shared.slot(lane).unreachable(not_now(fault)),
            Role::Messages => self.shared.subscriptions.unreachable(not_now(fault)),
        }
        // After the reason, which those that wait for this attempt then report.
        self.shared.progressed(self.role, Progress::NotConnected);
        self.shared.lost.notify_one();
    }

    /// Reports a connection after a loss or a failure. Called when the connection carries calls and
    /// the channels are subscribed, because holds are verified on it at once, and waiters ask again
    /// at once.
    fn report_connected(&self) {
        match self.role {
            Role::Calls(lane) => self.shared.setup.events.restored(lane, &|_| true),
            Role::Messages => self.shared.setup.events.missed(Missed::All),
        }
    }

    /// Gives a connection to the callers of its lane, unless the target of the node has changed
    /// meanwhile. The connection for messages has no slot. The registry of the channels holds it.
    pub(super) fn fill_slot(&self, driven: DrivenConnection) -> Result<DrivenConnection, Fault> {
        let taken = match self.role {
            Role::Calls(lane) => self
                .shared
                .slot(lane)
                .connected(&driven.connection, driven.generation),
            Role::Messages => true,
        };
        if taken {
            // After the slot is filled, because a call that waits for the connection is sent then.
            self.shared.progressed(self.role, Progress::Connected);
            return Ok(driven);
        }
        let fault = Fault(OTHER_TARGET.into());
        driven.connection.end(&fault, &self.shared.subscriptions);
        Err(fault)
    }

    pub(super) fn runtime(&self) -> &Handle {
        match self.driven_by {
            DrivenBy::CallerRuntime => &self.shared.setup.runtimes.caller,
            DrivenBy::OwnThread => &self.shared.setup.runtimes.own,
        }
    }

    /// Whether the runtime of the connection works. Our own runtime does, because it runs this very
    /// task.
    pub(super) async fn runtime_responds(&self) -> bool {
        self.driven_by == DrivenBy::OwnThread
            || why_silent(&self.shared.setup.runtimes.caller, RESPONSE_MAX)
                .await
                .is_empty()
    }
}
