//! Wakes this client's waiters when a release is published.
//!
//! One Redis subscription serves all waiters of a channel in this process. A wake is only a hint:
//! the waiter must ask Redis again.
//!
//! # Invariants
//!
//! - **WAKE-1** A waiter is registered before the call after which it goes to sleep, so a release
//!   that is published after that call reaches it. (Check, listen, check again; or listen and
//!   check, if the channel is subscribed anyway.)
//! - **WAKE-2** When messages may have been missed, every waiter is woken.
//! - **WAKE-3** A channel without waiters stays subscribed for a moment, so that a hot name is not
//!   subscribed for each contention. [`Subscriptions::sweep`] ends such subscriptions. A waiter
//!   that only asked once does not prolong that time.
//!
//! # Locking
//!
//! One shard at a time. No waiter is woken under it: a waiter that ends immediately would re-enter
//! this module by dropping its listener. Subscribing and unsubscribing are queued in the transport.
//! Unsubscribing is queued under the shard lock, so that it cannot overtake a later subscription.
//!
//! # Bounds
//!
//! Entries: channels with waiters, plus those kept for [`WARM`] and up to a second more.

use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::time::Duration;

use tokio::time::Instant;

use crate::protocol::calls::HeardBy;
use crate::protocol::fair;
use crate::protocol::lock::{HANDED_TO_ANOTHER, HandedOver};
use crate::session::waiter::{ConnectionEpoch, Waiter};
use crate::stats::Counters;
use crate::sync::{Map, Notify};
use crate::transport::{CallError, Missed, Transport};

/// How long a subscription outlives its last waiter.
const WARM: Duration = Duration::from_secs(3);

/// The subscriptions of one client.
#[derive(Debug)]
pub(crate) struct Subscriptions {
    channels: Map<Arc<str>, Channel>,
    counters: Arc<Counters>,
    next: AtomicU64,
    /// How often other servers may have begun to send messages.
    connection_epoch: AtomicU64,
}

#[derive(Debug, Default)]
struct Channel {
    listeners: Vec<Registration>,
    confirmed: bool,
    /// When the last listener that really waited has left. Other listeners may have come and gone
    /// since.
    idle_since: Option<Instant>,
}

/// A waiter that listens to a channel.
#[derive(Clone, Debug)]
struct Registration {
    id: u64,
    waiter: Arc<Waiter>,
    own_field: Option<Arc<str>>,
}

/// Where the messages to a waiter come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Source {
    pub(crate) channel: Arc<str>,
    /// The field that the messages are about, if the channel is for this field alone.
    pub(crate) own_field: Option<Arc<str>>,
    pub(crate) by: HeardBy,
}

/// A waiter's registration. Dropping it unregisters the waiter.
#[derive(Debug)]
pub(crate) struct Listener<'a> {
    subscriptions: &'a Subscriptions,
    transport: &'a Transport,
    source: Source,
    /// The key of the resource that the channel belongs to.
    key: Arc<str>,
    id: u64,
    /// Nobody will ever listen to this channel again.
    private: bool,
    /// The listener was used for more than a single call.
    waited: bool,
}

impl Subscriptions {
    pub(crate) fn new(counters: Arc<Counters>) -> Arc<Self> {
        Arc::new(Subscriptions {
            channels: Map::default(),
            counters,
            next: AtomicU64::new(0),
            connection_epoch: AtomicU64::new(0),
        })
    }

    /// How often other servers may have begun to send messages.
    pub(crate) fn connection_epoch(&self) -> ConnectionEpoch {
        self.connection_epoch.load(SeqCst)
    }

    /// Registers a waiter. Messages reach it as soon as [`Listener::ready`] has returned.
    pub(crate) fn listen<'a>(
        &'a self,
        transport: &'a Transport,
        source: Source,
        key: &Arc<str>,
        waiter: &Arc<Waiter>,
    ) -> Listener<'a> {
        let id = self.next.fetch_add(1, Relaxed);
        let mut entry = self
            .channels
            .get_or_insert_with(&source.channel, Channel::default);
        if entry.listeners.is_empty() {
            // Most channels have one: `push` would make space for four.
            entry.listeners.reserve_exact(1);
        }
        entry.listeners.push(Registration {
            id,
            waiter: waiter.clone(),
            own_field: source.own_field.clone(),
        });
        drop(entry);
        let key = key.clone();
        Listener {
            subscriptions: self,
            transport,
            source,
            key,
            id,
            private: false,
            waited: false,
        }
    }

    pub(crate) fn is_subscribed(&self, channel: &str) -> bool {
        self.channels
            .get(channel)
            .is_some_and(|entry| entry.confirmed)
    }

    /// Ends subscriptions that nobody has used for a while.
    pub(crate) fn sweep(&self, transport: &Transport) {
        let now = Instant::now();
        let is_idle = |entry: &Channel| {
            let is_over = |since| now.duration_since(since) >= WARM;
            entry.listeners.is_empty() && entry.idle_since.is_some_and(is_over)
        };
        let mut idle = self
            .channels
            .collect(|channel, entry| is_idle(entry).then(|| channel.clone()));
        // The order of calls must not depend on hashing, so that simulations can be replayed.
        idle.sort();
        for channel in idle {
            self.end(&channel, transport, is_idle);
        }
    }

    /// Ends the subscription of a channel if `unused` says so.
    fn end(&self, channel: &Arc<str>, transport: &Transport, unused: impl Fn(&Channel) -> bool) {
        self.channels.change(channel, |entry| {
            let unused = unused(entry);
            if unused {
                transport.unsubscribe(channel);
            }
            ((), unused)
        });
    }

    pub(crate) fn live(&self) -> usize {
        self.channels.sum(|entry| entry.confirmed.into())
    }

    pub(crate) fn listening(&self) -> usize {
        self.channels.sum(|entry| entry.listeners.len())
    }
}

impl Listener<'_> {
    /// Marks the channel as this waiter's own, so it is not kept after the wait.
    pub(crate) fn private(mut self) -> Self {
        self.private = true;
        self
    }

    pub(crate) fn waits(&mut self) {
        self.waited = true;
    }

    /// True if the messages from this source come. The server may have refused the channel
    /// meanwhile.
    pub(crate) fn hears(&self, source: &Source) -> bool {
        self.source == *source && self.is_ready()
    }

    fn is_ready(&self) -> bool {
        let by_client = self.source.by == HeardBy::Client;
        by_client || self.subscriptions.is_subscribed(&self.source.channel)
    }

    /// Returns when the subscription is confirmed.
    pub(crate) async fn ready(&self) -> Result<(), CallError> {
        if self.is_ready() {
            return Ok(());
        }
        let channel = &self.source.channel;
        // CANCEL: the channel may or may not be subscribed. The listener's drop unsubscribes it, in
        // order.
        self.transport.subscribe(channel, &self.key).await?;
        if let Some(mut entry) = self.subscriptions.channels.get_mut(channel) {
            entry.confirmed = true;
        }
        Ok(())
    }
}

impl Drop for Listener<'_> {
    fn drop(&mut self) {
        let channel = &self.source.channel;
        let Some(mut entry) = self.subscriptions.channels.get_mut(channel) else {
            return;
        };
        entry.listeners.retain(|listener| listener.id != self.id);
        if !entry.listeners.is_empty() {
            return;
        }
        if entry.confirmed && !self.private {
            // A listener that only asked once does not prolong the subscription (WAKE-3).
            if self.waited || entry.idle_since.is_none() {
                entry.idle_since = Some(Instant::now());
            }
            return;
        }
        drop(entry);
        let unused =
            |entry: &Channel| entry.listeners.is_empty() && (self.private || !entry.confirmed);
        self.subscriptions.end(channel, self.transport, unused);
    }
}

impl Subscriptions {
    /// A message came on a channel. It may hand a fair lock over for a lease.
    pub(super) fn on_message(&self, channel: &str, payload: &[u8]) {
        let mut listeners = self.listeners_of(channel);
        if payload == HANDED_TO_ANOTHER {
            listeners.retain(|listener| !listener.waiter.may_be_listed());
        }
        let lease = fair::lease_handed_over(payload);
        self.counters.wakes.add(listeners.len() as u64);
        for Registration {
            waiter, own_field, ..
        } in listeners
        {
            if let Some(field) = own_field {
                waiter.record_handover(&field, lease);
            }
            waiter.wake();
        }
    }

    /// A release has handed a lock of this channel over to a waiter of this client.
    pub(super) fn on_handed_over(&self, channel: &str, to: &HandedOver<'_>) {
        let mut listeners = self.listeners_of(channel).into_iter();
        if let Some(listener) = listeners.find(|listener| listener.waiter.on_handed_over(to)) {
            self.counters.wakes.add(1);
            listener.waiter.wake();
        }
    }

    fn listeners_of(&self, channel: &str) -> Vec<Registration> {
        let entry = self.channels.get(channel);
        entry.map_or_else(Vec::new, |entry| entry.listeners.clone())
    }

    /// The server refused the channel on a new connection. The next waiter asks for it again; those
    /// of now ask Redis.
    pub(super) fn on_refused(&self, channel: &str) {
        if let Some(mut entry) = self.channels.get_mut(channel) {
            entry.confirmed = false;
        }
        self.on_missed(Missed::Channel(channel));
    }

    /// Another server may send messages from now on.
    pub(super) fn advance_connection_epoch(&self) {
        self.connection_epoch.fetch_add(1, SeqCst);
    }

    /// Messages may have been missed, so the affected waiters ask Redis.
    pub(super) fn on_missed(&self, what: Missed<'_>) {
        let concerns = |channel: &str| match what {
            Missed::All => true,
            Missed::Channel(missed) => channel == missed,
            Missed::Where(concerns) => concerns(channel),
        };
        let listeners =
            |channel: &str, entry: &Channel| concerns(channel).then(|| entry.listeners.clone());
        let mut all = self
            .channels
            .collect(|channel, entry| listeners(channel, entry))
            .concat();
        // Wake in the order of registration; hash order would make simulations irreproducible.
        all.sort_by_key(|listener| listener.id);
        for listener in all {
            listener.waiter.wake();
        }
    }
}

// Learns at once of holds that were ended by force.
//
// Whoever ends a hold by force publishes a message on a channel of the holder's client. A message
// makes the client ask Redis, and never ends a hold. If one is lost, the next renewal finds out.
//
// The same channel says to whom a release handed a plain lock over, and wakes the waiters of fair
// locks.
//
// A client listens once a hold has lasted from one look to the next, or once it waits for a lock,
// and from then on. A client whose holds are all shorter, and that waits for nobody, never does.

/// Whether the client listens, and whether a waiter wants it to.
#[derive(Debug, Default)]
pub(crate) struct ClientChannel {
    pub(super) is_wanted: Notify,
    pub(super) is_heard: AtomicBool,
    pub(super) refused: Notify,
}

impl ClientChannel {
    pub(super) fn is_heard(&self) -> bool {
        self.is_heard.load(Relaxed)
    }

    /// Whether the client listens. If not, it begins to, because a lock could be handed over to a
    /// waiter.
    pub(super) fn ensure_heard(&self) -> bool {
        let is_heard = self.is_heard();
        if !is_heard {
            self.is_wanted.notify_one();
        }
        is_heard
    }

    /// The server of a new connection has refused it to this user.
    pub(super) fn on_refused(&self) {
        self.refused.notify_one();
    }
}

#[cfg(all(test, feature = "embedded"))]
mod tests;
