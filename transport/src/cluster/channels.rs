//! Subscriptions in a cluster. Each is made at the node that serves the slot of its channel.
//!
//! # Invariants
//!
//! - **CHANNELS-1** A wanted channel is subscribed at the node of its slot, or a round of [`run`]
//!   is going to move it. Every event that may require a move requests a round: a new map, a node
//!   that is connected again, a subscription that the server ended or refused.
//! - **CHANNELS-2** A channel that was moved reports that messages may have been missed, after the
//!   server has confirmed it at its new node.
//! - **CHANNELS-3** A channel that a node refuses, and that no other node serves, is not wanted any
//!   more.
//!
//! # Locking
//!
//! The mutex `wanted` comes first, then the registry of a node. Neither is held across an await.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::sync::{Notify, oneshot};

use super::ClusterState;
use super::calls::{REDIRECTS_MAX, redirected};
use super::map::SlotMap;
use crate::call_error::{CallError, Fault};
use crate::events::{Missed, TransportEvents};
use crate::keyslot::keyslot;
use crate::lane::{Lane, Role};
use crate::pubsub::PubSub;
use crate::redirect::Redirect;
use crate::request::SubscribeOutcome;
use crate::sync::Mutex;
use crate::timer::{Duration, Instant, sleep, timeout, timeout_at};

/// The pause before a round that follows a failure.
const RETRY: Duration = Duration::from_millis(100);

#[derive(Default)]
pub(super) struct Channels {
    wanted: Arc<Mutex<BTreeMap<Arc<str>, Wanted>>>,
    round: Arc<Notify>,
}

/// A channel with waiters.
struct Wanted {
    pubsub: PubSub,
    /// The node at which the channel is registered, or zero.
    node: u32,
    /// Distinguishes this subscription from a later one to the same channel.
    since: Instant,
}

impl Channels {
    /// Requests a round, because another node may serve a channel.
    pub(super) fn may_have_moved(&self) {
        self.round.notify_one();
    }
}

/// The observer of one node.
pub(super) struct OfNode {
    number: u32,
    events: Arc<dyn TransportEvents>,
    map: Arc<SlotMap>,
    wanted: Arc<Mutex<BTreeMap<Arc<str>, Wanted>>>,
    round: Arc<Notify>,
}

impl OfNode {
    pub(super) fn new(number: u32, shared: &ClusterState) -> Self {
        let (wanted, round) = (
            shared.channels.wanted.clone(),
            shared.channels.round.clone(),
        );
        OfNode {
            number,
            events: shared.setup.events.clone(),
            map: shared.map.clone(),
            wanted,
            round,
        }
    }

    fn is_here(&self, key: &str) -> bool {
        self.map.owner(keyslot(key)) == Some(self.number)
    }

    fn channels(&self) -> BTreeSet<Arc<str>> {
        let wanted = self.wanted.lock();
        let here = wanted
            .iter()
            .filter(|(_, wanted)| wanted.node == self.number);
        here.map(|(channel, _)| channel.clone()).collect()
    }
}

impl TransportEvents for OfNode {
    fn message(&self, channel: &str, payload: &[u8]) {
        self.events.message(channel, payload);
    }

    fn greeted(&self, after: Duration) {
        self.events.greeted(after);
    }

    fn disconnected(&self, server: &dyn Display, why: &dyn Display) {
        self.events.disconnected(server, why);
    }

    fn out_of_reach(&self, concerns: &dyn Fn(&str) -> bool) {
        self.events
            .out_of_reach(&|key| self.is_here(key) && concerns(key));
    }

    fn reconnected(&self, server: &dyn Display) {
        self.events.reconnected(server);
    }

    fn missed(&self, what: Missed<'_>) {
        match what {
            // Waiters whose channels are at other nodes have missed nothing.
            Missed::All => {
                let here = self.channels();
                self.events
                    .missed(Missed::Where(&|channel| here.contains(channel)));
            }
            Missed::Channel(_) | Missed::Where(_) => self.events.missed(what),
        }
        self.round.notify_one();
    }

    fn refused(&self, _channel: &str) {
        // Another node may serve it. If this one does, the round reports the refusal (CHANNELS-3).
        self.round.notify_one();
    }

    fn restored(&self, lane: Lane, concerns: &dyn Fn(&str) -> bool) {
        self.events
            .restored(lane, &|key| self.is_here(key) && concerns(key));
    }

    fn primary_changed(&self, concerns: &dyn Fn(&str) -> bool) {
        self.events
            .primary_changed(&|key| self.is_here(key) && concerns(key));
    }
}

pub(super) async fn subscribe(
    shared: &ClusterState,
    channel: &Arc<str>,
    pubsub: PubSub,
) -> Result<(), CallError> {
    let limit = Instant::now() + shared.setup.timing.command;
    let since = {
        let mut wanted = shared.channels.wanted.lock();
        let new = || Wanted {
            pubsub,
            node: 0,
            since: Instant::now(),
        };
        wanted.entry(channel.clone()).or_insert_with(new).since
    };
    let mut redirects = 0;
    loop {
        let number = shared.owner(keyslot(channel))?;
        let Some(node) = shared.nodes.get(number) else {
            return Err(super::retired());
        };
        if node.is_opening(Role::Messages) {
            drop(timeout_at(limit, node.first_attempt(Role::Messages)).await);
        }
        let Some(asked) = shared.register(channel, since, number)? else {
            return Err(CallError::NotApplied(Fault(
                "the channel was unsubscribed".into(),
            )));
        };
        let error = match timeout_at(limit, asked).await {
            Ok(Ok(Ok(()))) => return Ok(()),
            Ok(Ok(Err(error))) => error,
            Ok(Err(_)) | Err(_) => {
                shared.channels.may_have_moved();
                let late = "the subscription was not confirmed in time";
                return Err(CallError::Unknown(Fault(late.into())));
            }
        };
        redirects += 1;
        match Redirect::of(&error) {
            Some(Redirect::Moved(slot, to)) if redirects <= REDIRECTS_MAX => {
                shared.moved(slot, shared.node_at(&to, number)?);
            }
            None if matches!(error, CallError::Refused(_)) => return Err(error),
            _ => {
                shared.doubted.notify_one();
                shared.channels.may_have_moved();
                return Err(redirected(&error, &node));
            }
        }
    }
}

pub(super) fn unsubscribe(shared: &ClusterState, channel: &Arc<str>) {
    let mut wanted = shared.channels.wanted.lock();
    if let Some(Wanted { node, .. }) = wanted.remove(channel)
        && let Some(node) = shared.nodes.get(node)
    {
        node.unsubscribe(channel);
    }
}

/// Moves channels to the nodes of their slots, until it is dropped.
pub(super) async fn run(shared: Arc<ClusterState>) {
    loop {
        shared.channels.round.notified().await;
        while !round(&shared).await {
            shared.doubted.notify_one();
            sleep(RETRY.mul_f64(0.5 + fastrand::f64())).await;
        }
    }
}

/// Subscribes each channel where it belongs. False if one could not be subscribed yet.
async fn round(shared: &ClusterState) -> bool {
    let astray: Vec<_> = {
        let wanted = shared.channels.wanted.lock();
        let astray = wanted.iter().filter(|(channel, wanted)| {
            shared.map.owner(keyslot(channel)) != Some(wanted.node)
                || shared
                    .nodes
                    .get(wanted.node)
                    .is_none_or(|node| !node.is_subscribed(channel))
        });
        astray
            .map(|(channel, wanted)| (channel.clone(), wanted.since))
            .collect()
    };
    let moved = join_all(
        astray
            .iter()
            .map(|(channel, since)| move_one(shared, channel, *since)),
    );
    moved.await.into_iter().all(|done| done)
}

async fn move_one(shared: &ClusterState, channel: &Arc<str>, since: Instant) -> bool {
    let Ok(number) = shared.owner(keyslot(channel)) else {
        return false;
    };
    let asked = match shared.register(channel, since, number) {
        Ok(Some(asked)) => asked,
        // The channel was unsubscribed meanwhile.
        Ok(None) => return true,
        Err(_) => return false,
    };
    match timeout(shared.setup.timing.command, asked).await {
        Ok(Ok(Ok(()))) => {
            // INVARIANT CHANNELS-2: report only now, after the confirmation. A message that was
            // published before it may have been missed.
            shared.setup.events.missed(Missed::Channel(channel));
            true
        }
        Ok(Ok(Err(error))) => match Redirect::of(&error) {
            Some(Redirect::Moved(slot, to)) => {
                if let Ok(to) = shared.node_at(&to, number) {
                    shared.moved(slot, to);
                }
                false
            }
            None if matches!(error, CallError::Refused(_)) => {
                shared.refused(channel, since);
                true
            }
            _ => false,
        },
        Ok(Err(_)) | Err(_) => false,
    }
}

impl ClusterState {
    /// INVARIANT CHANNELS-3.
    fn refused(&self, channel: &Arc<str>, since: Instant) {
        let wanted = self.channels.wanted.lock();
        let is_meant = wanted
            .get(channel)
            .is_some_and(|wanted| wanted.since == since);
        drop(wanted);
        if is_meant {
            unsubscribe(self, channel);
            self.setup.events.refused(channel);
        }
    }

    /// Registers a channel at a node, and removes it from any other. `None` if the channel is not
    /// wanted any more.
    fn register(
        &self,
        channel: &Arc<str>,
        since: Instant,
        number: u32,
    ) -> Result<Option<oneshot::Receiver<SubscribeOutcome>>, CallError> {
        let mut wanted = self.channels.wanted.lock();
        let Some(wanted) = wanted
            .get_mut(channel)
            .filter(|wanted| wanted.since == since)
        else {
            return Ok(None);
        };
        if wanted.node != number {
            if let Some(before) = self.nodes.get(wanted.node) {
                before.unsubscribe(channel);
            }
            wanted.node = 0;
        }
        let node = self.nodes.get(number).ok_or_else(super::retired)?;
        let asked = node.start_subscribe(channel, wanted.pubsub)?;
        wanted.node = number;
        Ok(Some(asked))
    }
}
