//! Keeps one connection of a node alive: opens it, watches it, gives it up, makes the next. One task
//! for each, on the library's own runtime, so that it survives the caller's.
//!
//! | state | what happens | next |
//! | --- | --- | --- |
//! | opening | it is logged in (and listens to what is wanted) | up |
//! | opening | it fails, or takes longer than `timing.connect` | pause; who asks is told so |
//! | up | the stream ends or is not RESP3; its runtime ends or stands still; silence; READONLY | lost |
//! | lost | the epoch rises, then everybody is told what is known | pause |
//! | pause | it is over | opening |
//! | any | the transport is closed | what was sent is answered, for [`CLOSING_MAX`]; end |
//!
//! The watch is also the clock of all calls on the connection: it sleeps until the oldest of them is
//! too old, so that a call costs no timer, and times out even where the runtime of its connection
//! stands still.

use std::sync::Arc;

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::Shared;
use super::connection::{self, Connection};
#[cfg(feature = "fred")]
use super::dial::Dial;
use super::dial::{Reader, Writer};
#[cfg(feature = "fred")]
use super::fred;
use super::login::not_connected;
use crate::transport::{CallError, Fault, Lane};

/// First and longest pause between two connection attempts.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a runtime that is idle needs at most to run a task.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long a runtime may stand still before its connections move to our own.
const STALL_MAX: Duration = Duration::from_secs(3);

/// How long closing waits for outstanding answers.
pub(super) const CLOSING_MAX: Duration = Duration::from_millis(500);

/// Intervals without a byte after a PING, after which a connection is given up.
const SILENT_MAX: u32 = 2;

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Calls(Lane),
    Messages,
}

pub(super) struct Supervisor {
    pub(super) shared: Arc<Shared>,
    pub(super) role: Role,
    /// Where the connection is driven, as long as that runtime lives.
    pub(super) home: Handle,
    pub(super) background: Handle,
    pub(super) at: Place,
    pub(super) stop: watch::Receiver<bool>,
}

/// Which runtime drives the connection. From the background it does not return: whoever lets a
/// runtime end or stand still is served well enough, and a connection that moves is a loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    Home,
    Background,
}

/// A connection and the task that drives it.
pub(super) struct Link {
    connection: Arc<Connection>,
    driver: Task<Fault>,
}

/// What a connection is made of, once the server has let us in.
enum Opened {
    Stream(Reader, Writer, BytesMut),
    #[cfg(feature = "fred")]
    Fred(fred::Peer),
}

/// Why a connection was not opened.
pub(super) enum Failure {
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
    /// Opens a connection where the supervisor is, within `timing.connect`.
    pub(super) async fn open(&self) -> Result<Link, Failure> {
        let shared = self.shared.clone();
        let limit = shared.timing.connect;
        let (place, names) = (self.place(), self.background.clone());
        #[cfg(feature = "fred")]
        let role = self.role;
        let mut opening = Task(place.spawn(async move {
            #[cfg(feature = "fred")]
            if let Dial::Fred(pattern) = &shared.node.dial {
                let peer = pattern.open(role, limit, shared.node.login.name()).await?;
                return Ok(Opened::Fred(peer));
            }
            let broken = |error: std::io::Error| not_connected(&error.to_string());
            let dialed = shared.node.dial.connect(&names).await;
            let (mut reader, mut writer) = dialed.map_err(broken)?;
            let inbox = shared.node.login.log_in(&mut reader, &mut writer).await?;
            Ok(Opened::Stream(reader, writer, inbox))
        }));
        let failed = |error| Failure::Call(self.shared.cannot_connect(error));
        let opened = match timeout(limit, &mut opening.0).await {
            Ok(Ok(opened)) => opened.map_err(failed)?,
            Ok(Err(error)) if error.is_cancelled() => return Err(Failure::NoRuntime),
            Ok(Err(error)) => return Err(failed(not_connected(&error.to_string()))),
            Err(_) => {
                let why = format!("no answer within {} ms", limit.as_millis());
                return Err(failed(not_connected(&why)));
            }
        };
        let (hub, sink) = (self.shared.hub.clone(), self.shared.sink.clone());
        let (connection, driver) = match opened {
            Opened::Stream(reader, writer, inbox) => {
                let connection = Arc::new(Connection::new(writer));
                let driver = connection::drive(connection.clone(), reader, inbox, hub, sink);
                (connection, place.spawn(driver))
            }
            #[cfg(feature = "fred")]
            Opened::Fred(peer) => {
                let connection = Arc::new(Connection::without_bytes());
                let driver = fred::drive(connection.clone(), peer, hub, sink);
                (connection, place.spawn(driver))
            }
        };
        let mut link = Link { connection, driver: Task(driver) };
        if self.role == Role::Messages {
            self.listen(&mut link, limit).await.map_err(failed)?;
        }
        Ok(link)
    }

    /// Asks for all channels that are wanted, and waits until they are heard.
    async fn listen(&self, link: &mut Link, limit: Duration) -> Result<(), CallError> {
        self.shared.hub.up(&link.connection);
        let heard = link.connection.ping()?;
        let outcome = tokio::select! {
            biased;
            heard = timeout(limit, heard) => match heard {
                Ok(Ok(())) => self.shared.hub.restored(),
                Ok(Err(_)) | Err(_) => Err(not_connected("the channels were not confirmed")),
            },
            ended = &mut link.driver.0 => Err(CallError::NotApplied(
                ended.unwrap_or_else(|_| Fault("the connection's task failed".into())),
            )),
        };
        if let Err(CallError::NotApplied(fault)) = &outcome {
            self.shared.hub.lost();
            link.connection.end(fault, &self.shared.hub);
        }
        outcome
    }

    /// Runs until the transport is closed, with the first connection or why there is none yet.
    pub(super) async fn run(mut self, first: Result<Link, Fault>) {
        let mut stop = self.stop.clone();
        // The sender lives as long as the transport; without it this task is of no use either.
        let stopped = async move { drop(stop.wait_for(|stopped| *stopped).await) };
        tokio::pin!(stopped);
        let mut pause = PAUSE_MIN;
        let mut link = match first {
            Ok(link) => link,
            Err(fault) => tokio::select! {
                biased;
                () = &mut stopped => return,
                link = self.reopen(fault, &mut pause) => {
                    self.restored(&link);
                    link
                }
            },
        };
        loop {
            let since = Instant::now();
            let end = tokio::select! {
                biased;
                () = &mut stopped => break,
                end = self.watch(&mut link) => end,
            };
            if since.elapsed() > PAUSE_MAX {
                pause = PAUSE_MIN;
            }
            let fault = self.give_up(&link, end);
            drop(link);
            link = tokio::select! {
                biased;
                () = &mut stopped => return,
                link = self.reopen(fault, &mut pause) => link,
            };
            self.shared.reconnected();
            self.restored(&link);
        }
        link.connection.close(&self.shared.hub);
        // What is not answered by then is told with the end.
        drop(timeout(CLOSING_MAX, link.connection.quiet()).await);
        link.connection.end(&Fault("the client was closed".into()), &self.shared.hub);
    }

    /// Waits until the connection must be given up, and says why.
    async fn watch(&self, link: &mut Link) -> End {
        let connection = &*link.connection;
        tokio::select! {
            biased;
            ended = &mut link.driver.0 => match ended {
                Ok(fault) => End::Lost(fault),
                Err(error) if error.is_cancelled() => End::NoRuntime,
                Err(_) => End::Lost(Fault("the connection's task failed".into())),
            },
            end = self.listen_for_life(connection) => end,
            end = self.time_out(connection) => end,
            end = read_only(connection) => end,
        }
    }

    /// Answers calls that are too old. Never ends.
    ///
    /// Where the connection's runtime stood still, replies may have come that nobody has read yet: it
    /// has as long again to do so. Who pays: a caller on another runtime waits twice as long.
    async fn time_out(&self, connection: &Connection) -> End {
        let limit = self.shared.timing.command;
        let mut next = limit;
        loop {
            sleep(next).await;
            // Its outcome does not matter: it has had its time.
            responds(self.place(), limit).await;
            next = connection.expire(limit, &self.shared.hub);
        }
    }

    /// Sends PING when nothing else came; ends when nothing comes all the same.
    async fn listen_for_life(&self, connection: &Connection) -> End {
        let every = self.shared.probe_interval();
        let (mut heard, mut silent, mut stalled) = (connection.heard(), None, None);
        loop {
            sleep(every).await;
            let before = std::mem::replace(&mut heard, connection.heard());
            if heard != before {
                (silent, stalled) = (None, None);
                continue;
            }
            let Some(intervals) = silent else {
                if connection.ping().is_ok() {
                    silent = Some(0);
                }
                continue;
            };
            if !self.place_responds().await {
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

    /// Tells callers that the connection is gone, before there is another one.
    fn give_up(&mut self, link: &Link, end: End) -> Fault {
        let fault = match end {
            End::Lost(fault) => fault,
            End::NoRuntime => {
                self.at = Place::Background;
                Fault("the runtime of the connection is gone".into())
            }
        };
        match self.role {
            // INVARIANT I1 of `line.rs`: the epoch rises before anybody is told.
            Role::Calls(lane) => self.shared.line(lane).down(not_now(&fault)),
            Role::Messages => self.shared.hub.lost(),
        }
        link.connection.end(&fault, &self.shared.hub);
        fault
    }

    /// Connects until it works. The pause grows from attempt to attempt, and from one connection to
    /// the next if they do not last.
    async fn reopen(&mut self, mut fault: Fault, pause: &mut Duration) -> Link {
        loop {
            // Spread, so that the clients of a server that comes back do not come all at once.
            sleep(pause.mul_f64(fastrand::f64())).await;
            *pause = (*pause * 2).min(PAUSE_MAX);
            match self.open().await {
                Ok(link) => return link,
                Err(Failure::NoRuntime) => self.at = Place::Background,
                Err(Failure::Call(error)) => {
                    if let CallError::NotApplied(why) | CallError::Refused(why) = error {
                        fault = why;
                    }
                    if !self.place_responds().await {
                        self.at = Place::Background;
                    }
                }
            }
            self.not_connected(&fault);
        }
    }

    /// Tells callers why there is no connection.
    pub(super) fn not_connected(&self, fault: &Fault) {
        match self.role {
            Role::Calls(lane) => self.shared.line(lane).down(not_now(fault)),
            Role::Messages => self.shared.hub.down(not_now(fault)),
        }
    }

    /// Hands the new connection to the callers, and tells those who wait for it.
    fn restored(&self, link: &Link) {
        self.hand_out(link);
        match self.role {
            Role::Calls(lane) => self.shared.sink.restored(lane),
            Role::Messages => self.shared.sink.missed(),
        }
    }

    /// Hands a connection to the callers of its lane, if it has one.
    pub(super) fn hand_out(&self, link: &Link) {
        if let Role::Calls(lane) = self.role {
            self.shared.line(lane).up(&link.connection);
        }
    }

    fn place(&self) -> &Handle {
        match self.at {
            Place::Home => &self.home,
            Place::Background => &self.background,
        }
    }

    /// Our own runtime runs this very task.
    async fn place_responds(&self) -> bool {
        self.at == Place::Background || responds(&self.home, PATIENCE).await
    }
}

/// Ends when the server answers READONLY: it was demoted. A new connection may lead to its
/// successor, behind the same name or proxy.
async fn read_only(connection: &Connection) -> End {
    // So that a server that stays read-only is not connected to for each call.
    sleep(PAUSE_MAX).await;
    connection.read_only().await;
    End::Lost(Fault("the server is read-only".into()))
}

/// Whether a runtime still runs what is given to it, and reads what has come.
async fn responds(place: &Handle, limit: Duration) -> bool {
    // Before a task that has yielded runs again, sockets are looked at.
    let mut sign = Task(place.spawn(tokio::task::yield_now()));
    matches!(timeout(limit, &mut sign.0).await, Ok(Ok(())))
}

fn not_now(fault: &Fault) -> Fault {
    Fault(format!("not connected: {fault}"))
}

/// A task that ends when its owner is dropped.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}
