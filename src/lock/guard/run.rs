//! Runs work while a lock is held, and releases the lock afterwards.

use std::future::Future;
use std::sync::Arc;

use super::{Guard, LockGuard};
use crate::error::Error;
use crate::session::section;

/// Runs `work` with the guard, then releases the lock.
///
/// Returns the result of `work` even if the release fails; the release continues in the background. The one
/// exception is [`Error::Lost`], if the hold was lost while `work` ran.
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
    /// Like [`run`](LockGuard::run), for work that blocks its thread and cannot be dropped.
    pub(crate) fn run_on_this_thread<T>(&self, work: impl FnOnce() -> T) -> Result<T, Error> {
        self.check()?;
        let holds = Arc::from(self.holds());
        let done = {
            let _inside = section::enter(&holds);
            work()
        };
        self.check().map(|()| done)
    }
}

/// Flattens the result of work that itself returns a result.
pub(in crate::lock) fn flat<T, E: From<Error>>(done: Result<Result<T, E>, Error>) -> Result<T, E> {
    done.map_err(E::from)?
}
