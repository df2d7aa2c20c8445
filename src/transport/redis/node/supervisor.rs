//! A supervisor keeps one connection of a node alive: it opens the connection, watches it, gives it up
//! and makes the next. One task for each, on the library's own runtime, so that it survives the caller's.
//!
//! | state | event | next state |
//! | --- | --- | --- |
//! | opening | the handshake is done (and registered channels are restored) | up |
//! | opening | it fails, or takes longer than `timing.connect` | pause; calls end with this reason |
//! | up | the stream ends or is not RESP3; its runtime ends or stands still; silence; READONLY | lost |
//! | up | the server is not a primary any more, or the node has another target | lost |
//! | up | the login was not renewed, and its credentials are over | lost |
//! | lost | the epoch rises, then every call gets the outcome that is known | pause |
//! | pause | it is over, or the node has another target | opening |
//! | any | the transport is closed | sent calls are answered, for [`CLOSING_MAX`]; end |
//!
//! The supervisor is also the clock of all calls on the connection: it sleeps until the oldest of them
//! has timed out. So a call costs no timer, and times out even where the runtime of its connection
//! stands still.

use std::future::pending;
use std::sync::Arc;

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::{Progress, Runtimes, Shared, Target, answer, cannot_connect};
use crate::telemetry;
use crate::transport::redis::connection::{self, Connection};
use crate::transport::redis::handshake::{Greeting, not_connected, primary};
use crate::transport::redis::login::{Login, Validity};
use crate::transport::redis::stream::{Reader, Writer};
use crate::transport::redis::task::AbortOnDrop;
#[cfg(feature = "fred")]
use crate::transport::redis::{dial::Dial, fred};
use crate::transport::{CallError, Fault, Missed, Role};

/// First and longest pause between two connection attempts.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a runtime that is idle needs at most to run a task.
const RESPONSE_MAX: Duration = Duration::from_millis(250);

/// How long a runtime may stand still before its connections move to our own.
const STALL_MAX: Duration = Duration::from_secs(3);

/// How long closing waits for outstanding answers.
pub(in crate::transport::redis) const CLOSING_MAX: Duration = Duration::from_millis(500);

/// Why a connection to the server before is not used.
const OTHER_TARGET: &str = "another server is the primary now";

/// Intervals without a byte after a PING, after which a connection is given up.
const SILENT_MAX: u32 = 2;

pub(super) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    pub(super) role: Role,
    pub(super) runtimes: Runtimes,
    pub(super) driven_by: DrivenBy,
    pub(super) stop: watch::Receiver<bool>,
    pub(super) target: watch::Receiver<Target>,
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
    connection: Arc<Connection>,
    driver: AbortOnDrop<Fault>,
    /// Of the target that it leads to.
    generation: u64,
    primary_only: bool,
    /// Who logged in, and for how long; `None` if the login is not ours.
    login: Option<(Login, Validity)>,
}

/// What a connection is made of, after the handshake.
enum Opened {
    Stream(Reader, Writer, Greeting),
    #[cfg(feature = "fred")]
    Fred(fred::FredClient),
}

/// Why a connection was not opened.
pub(super) enum OpenError {
    NoRuntime,
    Call(CallError),
}

/// Why a connection is not used any more.
enum End {
    Lost(Fault),
    /// The runtime that drives it was shut down, or does not run.
    NoRuntime,
}

impl Supervisor {
    /// Opens a connection within `timing.connect`.
    pub(super) async fn open(&self) -> Result<DrivenConnection, OpenError> {
        let limit = self.shared.timing.connect;
        let Target { generation, remote } = self.target.borrow().clone();
        let remote = remote.map_err(|fault| OpenError::Call(CallError::NotApplied(fault)))?;
        let (runtime, resolver) = (self.runtime(), self.runtimes.own.clone());
        #[cfg(feature = "fred")]
        let role = self.role;
        let to = remote.clone();
        let mut opening = AbortOnDrop(runtime.spawn(async move {
            #[cfg(feature = "fred")]
            if let Dial::Fred(template) = &to.dial {
                let client = template.open(role, limit, to.handshake.name()).await?;
                return Ok(Opened::Fred(client));
            }
            let (reader, writer, greeting) = to.open(&resolver).await?;
            Ok(Opened::Stream(reader, writer, greeting))
        }));
        let failed = |error| OpenError::Call(cannot_connect(&remote.endpoint, error));
        let opened = match timeout(limit, &mut opening.0).await {
            Ok(Ok(opened)) => opened.map_err(failed)?,
            Ok(Err(error)) if error.is_cancelled() => return Err(OpenError::NoRuntime),
            Ok(Err(error)) => return Err(failed(not_connected(&error.to_string()))),
            Err(_) => {
                let why = format!("no answer within {} ms", limit.as_millis());
                return Err(failed(not_connected(&why)));
            }
        };
        let (registry, events) = (self.shared.subscriptions.clone(), self.shared.events.clone());
        let (connection, task, validity) = match opened {
            Opened::Stream(reader, writer, Greeting { inbox, validity }) => {
                let connection = Arc::new(Connection::new(writer));
                let driver = connection::drive(connection.clone(), reader, inbox, registry, events);
                (connection, runtime.spawn(driver), Some(validity))
            }
            #[cfg(feature = "fred")]
            Opened::Fred(client) => {
                let connection = Arc::new(Connection::without_bytes());
                let driver = fred::drive(connection.clone(), client, registry, events);
                (connection, runtime.spawn(driver), None)
            }
        };
        let mut driven = DrivenConnection {
            connection,
            driver: AbortOnDrop(task),
            generation,
            primary_only: remote.handshake.is_primary_only(),
            login: validity.map(|validity| (remote.handshake.login().clone(), validity)),
        };
        if self.role == Role::Messages {
            self.restore_channels(&mut driven).await.map_err(failed)?;
        }
        Ok(driven)
    }

    /// Subscribes to all registered channels, and waits until the server has answered.
    async fn restore_channels(&self, driven: &mut DrivenConnection) -> Result<(), CallError> {
        let limit = self.shared.timing.connect;
        let subscriptions = &*self.shared.subscriptions;
        if !subscriptions.connected(&driven.connection, driven.generation) {
            return Err(not_connected(OTHER_TARGET));
        }
        let answered = driven.connection.ping()?;
        let outcome = tokio::select! {
            biased;
            answered = timeout(limit, answered) => match answered {
                Ok(Ok(())) => subscriptions.restored(),
                Ok(Err(_)) | Err(_) => Err(not_connected("the channels were not confirmed")),
            },
            ended = &mut driven.driver.0 => Err(CallError::NotApplied(
                ended.unwrap_or_else(|_| Fault("the connection's task failed".into())),
            )),
        };
        if let Err(CallError::NotApplied(fault)) = &outcome {
            subscriptions.disconnected();
            driven.connection.end(fault, subscriptions);
        }
        outcome
    }

    /// Makes the first connection, and runs until the transport is closed.
    pub(super) async fn open_and_run(self) {
        let first = match self.open().await {
            Ok(driven) => self.fill_slot(driven),
            Err(OpenError::NoRuntime) => Err(Fault("the runtime is shut down".into())),
            Err(OpenError::Call(error)) => Err(why(error)),
        };
        match &first {
            Ok(_) => self.report_connected(),
            Err(fault) => self.not_connected(fault),
        }
        self.run(first).await;
    }

    /// Runs until the transport is closed. `first` is the first connection, or why there is none yet.
    pub(super) async fn run(mut self, first: Result<DrivenConnection, Fault>) {
        let mut stop = self.stop.clone();
        // The sender lives as long as the transport; without a transport this task is of no use.
        let stopped = async move { drop(stop.wait_for(|stopped| *stopped).await) };
        tokio::pin!(stopped);
        let mut pause = PAUSE_MIN;
        let mut driven = match first {
            Ok(driven) => driven,
            Err(fault) => tokio::select! {
                biased;
                () = &mut stopped => return,
                driven = self.reopen(fault, &mut pause) => driven,
            },
        };
        loop {
            let since = Instant::now();
            let end = tokio::select! {
                biased;
                () = &mut stopped => break,
                end = self.watch(&mut driven) => end,
            };
            if since.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            let fault = self.give_up(&driven, end);
            drop(driven);
            driven = tokio::select! {
                biased;
                () = &mut stopped => return,
                driven = self.reopen(fault, &mut pause) => driven,
            };
            self.shared.reconnected();
        }
        driven.connection.close(&*self.shared.subscriptions);
        // Calls without an answer by then end with the connection.
        drop(timeout(CLOSING_MAX, driven.connection.drained()).await);
        driven.connection.end(&Fault("the client was closed".into()), &*self.shared.subscriptions);
    }

    /// Waits until the connection must be given up, and says why.
    async fn watch(&self, driven: &mut DrivenConnection) -> End {
        let (generation, primary_only) = (driven.generation, driven.primary_only);
        let connection = &*driven.connection;
        let mut target = self.target.clone();
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
            end = self.keep_login(connection, driven.login.as_ref()) => end,
            end = read_only(connection) => end,
            _ = other_target => End::Lost(Fault(OTHER_TARGET.into())),
            end = self.ask_for_role(connection), if primary_only => end,
        }
    }

    /// Asks again and again whether the server is still a primary: a server that was demoted may keep its
    /// connections, and says so to nobody whose calls are answered by scripts that only read.
    async fn ask_for_role(&self, connection: &Connection) -> End {
        let limit = self.shared.timing.command;
        loop {
            sleep(self.shared.probe_interval()).await;
            let Ok(reply) = connection.command(&[b"ROLE"]) else { continue };
            // Silence, and a connection that has ended, are noticed elsewhere.
            let Ok(Ok(reply)) = timeout(limit, answer(reply)).await else { continue };
            if let Err(error) = primary(&reply) {
                return End::Lost(why(error));
            }
        }
    }

    /// Ends calls that have timed out. Never ends itself.
    ///
    /// Where the connection's runtime stood still, replies may have come that its driver has not read
    /// yet: the runtime has as long again to do so. Then a caller on another runtime waits twice as long.
    async fn expire_calls(&self, connection: &Connection) -> End {
        let limit = self.shared.timing.command;
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
    async fn keep_login(&self, connection: &Connection, of: Option<&(Login, Validity)>) -> End {
        let Some((login, validity)) = of else { return pending().await };
        let limit = self.shared.timing.connect;
        End::Lost(login.keep(connection, *validity, &self.runtimes.own, limit).await)
    }

    /// Sends PING when nothing else came; ends when nothing comes all the same.
    async fn probe(&self, connection: &Connection) -> End {
        let every = self.shared.probe_interval();
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
            } else if intervals + 1 == SILENT_MAX {
                return End::Lost(Fault("no answer to PING".into()));
            } else {
                silent = Some(intervals + 1);
            }
        }
    }

    /// Ends the connection for its callers, before there is another connection.
    fn give_up(&mut self, driven: &DrivenConnection, end: End) -> Fault {
        let fault = match end {
            End::Lost(fault) => fault,
            End::NoRuntime => {
                self.driven_by = DrivenBy::OwnThread;
                Fault("the runtime of the connection is gone".into())
            }
        };
        telemetry::connection_lost(&self.shared.server(), &fault.0);
        match self.role {
            // INVARIANT I1 of `slot.rs`: the epoch rises before any call ends.
            Role::Calls(lane) => self.shared.slot(lane).disconnected(not_now(&fault)),
            Role::Messages => self.shared.subscriptions.disconnected(),
        }
        self.shared.progressed(self.role, Progress::NotConnected);
        driven.connection.end(&fault, &*self.shared.subscriptions);
        self.shared.lost.notify_one();
        fault
    }

    /// Connects until it works, and hands the connection to the callers. The pause grows from attempt to
    /// attempt, and from one connection to the next if they do not last.
    async fn reopen(&mut self, mut fault: Fault, pause: &mut Duration) -> DrivenConnection {
        loop {
            self.target.mark_unchanged();
            tokio::select! {
                biased;
                // Another server: it is not to blame for the failures of the former.
                Ok(()) = self.target.changed() => *pause = PAUSE_MIN,
                // Spread, so that not all clients of a server that comes back connect at once.
                () = sleep(pause.mul_f64(fastrand::f64())) => {}
            }
            *pause = (*pause * 2).min(PAUSE_MAX);
            match self.open().await {
                Ok(driven) => match self.fill_slot(driven) {
                    Ok(driven) => {
                        self.report_connected();
                        return driven;
                    }
                    Err(why) => fault = why,
                },
                Err(OpenError::NoRuntime) => self.driven_by = DrivenBy::OwnThread,
                Err(OpenError::Call(error)) => {
                    if !matches!(error, CallError::Closed) {
                        fault = why(error);
                    }
                    if !self.runtime_responds().await {
                        self.driven_by = DrivenBy::OwnThread;
                    }
                }
            }
            self.not_connected(&fault);
        }
    }

    /// Leaves the reason why there is no connection, for callers.
    pub(super) fn not_connected(&self, fault: &Fault) {
        match self.role {
            Role::Calls(lane) => self.shared.slot(lane).disconnected(not_now(fault)),
            Role::Messages => self.shared.subscriptions.unreachable(not_now(fault)),
        }
        self.shared.progressed(self.role, Progress::NotConnected);
        self.shared.lost.notify_one();
    }

    /// Reports a connection that follows a loss or a failure.
    fn report_connected(&self) {
        match self.role {
            Role::Calls(lane) => self.shared.events.restored(lane),
            Role::Messages => self.shared.events.missed(Missed::All),
        }
    }

    /// Hands a connection to the callers of its lane, unless the node has another target meanwhile. The
    /// connection for messages has no slot: it is in the registry of the channels.
    pub(super) fn fill_slot(&self, driven: DrivenConnection) -> Result<DrivenConnection, Fault> {
        let taken = match self.role {
            Role::Calls(lane) => {
                self.shared.slot(lane).connected(&driven.connection, driven.generation)
            }
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

    fn runtime(&self) -> &Handle {
        match self.driven_by {
            DrivenBy::CallerRuntime => &self.runtimes.caller,
            DrivenBy::OwnThread => &self.runtimes.own,
        }
    }

    /// Our own runtime runs this very task.
    async fn runtime_responds(&self) -> bool {
        self.driven_by == DrivenBy::OwnThread || responds(&self.runtimes.caller, RESPONSE_MAX).await
    }
}

/// Ends when the server answers READONLY: it was demoted. A new connection may lead to its
/// successor, behind the same host name or proxy.
async fn read_only(connection: &Connection) -> End {
    // So that a server that stays read-only is not connected to for each call.
    sleep(PAUSE_MAX).await;
    connection.read_only().await;
    End::Lost(Fault("the server is read-only".into()))
}

/// Whether a runtime still runs tasks and reads its sockets.
async fn responds(runtime: &Handle, limit: Duration) -> bool {
    // Before a task that has yielded runs again, sockets are looked at.
    let mut task = AbortOnDrop(runtime.spawn(tokio::task::yield_now()));
    matches!(timeout(limit, &mut task.0).await, Ok(Ok(())))
}

/// What an attempt to connect failed for.
fn why(error: CallError) -> Fault {
    match error {
        CallError::NotApplied(fault) | CallError::Unknown(fault) | CallError::Refused(fault) => {
            fault
        }
        CallError::NotDurable { .. } | CallError::Closed => Fault("the client was closed".into()),
    }
}

fn not_now(fault: &Fault) -> Fault {
    Fault(format!("not connected: {fault}"))
}
