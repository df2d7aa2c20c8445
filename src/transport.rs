//! Carries calls to Redis or to the embedded engine, and messages back.
//!
//! A call has exactly one of three outcomes: a reply, *certainly not applied*, or *unknown*. One
//! attempt is made for each call; whether to repeat it is for the session to say, as every script
//! may be repeated. Nothing here waits without a time-out.
//!
//! # Lanes
//!
//! Calls on one lane are executed in the order in which they were sent, as long as the lane's
//! connection lives; a dropped `call` future is still executed, in its place, or not at all.
//! [`Transport::epoch`] changes whenever a connection of the lane was lost: only while it stays the
//! same is a call whose future was dropped surely settled before one that is sent later.

#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod redis;

use std::fmt;
use std::sync::Arc;

use crate::protocol::{Call, Value};

/// Which connection a call travels on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lane {
    /// Driven by the caller's runtime: the shortest way for a call that somebody waits for.
    Caller,
    /// Driven by the library's own thread: renewals and releases, whatever the caller's runtime does.
    Background,
}

/// Why a call has no reply of its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Certainly not applied: it never left, or the server refused it before running it.
    NotApplied(Fault),
    /// It may have been applied: sent, and no reply came.
    Unknown(Fault),
    /// The server answered with an error that repeating will not mend.
    Refused(Fault),
    /// The transport was closed.
    Closed,
}

impl CallError {
    /// The same error of a call that takes nothing: whatever became of it, nothing is in doubt.
    pub(crate) fn took_nothing(self) -> Self {
        match self {
            CallError::Unknown(fault) => CallError::NotApplied(fault),
            other => other,
        }
    }

    /// The same error after an earlier call of the same request whose outcome is not known.
    pub(crate) fn in_doubt(self) -> Self {
        match self {
            CallError::NotApplied(fault) => CallError::Unknown(fault),
            other => other,
        }
    }
}

/// What went wrong, in words; never a password or a URL with one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault(pub(crate) String);

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Fault {
    /// A script met a key of another type. Up to Redis 6.2 the place where it met it comes first.
    pub(crate) fn is_wrong_type(&self) -> bool {
        self.0.starts_with("WRONGTYPE ")
            || self.0.starts_with("ERR Error running script") && self.0.contains(": WRONGTYPE ")
    }
}

/// Sorts an error reply of the server: `LOADING …`, `WRONGTYPE …`.
///
/// The first group passes by itself (a starting, failing-over or overloaded server); in the second
/// a person has to change something. The first means that the script was not run, or that it stopped
/// before its first write. A script of the second may have written before it was refused: a right that
/// its user has not is missed only where it is used.
pub(crate) fn sort_error_reply(text: &str) -> CallError {
    let fault = Fault(text.to_owned());
    // Up to Redis 6.2 an error that a script met stands behind the place where it met it:
    // `ERR Error running script (call to f_…): @user_script:2: -READONLY You can't write …`, or,
    // where the script caught it, `@user_script: 2: -READONLY You can't write …`.
    let met = text
        .strip_prefix("ERR Error running script")
        .or_else(|| text.strip_prefix("@user_script:"))
        .and_then(|rest| rest.split_whitespace().find_map(|word| word.strip_prefix('-')));
    let code = met.unwrap_or(text).split([' ', ':']).next().unwrap_or_default();
    match code {
        "LOADING" | "MASTERDOWN" | "BUSY" | "READONLY" | "OOM" | "CLUSTERDOWN" | "TRYAGAIN"
        | "MISCONF" | "NOREPLICAS" | "NOSCRIPT" => CallError::NotApplied(fault),
        // It would answer the same for ever: only a client that knows all nodes can go to the right one.
        "MOVED" | "ASK" | "CROSSSLOT" => CallError::Refused(Fault(format!(
            "{text}: the server is a node of a cluster, and this version speaks to one server by \
             itself; connect to a server without `cluster-enabled`"
        ))),
        _ if text.starts_with("ERR max number of clients") => CallError::NotApplied(fault),
        _ => CallError::Refused(fault),
    }
}

/// Where the transport reports what nobody asked for. Calls must return at once.
pub(crate) trait Sink: Send + Sync + 'static {
    /// A message on a subscribed channel.
    fn message(&self, channel: &str, payload: &[u8]);
    /// Messages may have been missed on every channel: a reconnect, a lagging queue.
    fn missed(&self);
    /// The lane's connection is usable again after it was lost.
    fn restored(&self, lane: Lane);
}

/// The transport of one client.
#[derive(Debug)]
pub(crate) enum Transport {
    Redis(redis::Redis),
    #[cfg(feature = "embedded")]
    Embedded(embedded::Link),
}

impl Transport {
    /// Runs a script once. If the future is dropped the call is executed all the same.
    pub(crate) async fn call(&self, lane: Lane, call: Call) -> Result<Value, CallError> {
        match self {
            Transport::Redis(redis) => redis.call(lane, call).await,
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.call(lane, call).await,
        }
    }

    /// Counts the connections that the lane has lost.
    pub(crate) fn epoch(&self, lane: Lane) -> u64 {
        match self {
            Transport::Redis(redis) => redis.epoch(lane),
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.epoch(lane),
        }
    }

    /// Listens to a channel. When this returns `Ok` the server has confirmed it: every message
    /// published later reaches the sink, or [`Sink::missed`] is called. Subscriptions outlive
    /// reconnects. If the future is dropped the channel may or may not be subscribed.
    pub(crate) async fn subscribe(&self, channel: &Arc<str>) -> Result<(), CallError> {
        match self {
            Transport::Redis(redis) => redis.subscribe(channel).await,
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.subscribe(channel).await,
        }
    }

    /// Stops listening to a channel; ordered after earlier calls of [`Transport::subscribe`].
    pub(crate) fn unsubscribe(&self, channel: &Arc<str>) {
        match self {
            Transport::Redis(redis) => redis.unsubscribe(channel),
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.unsubscribe(channel),
        }
    }

    /// PUBLISH, or SPUBLISH where Redisson would use it.
    #[expect(clippy::unused_self, reason = "it is for the server to say, not for this crate")]
    pub(crate) fn publish_command(&self) -> &'static str {
        "PUBLISH"
    }

    /// The server as the configuration names it; of the same text, it is the same one.
    pub(crate) fn server(&self) -> String {
        match self {
            Transport::Redis(redis) => redis.server(),
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.server(),
        }
    }

    /// How often a connection was made again.
    pub(crate) fn reconnects(&self) -> u64 {
        match self {
            Transport::Redis(redis) => redis.reconnects(),
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.reconnects(),
        }
    }

    /// Closes the connections and ends the tasks; later calls answer [`CallError::Closed`].
    pub(crate) async fn close(&self) {
        match self {
            Transport::Redis(redis) => redis.close().await,
            #[cfg(feature = "embedded")]
            Transport::Embedded(link) => link.close().await,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests;
