//! The lease of a hold, its state and its end.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::config::ConfigError;

/// How long Redis keeps a hold if it is not renewed.
///
/// It is a separate type, so that a lease and a wait cannot be swapped.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, Lease};
///
/// let lock = Client::embedded().lock("orders:42");
/// // Renewed while the guard lives, with the client's lease: 30 s unless set otherwise.
/// lock.try_lock_now(Lease::Renewed).await?.unlock().await?;
/// // Renewed, and free ten seconds after its holder died.
/// lock.try_lock_now(Lease::RenewedFor(Duration::from_secs(10))).await?.unlock().await?;
/// // Never renewed: the hold ends after a minute.
/// lock.try_lock_now(Lease::Fixed(Duration::from_secs(60))).await?.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Lease {
    /// Renewed in the background while the guard is alive.
    ///
    /// The length is set for the lock ([`Lock::with_lease`](crate::Lock::with_lease)), or else for
    /// the client ([`ClientBuilder::lease`](crate::ClientBuilder::lease), 30 s by default).
    #[default]
    Renewed,
    /// Renewed every third of this length while the guard is alive.
    ///
    /// From [`Lease::RENEWED_MIN`] to [`Lease::MAX`]. A shorter lease frees the lock sooner after
    /// its holder died. A longer lease survives a longer outage.
    RenewedFor(Duration),
    /// Never renewed: the hold ends after this length, even if the guard is still alive.
    ///
    /// From [`Lease::MIN`] to [`Lease::MAX`], in whole milliseconds.
    Fixed(Duration),
}

impl Lease {
    /// The shortest lease. With a shorter one, the margin for clocks would use up most of it.
    pub const MIN: Duration = Duration::from_millis(10);
    /// The longest lease: a year.
    pub const MAX: Duration = Duration::from_secs(365 * 24 * 60 * 60);
    /// The shortest renewed lease. A renewal has a third of it.
    pub const RENEWED_MIN: Duration = Duration::from_millis(100);

    /// Checks the lease that a caller passed.
    pub(crate) fn checked(what: &'static str, lease: Duration) -> Result<Duration, ConfigError> {
        Self::at_least(Self::MIN, what, lease)
    }

    /// Checks a lease that will be renewed.
    pub(crate) fn renewable(what: &'static str, lease: Duration) -> Result<Duration, ConfigError> {
        Self::at_least(Self::RENEWED_MIN, what, lease)
    }

    /// The lease for Redis, and whether it is renewed.
    pub(crate) fn terms(self, of_lock: Duration) -> Result<(Duration, bool), ConfigError> {
        match self {
            Lease::Renewed => Ok((of_lock, true)),
            Lease::RenewedFor(lease) => Ok((Self::renewable("renewed lease", lease)?, true)),
            Lease::Fixed(lease) => Ok((Self::checked("lease", lease)?, false)),
        }
    }

    #[doc(hidden)]
    pub fn at_least(
        shortest: Duration,
        what: &'static str,
        lease: Duration,
    ) -> Result<Duration, ConfigError> {
        if (shortest..=Self::MAX).contains(&lease) {
            // Redis counts whole milliseconds: with a fraction, the deadline would be too late.
            return Ok(Duration::from_millis(
                u64::try_from(lease.as_millis()).expect("BUG: a year fits"),
            ));
        }
        let allowed = format!("{shortest:?} to {:?}", Self::MAX);
        Err(ConfigError::out_of_range(
            what,
            format!("{lease:?}"),
            allowed,
        ))
    }
}

/// What a guard knows about its lock without asking Redis; see
/// [`LockGuard::state`](crate::LockGuard::state).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use leasehold::{EmbeddedRedis, HoldState};
///
/// let redis = EmbeddedRedis::new();
/// let guard = redis.client().lock("orders:42").lock().await?;
/// assert_eq!(guard.state(), HoldState::Held);
///
/// redis.lose("orders:42"); // as after a failover
/// guard.ended().await; // the next renewal finds out
/// assert_eq!(guard.state(), HoldState::Lost);
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum HoldState {
    /// The lock is held at least until the deadline.
    Held,
    /// The server is out of reach, another one serves the key, or renewals are failing. The
    /// deadline has not passed, so no other owner can hold the lock yet, unless the server has lost
    /// the hold.
    Uncertain,
    /// The hold has ended, and others may hold the lock.
    Lost,
}

/// Why a hold ended before it was released.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LossReason {
    /// The local deadline passed: a fixed lease ended, or renewals failed for a whole lease.
    Expired,
    /// Redis no longer has the hold: it was deleted, evicted, or lost in a restart or failover. Or
    /// it was freed by force, and this client did not receive the message about that.
    Gone,
    /// The lock was [freed by force](crate::Lock::force_unlock).
    Forced(Arc<ForcedRelease>),
    /// The `max_hold` of the acquisition ended.
    MaxHold,
    /// The client was shut down.
    Closed,
}

/// Who freed a lock by force, and why; see [`LossReason::Forced`].
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{EmbeddedRedis, Ended, LossReason};
///
/// let redis = EmbeddedRedis::new();
/// let guard = redis.client().lock("orders:42").lock().await?;
/// # tokio::time::sleep(Duration::from_secs(2)).await;
///
/// let operator = redis.builder().name("ann@pod-7").connect().await?;
/// assert!(operator.lock("orders:42").force_unlock("its job hangs").await?);
///
/// let Ended::Lost(LossReason::Forced(release)) = guard.ended().await else { panic!() };
/// assert_eq!((&*release.by, &*release.reason), ("ann@pod-7", "its job hangs"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct ForcedRelease {
    /// The [name](crate::ClientBuilder::name) of the client that freed the lock, or else its
    /// [id](crate::Client::id).
    pub by: String,
    /// The reason that it gave.
    pub reason: String,
}

/// How a hold ended; see [`LockGuard::ended`](crate::LockGuard::ended).
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread", start_paused = true)]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::{Client, Ended, Lease, LossReason};
///
/// let lock = Client::embedded().lock("orders:42");
/// let guard = lock.try_lock_now(Lease::Fixed(Duration::from_secs(60))).await?;
/// match guard.ended().await {
///     Ended::Lost(reason) => assert_eq!(reason, LossReason::Expired),
///     other => unreachable!("the guard is here: {other:?}"),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// The last guard was unlocked or dropped.
    Released,
    /// The hold ended before it was released, and others may hold the lock.
    Lost(LossReason),
    /// The guard was forgotten, and this client no longer follows the hold.
    Forgotten,
}

impl LossReason {
    /// The names of all reasons, for the labels of an exporter.
    pub const NAMES: &'static [&'static str] = &["expired", "gone", "forced", "max_hold", "closed"];

    /// A short, stable name for labels and logs, which is one of [`NAMES`](Self::NAMES).
    /// [`Display`](fmt::Display) is for people.
    pub fn as_str(&self) -> &'static str {
        match self {
            LossReason::Expired => "expired",
            LossReason::Gone => "gone",
            LossReason::Forced(_) => "forced",
            LossReason::MaxHold => "max_hold",
            LossReason::Closed => "closed",
        }
    }
}

impl fmt::Display for LossReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LossReason::Expired => "its lease ended",
            LossReason::Gone => "redis no longer has it",
            LossReason::Forced(release) => {
                let ForcedRelease { by, reason } = &**release;
                return write!(f, "it was forced open by {by}: {reason}");
            }
            LossReason::MaxHold => "its longest holding time ended",
            LossReason::Closed => "the client was shut down",
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_reason_is_listed_under_a_name_of_its_own() {
        let forced = Arc::new(ForcedRelease {
            by: "ann".to_owned(),
            reason: "it hangs".to_owned(),
        });
        let all = [
            LossReason::Expired,
            LossReason::Gone,
            LossReason::Forced(forced),
            LossReason::MaxHold,
            LossReason::Closed,
        ];
        // Add a new reason here and to both lists.
        let number = |reason: &LossReason| match reason {
            LossReason::Expired => 0,
            LossReason::Gone => 1,
            LossReason::Forced(_) => 2,
            LossReason::MaxHold => 3,
            LossReason::Closed => 4,
        };
        assert!(all.iter().map(number).eq(0..5));
        assert!(
            all.iter()
                .map(LossReason::as_str)
                .eq(LossReason::NAMES.iter().copied())
        );
        let names: BTreeSet<_> = LossReason::NAMES.iter().collect();
        assert_eq!(names.len(), all.len());
    }
}
