//! One acquisition as it was asked for, and its patience.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::hold::Terms;
use super::place::Place;
use super::{Session, jittered, sleep_until_some};
use crate::error::Error;
use crate::owner::Owner;
use crate::stats::count;
use crate::transport::CallError;

/// What a reply may take beyond the wait before it counts as lost.
const GRACE: Duration = Duration::from_millis(25);
const OUTAGE_PAUSE: Duration = Duration::from_millis(50);
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// One acquisition, checked.
#[derive(Debug)]
pub(crate) struct Request {
    pub(crate) place: Arc<Place>,
    pub(crate) owner: Owner,
    pub(crate) terms: Terms,
    pub(crate) wait: Wait,
    pub(crate) started: Instant,
}

/// How long a caller is patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// One question, one answer.
    Once,
    Until(Instant),
    Forever,
}

impl Request {
    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Wait::Until(deadline) = self.wait { Some(deadline) } else { None }
    }

    pub(super) fn is_over(&self) -> bool {
        match self.wait {
            Wait::Once => true,
            Wait::Until(deadline) => Instant::now() >= deadline,
            Wait::Forever => false,
        }
    }

    /// When a call that is sent now counts as lost, if that is before its own time-out.
    pub(super) fn limit(&self, session: &Session) -> Option<Instant> {
        let now = Instant::now();
        match self.wait {
            Wait::Until(deadline) => {
                let limit = deadline.max(now) + GRACE;
                (limit < now + session.settings.command_timeout).then_some(limit)
            }
            Wait::Once | Wait::Forever => None,
        }
    }

    pub(super) fn timed_out(&self, session: &Session) -> Error {
        count(&session.counters.timed_out);
        Error::Timeout { name: self.place.name.clone(), waited: self.started.elapsed() }
    }

    pub(super) fn failed(&self, error: CallError) -> Error {
        Error::from_call(&self.place.name, self.terms.lease, error)
    }
}

/// Patience with a server that cannot be reached.
pub(super) struct Outage {
    pause: Duration,
    /// A call may have been applied; what comes later does not change that.
    in_doubt: bool,
}

impl Outage {
    pub(super) fn new() -> Self {
        Outage { pause: OUTAGE_PAUSE, in_doubt: false }
    }

    /// Returns when the call may be tried again, or the error if it may not.
    pub(super) async fn ride_out(
        &mut self,
        session: &Session,
        request: &Request,
        error: CallError,
    ) -> Result<(), Error> {
        self.in_doubt |= matches!(error, CallError::Unknown(_));
        let error = if self.in_doubt { error.in_doubt() } else { error };
        let passes = matches!(error, CallError::NotApplied(_) | CallError::Unknown(_));
        if !passes || request.is_over() {
            return Err(request.failed(error));
        }
        if session.is_closed() {
            return Err(Error::Closed);
        }
        let pause = jittered(self.pause);
        self.pause = (self.pause * 2).min(OUTAGE_PAUSE_MAX);
        tokio::select! {
            biased;
            () = session.wakes.restored_within(pause) => Ok(()),
            () = sleep_until_some(request.deadline()) => Err(request.failed(error)),
        }
    }
}
