//! The state of a lock in Redis, and its release by force.

use std::time::Duration;

use super::{Guard, Lock, Target};
use crate::error::{ConfigError, Error};
use crate::holder::Holder;
use crate::protocol::waiters::Waiting;

/// Who waits for a lock, as far as Redis knows; see [`Lock::waiters`].
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
    /// The owners in the queue of a fair lock, the next one first, the first 1000; empty for other kinds.
    pub queue: Vec<String>,
    /// How many clients listen for the release, this one included, on the server that has the lock: one for all
    /// waiters of a client, and for a moment after the last of them.
    ///
    /// `None` for a fair lock, for kinds whose waiters ask instead of listening, and if this user may not ask
    /// (`PUBSUB`).
    pub listening: Option<u64>,
}

impl<G: Guard> Lock<G> {
    /// Is the lock held, by this client or another?
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
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer,
    /// [`Error::Closed`] after shutdown, [`Error::Config`] for a bad name.
    pub async fn is_locked(&self) -> Result<bool, Error> {
        match &self.target {
            Target::Single(single) => Ok(single.inspect().await?.is_some()),
            Target::Multi(multi) => Box::pin(multi.is_locked()).await,
        }
    }

    /// Does Redis say that this client holds the lock?
    ///
    /// Of a lock that is [`owned_by`](Lock::owned_by) an owner: that this owner holds it.
    /// [`LockGuard::check`](crate::LockGuard::check) answers locally and at no cost.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none if this process knows that it does not hold the lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn is_held(&self) -> Result<bool, Error> {
        Ok(self.hold_count().await? > 0)
    }

    /// How many times does Redis say that this client holds the lock?
    ///
    /// Of a lock that is [`owned_by`](Lock::owned_by) an owner: how many times this owner holds it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip; none if this process knows that it does not hold the lock.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn hold_count(&self) -> Result<u64, Error> {
        match &self.target {
            Target::Single(single) => single.hold_count().await,
            Target::Multi(multi) => Box::pin(multi.hold_count()).await,
        }
    }

    /// What is left of the holder's lease; `None` if the lock is free.
    ///
    /// [`Duration::MAX`] for a key without expiry, which no client of this library or of Redisson leaves.
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
    /// As [`is_locked`](Lock::is_locked).
    pub async fn remaining_lease(&self) -> Result<Option<Duration>, Error> {
        match &self.target {
            Target::Single(single) => {
                Ok(single.inspect().await?.map(|seen| seen.left.unwrap_or(Duration::MAX)))
            }
            Target::Multi(multi) => Box::pin(multi.remaining_lease()).await,
        }
    }

    /// Who holds the lock; `None` if it is free.
    ///
    /// Of many readers this is one, with the longest lease of all readers.
    /// [`Client::locks`](crate::Client::locks) lists every reader with its own lease.
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
    /// As [`is_locked`](Lock::is_locked).
    pub async fn holder(&self) -> Result<Option<Holder>, Error> {
        let single = match &self.target {
            Target::Single(single) => single,
            Target::Multi(multi) => return Box::pin(multi.holder()).await,
        };
        Ok(single.inspect().await?.and_then(|seen| seen.holders.into_iter().next()))
    }

    /// Who waits for the lock.
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
    /// As [`is_locked`](Lock::is_locked); [`Error::Config`] for several locks as one.
    pub async fn waiters(&self) -> Result<Waiters, Error> {
        match &self.target {
            Target::Single(single) => {
                let Waiting { listening, queue } = single.waiting().await?;
                Ok(Waiters { queue, listening })
            }
            Target::Multi(_) => Err(Error::Config(ConfigError::Several { call: "waiters" })),
        }
    }

    /// Frees the lock by force, also if another client holds it; false if the lock was free.
    ///
    /// A holder with a renewed lease learns of its loss at the next renewal, at the latest after a third
    /// of the lease. A holder with a fixed lease learns of it when it extends, re-enters or releases the
    /// lock.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the lock is freed or it is not.
    ///
    /// # Errors
    ///
    /// As [`is_locked`](Lock::is_locked).
    pub async fn force_unlock(&self) -> Result<bool, Error> {
        match &self.target {
            Target::Single(single) => single.force_unlock().await,
            Target::Multi(multi) => Box::pin(multi.force_unlock()).await,
        }
    }
}
