//! How a client calls its servers, and what every other part needs: settings, ids, counters.
//!
//! Nothing here knows about holds or waiters.

mod bounded;
mod durability;
pub(super) mod idempotency;
pub(crate) mod life;
pub(super) mod outages;
pub(super) mod reply_times;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use futures_util::FutureExt as _;
use futures_util::future::Either;

use super::Settings;
use super::options::checked_text;
use crate::client_id::ClientId;
use crate::clock::Moment;
use crate::error::{ConfigError, Error, with_command};
use crate::harness::HeardCall;
use crate::protocol::calls::{HeardBy, NewField};
use crate::protocol::dispatch::Declared;
use crate::protocol::forced;
use crate::protocol::keys::is_only_a_tag;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value};
use crate::stats::{Counters, count};
use crate::timer::{Instant, timeout_at};
use crate::transport::{CallError, DeploymentKind, Fault, Lane, NodeId, Sent, Transport};
use crate::wake::Wake;
pub(crate) use bounded::MadeIn;
use idempotency::ReplyKeys;
use life::Life;
use outages::Outages;
use reply_times::ReplyTimes;

pub(crate) struct Calls {
    pub(crate) transport: Transport,
    pub(crate) settings: Settings,
    pub(crate) counters: Arc<Counters>,
    pub(super) outages: Arc<Outages>,
    pub(super) reply_times: Arc<ReplyTimes>,
    pub(crate) life: Life,
    pub(crate) made_in: MadeIn,
    /// The first half of every field of this client on the wire.
    pub(super) client_id: ClientId,
    /// The id as it begins the fields. Kept, because each acquisition has a new one.
    pub(super) client_text: Box<str>,
    pub(super) next_id: AtomicU64,
    pub(super) reply_keys: ReplyKeys,
}

/// A call that was passed to a connection. Dropping this does not stop the call.
pub(super) struct Sending {
    sent: Sent,
    heard: HeardCall,
}

impl Sending {
    pub(super) async fn outcome(self) -> Result<Value, CallError> {
        let outcome = self.sent.outcome().await;
        self.heard.answered(&outcome);
        outcome
    }
}

impl Calls {
    /// A call that changes no hold of this process.
    pub(crate) async fn ask<T>(
        &self,
        name: &Arc<str>,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        if self.life.is_closed() {
            return Err(Error::Closed);
        }
        understood(name, self.call(Lane::Caller, call).await, read)
    }

    /// A script without keys on one node.
    pub(crate) async fn call_node(&self, node: NodeId, call: Call) -> Result<Value, CallError> {
        count(&self.counters.calls);
        let reply = self.transport.call_node(node, Lane::Caller, call);
        self.bounded(reply).await
    }

    /// A command other than a script on one node.
    pub(crate) async fn command(&self, node: NodeId, words: &[&[u8]]) -> Result<Value, CallError> {
        let reply = self.transport.command(node, Lane::Caller, words);
        self.bounded(reply).await
    }

    /// Await it at once: the time of the reply is counted from here.
    ///
    /// Not an `async fn`, because each `async fn` on the way would keep space for the call, for as
    /// long as every waiter waits for its reply.
    pub(crate) fn call(
        &self,
        lane: Lane,
        call: Call,
    ) -> impl Future<Output = Result<Value, CallError>> {
        count(&self.counters.calls);
        let (sent, script) = (Instant::now(), call.script);
        let heard = self.settings.telemetry.harness.sent(&call);
        let reply = self.bounded(self.transport.call(lane, call));
        reply.map(move |mut reply| {
            if let Err(CallError::Refused(fault)) = &mut reply {
                with_command(fault, script);
            }
            heard.answered(&reply);
            if lane == Lane::Caller && matches!(reply, Ok(_) | Err(CallError::Refused(_))) {
                self.reply_times.came_after(sent.elapsed());
            }
            reply
        })
    }

    /// A call whose outcome somebody else waits for.
    pub(super) fn send(&self, lane: Lane, call: Call) -> Result<Sending, CallError> {
        count(&self.counters.calls);
        let heard = self.settings.telemetry.harness.sent(&call);
        let sent = self.transport.send(lane, call)?;
        Ok(Sending { sent, heard })
    }

    /// Whether waiters poll because no message would wake them.
    pub(crate) fn polls_only(&self) -> bool {
        self.settings.wake == Wake::Poll || self.transport.has_no_messages()
    }

    /// Whether a release can give a plain lock to a waiter. In a cluster, a script does not hear whether its message has
    /// arrived.
    pub(super) fn gives_locks(&self) -> bool {
        !self.polls_only() && self.transport.kind() != DeploymentKind::Cluster
    }

    /// How many keys one call may name, if it would name `most`.
    pub(super) fn keys_at_once(&self, most: usize) -> usize {
        if self.transport.takes_many_keys() {
            most
        } else {
            1
        }
    }

    /// A call whose reply is awaited until `limit` only.
    pub(super) fn call_until(
        &self,
        limit: Option<Instant>,
        call: Call,
    ) -> impl Future<Output = Result<Value, CallError>> {
        let reply = self.call(Lane::Caller, call);
        match limit {
            Some(limit) => Either::Left(timeout_at(limit, reply).then(async |reply| match reply {
                Ok(reply) => reply,
                // Boxed, because every waiter would keep space for it.
                Err(_) => Err(Box::pin(self.lost("no reply within the wait")).await),
            })),
            None => Either::Right(reply),
        }
    }

    /// How long a reply may take after the end of the wait before it counts as lost.
    pub(crate) fn grace(&self) -> Duration {
        self.reply_times.grace().min(self.settings.command_timeout)
    }

    /// The time by the clock that counts leases.
    pub(super) fn now(&self) -> Moment {
        self.settings.clock.now()
    }

    /// The note for the holder of a lock that this client frees by force.
    pub(crate) fn forced_note(&self, reason: &str) -> Result<Arc<str>, ConfigError> {
        checked_text("reason", reason)?;
        let by = self.settings.name.as_deref().unwrap_or(&self.client_text);
        Ok(forced::note(by, reason))
    }

    pub(crate) fn client_id(&self) -> ClientId {
        self.client_id
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.next_id.fetch_add(1, Relaxed)
    }

    /// A fresh owner field, which is never used again.
    pub(super) fn next_field(
        &self,
        resource: &Resource,
        permits: u32,
        lease: Duration,
        heard_by: HeardBy,
    ) -> Arc<str> {
        resource.field(NewField {
            client_id: self.client_id,
            client: &self.client_text,
            number: self.next_id(),
            permits,
            must_ask: lease < self.settings.fair_claim || is_only_a_tag(&resource.key),
            heard_by,
        })
    }

    /// The command by which the scripts of a resource publish.
    pub(crate) fn publish_command(&self, resource: &Resource) -> &'static str {
        self.transport
            .publish_command(|| resource.channel(), &resource.key)
    }

    /// A call that says who holds a lock.
    pub(crate) fn inspect_call(&self, resource: &Resource) -> Call {
        resource.inspect(if self.transport.wants_declared_keys() {
            Declared::All
        } else {
            Declared::OfTheLock
        })
    }

    /// A call that lowers the count of a field. Zero ends the hold.
    pub(super) fn release_call(&self, resource: &Resource, field: &Arc<str>, holds: u32) -> Call {
        resource.release(self.publish_command(resource), holds, field)
    }
}

impl fmt::Debug for Calls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Calls")
            .field("client_id", &self.client_id)
            .field("settings", &self.settings)
            .finish_non_exhaustive()
    }
}

impl From<Unexpected> for CallError {
    fn from(reply: Unexpected) -> Self {
        let text = format!("a reply that no script gives: {:?}", reply.0);
        CallError::Refused(Fault(text))
    }
}

/// Decodes the reply to a call.
pub(crate) fn understood<T>(
    name: &Arc<str>,
    reply: Result<Value, CallError>,
    read: impl Fn(Value) -> Result<T, Unexpected>,
) -> Result<T, Error> {
    let value = reply.map_err(|error| Error::from_call(name, Duration::ZERO, error))?;
    read(value).map_err(|reply| Error::unexpected(name, &reply))
}
