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

use futures_util::FutureExt;

use super::Holds;
use crate::protocol::forced::channels;
use crate::session::calls::Calls;
use crate::sync::Notify;
use crate::timer::sleep;
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
    refused: Notify,
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

    /// The server of a new connection has refused it to this user.
    pub(in crate::session) fn is_refused(&self) {
        self.refused.notify_one();
    }
}

/// Listens once it is worth it, until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let (calls, of_client) = (&holds.calls, &holds.client_channel);
    // Holds with lower ids were there at the last look.
    let mut next_id = 0;
    loop {
        let is_wanted = tokio::select! {
            biased;
            () = of_client.is_wanted.notified() => true,
            () = sleep(LOOK) => false,
        };
        let is_worth_it = is_wanted || holds.watchdog.has_older_than(next_id);
        next_id = calls.next_id();
        if !is_worth_it || calls.polls_only() {
            continue;
        }
        // Of an earlier connection.
        let _ = of_client.refused.notified().now_or_never();
        match listen(calls).await {
            Ok(()) => {
                of_client.is_heard.store(true, Relaxed);
                of_client.refused.notified().await;
                of_client.is_heard.store(false, Relaxed);
            }
            Err(CallError::Refused(_)) if !calls.polls_only() => {}
            Err(_) => continue,
        }
        sleep(REFUSED).await;
    }
}

/// The channels belong to no key: scripts on keys of all slots publish to them.
async fn listen(calls: &Calls) -> Result<(), CallError> {
    let channels = channels(calls.client_id());
    for channel in &channels {
        let listens = calls.transport.subscribe(channel, "").await;
        if listens.is_err() {
            // Otherwise each new connection would ask for it, though nobody hears the answer.
            for channel in &channels {
                calls.transport.unsubscribe(channel);
            }
            return listens;
        }
    }
    Ok(())
}
