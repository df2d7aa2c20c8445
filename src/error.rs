//! The one error of all calls.

mod config;
mod unmet;

use std::sync::Arc;
use std::time::Duration;

use crate::fencing::FencingToken;
use crate::holder::Holder;
use crate::lease::LossReason;

pub use config::ConfigError;
pub use unmet::Unmet;

use unmet::list;

/// Why a call failed, in terms of what to do about it.
///
/// Messages name the lock; the text of a cause is in [`source`](std::error::Error::source) and is
/// no part of the API.
///
/// # Examples
///
/// A caller that must decide, with [`is_retryable`](Error::is_retryable) for the variants that it does not
/// name:
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, Error, Lease};
///
/// let client = Client::embedded();
/// # let _other = client.lock("orders:42").lock().await?;
/// let wait = Duration::from_millis(50);
/// match client.lock("orders:42").try_lock(wait, Lease::Renewed).await {
///     Ok(guard) => guard.unlock().await?,
///     Err(Error::Timeout { waited, .. }) => println!("busy for {waited:?}: shed the work"),
///     Err(Error::Unknown { lease, .. }) => println!("perhaps held: do not enter for {lease:?}"),
///     Err(error) if error.is_retryable() => println!("try later: {error}"),
///     Err(error) => return Err(error),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Another owner held the lock for all of the wait, or the future was polled too rarely (`passed_over`).
    ///
    /// Nothing is held. Try later, or shed the work. If `by_this_client` is set and the calling code holds
    /// the lock itself, [re-enter](crate::Lock#taking-it-again).
    #[error(
        "not acquired in time: name=`{name}`, waited=`{waited:?}`{}{}{}{}",
        match holder {
            Some(holder) if !by_this_client => format!(", holder=`{holder}`"),
            _ => String::new(),
        },
        if *no_expiry { ", its key has no expiry" } else { "" },
        if *by_this_client { ", held by this client: to take it again use `guard.reenter()` or a section" } else { "" },
        match passed_over {
            0 => String::new(),
            times => format!(", passed over {times} times: its future was polled too rarely"),
        },
    )]
    Timeout {
        /// The lock.
        name: Arc<str>,
        /// How long the call waited.
        waited: Duration,
        /// The key has no expiry: only its owner or a forced unlock frees the lock.
        no_expiry: bool,
        /// A hold of this client keeps the lock, or kept it a moment ago.
        by_this_client: bool,
        /// Who is in the way: a hold of this client, or, if this client
        /// [describes its holds](crate::ClientBuilder::describe_holds) or the acquisition has a
        /// [purpose](crate::Acquire::purpose), one that was there when the wait had ended.
        holder: Option<Box<Holder>>,
        /// How often the acquisition began again because its future was woken and not polled: see
        /// [`Lock`](crate::Lock#futures-that-nobody-polls). If it is not zero, the lock may have been free.
        passed_over: u32,
    },
    /// Redis certainly did not take the call: no connection, refused, loading, read-only, out of memory.
    ///
    /// Nothing changed. Retry with a pause.
    #[error("redis is not available: name=`{name}`")]
    Unavailable {
        /// The lock, or the call.
        name: Arc<str>,
        /// What the connection or the server said.
        source: Cause,
    },
    /// The call was sent and no reply came: Redis may have changed.
    ///
    /// Assume that the lock may be held until `lease` has passed: do not enter; retry. This client goes on
    /// releasing it in the background.
    #[error("the reply was lost: name=`{name}`, lease=`{lease:?}`")]
    Unknown {
        /// The lock.
        name: Arc<str>,
        /// After this time the lock is free at the latest.
        lease: Duration,
        /// What happened to the reply.
        source: Cause,
    },
    /// Too few servers have a copy of the grant: see
    /// [`ClientBuilder::durability`](crate::ClientBuilder::durability).
    ///
    /// Nothing is held: what was taken is being given back. Retry with a pause; if it stays so, look at the
    /// replicas.
    #[error(
        "too few copies of the grant: name=`{name}`, wanted=`{wanted}`, acknowledged=`{acknowledged}`"
    )]
    NotDurable {
        /// The lock.
        name: Arc<str>,
        /// The copies that the client's settings ask for.
        wanted: u32,
        /// The copies that were acknowledged in time.
        acknowledged: u32,
    },
    /// The hold ended before it was released.
    ///
    /// Stop the work; others may hold the lock now. Writes after the loss are refused only by a resource
    /// that checks a fencing token.
    #[error("the lock was lost: name=`{name}`, reason=`{reason}`")]
    Lost {
        /// The lock.
        name: Arc<str>,
        /// Why the hold ended.
        reason: LossReason,
    },
    /// The permit of an id, or the hold of a text, is not there: it ended, or another client took it over.
    ///
    /// Nothing changed. This is a mistake in the program, unless several callers were meant to try.
    #[error("not held any more, or taken over by another owner: name=`{name}`")]
    NotOwner {
        /// The lock.
        name: Arc<str>,
    },
    /// The caller holds the lock already, and the call would wait for the caller's own release.
    ///
    /// The hold is that of a guard that the caller gave, of the section around the call, or of its
    /// [`Owner`](crate::Owner). Nothing changed. This is a mistake in the program: release first, or make
    /// the call outside of the section.
    #[error("already held by this owner: name=`{name}`, {how}")]
    AlreadyHeld {
        /// The lock.
        name: Arc<str>,
        /// How the lock is held, and why the call would wait for it.
        how: &'static str,
    },
    /// A later fencing token was at the resource.
    ///
    /// Nothing changed. The holder of this token was paused beyond its lease: stop the work.
    #[error("a later fencing token was there: key=`{key}`, token=`{token}`")]
    StaleToken {
        /// The resource.
        key: Arc<str>,
        /// The token that was refused.
        token: FencingToken,
    },
    /// Too few independent nodes answered.
    ///
    /// The members that were taken are being released. Retry later.
    #[error("no quorum: needed=`{needed}`, obtained=`{obtained}`, nodes=`{nodes}`")]
    Quorum {
        /// Nodes that must agree.
        needed: usize,
        /// Nodes that answered, with a grant or a refusal.
        obtained: usize,
        /// Nodes that were asked.
        nodes: usize,
    },
    /// Redis refused the call, and repeating will not help: another type under the key, no permission, a
    /// node of a cluster.
    ///
    /// Nothing is held: changes that a script made before it was refused are being undone. An operator must
    /// look at the key, at the user's rights or at the URL.
    #[error("redis refused the call: name=`{name}`, detail=`{detail}`")]
    Protocol {
        /// The lock, or the call.
        name: Arc<str>,
        /// What Redis answered.
        detail: String,
    },
    /// The deployment gives less than [`ClientBuilder::require`](crate::ClientBuilder::require) asks for.
    ///
    /// No lock was touched, and the connections are closed. An operator must look at the servers, or the program
    /// must ask for less.
    #[error("the deployment gives less than is required: {}", list(unmet))]
    Requirements {
        /// What is not met, server by server.
        unmet: Vec<Unmet>,
    },
    /// The client was shut down.
    ///
    /// Make a new client.
    #[error("the client is closed")]
    Closed,
    /// This process is a fork of the one that made the client.
    ///
    /// Nothing was sent. Make a client in this process.
    #[error("the client was made before a fork, by another process")]
    Forked,
    /// An argument or a setting cannot be used. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The cause of an error, as text for people; see [`Error::Unavailable`] and [`Error::Unknown`].
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Cause(text.into())
    }
}

impl Error {
    /// Another owner held the lock for all of the wait.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout { .. })
    }

    /// The same call may succeed later, with no change to the program or the server.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Timeout { .. }
                | Error::Unavailable { .. }
                | Error::Unknown { .. }
                | Error::NotDurable { .. }
                | Error::Quorum { .. }
        )
    }

    /// Redis may have changed: the lock may be held although the caller has no guard.
    pub fn may_be_held(&self) -> bool {
        matches!(self, Error::Unknown { .. })
    }

    /// A word for it that never changes, for telemetry.
    #[cfg(any(feature = "metrics", feature = "tracing"))]
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Error::Timeout { .. } => "timeout",
            Error::Unavailable { .. } => "unavailable",
            Error::Unknown { .. } => "unknown",
            Error::NotDurable { .. } => "not_durable",
            Error::Lost { .. } => "lost",
            Error::NotOwner { .. } => "not_owner",
            Error::AlreadyHeld { .. } => "already_held",
            Error::StaleToken { .. } => "stale_token",
            Error::Quorum { .. } => "quorum",
            Error::Protocol { .. } => "protocol",
            Error::Requirements { .. } => "requirements",
            Error::Closed => "closed",
            Error::Forked => "forked",
            Error::Config(_) => "config",
        }
    }

    pub(crate) fn lost(name: &Arc<str>, reason: LossReason) -> Self {
        Error::Lost { name: name.clone(), reason }
    }
}
