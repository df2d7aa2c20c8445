//! Asks Redis: as the contender of a queue, or aside from it.

use std::sync::Arc;

use super::QueueSlot;
use crate::error::Error;
use crate::protocol::kind::Kind;
use crate::session::attempt::{Answer, Attempt};
use crate::session::request::{Request, outage_retry};
use crate::session::retry::Retry;
use crate::session::wait::Wait;
use crate::session::{Handle, HoldShare};
use crate::stats::count;

/// Asks once without queueing; `None` if the lock is held. Used for a wait of zero, which neither
/// queues nor overtakes a queue in Redis, and for an owner that already holds the resource, which
/// never queues behind waiters for it.
pub(super) async fn ask_aside(
    handle: &Arc<Handle>,
    request: &Request,
) -> Result<Option<HoldShare>, Error> {
    let holds = handle.holds();
    let mut retry = outage_retry();
    let mut attempt = Attempt::new(holds, request);
    loop {
        match attempt.ask(request.limit(&holds.calls)).await {
            Ok(Answer::Granted(hold)) => {
                let share = HoldShare::granted(handle, request, &hold);
                holds.lose_if_closed(&hold);
                count(&holds.calls.counters.acquired_at_once);
                return Ok(Some(share));
            }
            Ok(Answer::HeldFor(_) | Answer::Open) => return Ok(None),
            Ok(Answer::Never(error)) => return Err(error),
            Err(error) => request.ride_out(&holds.calls, &mut retry, error).await?,
        }
    }
}

impl QueueSlot<'_> {
    /// True if it will wait, or the channel is subscribed anyway: then no release is missed, and one question is enough.
    /// Each waiter of a fair lock has a channel of its own.
    pub(super) fn listens_first(&self) -> bool {
        let (holds, request) = (self.handle.holds(), self.request);
        let is_subscribed = |channel: &str| holds.subscriptions.is_subscribed(channel);
        let is_warm = request.wait != Wait::Once
            && request.resource.kind != Kind::Fair
            && request.resource.looks_at_channel(is_subscribed);
        is_warm || holds.queues.is_crowded(&request.resource)
    }

    /// Asks Redis once, unless a message has said that the lock was granted. `None` after an outage: ask again.
    pub(super) async fn ask(
        &self,
        attempt: &mut Attempt<'_>,
        retry: &mut Retry,
    ) -> Result<Option<Answer>, Error> {
        let (holds, request) = (self.handle.holds(), self.request);
        if let Some(hold) = attempt.told() {
            return Ok(Some(Answer::Granted(hold)));
        }
        match attempt.ask(request.limit(&holds.calls)).await {
            Ok(answer) => Ok(Some(answer)),
            // Boxed, because most questions are answered.
            Err(error) => Box::pin(request.ride_out(&holds.calls, retry, error))
                .await
                .map(|()| None),
        }
    }
}
