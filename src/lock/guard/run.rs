//! Work under a lock: it runs while the lock is held, and the lock is released after it.

use std::future::Future;
use std::sync::Arc;

use super::{Guard, LockGuard};
use crate::error::Error;
use crate::session::section;

/// Runs `work` with the guard, and releases it.
///
/// Returns the result of `work`, also if the release fails: that goes on in the background. The one
/// exception is [`Error::Lost`], if the hold was lost while `work` ran.
pub(in crate::lock) async fn run<G, F, W>(guard: G, work: F) -> Result<W::Output, Error>
where
    G: Guard,
    F: FnOnce(Arc<G>) -> W,
    W: Future,
{
    let guard = Arc::new(guard);
    let inside = guard.clone();
    // CANCEL: the guard is dropped, which releases it.
    let done = (*guard).as_ref().run(async move { work(inside).await }).await?;
    // A clone of the guard outlives the work: its drop releases the lock.
    let Some(guard) = Arc::into_inner(guard) else { return Ok(done) };
    done_unless_lost(done, guard.into().unlock().await)
}

/// The result of work, unless the release after it says that the hold was lost.
pub(crate) fn done_unless_lost<T>(done: T, released: Result<(), Error>) -> Result<T, Error> {
    match released {
        Err(lost @ Error::Lost { .. }) => Err(lost),
        Ok(()) | Err(_) => Ok(done),
    }
}

impl LockGuard {
    /// As [`run`](LockGuard::run), for work that blocks its thread: it cannot be dropped.
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

/// The result of work that may fail, without a result around it.
pub(in crate::lock) fn flat<T, E: From<Error>>(done: Result<Result<T, E>, Error>) -> Result<T, E> {
    done.map_err(E::from)?
}
