//! The fluent form of an acquisition.

use std::future::{Future, IntoFuture};
use std::pin::Pin;
use std::time::Duration;

use super::{Lock, LockGuard, patience};
use crate::error::Error;
use crate::lease::Lease;
use crate::session::request::Wait;

/// An acquisition in the making; `.await` it.
///
/// Without settings it waits as long as it takes and the lease is renewed. Its cost, its cancel safety
/// and its errors are those of [`Lock::lock`], with a wait those of [`Lock::try_lock`].
#[derive(Debug)]
#[must_use = "an acquisition does nothing unless it is awaited"]
pub struct Acquire<'a> {
    lock: &'a mut Lock,
    wait: Option<Duration>,
    lease: Lease,
    max_hold: Option<Duration>,
}

impl<'a> Acquire<'a> {
    pub(super) fn new(lock: &'a mut Lock) -> Self {
        Acquire { lock, wait: None, lease: Lease::Renewed, max_hold: None }
    }

    /// Waits at most so long; zero asks once, more than a year has no end.
    pub fn wait(mut self, wait: Duration) -> Self {
        self.wait = Some(wait);
        self
    }

    /// How long Redis keeps the hold without hearing from us: [`Lease::Renewed`], or a fixed lease from
    /// [`Lease::MIN`] to [`Lease::MAX`].
    pub fn lease(mut self, lease: impl Into<Lease>) -> Self {
        self.lease = lease.into();
        self
    }

    /// Ends the hold after so long, even if its guard lives and renewal works.
    ///
    /// For holders that may hang or leak their guard: the lock becomes lost
    /// ([`LossReason::MaxHold`](crate::LossReason::MaxHold)) and is released. The limits are those of a
    /// lease.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = Some(max_hold);
        self
    }
}

impl<'a> IntoFuture for Acquire<'a> {
    type Output = Result<LockGuard, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        let wait = self.wait.map_or(Wait::Forever, patience);
        Box::pin(self.lock.take(wait, self.lease, self.max_hold))
    }
}
