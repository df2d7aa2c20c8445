//! The hold of a run: a lock, a permit, or the hold of the enclosing run.

use std::time::Duration;

use leasehold::{
    Client, Ended, Error, FencingToken, Lease, LockGuard, LossReason, SemaphorePermit,
};
use leasehold_admin::unlock_after;

use super::enclosing::Enclosing;
use super::loss::Loss;
use crate::arguments::{Kind, RunArguments};
use crate::clock::{self, Moment};
use crate::found::lock;

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "a process has one")]
pub(super) enum Hold {
    Lock(LockGuard),
    Permit(SemaphorePermit),
    Enclosing(Enclosing),
}

impl Hold {
    /// Takes the lock, or a permit.
    pub(super) async fn take(
        client: &Client,
        job: &RunArguments,
        wait: Option<Duration>,
    ) -> Result<Hold, Error> {
        if let Some(permits) = job.permits {
            let semaphore = client
                .semaphore(&job.name)
                .with_limit(permits)
                .with_purpose(job.purpose());
            let permit = match wait {
                Some(wait) => semaphore.try_acquire(1, wait).await?,
                None => semaphore.acquire(1).await?,
            };
            return Ok(Hold::Permit(permit));
        }
        let lock = lock(client, job.kind(), &job.name);
        let mut taking = lock.acquire().purpose(job.purpose());
        if let Some(wait) = wait {
            taking = taking.wait(wait);
        }
        let kept = job.kept_by_redis();
        let first = kept.map_or(job.lease, |span| span.max(job.lease));
        if kept.is_some() {
            // The lock stays locked for so long if this process dies.
            taking = taking.lease(Lease::Fixed(first));
        }
        let mut guard = taking.await?;
        // If a release has given us the lock, its lease is short until the first renewal.
        if guard.remaining() < first / 2 {
            guard.extend(first).await?;
        }
        if kept.is_some() {
            // Renewed as in any other run, so that a loss is noticed as soon.
            guard = lock.acquire().within(&guard).await?;
        }
        Ok(Hold::Lock(guard))
    }

    fn guard(&self) -> Option<&LockGuard> {
        match self {
            Hold::Lock(guard) => Some(guard),
            Hold::Permit(permit) => permit.guard(),
            Hold::Enclosing(_) => None,
        }
    }

    /// The instant until which the lock is certainly held. Each renewal moves it.
    pub(super) fn until(&self) -> Moment {
        match self {
            Hold::Enclosing(enclosing) => enclosing.until(),
            _ => self
                .guard()
                .map_or(clock::now(), |guard| clock::now().after(guard.remaining())),
        }
    }

    /// Resolves when the hold is lost.
    pub(super) async fn lost(&self) -> Loss {
        if let Hold::Enclosing(enclosing) = self {
            return enclosing.lost().await;
        }
        if let Some(guard) = self.guard()
            && let Ended::Lost(reason) = guard.ended().await
        {
            return match reason {
                LossReason::Expired => Loss::Expired,
                reason => Loss::Gone(reason.to_string()),
            };
        }
        // The other ending is a release, which needs this value. So it cannot happen now.
        std::future::pending().await
    }

    /// The owner that other clients see.
    pub(super) fn owner(&self) -> &str {
        match self {
            Hold::Enclosing(enclosing) => &enclosing.mark.owner,
            _ => self.guard().map_or("", LockGuard::owner),
        }
    }

    pub(super) fn token(&self) -> Option<i64> {
        match self {
            Hold::Enclosing(enclosing) => enclosing.mark.token,
            _ => self
                .guard()
                .and_then(LockGuard::token)
                .map(FencingToken::value),
        }
    }

    /// Whether nested runs may use this hold. It must have a single owner. The hold of an enclosing
    /// run has its own mark.
    pub(super) fn is_exclusive(&self, job: &RunArguments) -> bool {
        matches!(self, Hold::Lock(_)) && job.kind() != Kind::Read
    }

    /// Releases the lock, or leaves it to Redis for the rest of `--at-least`.
    pub(super) async fn release_after(self, rest: Duration) -> Result<(), Error> {
        match self {
            Hold::Lock(guard) => unlock_after(guard, rest).await,
            Hold::Permit(permit) => permit.release().await,
            // The enclosing run releases it.
            Hold::Enclosing(_) => Ok(()),
        }
    }

    /// Ends without a release, so that the lock stays locked until its lease ends.
    pub(super) fn leave(self) {
        match self {
            Hold::Lock(guard) => guard.forget(),
            // A permit cannot outlive its client, so the client releases it.
            Hold::Permit(_) | Hold::Enclosing(_) => {}
        }
    }
}

impl RunArguments {
    pub(super) fn kind(&self) -> Kind {
        if self.fenced { Kind::Fenced } else { self.kind }
    }

    /// For how long Redis keeps the lock, even after this process has ended (`--at-least`).
    pub(super) fn kept_by_redis(&self) -> Option<Duration> {
        self.at_least
            .filter(|span| !span.is_zero() && self.permits.is_none() && self.kind() != Kind::Read)
    }
}
