//! The error type of all methods.

pub(crate) mod config;
mod refused;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::holder::Holder;
use crate::lease::LossReason;

pub use config::ConfigError;
pub use refused::Refused;
pub(crate) use refused::with_command;

/// Why a call failed, and what the caller can do about it.
///
/// Messages name the lock and the cause, so one line of a log tells it all. The text of a cause is
/// not part of the API. [Troubleshooting](crate::guide::troubleshooting) lists them with their
/// causes.
///
/// # Examples
///
/// A caller that handles some variants itself, and uses [`is_retryable`](Error::is_retryable) for
/// the others:
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
    /// The wait ended before the lock was acquired, because another owner held it or the future was
    /// polled too rarely.
    ///
    /// Nothing is held. Try later, or shed the work. If the holder [is this
    /// task](crate::inspect::Holder::is_this_task), the caller waited for its own release: [take
    /// the lock again](crate::Lock#taking-it-again) with a guard or a section. If the holder has no
    /// [lease](crate::inspect::Holder::lease), waiting longer does not help.
    #[error(
        "not acquired in time: name=`{name}`, waited=`{}`{}{}",
        rounded(*waited),
        in_the_way.as_deref().map_or_else(String::new, held_by),
        match cancelled_as_unpolled {
            0 => String::new(),
            times => format!(
                ", cancelled as unpolled {times} times: the future was polled too rarely"
            ),
        },
    )]
    Timeout {
        /// The lock.
        name: Arc<str>,
        /// How long the call waited.
        waited: Duration,
        /// The holder that is in the way, if it is known: a hold of this client, or another holder
        /// that was there when the wait ended. Other holders are looked up by the one waiter of
        /// this client that asked Redis for the lock. Every waiter looks, also one with a zero
        /// wait, if this client [describes its holds](crate::ClientBuilder::describe_holds) or the
        /// acquisition has a [purpose](crate::Acquire::purpose). Without such a look, a key without
        /// an expiry is a holder with an empty [owner](crate::inspect::Holder::owner).
        in_the_way: Option<Box<Holder>>,
        /// How often the acquisition started again because its future was woken but not polled: see
        /// [`Lock`](crate::Lock#futures-that-nobody-polls). If it is not zero, the lock may have
        /// been free.
        cancelled_as_unpolled: u32,
    },
    /// Redis certainly did not execute the call: no connection, refused, loading, read-only or out
    /// of memory.
    ///
    /// Nothing changed. Retry after a pause.
    #[error("redis is not available: name=`{name}`, cause=`{cause}`")]
    Unavailable {
        /// The lock, or the call.
        name: Arc<str>,
        /// What the connection or the server reported.
        cause: Cause,
    },
    /// The call was sent but no reply came, so it may have taken effect.
    ///
    /// Assume that the lock may be held until `lease` has passed: do not enter, and retry. This
    /// client keeps releasing the lock in the background.
    #[error("the reply was lost: name=`{name}`, lease=`{lease:?}`, cause=`{cause}`")]
    Unknown {
        /// The lock.
        name: Arc<str>,
        /// The lock is free after this time at the latest.
        lease: Duration,
        /// What happened to the reply.
        cause: Cause,
    },
    /// Too few servers confirmed a copy of the grant: see
    /// [`ClientBuilder::durability`](crate::ClientBuilder::durability).
    ///
    /// Nothing is held: the grant is being undone. Retry after a pause. If it keeps failing, check
    /// the replicas.
    #[error(
        "too few copies of the grant: name=`{name}`, wanted=`{wanted}`, \
         acknowledged=`{acknowledged}`"
    )]
    NotDurable {
        /// The lock.
        name: Arc<str>,
        /// The number of copies that the client's settings ask for.
        wanted: u32,
        /// The number of copies that were acknowledged in time.
        acknowledged: u32,
    },
    /// The hold ended before it was released.
    ///
    /// Stop the work, because others may hold the lock now. Only a resource that checks a fencing
    /// token refuses writes after the loss.
    #[error("the lock was lost: name=`{name}`, reason=`{reason}`")]
    Lost {
        /// The lock.
        name: Arc<str>,
        /// Why the hold ended.
        reason: LossReason,
    },
    /// The permit with this id, or the string lock with this owner, has ended or belongs to another
    /// client now.
    ///
    /// Nothing changed. This is a bug in the program, unless several callers were meant to try.
    #[error("no longer held, or taken over by another owner: name=`{name}`")]
    NotOwner {
        /// The lock.
        name: Arc<str>,
    },
    /// The semaphore has no number of permits: nobody has set one, or it was deleted, or its server
    /// lost its data.
    ///
    /// Nothing is held. This is a bug in the program, unless the server lost its data: declare the
    /// number with [`Semaphore::with_limit`](crate::Semaphore::with_limit), or set it before the
    /// first acquisition.
    #[error(
        "the semaphore was never given permits: name=`{name}`, declare them by `with_limit`, or \
         call `try_set_permits`"
    )]
    NoPermits {
        /// The semaphore.
        name: Arc<str>,
    },
    /// The acquisition asks for more permits than the semaphore has in all, so it would wait for
    /// ever.
    ///
    /// Nothing is held. This is a bug in the program: ask for fewer permits, or declare a higher
    /// [limit](crate::Semaphore::with_limit). Without a declared limit nobody knows the total, and
    /// the acquisition waits.
    #[error("more permits than the limit: name=`{name}`, permits=`{permits}`, limit=`{limit}`")]
    ExceedsLimit {
        /// The semaphore.
        name: Arc<str>,
        /// The number of permits of the acquisition.
        permits: u32,
        /// The limit that the acquisition declares; without one, the limit that another acquisition
        /// declared last.
        limit: u32,
    },
    /// The caller already holds the lock, and the call would wait for the caller's own release.
    ///
    /// A guard passed to the call, or the section around it, shows the hold. Nothing changed. This
    /// is a bug in the program: release the lock first, or make the call outside the section.
    #[error("already held by this owner: name=`{name}`, {how}")]
    AlreadyHeld {
        /// The lock.
        name: Arc<str>,
        /// How the lock is held, and why the call would wait for that hold.
        how: &'static str,
    },
    /// Too few independent servers answered.
    ///
    /// The members that were taken are being released. Retry later.
    #[error(
        "no quorum: needed=`{needed}`, obtained=`{obtained}`, nodes=`{nodes}`{}",
        first_of(causes)
    )]
    Quorum {
        /// The number of servers that must agree.
        needed: usize,
        /// The number of servers that answered, whether they granted or refused.
        obtained: usize,
        /// The number of servers that were asked.
        nodes: usize,
        /// Why the others did not answer: one cause for each, with its server. The message has the
        /// first three.
        causes: Box<[Cause]>,
    },
    /// Redis refused the call, and retrying does not help: the password is wrong, the key has
    /// another type, the user lacks a right, the server is a cluster node, or it runs no scripts.
    ///
    /// Nothing is held. If a script made changes before it was refused, they are being undone. An
    /// operator must check the key, the rights of the user or the URL: the message says which.
    #[error("{}", refused.message(name, detail))]
    Protocol {
        /// The lock, or the call.
        name: Arc<str>,
        /// What was refused.
        refused: Refused,
        /// The answer of Redis.
        detail: String,
    },
    /// The client was shut down. Make a new one.
    #[error("the client is closed")]
    Closed,
    /// The client was made before a fork, by the parent process.
    ///
    /// Nothing was sent. Make a client in this process.
    #[error("the client was made before a fork, by another process")]
    Forked,
    /// An argument or a setting is not allowed. Nothing was sent.
    #[error(transparent)]
    Config(#[from] ConfigError),
}

/// The cause of an error, as text for people; see [`Error::Unavailable`], [`Error::Unknown`] and
/// [`Error::Quorum`].
///
/// The message of the error has it. It is no [`source`](std::error::Error::source), because a
/// report of the whole chain would then print it twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cause(String);

impl Cause {
    pub(crate) fn new(text: impl Into<String>) -> Self {
        Cause(text.into())
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Error {
    /// Returns whether the wait ended before the lock was acquired: [`Error::Timeout`].
    pub fn is_timeout(&self) -> bool {
        matches!(self, Error::Timeout { .. })
    }

    /// Returns whether another owner is known to have held the lock: a [`Timeout`](Error::Timeout),
    /// unless the future was polled too rarely (`cancelled_as_unpolled`) and nobody was seen.
    ///
    /// Only this means *somebody else is at it*. After any other error, nobody may have been.
    pub fn is_busy(&self) -> bool {
        match self {
            Error::Timeout {
                in_the_way,
                cancelled_as_unpolled,
                ..
            } => {
                *cancelled_as_unpolled == 0
                    || in_the_way.as_ref().is_some_and(|holder| holder.has_owner())
            }
            _ => false,
        }
    }

    /// Returns whether the same call may succeed later, with no change to the program or the
    /// server: after [`Timeout`](Error::Timeout), [`Unavailable`](Error::Unavailable),
    /// [`Unknown`](Error::Unknown), [`NotDurable`](Error::NotDurable) and
    /// [`Quorum`](Error::Quorum).
    ///
    /// A web service answers a [busy](Error::is_busy) lock with 423 or 409, and the others of these
    /// with 503. `Lost` is not among them: the work was begun, and only the service knows whether
    /// it can begin again.
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

    /// Returns whether the lock may be held although the caller has no guard: [`Error::Unknown`].
    pub fn may_be_held(&self) -> bool {
        matches!(self, Error::Unknown { .. })
    }

    /// What happened, without the name of the lock.
    pub(crate) fn cause(&self) -> String {
        match self {
            Error::Unavailable { cause, .. } | Error::Unknown { cause, .. } => cause.to_string(),
            Error::Protocol {
                refused: Refused::Other,
                detail,
                ..
            } => detail.clone(),
            other => other.to_string(),
        }
    }

    /// A stable word for telemetry.
    pub(crate) fn label(&self) -> &'static str {
        match self {
            Error::Timeout { .. } => "timeout",
            Error::Unavailable { .. } => "unavailable",
            Error::Unknown { .. } => "unknown",
            Error::NotDurable { .. } => "not_durable",
            Error::Lost { .. } => "lost",
            Error::NotOwner { .. } => "not_owner",
            Error::NoPermits { .. } => "no_permits",
            Error::ExceedsLimit { .. } => "exceeds_limit",
            Error::AlreadyHeld { .. } => "already_held",
            Error::Quorum { .. } => "quorum",
            Error::Protocol { .. } => "protocol",
            Error::Closed => "closed",
            Error::Forked => "forked",
            Error::Config(_) => "config",
        }
    }

    /// True if the servers caused it: they refused a call or did not answer it.
    pub(crate) fn is_of_the_servers(&self) -> bool {
        matches!(
            self,
            Error::Unavailable { .. }
                | Error::Unknown { .. }
                | Error::NotDurable { .. }
                | Error::Quorum { .. }
                | Error::Protocol { .. }
        )
    }

    pub(crate) fn lost(name: &Arc<str>, reason: LossReason) -> Self {
        Error::Lost {
            name: name.clone(),
            reason,
        }
    }
}

/// What a timeout says about the holder that is in the way.
fn held_by(holder: &Holder) -> String {
    let name = if holder.has_owner() && !holder.is_this_task {
        format!(", holder=`{holder}`")
    } else {
        String::new()
    };
    let expiry = match holder.lease {
        Some(_) => "",
        None => ", the key has no expiry, so it may be other data",
    };
    let relation = match (holder.is_this_task, holder.is_this_client) {
        (true, _) => ", held by this task: use `guard.reenter()` or a section to take it again",
        (false, true) => ", held by this client, not by this task",
        (false, false) => "",
    };
    format!("{name}{expiry}{relation}")
}

/// The first causes, for a message. More of them would say the same.
fn first_of(causes: &[Cause]) -> String {
    let shown: Vec<_> = causes.iter().take(3).map(|Cause(text)| &**text).collect();
    if shown.is_empty() {
        String::new()
    } else {
        format!(", cause=`{}`", shown.join("; "))
    }
}

/// A time for people, in whole milliseconds.
fn rounded(waited: Duration) -> String {
    match u64::try_from(waited.as_millis()) {
        Ok(0) => "0ms".to_owned(),
        Ok(ms) => format!("{:?}", Duration::from_millis(ms)),
        Err(_) => format!("{waited:?}"),
    }
}
