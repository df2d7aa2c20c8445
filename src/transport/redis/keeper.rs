//! Keeps one connection alive: watches it, gives it up, makes it again. One task for each.
//!
//! A connection is given up when `fred` reports an error, when its task or runtime ends, when two
//! PINGs in a row go unanswered, or when its answers are out of step. The next one is always a new
//! client. The task runs on the library's own runtime, so that it survives the caller's.

use std::sync::Arc;

use fred::clients::Client;
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::link::{End, Failure, Link, Pong, Task, ping, responds};
use super::settings::Events;
use super::subscriber::{self, Start};
use super::{Role, Shared};
use crate::transport::{CallError, Fault, Lane};

/// First and longest pause between two connection attempts.
const PAUSE_MIN: Duration = Duration::from_millis(5);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// How long a runtime that is idle needs at most to run a task.
const PATIENCE: Duration = Duration::from_millis(250);

/// How long a runtime may stand still before its connections move to our own.
const STALL_MAX: Duration = Duration::from_secs(3);

/// How long closing waits for outstanding answers.
pub(super) const QUIT_MAX: Duration = Duration::from_millis(500);

/// PINGs without an answer, one after the other, after which a connection is given up.
const SILENT_MAX: u32 = 2;

pub(super) struct Keeper {
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

impl Keeper {
    /// Opens a connection where the keeper is and starts what runs on it.
    pub(super) async fn open(&self, start: Start) -> Result<Link, Failure> {
        let place = self.place();
        match self.role {
            Role::Commands(lane) => {
                let (mut link, _) = Link::open(&self.shared.settings, Events::Few, place).await?;
                link.carry(&self.shared, lane, place);
                Ok(link)
            }
            Role::Subscriber => {
                let (mut link, messages) =
                    Link::open(&self.shared.settings, Events::Messages, place).await?;
                let sink = self.shared.sink.clone();
                link.pump = Some(Task(place.spawn(subscriber::pump(messages, sink))));
                let seat = self.shared.desk.seat();
                let work = subscriber::work(self.shared.clone(), seat, link.client.clone(), start);
                link.worker = Some(Task(place.spawn(work)));
                Ok(link)
            }
        }
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
            // A refused SUBSCRIBE costs a connection that was good otherwise.
            let out_of_step = matches!(end, End::OutOfStep(_));
            let lasted = since.elapsed() > PAUSE_MAX;
            let fault = self.give_up(end);
            drop(link);
            if lasted || out_of_step {
                pause = PAUSE_MIN;
            }
            link = tokio::select! {
                biased;
                () = &mut stopped => return,
                link = self.reopen(fault, &mut pause) => link,
            };
            self.shared.reconnected();
            self.restored(&link);
        }
        link.quit(QUIT_MAX).await;
    }

    /// Waits until the connection must be given up, and says why.
    async fn watch(&self, link: &mut Link) -> End {
        let (client, router, errors, worker) = link.parts();
        tokio::select! {
            biased;
            end = Link::ended(router, errors, worker) => end,
            end = self.probe(client) => end,
            end = self.read_only() => end,
        }
    }

    /// Sends PING when there was no other sign of life; ends when the connection is of no use.
    async fn probe(&self, client: &Client) -> End {
        let every = self.shared.probe_interval();
        let mut silent = 0;
        let mut stalled = None;
        let mut seen = self.answers();
        loop {
            sleep(every).await;
            let answers = self.answers();
            if answers != seen {
                (seen, silent, stalled) = (answers, 0, None);
                continue;
            }
            match timeout(every, ping(client, self.shared.token())).await {
                // An error is an answer, too; only on the subscriber's connection it may belong
                // to a SUBSCRIBE.
                Ok(Pong::Refused(fault)) if self.role == Role::Subscriber => {
                    return End::OutOfStep(fault);
                }
                Ok(Pong::InStep | Pong::NotYet(_) | Pong::Refused(_)) => {
                    (silent, stalled) = (0, None);
                }
                Ok(Pong::OutOfStep) => {
                    return End::OutOfStep(Fault("a PING got another command's answer".into()));
                }
                Ok(Pong::Lost(_)) | Err(_) if !self.place_responds().await => {
                    let since = *stalled.get_or_insert_with(Instant::now);
                    if since.elapsed() > STALL_MAX {
                        return End::Stalled;
                    }
                }
                Ok(Pong::Lost(_)) | Err(_) => {
                    silent += 1;
                    if silent == SILENT_MAX {
                        return End::Lost(Fault("no answer to PING".into()));
                    }
                }
            }
        }
    }

    /// Ends when the server answers READONLY: it was demoted. A new connection may lead to its
    /// successor, behind the same name or proxy.
    async fn read_only(&self) -> End {
        // So that a server that stays read-only is not connected to for each call.
        sleep(PAUSE_MAX).await;
        if let Role::Commands(lane) = self.role {
            self.shared.line(lane).read_only().await;
            return End::Lost(Fault("the server is read-only".into()));
        }
        std::future::pending().await
    }

    /// Tells callers that the connection is gone, before there is another one.
    fn give_up(&mut self, end: End) -> Fault {
        let fault = match end {
            End::Lost(fault) | End::OutOfStep(fault) => fault,
            End::NoRuntime | End::Stalled => {
                self.at = Place::Background;
                Fault("the runtime of the connection is gone".into())
            }
        };
        match self.role {
            Role::Commands(lane) => self.shared.line(lane).down(not_connected(&fault)),
            Role::Subscriber => self.shared.desk.lost(),
        }
        fault
    }

    /// Connects until it works. The pause grows from attempt to attempt, and from one connection to
    /// the next if they do not last.
    async fn reopen(&mut self, mut fault: Fault, pause: &mut Duration) -> Link {
        loop {
            // Spread, so that the clients of a server that comes back do not come all at once.
            sleep(pause.mul_f64(fastrand::f64())).await;
            *pause = (*pause * 2).min(PAUSE_MAX);
            match self.open(Start::Again).await {
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
            Role::Commands(lane) => self.shared.line(lane).down(not_connected(fault)),
            Role::Subscriber => self.shared.desk.down(&not_connected(fault)),
        }
    }

    /// Hands the new connection to the callers, and tells those who wait for it.
    fn restored(&self, link: &Link) {
        // The subscriber's worker reports for itself, once the channels are restored.
        if let Some(lane) = self.hand_out(link) {
            self.shared.sink.restored(lane);
        }
    }

    /// Hands a connection to the callers of its lane, if it has one.
    pub(super) fn hand_out(&self, link: &Link) -> Option<Lane> {
        let Role::Commands(lane) = self.role else { return None };
        let up = link.wire().is_some_and(|wire| self.shared.line(lane).up(wire));
        up.then_some(lane)
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

    fn answers(&self) -> u64 {
        match self.role {
            Role::Commands(lane) => self.shared.line(lane).answers(),
            Role::Subscriber => 0,
        }
    }
}

fn not_connected(fault: &Fault) -> Fault {
    Fault(format!("not connected: {fault}"))
}

/// The lanes in the order of the lines.
pub(super) const LANES: [Lane; 2] = [Lane::Caller, Lane::Background];
