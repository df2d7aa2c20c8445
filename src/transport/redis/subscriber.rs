//! What runs on the subscriber's connection: the worker that subscribes, the pump that delivers.
//!
//! `fred` answers SUBSCRIBE before it is even written. So each batch is followed by a PING with a
//! token on the same connection (the barrier): its answer proves that the subscription is made, and
//! an error in its place that it was refused. One batch is on the wire at a time; requests that
//! come meanwhile make the next one.
//!
//! Both tasks run where the connection runs, and end with it. Orders survive in `desk.rs`.

use std::sync::Arc;

use fred::bytes_utils::Str;
use fred::clients::Client;
use fred::error::Error;
use fred::interfaces::PubsubInterface as _;
use fred::types::Message;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::Shared;
use super::desk::{BATCH, Batch, Fate, Seat};
use super::link::{End, Pong, ping};
use crate::transport::{Fault, Sink};

/// Whether there was a subscriber's connection before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Start {
    First,
    /// Messages may have been missed since the one before was lost.
    Again,
}

/// Restores what was subscribed, then carries out orders until the connection is of no use.
pub(super) async fn work(shared: Arc<Shared>, seat: Seat, client: Client, start: Start) -> End {
    let desk = &shared.desk;
    for channels in desk.subscribed().chunks(BATCH) {
        let batch = Batch { subscribe: channels.to_vec(), ..Batch::default() };
        match carry_out(&shared, &client, batch).await {
            Pong::InStep => {}
            Pong::Refused(fault) => {
                desk.not_restored(&seat, channels);
                return End::OutOfStep(fault);
            }
            pong => return end(pong),
        }
    }
    if start == Start::Again {
        shared.sink.missed();
    }
    loop {
        let batch = desk.next(&seat).await;
        let confirm = !batch.subscribe.is_empty();
        let pong = carry_out(&shared, &client, batch).await;
        let fate = match &pong {
            Pong::InStep => Fate::Confirmed,
            Pong::Refused(fault) => Fate::Refused(fault.clone()),
            Pong::NotYet(fault) => Fate::NotYet(fault.clone()),
            Pong::OutOfStep | Pong::Lost(_) => Fate::Lost,
        };
        if confirm {
            desk.settle(&seat, &fate);
        }
        if !matches!(pong, Pong::InStep) {
            // Also after a refusal: answers are off by one from here on.
            return end(pong);
        }
    }
}

/// Brings messages to the sink; nothing stands between `fred` and the sink but this task.
pub(super) async fn pump(mut messages: Receiver<Message>, sink: Arc<dyn Sink>) {
    loop {
        match messages.recv().await {
            Ok(message) => {
                sink.message(&message.channel, message.value.as_bytes().unwrap_or_default());
            }
            Err(RecvError::Lagged(_)) => sink.missed(),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Sends a batch and, if it subscribes, waits for the barrier.
async fn carry_out(shared: &Shared, client: &Client, batch: Batch) -> Pong {
    if !batch.unsubscribe.is_empty()
        && let Err(error) = Box::pin(client.unsubscribe(names(&batch.unsubscribe))).await
    {
        return lost(&error);
    }
    if batch.subscribe.is_empty() {
        return Pong::InStep;
    }
    // Both are queued in one poll: `fred` drops an error that comes when nobody waits for an answer,
    // so the PING must be waiting before the server can refuse the SUBSCRIBE.
    let subscribed = Box::pin(client.subscribe(names(&batch.subscribe)));
    match futures::future::join(subscribed, ping(client, shared.token())).await {
        (Ok(()), pong) => pong,
        (Err(error), _) => lost(&error),
    }
}

fn names(channels: &[Arc<str>]) -> Vec<Str> {
    channels.iter().map(|channel| Str::from(channel.as_ref())).collect()
}

fn lost(error: &Error) -> Pong {
    Pong::Lost(Fault(error.to_string()))
}

fn end(pong: Pong) -> End {
    match pong {
        Pong::InStep | Pong::OutOfStep => {
            End::OutOfStep(Fault("answers no longer belong to their commands".into()))
        }
        Pong::Refused(fault) => End::OutOfStep(fault),
        // The pause before the next connection grows as long as this lasts.
        Pong::NotYet(fault) | Pong::Lost(fault) => End::Lost(fault),
    }
}
