//! Runs work while a lock is held, and releases the lock afterwards.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;

use super::{Guard, LockGuard};
use crate::error::Error;
use crate::lease::Ended;
use crate::session::reentry;

/// Runs `work` with the guard, then releases the lock.
///
/// Returns the result of `work` even if the release fails; the release continues in the background.
/// The one exception is [`Error::Lost`], if the hold was lost while `work` ran.
pub(in crate::lock) async fn run<G, F, W>(guard: G, work: F) -> Result<W::Output, Error>
where
    G: Guard,
    F: FnOnce(Arc<G>) -> W,
    W: Future,
{
    let guard = Arc::new(guard);
    let inside = guard.clone();
    // CANCEL: the guard is dropped, which releases the lock.
    let done = (*guard)
        .as_ref()
        .run(async move { work(inside).await })
        .await?;
    // A clone of the guard outlives the work: dropping that clone releases the lock.
    let Some(guard) = Arc::into_inner(guard) else {
        return Ok(done);
    };
    done_unless_lost(done, guard.into().unlock().await)
}

/// The result of the work, unless the release reports that the hold was lost.
pub(crate) fn done_unless_lost<T>(done: T, released: Result<(), Error>) -> Result<T, Error> {
    match released {
        Err(lost @ Error::Lost { .. }) => Err(lost),
        Ok(()) | Err(_) => Ok(done),
    }
}

impl LockGuard {
    /// Polls `work` while the lock is held, and drops it if the lock is lost.
    ///
    /// `work` is a *section*: the code that it calls can take the same lock again. See [taking it
    /// again](crate::Lock#taking-it-again). A task that `work` spawns is not part of it: it is not
    /// inside, and it goes on after `work` and after a loss. See [`Lock::run`](crate::Lock::run)
    /// for the form to write instead.
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// The same as `work`. The guard is not affected.
    ///
    /// # Errors
    ///
    /// - [`Error::Lost`]: the hold ended before `work` did.
    pub async fn run<W: Future>(&self, work: W) -> Result<W::Output, Error> {
        let (mut ended, mut work) = (self.ended_later(), pin!(work));
        let holds = Arc::from(self.holds());
        poll_fn(|context| {
            // A timer fires only when the runtime gets to it; the clock is accurate at any moment.
            if let Some(reason) = self.loss() {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            if let Poll::Ready(Ended::Lost(reason)) = ended.as_mut().poll(context) {
                return Poll::Ready(Err(self.lost_error(reason)));
            }
            let polled = {
                let _inside = reentry::enter(&holds);
                work.as_mut().poll(context)
            };
            let Poll::Ready(done) = polled else {
                return Poll::Pending;
            };
            Poll::Ready(match self.loss() {
                None => Ok(done),
                // One poll of `work` took longer than the lease.
                Some(reason) => Err(self.lost_error(reason)),
            })
        })
        .await
    }

    /// Like [`run`](LockGuard::run), for work that returns a `Result`.
    ///
    /// If the compiler asks for the type of the error, end the work with `Ok::<_, Error>(())`: see
    /// [`Lock::try_run`](crate::Lock::try_run).
    ///
    /// # Redis cost
    ///
    /// None.
    ///
    /// # Cancel safety
    ///
    /// See [`run`](LockGuard::run).
    ///
    /// # Errors
    ///
    /// The errors of `work` and of [`run`](LockGuard::run).
    pub async fn try_run<T, E: From<Error>>(
        &self,
        work: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        flat(self.run(work).await)
    }
}

/// Flattens the result of work that itself returns a result.
pub(in crate::lock) fn flat<T, E: From<Error>>(done: Result<Result<T, E>, Error>) -> Result<T, E> {
    done.map_err(E::from)?
}
