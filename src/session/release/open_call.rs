//! A re-entry or a partial release that is on the wire.

use std::sync::Arc;

use super::cleanup::Cleanup;
use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::replies::{self, Released};
use crate::session::hold::Hold;
use crate::session::{Handle, Session};
use crate::transport::Lane;

/// A call that changes the count of a hold; dropped before it is settled, the background sends the count
/// that is right then.
pub(crate) struct OpenCall {
    handle: Arc<Handle>,
    hold: Arc<Hold>,
    settled: bool,
}

impl OpenCall {
    pub(crate) fn new(handle: &Arc<Handle>, hold: &Arc<Hold>) -> Self {
        hold.call_sent();
        OpenCall { handle: handle.clone(), hold: hold.clone(), settled: false }
    }

    fn session(&self) -> &Arc<Session> {
        &self.handle.session
    }

    pub(crate) fn settled(mut self) {
        self.settled = true;
    }
}

impl Drop for OpenCall {
    fn drop(&mut self) {
        if self.settled {
            self.hold.call_settled();
        } else {
            self.hold.call_in_doubt();
            self.handle.session.cleanups.post(Cleanup::LowerCount(self.hold.clone()));
        }
    }
}

/// A partial release. The lease stays as it is.
pub(crate) async fn lower_count(open: OpenCall, guards: u32) -> Result<(), Error> {
    let (session, hold) = (open.session().clone(), open.hold.clone());
    let resource = &hold.resource;
    let call = session.release_call(resource, &hold.field, guards);
    // CANCEL: `open` queues a repetition.
    let reply = session.call(Lane::Caller, call).await;
    match reply.and_then(|value| replies::released(value).map_err(Into::into)) {
        // The last guard's release overtook it.
        Ok(Released::Absent) if hold.was_left() => {
            open.settled();
            Ok(())
        }
        Ok(Released::Absent) => {
            open.settled();
            session.lose(&hold, LossReason::Gone);
            Err(Error::lost(&resource.name, LossReason::Gone))
        }
        Ok(Released::StillHeld | Released::Free { .. }) => {
            open.settled();
            Ok(())
        }
        Err(error) => Err(Error::from_call(&resource.name, hold.longest_lease(), error)),
    }
}
