//! The state of a lock in Redis, and its forced release.

use std::time::Duration;

use super::{Guard, Lock, LockSet};
use crate::error::{ConfigError, Error};
use crate::holder::Holder;
use crate::protocol::waiters::Waiting;

/// The waiters of a lock that Redis knows about; see [`Lock::waiters`].
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// let lock = leasehold::Client::embedded().fair_lock("orders:42");
/// let guard = lock.lock().await?;
/// assert!(lock.waiters().await?.queue.is_empty());
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Waiters {
    /// The first 1,000 owners in the queue of a fair lock, the next one first. Empty for other
    /// kinds.
    pub queue: Vec<String>,
    /// The number of clients that listen for the release, including this one, on the server that
    /// has the lock.
    ///
    /// A client counts once, however many waiters it has, and still counts for a moment after its
    /// last waiter left. `None` for fair locks, for kinds that poll instead of listening, and if
    /// this user has no right to `PUBSUB`.
    pub listening: Option<u64>,
}

impl<G: Guard> Lock<G> {
    /// Returns whether any client holds the lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    pub async fn is_locked(&self) -> Result<bool, Error> {
        match &self.set {
            LockSet::Single(single) => Ok(single.inspect().await?.is_some()),
            LockSet::Multi(multi) => Box::pin(multi.is_locked()).await,
        }
    }

    /// Returns the remaining lease of the holder; `None` if the lock is free.
    ///
    /// [`Duration::MAX`] means that the key has no expiry. Neither this library nor Redisson leaves
    /// such a key.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    pub async fn remaining_lease(&self) -> Result<Option<Duration>, Error> {
        match &self.set {
            LockSet::Single(single) => Ok(single
                .inspect()
                .await?
                .map(|seen| seen.left.unwrap_or(Duration::MAX))),
            LockSet::Multi(multi) => Box::pin(multi.remaining_lease()).await,
        }
    }

    /// Returns the holder of the lock; `None` if the lock is free.
    ///
    /// If several readers hold it, this is the one with the longest lease.
    /// The crate leasehold-admin lists every reader with its own lease.
    /// For a quorum lock, [`Holder::holds`] is the count that a majority of the members agrees on.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        let single = match &self.set {
            LockSet::Single(single) => single,
            LockSet::Multi(multi) => return Box::pin(multi.holder()).await,
        };
        single.holder().await
    }

    /// Returns the waiters of the lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: these are several locks as one.
    pub async fn waiters(&self) -> Result<Waiters, Error> {
        match &self.set {
            LockSet::Single(single) => {
                let Waiting { listening, queue } = single.waiting().await?;
                Ok(Waiters { queue, listening })
            }
            LockSet::Multi(_) => Err(Error::Config(ConfigError::Several { call: "waiters" })),
        }
    }

    /// Frees the lock by force, even if another client holds it; returns false if it was free.
    ///
    /// `reason` is for the holder: 1 to 256 bytes without control characters. The holder's client
    /// gets a message, verifies the hold, and reports the loss within milliseconds: the guard
    /// [ends](crate::LockGuard::ended), and [`LossReason::Forced`](crate::LossReason::Forced) says
    /// who freed the lock, and why. Give the client a [name](crate::ClientBuilder::name), or else
    /// the holder reads its id.
    ///
    /// A client listens for this message once it has held a lock for a second. If the message is
    /// lost, the reason is [`LossReason::Gone`](crate::LossReason::Gone). A holder with a renewed
    /// lease then notices the loss at its next renewal, after a third of the lease at the latest. A
    /// holder with a fixed lease notices it when it extends, re-enters or releases the lock. So
    /// does a holder in Java, which does not know the message.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The lock is either freed or not.
    ///
    /// # Errors
    ///
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: the `reason` cannot be used.
    pub async fn force_unlock(&self, reason: &str) -> Result<bool, Error> {
        match &self.set {
            LockSet::Single(single) => single.force_unlock(None, reason).await,
            LockSet::Multi(multi) => Box::pin(multi.force_unlock(reason)).await,
        }
    }

    /// Like [`force_unlock`](Lock::force_unlock), but only if this owner holds the lock; returns
    /// false if it was free.
    ///
    /// `owner` is the text of [`Holder::owner`] or of the guard's `owner()`. Redis compares and
    /// frees in one step, so a holder that came in the meantime keeps the lock. On the read side of
    /// a read/write lock, the other readers keep it as well.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The lock is either freed or not.
    ///
    /// # Errors
    ///
    /// - [`Error::NotOwner`]: another owner holds the lock. Nothing changed.
    #[doc = include_str!("../error/returned_by/call.md")]
    /// - [`Error::Config`] also: no holder of this lock has such a name, the `reason` cannot be
    ///   used, or these are several locks as one.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let lock = leasehold::Client::embedded().lock("orders:42");
    /// let stuck = lock.lock().await?;
    /// if let Some(holder) = lock.holder().await? {
    ///     assert!(lock.force_unlock_of(&holder.owner, "it hangs").await?);
    /// }
    /// assert!(stuck.unlock().await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    pub async fn force_unlock_of(&self, owner: &str, reason: &str) -> Result<bool, Error> {
        match &self.set {
            LockSet::Single(single) => single.force_unlock(Some(owner), reason).await,
            LockSet::Multi(_) => Err(Error::Config(ConfigError::Several {
                call: "force_unlock_of",
            })),
        }
    }
}
