//! Carries calls to Redis or to the embedded engine, and messages back.
//!
//! A call has exactly one of three outcomes: a reply, *certainly not applied*, or *unknown*. The
//! transport makes one attempt for each call. The session decides whether to repeat it, as every
//! script may be repeated. Nothing here waits without a time-out.
//!
//! # Lanes
//!
//! Calls on one lane are executed in the order in which they were sent, as long as the lane's
//! connection lives. A call whose future is dropped is executed in its place in that order, or not at
//! all. [`Transport::epoch`] changes whenever the lane's connection for a key was lost, or another node
//! may have been asked for the key. While the epoch stays the same, a call whose future was dropped is
//! surely settled before a call for the same key that is sent later.

#[cfg(feature = "embedded")]
pub(crate) mod embedded;
pub(crate) mod redis;

use std::fmt;
use std::time::Duration;

pub(crate) use self::redis::Transport;

/// The connection that carries a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Lane {
    /// Driven by the caller's runtime: the shortest way for a call with a waiting caller.
    Caller,
    /// Driven by the library's own thread: renewals and releases, even if the caller's runtime stands
    /// still.
    Background,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Calls(Lane),
    Messages,
}

/// Why a call has no reply of its script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum CallError {
    /// Certainly not applied: it never left, or the server refused it before running it.
    NotApplied(Fault),
    /// Perhaps applied: it was sent, and no reply came.
    Unknown(Fault),
    /// The server answered with an error that repeating will not mend.
    Refused(Fault),
    /// It was applied, and too few servers have a copy of what it wrote.
    NotDurable { wanted: u32, acknowledged: u32 },
    /// The transport was closed.
    Closed,
    /// This process is a fork of the one that made the transport. Nothing was sent.
    Forked,
}

impl CallError {
    /// For a call that takes nothing: an unknown outcome leaves nothing in doubt.
    pub(crate) fn took_nothing(self) -> Self {
        match self {
            CallError::Unknown(fault) => CallError::NotApplied(fault),
            other => other,
        }
    }

    /// The text of the error.
    pub(crate) fn into_fault(self) -> Fault {
        Fault(match self {
            CallError::NotApplied(fault)
            | CallError::Unknown(fault)
            | CallError::Refused(fault) => {
                return fault;
            }
            CallError::NotDurable { .. } => "too few copies".into(),
            CallError::Closed => "the client was closed".into(),
            CallError::Forked => "the client was made before a fork".into(),
        })
    }

    /// The same error in other words.
    pub(crate) fn reworded(self, words: impl FnOnce(String) -> String) -> Self {
        match self {
            CallError::NotApplied(Fault(text)) => CallError::NotApplied(Fault(words(text))),
            CallError::Unknown(Fault(text)) => CallError::Unknown(Fault(words(text))),
            CallError::Refused(Fault(text)) => CallError::Refused(Fault(words(text))),
            other @ (CallError::NotDurable { .. } | CallError::Closed | CallError::Forked) => other,
        }
    }

    /// The same error, if the outcome of an earlier call of the same request is unknown.
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
    /// A script met a key of another type. Up to Redis 6.2 the text begins with the line of the script.
    pub(crate) fn is_wrong_type(&self) -> bool {
        self.0.starts_with("WRONGTYPE ")
            || self.0.starts_with("ERR Error running script") && self.0.contains(": WRONGTYPE ")
    }
}

/// Sorts an error reply of the server: `LOADING …`, `WRONGTYPE …`.
///
/// *Not applied* is a condition that passes by itself (a starting, failing-over or overloaded server):
/// the script was not run, or it stopped before its first write. *Refused* is a condition that a person
/// has to change: the script may have written before, as a missing permission is noticed only by the
/// command that needs it.
pub(crate) fn sort_error_reply(text: &str) -> CallError {
    let fault = Fault(text.to_owned());
    // Up to Redis 6.2 an error that a script met stands behind the line where the script met it:
    // `ERR Error running script (call to f_…): @user_script:2: -READONLY You can't write …`, or,
    // where the script caught it, `@user_script: 2: -READONLY You can't write …`.
    let met = text
        .strip_prefix("ERR Error running script")
        .or_else(|| text.strip_prefix("@user_script:"))
        .and_then(|rest| {
            rest.split_whitespace()
                .find_map(|word| word.strip_prefix('-'))
        });
    let code = met
        .unwrap_or(text)
        .split([' ', ':'])
        .next()
        .unwrap_or_default();
    match code {
        "LOADING" | "MASTERDOWN" | "BUSY" | "READONLY" | "OOM" | "CLUSTERDOWN" | "TRYAGAIN"
        | "MISCONF" | "NOREPLICAS" | "NOSCRIPT" | "UNBLOCKED" | "NOAUTH" => {
            CallError::NotApplied(fault)
        }
        // A primary that is demoted while somebody waits for its replicas, and then.
        _ if text.starts_with("ERR WAIT") && text.contains("used with replica instances") => {
            CallError::NotApplied(fault)
        }
        _ if text.starts_with("ERR max number of clients") => CallError::NotApplied(fault),
        _ => CallError::Refused(fault),
    }
}

/// The commands by which a channel is published to and subscribed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PubSub {
    /// PUBLISH and SUBSCRIBE: in a cluster, every node hears it.
    Plain,
    /// SPUBLISH and SSUBSCRIBE: only the node that serves the channel's slot hears it.
    Sharded,
}

/// Whether the releases of a cluster's locks are published within their shard (`SPUBLISH`), or to all nodes
/// (`PUBLISH`); see [`ClientBuilder::sharded_pubsub`](crate::ClientBuilder::sharded_pubsub).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum ShardedPubSub {
    /// Within the shard, if the servers can: from Redis 7.0, and all of Valkey.
    #[default]
    Auto,
    /// Within the shard.
    On,
    /// To all nodes.
    Off,
}

impl PubSub {
    pub(crate) fn publish_command(self) -> &'static str {
        match self {
            PubSub::Plain => "PUBLISH",
            PubSub::Sharded => "SPUBLISH",
        }
    }
}

/// What has carried the calls for a key on one lane. While it stays the same, the same connection does.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Epoch {
    /// How many connections the lane's node has lost.
    pub(crate) connection: u64,
    pub(crate) node: u32,
    /// How often another node was asked for the key's slot.
    pub(crate) served: u32,
}

/// Keys of one group can be in one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Group {
    node: u32,
    /// `None`: the node takes keys of several slots in one call.
    slot: Option<u16>,
}

impl Group {
    /// The number of the node that serves the group.
    pub(crate) fn node(self) -> u32 {
        self.node
    }
}

/// Where messages may have been missed.
#[derive(Clone, Copy)]
pub(crate) enum Missed<'a> {
    /// On every channel.
    All,
    Channel(&'a str),
    /// On every channel for which this is true.
    Where(&'a dyn Fn(&str) -> bool),
}

/// Receives messages and reconnections. Each call must return at once.
pub(crate) trait TransportEvents: Send + Sync + 'static {
    /// A server answered the handshake of a connection, and took so long.
    fn greeted(&self, _after: Duration) {}
    /// A message on a subscribed channel.
    fn message(&self, channel: &str, payload: &[u8]);
    /// Messages may have been missed: after a reconnect, or because a queue was full.
    fn missed(&self, what: Missed<'_>);
    /// The lane's connection is usable again after it was lost.
    fn restored(&self, lane: Lane);
    /// Another server serves the keys for which `concerns` is true, and may lack the last writes of the
    /// server before.
    fn primary_changed(&self, concerns: &dyn Fn(&str) -> bool);
}

/// What the locks live on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DeploymentKind {
    /// One server, or whatever a proxy or a load balancer makes look like one.
    Single,
    /// The primary that sentinels name.
    Sentinel,
    /// A cluster.
    Cluster,
    /// The engine of this process.
    Embedded,
}

#[cfg(test)]
pub(crate) mod tests;
