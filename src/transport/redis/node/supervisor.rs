//! A supervisor keeps one connection of a node alive: it opens the connection, watches it, gives it up
//! and makes the next. One task for each, on the library's own runtime, so that it survives the caller's.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | waiting | the pilot is connected, or this is the pilot | pause |
//! | pause | it is over, or the node has another target | opening |
//! | opening | the handshake is done, with the node's server (and registered channels are restored) | up |
//! | opening | with another server, while another connection of the node lives | opening, up to [`STRANGERS_MAX`] times |
//! | opening | with another server otherwise | the node moves there; up |
//! | opening | it fails, or takes longer than `timing.connect` | waiting; calls end with this reason |
//! | up | the stream ends or is not RESP3; its runtime ends or stands still; silence | lost |
//! | up | READONLY, NOAUTH, a ROLE that is not a primary's | lost, and with it the others of the node |
//! | up | the node has another target; the login was not renewed, and its credentials are over | lost |
//! | lost | the epoch rises, then every call gets the outcome that is known | waiting |
//! | any | the transport is closed | sent calls are answered, for [`CLOSING_MAX`]; end |
//!
//! The supervisor is also the clock of all calls on the connection: it sleeps until the oldest of them
//! has timed out. So a call costs no timer, and times out even where the runtime of its connection
//! stands still.

use std::future::pending;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::Notify;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::answer;
use super::generation::OTHER_TARGET;
use super::shared::{PILOT, Progress, Shared, not_now};
use crate::telemetry;
use crate::transport::redis::connection::Connection;
use crate::transport::redis::handshake::primary;
use crate::transport::redis::login::{Login, Validity};
use crate::transport::redis::pacer::Pacer;
use crate::transport::redis::task::AbortOnDrop;
use crate::transport::{Fault, Missed, Role};

/// A connection that lived for so long was a good one.
const LASTING: Duration = Duration::from_secs(1);

/// How long a runtime that is idle needs at most to run a task.
const RESPONSE_MAX: Duration = Duration::from_millis(250);

/// How long a runtime may stand still before its connections move to our own.
const STALL_MAX: Duration = Duration::from_secs(3);

/// What a server answers to a new connection if it has as many as it may.
const FULL: &str = "max number of clients";

/// How long closing waits for outstanding answers.
pub(in crate::transport::redis) const CLOSING_MAX: Duration = Duration::from_millis(500);

pub(super) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    pub(super) role: Role,
    pub(super) driven_by: DrivenBy,
    pub(super) pacer: Pacer,
}

/// Which runtime drives the connection. A connection that has left the caller's runtime does not return
/// to it: our own serves well enough, and each move is a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum DrivenBy {
    CallerRuntime,
    OwnThread,
}

/// A connection and the task that drives it.
pub(super) struct DrivenConnection {
    pub(super) connection: Arc<Connection>,
    pub(super) driver: AbortOnDrop<Fault>,
    /// Of the target that it leads to.
    pub(super) generation: u64,
    pub(super) primary_only: bool,
    /// Who logged in, and for how long.
    pub(super) login: (Login, Validity),
}

/// Why a connection is not used any more.
enum End {
    Lost(Fault),
    /// The server does not serve as it did.
    Refused(Fault),
    /// The runtime that drives it was shut down, or does not run.
    NoRuntime,
}

/// The runtime of a client of an engine of this process is shut down, with all that drives its connections, and nobody
/// makes the next ones. No call may wait for ever, and no waiter for a message. (Elsewhere the thread of the library
/// ends after its nodes.)
impl Drop for Supervisor {
    fn drop(&mut self) {
        if *self.shared.stopped.borrow() || self.back().is_none() {
            return;
        }
        self.shared
            .begin(&Fault("the runtime is shut down".into()), |_| true);
        self.shared.refuse_calls();
        self.shared.setup.events.missed(Missed::All);
        self.shared.progressed(self.role, Progress::NotConnected);
    }
}

impl Supervisor {
    /// Runs until the transport is closed, with the first connection if there is one already.
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
                    living.connection.close(&*self.shared.subscriptions);
                    // Calls without an answer by then end with the connection.
                    drop(timeout(CLOSING_MAX, living.connection.drained()).await);
                    let closed = Fault("the client was closed".into());
                    return living.connection.end(&closed, &*self.shared.subscriptions);
                }
                end = self.watch(&mut living) => end,
            };
            if since.elapsed() > LASTING {
                self.pacer.begin_anew();
            }
            self.give_up(&living, end);
        }
    }

    /// Waits until the connection must be given up, and says why.
    async fn watch(&self, driven: &mut DrivenConnection) -> End {
        let (generation, primary_only) = (driven.generation, driven.primary_only);
        let connection = &*driven.connection;
        let mut target = self.shared.target.subscribe();
        let other_target = target.wait_for(|target| target.generation != generation);
        tokio::select! {
            biased;
            ended = &mut driven.driver.0 => match ended {
                Ok(fault) => End::Lost(fault),
                Err(error) if error.is_cancelled() => End::NoRuntime,
                Err(_) => End::Lost(Fault("the connection's task failed".into())),
            },
            end = self.probe(connection) => end,
            end = self.expire_calls(connection) => end,
            end = self.keep_login(connection, &driven.login) => end,
            end = refused(connection) => end,
            _ = other_target => End::Lost(Fault(OTHER_TARGET.into())),
            end = self.ask_for_role(connection), if primary_only => end,
        }
    }

    /// Asks again and again whether the server is still a primary: a server that was demoted may keep its
    /// connections, and says so to nobody whose calls are answered by scripts that only read.
    async fn ask_for_role(&self, connection: &Connection) -> End {
        let limit = self.shared.setup.timing.command;
        loop {
            sleep(self.shared.probe().0).await;
            let Ok(reply) = connection.command(&[b"ROLE"]) else {
                continue;
            };
            // Silence, and a connection that has ended, are noticed elsewhere.
            let Ok(Ok(reply)) = timeout(limit, answer(reply)).await else {
                continue;
            };
            if let Err(error) = primary(&reply) {
                return End::Refused(error.into_fault());
            }
        }
    }

    /// Ends calls that have timed out. Never ends itself.
    ///
    /// Where the connection's runtime stood still, replies may have come that its driver has not read
    /// yet: the runtime has as long again to do so. Then a caller on another runtime waits twice as long.
    async fn expire_calls(&self, connection: &Connection) -> End {
        let limit = self.shared.setup.timing.command;
        loop {
            let next = connection.until_expiry(limit);
            if !next.is_zero() {
                sleep(next).await;
                continue;
            }
            // The outcome does not matter: the runtime has had its time.
            responds(self.runtime(), limit).await;
            connection.expire(limit, &*self.shared.subscriptions);
        }
    }

    /// Renews the login before its credentials are over; ends when the server refuses that.
    async fn keep_login(
        &self,
        connection: &Connection,
        (login, validity): &(Login, Validity),
    ) -> End {
        let limit = self.shared.setup.timing.connect;
        End::Lost(
            login
                .keep(
                    connection,
                    *validity,
                    &self.shared.setup.runtimes.own,
                    limit,
                )
                .await,
        )
    }

    /// Sends PING when nothing else came; ends when nothing comes all the same.
    async fn probe(&self, connection: &Connection) -> End {
        let (every, silent_max) = self.shared.probe();
        let (mut read, mut silent, mut stalled) = (connection.received(), None, None);
        loop {
            sleep(every).await;
            let before = std::mem::replace(&mut read, connection.received());
            if read != before {
                (silent, stalled) = (None, None);
                continue;
            }
            let Some(intervals) = silent else {
                if connection.ping().is_ok() {
                    silent = Some(0);
                }
                continue;
            };
            if !self.runtime_responds().await {
                let since = *stalled.get_or_insert_with(Instant::now);
                if since.elapsed() > STALL_MAX {
                    return End::NoRuntime;
                }
            } else if intervals + 1 >= silent_max {
                return End::Lost(Fault("no answer to PING".into()));
            } else {
                silent = Some(intervals + 1);
            }
        }
    }

    /// Ends the connection for its callers, before there is another connection.
    fn give_up(&mut self, driven: &DrivenConnection, end: End) {
        let fault = match end {
            End::Lost(fault) => fault,
            End::Refused(fault) => {
                self.shared.leave(driven.generation, &fault);
                fault
            }
            End::NoRuntime => {
                self.driven_by = DrivenBy::OwnThread;
                Fault("the runtime of the connection is gone".into())
            }
        };
        telemetry::connection_lost(&self.shared.server(), &fault.0);
        match self.role {
            // INVARIANT SLOT-1 of `slot.rs`: the epoch rises before any call ends.
            Role::Calls(lane) => self.shared.slot(lane).disconnected(not_now(&fault)),
            Role::Messages => self.shared.subscriptions.disconnected(),
        }
        self.shared.progressed(self.role, Progress::NotConnected);
        driven.connection.end(&fault, &*self.shared.subscriptions);
        self.shared.lost.notify_one();
    }

    /// Connects until it works, and hands the connection to the callers. The pause grows from attempt to
    /// attempt, and from one connection to the next if they do not last.
    async fn reopen(&mut self) -> DrivenConnection {
        loop {
            let mut target = self.shared.target.subscribe();
            if self.role != PILOT && self.shared.pilot() != Progress::Connected {
                self.until_pilot_is(Progress::Connected).await;
                self.pacer.reset();
            }
            tokio::select! {
                biased;
                // Another server: it is not to blame for the failures of the former.
                Ok(()) = target.changed() => self.pacer.begin_anew(),
                () = self.until_pilot_is(Progress::NotConnected), if self.role != PILOT => continue,
                () = self.is_back() => self.pacer.reset(),
                () = self.pacer.rest() => {}
            }
            let pilots = self.shared.pilots();
            let fault = match self.open().await {
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
            if pilots != self.shared.pilots() {
                // The attempt began before the pilot was lost: it says nothing of the server that serves now.
                self.pacer.begin_anew();
            }
        }
    }

    fn back(&self) -> Option<Arc<Notify>> {
        let target = self.shared.target.borrow();
        target.remote.as_ref().ok()?.back().cloned()
    }

    async fn is_back(&self) {
        match self.back() {
            Some(back) => back.notified().await,
            None => pending().await,
        }
    }

    /// The others follow the pilot: a server that is down, or to which a crowd comes back, has one attempt of each
    /// client to answer, and is found by the one that carries the renewals.
    async fn until_pilot_is(&self, wanted: Progress) {
        loop {
            let changes = self.shared.pilot_changed.notified();
            if self.shared.pilot() == wanted {
                return;
            }
            changes.await;
        }
    }

    /// Leaves the reason why there is no connection, for callers.
    pub(super) fn not_connected(&self, fault: &Fault) {
        match self.role {
            PILOT => {
                self.shared.unreachable(fault);
                if fault.0.contains(FULL) {
                    // A client that cannot renew shall not acquire: the pilot takes the place of another.
                    let generation = self.shared.target.borrow().generation;
                    self.shared.leave(generation, fault);
                }
            }
            Role::Calls(lane) => self.shared.slot(lane).unreachable(not_now(fault)),
            Role::Messages => self.shared.subscriptions.unreachable(not_now(fault)),
        }
        self.shared.progressed(self.role, Progress::NotConnected);
        self.shared.lost.notify_one();
    }

    /// Reports a connection that follows a loss or a failure.
    fn report_connected(&self) {
        match self.role {
            Role::Calls(lane) => self.shared.setup.events.restored(lane),
            Role::Messages => self.shared.setup.events.missed(Missed::All),
        }
    }

    /// Hands a connection to the callers of its lane, unless the node has another target meanwhile. The
    /// connection for messages has no slot: it is in the registry of the channels.
    pub(super) fn fill_slot(&self, driven: DrivenConnection) -> Result<DrivenConnection, Fault> {
        let taken = match self.role {
            Role::Calls(lane) => self
                .shared
                .slot(lane)
                .connected(&driven.connection, driven.generation),
            Role::Messages => true,
        };
        if taken {
            self.shared.progressed(self.role, Progress::Connected);
            return Ok(driven);
        }
        let fault = Fault(OTHER_TARGET.into());
        driven.connection.end(&fault, &*self.shared.subscriptions);
        Err(fault)
    }

    pub(super) fn runtime(&self) -> &Handle {
        match self.driven_by {
            DrivenBy::CallerRuntime => &self.shared.setup.runtimes.caller,
            DrivenBy::OwnThread => &self.shared.setup.runtimes.own,
        }
    }

    /// Our own runtime runs this very task.
    pub(super) async fn runtime_responds(&self) -> bool {
        self.driven_by == DrivenBy::OwnThread
            || responds(&self.shared.setup.runtimes.caller, RESPONSE_MAX).await
    }
}

/// Ends when the server answers READONLY (it was demoted) or NOAUTH (it has forgotten the login). A new
/// connection may lead to its successor, behind the same host name or proxy, or log in again.
async fn refused(connection: &Connection) -> End {
    // So that a server that goes on refusing is not connected to for each call.
    sleep(LASTING).await;
    End::Refused(connection.refused().await)
}

/// Whether a runtime still runs tasks and reads its sockets.
async fn responds(runtime: &Handle, limit: Duration) -> bool {
    // Before a task that has yielded runs again, sockets are looked at.
    let mut task = AbortOnDrop(runtime.spawn(tokio::task::yield_now()));
    matches!(timeout(limit, &mut task.0).await, Ok(Ok(())))
}
