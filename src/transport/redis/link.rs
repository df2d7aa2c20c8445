//! One connection: opened once, used until it is lost, never repaired.
//!
//! `fred` drives each connection in a task of its own, on the runtime where it was started. Here
//! that task is owned: when the link is dropped the task ends and the socket closes, whatever state
//! either is in.

use std::sync::Arc;

use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::{ClientLike as _, EventInterface as _};
use fred::types::config::Server;
use fred::types::{ClusterHash, CustomCommand, Message, Resp3Frame};
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};

use super::reply::not_connected;
use super::settings::{Events, Settings};
use super::wire::Wire;
use super::{Shared, batcher};
use crate::transport::{CallError, Fault, Lane, sort_error_reply};

pub(super) struct Link {
    pub(super) client: Client,
    router: Task<Result<(), Error>>,
    errors: Receiver<(Error, Option<Server>)>,
    /// What else lives and dies with this connection: the subscriber's worker and pump.
    pub(super) worker: Option<Task<End>>,
    pub(super) pump: Option<Task<()>>,
    /// Of a connection for commands: where calls go, and what sends those that queue.
    batcher: Option<(Arc<Wire>, Task<()>)>,
}

/// Why a connection is not used any more.
#[derive(Debug)]
pub(super) enum End {
    Lost(Fault),
    /// The runtime that drove it was shut down.
    NoRuntime,
    /// The runtime that drives it does not run, so neither does the connection.
    Stalled,
    /// Answers no longer belong to the commands that `fred` gives them to.
    OutOfStep(Fault),
}

/// Why a connection was not opened.
pub(super) enum Failure {
    NoRuntime,
    Call(CallError),
}

/// The answer to a PING that carries a token.
#[derive(Debug)]
pub(super) enum Pong {
    /// Our token: everything that was sent before has been answered.
    InStep,
    /// An error answer that somebody has to do something about (NOPERM): to the PING, or to a
    /// SUBSCRIBE before it.
    Refused(Fault),
    /// An error answer that passes by itself: LOADING, BUSY.
    NotYet(Fault),
    /// The answer to another command.
    OutOfStep,
    /// No answer.
    Lost(Fault),
}

impl Link {
    /// Connects, logs in, and proves with one command that the connection works.
    ///
    /// The connection is driven by `place`; the future itself may run anywhere. It ends within
    /// `timing.connect`.
    pub(super) async fn open(
        settings: &Settings,
        events: Events,
        place: &Handle,
    ) -> Result<(Link, Receiver<Message>), Failure> {
        let client = settings.client(events);
        let messages = client.message_rx();
        let errors = client.error_rx();
        let mut up = client.reconnect_rx();
        let router = {
            let _inside = place.enter();
            Task(client.connect())
        };
        let mut link = Link { client, router, errors, worker: None, pump: None, batcher: None };
        let opened = timeout(settings.timing.connect, async {
            tokio::select! {
                biased;
                _ = up.recv() => {}
                ended = &mut link.router.0 => return Err(not_started(settings, ended)),
            }
            // fred takes a connection that is closed during the login for a good one, and the name
            // is wanted anyway. A server may refuse the name.
            let named = link.client.custom_raw(
                CustomCommand::new_static("CLIENT", ClusterHash::Random, false),
                vec!["SETNAME", settings.name.as_str()],
            );
            match Box::pin(named).await {
                Ok(_) => Ok(()),
                Err(error) => Err(Failure::Call(not_connected(&settings.endpoint, &error))),
            }
        });
        match opened.await {
            Ok(Ok(())) => Ok((link, messages)),
            Ok(Err(failure)) => Err(failure),
            Err(_) => Err(Failure::Call(CallError::NotApplied(Fault(format!(
                "cannot connect to {}: no answer within {} ms",
                settings.endpoint,
                settings.timing.connect.as_millis()
            ))))),
        }
    }

    /// Lets calls use this connection.
    pub(super) fn carry(&mut self, shared: &Arc<Shared>, lane: Lane, place: &Handle) {
        let wire = Arc::new(Wire::new(self.client.clone(), shared.settings.timing.command));
        let batcher = place.spawn(batcher::run(wire.clone(), shared.clone(), lane));
        self.batcher = Some((wire, Task(batcher)));
    }

    /// Where calls go, on a connection for commands.
    pub(super) fn wire(&self) -> Option<Arc<Wire>> {
        self.batcher.as_ref().map(|(wire, _)| wire.clone())
    }

    /// Waits until the connection is certainly gone, or out of step.
    pub(super) async fn ended(
        router: &mut Task<Result<(), Error>>,
        errors: &mut Receiver<(Error, Option<Server>)>,
        worker: &mut Option<Task<End>>,
    ) -> End {
        let worker = async {
            match worker {
                Some(task) => (&mut task.0).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            ended = &mut router.0 => match ended {
                Err(error) if error.is_cancelled() => End::NoRuntime,
                Ok(Err(error)) => End::Lost(Fault(error.to_string())),
                Ok(Ok(())) | Err(_) => End::Lost(Fault("the connection's task ended".into())),
            },
            ended = worker => match ended {
                Ok(end) => end,
                Err(error) if error.is_cancelled() => End::NoRuntime,
                Err(_) => End::Lost(Fault("the subscriber's task failed".into())),
            },
            // Lagging means that there were errors, too.
            error = errors.recv() => End::Lost(match error {
                Ok((error, _)) => Fault(error.to_string()),
                Err(error) => Fault(error.to_string()),
            }),
        }
    }

    /// The parts that [`Link::ended`] needs, beside the client.
    #[expect(clippy::type_complexity, reason = "it is taken apart where it is called")]
    pub(super) fn parts(
        &mut self,
    ) -> (
        &Client,
        &mut Task<Result<(), Error>>,
        &mut Receiver<(Error, Option<Server>)>,
        &mut Option<Task<End>>,
    ) {
        (&self.client, &mut self.router, &mut self.errors, &mut self.worker)
    }

    /// Lets what was sent be answered, says QUIT and waits for the socket to close.
    pub(super) async fn quit(mut self, limit: Duration) {
        // The worker would take the end of the connection for a loss.
        self.worker = None;
        if let Some(wire) = self.wire() {
            wire.close(&CallError::Closed);
        }
        let quit = async {
            if self.client.quit().await.is_ok() {
                // Its outcome does not matter: it has ended.
                drop((&mut self.router.0).await);
            }
            // The wire is closed: this ends when the last answer was passed on.
            if let Some((_, batcher)) = &mut self.batcher {
                drop((&mut batcher.0).await);
            }
        };
        // After the limit the task is dropped with the link, and the socket with the task.
        drop(timeout(limit, quit).await);
    }
}

/// Sends PING with a token and compares the answer.
///
/// `fred` gives answers to commands by position. A SUBSCRIBE that the server refuses has an answer
/// where none is expected; only the token shows that answers are off by one from then on.
pub(super) async fn ping(client: &Client, token: u64) -> Pong {
    let token = token.to_string();
    let command = CustomCommand::new_static("PING", ClusterHash::Random, false);
    match Box::pin(client.custom_raw(command, vec![token.as_str()])).await {
        Ok(Resp3Frame::BlobString { data, .. } | Resp3Frame::SimpleString { data, .. })
            if data == token.as_bytes() =>
        {
            Pong::InStep
        }
        Ok(Resp3Frame::SimpleError { data, .. }) => error_answer(&data),
        Ok(Resp3Frame::BlobError { data, .. }) => error_answer(&String::from_utf8_lossy(&data)),
        Ok(_) => Pong::OutOfStep,
        Err(error) => Pong::Lost(Fault(error.to_string())),
    }
}

fn error_answer(text: &str) -> Pong {
    let fault = Fault(text.to_owned());
    match sort_error_reply(text) {
        CallError::NotApplied(_) => Pong::NotYet(fault),
        _ => Pong::Refused(fault),
    }
}

/// Whether a runtime still runs what is given to it.
pub(super) async fn responds(place: &Handle, limit: Duration) -> bool {
    let mut sign = Task(place.spawn(async {}));
    matches!(timeout(limit, &mut sign.0).await, Ok(Ok(())))
}

/// A task that ends when its owner is dropped.
pub(super) struct Task<T>(pub(super) JoinHandle<T>);

impl<T> Drop for Task<T> {
    fn drop(&mut self) {
        self.0.abort();
    }
}

fn not_started(
    settings: &Settings,
    ended: Result<Result<(), Error>, tokio::task::JoinError>,
) -> Failure {
    match ended {
        Ok(Err(error)) => Failure::Call(not_connected(&settings.endpoint, &error)),
        Err(error) if error.is_cancelled() => Failure::NoRuntime,
        Ok(Ok(())) | Err(_) => Failure::Call(CallError::NotApplied(Fault(format!(
            "cannot connect to {}: the connection's task ended",
            settings.endpoint
        )))),
    }
}
