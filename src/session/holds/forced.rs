//! Learns at once of holds that were ended by force.
//!
//! Whoever ends a hold by force publishes a message on a channel of the holder's client. A message
//! makes the client ask Redis, and never ends a hold. If one is lost, the next renewal finds out.
//!
//! On the same channel comes who was given a plain lock, and what a waiter of a fair lock is told.
//!
//! A client listens once a hold has lasted from one look to the next, or once it waits for a lock, and from then on.
//! A client whose holds are all shorter, and that waits for nobody, never does.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::sleep;

use super::Holds;
use crate::protocol::forced::channels;
use crate::sync::Notify;
use crate::transport::CallError;

/// The pause between two looks at the holds. A hold that lasts for twice as long is seen at two of them.
const LOOK: Duration = Duration::from_millis(500);

/// The pause after the server has refused the channel to this user, who may get the right later.
const REFUSED: Duration = Duration::from_secs(60);

/// Whether the client listens, and whether a waiter wants it to.
#[derive(Debug, Default)]
pub(crate) struct ClientChannel {
    is_wanted: Notify,
    is_heard: AtomicBool,
}

impl ClientChannel {
    pub(in crate::session) fn is_heard(&self) -> bool {
        self.is_heard.load(Relaxed)
    }

    /// Whether the client listens. If not, it begins to, because a waiter could be given a lock.
    pub(in crate::session) fn is_heard_or_wanted(&self) -> bool {
        let is_heard = self.is_heard();
        if !is_heard {
            self.is_wanted.notify_one();
        }
        is_heard
    }
}

/// Listens once it is worth it, until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let calls = &holds.calls;
    let mut channels = channels(calls.client_id()).into_iter().peekable();
    // Holds with lower ids were there at the last look.
    let mut next_id = 0;
    loop {
        let is_wanted = tokio::select! {
            biased;
            () = holds.client_channel.is_wanted.notified() => true,
            () = sleep(LOOK) => false,
        };
        let is_worth_it = is_wanted || holds.watchdog.has_older_than(next_id);
        next_id = calls.next_id();
        if !is_worth_it || calls.polls_only() {
            continue;
        }
        // The channels belong to no key: scripts on keys of all slots publish to them.
        while let Some(channel) = channels.peek() {
            match calls.transport.subscribe(channel, "").await {
                Ok(()) => drop(channels.next()),
                Err(CallError::Refused(_)) => {
                    // Each new connection would ask for it again. With fred, a refusal ends the connection.
                    calls.transport.unsubscribe(channel);
                    if !calls.polls_only() {
                        sleep(REFUSED).await;
                    }
                    break;
                }
                Err(_) => break,
            }
        }
        if channels.peek().is_none() {
            holds.client_channel.is_heard.store(true, Relaxed);
            return std::future::pending().await;
        }
    }
}
