//! Work under a lock: run while it is held, and released after it.

use std::future::Future;
use std::sync::Arc;

use super::Guard;
use crate::error::Error;

/// Runs `work` with the guard, and releases it.
///
/// What `work` came to is worth more than what became of the release: that goes on in the background.
/// Only a hold that was lost while `work` ran is told instead.
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
    // Whoever kept a clone keeps the lock: its drop is the release.
    let Some(guard) = Arc::into_inner(guard) else { return Ok(done) };
    match guard.into().unlock().await {
        Err(lost @ Error::Lost { .. }) => Err(lost),
        Ok(()) | Err(_) => Ok(done),
    }
}

/// The result of work that may fail, without a result around it.
pub(in crate::lock) fn flat<T, E: From<Error>>(done: Result<Result<T, E>, Error>) -> Result<T, E> {
    done.map_err(E::from)?
}
