//! Waits for a latch to open: nothing is held then.

use std::sync::Arc;

use tokio::time::Instant;

use super::{Outcome, QueueSlot};
use crate::error::Error;
use crate::session::attempt::{Answer, Attempt};
use crate::session::request::Request;
use crate::session::wait::Wait;
use crate::session::{Handle, Session};

/// Waits until a latch is open.
pub(crate) async fn wait_open(handle: &Arc<Handle>, request: Request) -> Result<(), Error> {
    let work = async |handle: Arc<Handle>, request: Arc<Request>| {
        loop {
            let session = &*handle.session;
            if session.is_closed() {
                return Err(Error::Closed);
            }
            if request.wait == Wait::Once {
                return ask_once(session, &request).await;
            }
            if let Outcome::Open = QueueSlot::take(&handle, &request).acquire().await? {
                return Ok(());
            }
        }
    };
    request.attended(handle, work).await
}

/// A time-out, if it is not open.
async fn ask_once(session: &Session, request: &Request) -> Result<(), Error> {
    match Attempt::new(session, request)
        .ask(request.limit(session))
        .await
    {
        Ok(Answer::Open) => Ok(()),
        Ok(Answer::HeldFor(_) | Answer::Granted(_)) => Err(request.timed_out(session)),
        Err(error) => Err(request.failed(error)),
    }
}

impl QueueSlot<'_> {
    /// The last word is Redis': the contender asks for all, but may not have been polled for a moment.
    pub(super) async fn ask_past_the_contender(&self) -> Result<Outcome, Error> {
        let (session, asked) = (&*self.handle.session, Instant::now());
        ask_once(session, self.request).await?;
        session
            .queues
            .opened(&self.request.resource, &self.waiter, asked);
        // Our drop leaves the queue.
        Ok(Outcome::Open)
    }
}
