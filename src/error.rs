//! The one error of all calls.

mod config;

use std::sync::Arc;
use std::time::Duration;

use crate::fencing::FencingToken;
use crate::lease::LossReason;

pub use config::ConfigError;

/// Why a call failed, in terms of what to do about it.
///
/// Messages name the lock; the text of a cause is in [`source`](std::error::Error::source) and is
/// no part of the API.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Somebody else held the lock for all of the wait.
    ///
    /// Nothing is held. Try later, or shed the work. If a hold of this client is in the way, and code that
    /// holds the lock is what asked for it, [re-enter](crate::Lock#taking-it-again).
    #[error(
        "not acquired in time: name=`{name}`, waited=`{waited:?}`{}{}",
        if *no_expiry { ", its key has no expiry" } else { "" },
        if *by_this_client { ", held by this client: to take it again use `guard.reenter()` or a section" } else { "" },
    )]
    Timeout {
        /// The lock.
        name: Arc<str>,
        /// How long the call waited.
        waited: Duration,
        /// The key in the way has no expiry: only its owner or a forced unlock frees it.
        no_expiry: bool,
        /// A hold of this client is in the way, or was a moment ago.
        by_this_client: bool,
        /// The owner in the way, if it is of this client: what
        /// [`LockGuard::owner`](crate::LockGuard::owner) of its guard says.
        holder: Option<Arc<str>>,
    },
    /// Redis certainly did not do it: no connection, refused, loading, read-only, out of memory.
    ///
    /// Nothing changed. Retry with a pause.
    #[error("redis is not available: name=`{name}`")]
    Unavailable {
        /// The lock, or what was being done.
        name: Arc<str>,
        /// What the connection or the server said.
        source: Cause,
    },
    /// The call was sent and no reply came, so it may have been done.
    ///
    /// Redis may have changed: the lock may be held until `lease` has passed; this client goes on
    /// undoing it in the background. Treat the lock as possibly held.
    #[error("the reply was lost: name=`{name}`, lease=`{lease:?}`")]
    Unknown {
        /// The lock.
        name: Arc<str>,
        /// After this the lock is free at the latest.
        lease: Duration,
        /// What happened to the reply.
        source: Cause,
    },
    /// The hold ended before it was released.
    ///
    /// Stop the work; others may hold the lock now. What was already written is protected only by
    /// a fencing token.
    #[error("the lock was lost: name=`{name}`, reason=`{reason}`")]
    Lost {
        /// The lock.
        name: Arc<str>,
        /// Why it ended.
        reason: LossReason,
    },
    /// What the given id or text names is not held: its hold ended, or another has taken it over.
    ///
    /// Nothing changed. This is a mistake in the program, unless several were to try.
    #[error("what was asked for is not held any more, or by another: name=`{name}`")]
    NotOwner {
        /// The lock.
        name: Arc<str>,
    },
    /// The caller holds it already, by a guard that it shows, a section that it is inside of or an
    /// [`Owner`](crate::Owner), in a way in which this call would wait for itself.
    ///
    /// Nothing changed. This is a mistake in the program: release first, or do it outside of the section.
    #[error("already held by this owner: name=`{name}`, {how}")]
    AlreadyHeld {
        /// The lock.
        name: Arc<str>,
        /// What is held, and why that is in the way.
        how: &'static str,
    },
    /// A later fencing token was at the resource.
    ///
    /// Nothing changed. Whoever has this token was paused beyond its lease: stop the work.
    #[error("a later fencing token was there: key=`{key}`, token=`{token}`")]
    StaleToken {
        /// The resource.
        key: Arc<str>,
        /// The token that came too late.
        token: FencingToken,
    },
    /// Too few independent nodes answered.
    ///
    /// What was taken is being released. Retry later.
    #[error("no quorum: needed=`{needed}`, obtained=`{obtained}`, nodes=`{nodes}`")]
    Quorum {
        /// Nodes that must agree.
        needed: usize,
        /// Nodes that answered, for it or against it.
        obtained: usize,
        /// Nodes that were asked.
        nodes: usize,
    },
    /// Redis answered, and repeating will not help: another type under the key, no permission, a node
    /// of a cluster.
    ///
    /// Nothing is held: what a script did before it was refused is being undone. An operator must look at
    /// the key, at the user's rights or at the URL.
    #[error("redis refused it: name=`{name}`, detail=`{detail}`")]
    Protocol {
        /// The lock, or what was being done.
        name: Arc<str>,
        /// What Redis answered.
        detail: String,
    },
    /// The client was shut down.
    ///
    /// Make a new client.
    #[error("the client is closed")]
    Closed,
    /// An argument or a setting cannot be used. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// What was behind an error, as text for people.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Cause(String);

impl Cause {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Cause(text.into())
    }
}

impl Error {
    /// Somebody else held the lock for all of the wait.
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout { .. })
    }

    /// The same call may succeed later without anybody changing anything.
    pub fn is_retryable(&self) -> bool {
        matches!(
            self,
            Error::Timeout { .. }
                | Error::Unavailable { .. }
                | Error::Unknown { .. }
                | Error::Quorum { .. }
        )
    }

    /// Redis may have changed: the lock may be held although the caller has no guard.
    pub fn may_be_held(&self) -> bool {
        matches!(self, Error::Unknown { .. })
    }

    pub(crate) fn lost(name: &Arc<str>, reason: LossReason) -> Self {
        Error::Lost { name: name.clone(), reason }
    }
}
