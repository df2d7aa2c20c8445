//! Runs an acquisition on behalf of a caller who may stop polling.

use std::sync::Arc;

use tokio::time::Instant;

use super::Handle;
use super::request::Request;
use crate::error::Error;

/// Does the `work` of an acquisition, attended. A caller that stops polling is treated as if it had
/// dropped its future. If it polls again within its wait, the work starts over.
///
/// Not an `async fn`, because its future would keep space for the arguments for as long as it
/// lives.
pub(super) fn for_caller<T, W>(
    handle: &Arc<Handle>,
    request: Request,
    work: impl Fn(Arc<Handle>, Arc<Request>) -> W + Sync,
) -> impl Future<Output = Result<T, Error>>
where
    W: Future<Output = Result<T, Error>> + Send + 'static,
{
    let request = Arc::new(request);
    async move {
        let holds = handle.holds();
        request.observer.begins();
        let work = |_| work(handle.clone(), request.clone());
        let timed_out = || request.timed_out(holds);
        let limits = (request.wait, request.patience);
        let attendance = &handle.session.attendance;
        let done = attendance.attend_until_over(limits, work, timed_out);
        let mut done = request.observer.around(done).await;
        if request.names_holder()
            && let Err(error) = &mut done
        {
            // Boxed, because otherwise every acquisition would have space for this future.
            let wait_ended = request.deadline().unwrap_or_else(Instant::now);
            Box::pin(holds.name_holder(&request.resource, wait_ended, error)).await;
        }
        request.reports_end(done.as_ref().err());
        done
    }
}
