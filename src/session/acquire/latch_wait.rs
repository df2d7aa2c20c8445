//! Waits for a latch to open. Such a wait ends without a hold.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Outcome, QueueSlot};
use crate::error::Error;
use crate::session::Handle;
use crate::session::attempt::{Answer, Attempt};
use crate::session::for_caller::for_caller;
use crate::session::holds::Holds;
use crate::session::request::Request;
use crate::session::wait::Wait;

/// Waits until the latch is open.
pub(crate) async fn wait_open(handle: &Arc<Handle>, request: Request) -> Result<(), Error> {
    let work = async |handle: Arc<Handle>, request: Arc<Request>| {
        loop {
            let holds = handle.holds();
            if holds.calls.life.is_closed() {
                return Err(Error::Closed);
            }
            if request.wait == Wait::Once {
                return ask_once(holds, &request).await;
            }
            if let Outcome::Open = QueueSlot::take(&handle, &request).acquire().await? {
                return Ok(());
            }
        }
    };
    for_caller(handle, request, work).await
}

/// Asks once; fails with a timeout if the latch is closed.
async fn ask_once(holds: &Holds, request: &Request) -> Result<(), Error> {
    match Attempt::new(holds, request)
        .ask(request.limit(&holds.calls))
        .await
    {
        Ok(Answer::Open) => Ok(()),
        Ok(Answer::HeldFor(_) | Answer::Granted(_)) => Err(request.timed_out(holds)),
        Ok(Answer::Never(error)) => Err(error),
        Err(error) => Err(request.failed(error)),
    }
}

impl QueueSlot<'_> {
    /// Asks Redis itself when the wait is over. The contender asks for all local waiters, but its
    /// caller may not have polled it lately.
    pub(super) async fn ask_past_the_contender(&self) -> Result<Outcome, Error> {
        let (holds, asked) = (self.handle.holds(), Instant::now());
        ask_once(holds, self.request).await?;
        holds
            .queues
            .opened(&self.request.resource, &self.waiter, asked);
        // The slot's drop leaves the queue.
        Ok(Outcome::Open)
    }
}
