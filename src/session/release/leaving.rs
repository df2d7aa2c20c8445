//! The release of a hold whose last guard is gone, for a caller that waits for it.

use std::sync::Arc;

use tokio::time::Instant;

use super::cleanup::{Cleanup, CleanupPending};
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::{self, Released};
use crate::session::Handle;
use crate::session::hold::Hold;
use crate::session::retry::Retry;
use crate::transport::Lane;

/// A release under way; dropped before it is settled, the background settles it.
pub(crate) struct Leaving {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    settled: bool,
    /// A session does not end before it is settled or posted.
    _pending: CleanupPending,
}

impl Leaving {
    pub(crate) fn new(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        let pending = handle.session.cleanups.expect_one();
        Leaving { handle: handle.clone(), hold: hold.clone(), settled: false, _pending: pending }
    }

    fn settled(&mut self, receivers: i64) {
        self.settled = true;
        self.handle.session.released(&self.hold, receivers);
    }
}

impl Drop for Leaving {
    fn drop(&mut self) {
        if !self.settled {
            self.handle.session.cleanups.post(Cleanup::Release(self.hold.clone()));
        }
    }
}

/// Ends the hold in Redis: one call, repeated within a command's time-out if its outcome is not known or
/// if it was not applied.
pub(crate) async fn release_hold(mut leaving: Leaving) -> Result<(), Error> {
    let (handle, hold) = (leaving.handle.clone(), leaving.hold.clone());
    let (session, resource) = (&*handle.session, &hold.resource);
    let mut retry = Retry::brief(session.settings.command_timeout);
    loop {
        let sent = Instant::now();
        let outage = session.subscriptions.outage();
        hold.release_sent();
        // CANCEL: `leaving` posts the release; repeating it changes nothing.
        let reply = session.call(Lane::Caller, session.end_call(&hold)).await;
        match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
            Ok(Released::Free { receivers }) => {
                leaving.settled(receivers);
                return Ok(());
            }
            // The first of two releases did it, unless the lease was over.
            Ok(_) if retry.is_in_doubt() && sent < hold.deadline() => {
                leaving.settled(0);
                return Ok(());
            }
            Ok(_) => {
                session.was_gone(&hold);
                hold.release_failed(Error::lost(&resource.name, LossReason::Gone));
                leaving.settled(0);
                return Err(Error::lost(&resource.name, LossReason::Gone));
            }
            Err(error) => {
                let paused = retry.pause(error, outage).await;
                paused.map_err(|error| {
                    Error::from_call(&resource.name, hold.longest_lease(), error)
                })?;
            }
        }
    }
}
