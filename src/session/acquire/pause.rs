//! What the contender does between two calls: yield, subscribe, or sleep.

use std::time::Duration;

use tokio::time::Instant;

use super::QueueSlot;
use crate::error::Error;
use crate::protocol::kind::Kind;
use crate::session::local_queue::{SHORTEST, Yield, Yielded};
use crate::session::retry::Retry;
use crate::session::sleep_until_some;
use crate::session::subscriptions::{Listener, Source};
use crate::transport::CallError;

/// A wait times out only if its last call is at most this old.
const FRESH: Duration = Duration::from_millis(50);

impl<'a> QueueSlot<'a> {
    /// Lets other clients go first, until the yield is over, each of them has had the lock, or the
    /// wait ends.
    pub(super) async fn yields(&self, yielding: &mut Yield) -> Yielded {
        let mut yielded = Yielded::InVain;
        // A message that comes this early may be about this client's own release.
        let from = Instant::now() + SHORTEST;
        while !self.handle.holds().calls.life.is_closed() {
            let until = self
                .request
                .deadline()
                .into_iter()
                .chain([yielding.until])
                .min();
            self.waiter.sleeps_until(until);
            tokio::select! {
                biased;
                () = sleep_until_some(until) => break,
                () = self.waiter.changed() => {
                    if self.waiter.is_told_of_a_grant() {
                        break;
                    }
                    if Instant::now() > from {
                        yielded = Yielded::ForOthers;
                        if !yielding.goes_on() {
                            break;
                        }
                    }
                }
            }
        }
        yielded
    }

    /// From now on, messages that come anyway reach this waiter.
    pub(super) fn registers(&self, source: Source) -> Listener<'a> {
        let holds = self.handle.holds();
        let (transport, key) = (&holds.calls.transport, &self.request.resource.key);
        let listener = holds
            .subscriptions
            .listen(transport, source, key, &self.waiter);
        if self.request.resource.kind == Kind::Fair {
            listener.private()
        } else {
            listener
        }
    }

    /// Subscribes, riding out an outage. `None` if the subscription is not confirmed yet and it is
    /// time to ask.
    pub(super) async fn listen(
        &self,
        retry: &mut Retry,
        source: Source,
        asked_at: Option<Instant>,
    ) -> Result<Option<Listener<'a>>, Error> {
        let holds = self.handle.holds();
        let listener = self.registers(source);
        let ready = async {
            tokio::select! {
                biased;
                // CANCEL: the listener's drop unsubscribes.
                ready = listener.ready() => Some(ready),
                () = sleep_until_some(self.request.deadline()) => None,
            }
        };
        match ready.await {
            Some(Ok(())) => Ok(Some(listener)),
            Some(Err(CallError::Refused(_))) if holds.calls.polls_only() => Ok(None),
            Some(Err(error)) => {
                // Boxed, because most subscriptions succeed.
                let error = error.took_nothing();
                Box::pin(self.request.ride_out(&holds.calls, retry, error)).await?;
                Ok(None)
            }
            None if asked_at.is_some_and(is_fresh) => Err(self.request.timed_out(holds)),
            // The subscription was not live, so a release may have been missed: ask Redis once
            // more.
            None => Ok(None),
        }
    }

    /// Sleeps until it makes sense to ask again. True if a message is the reason.
    ///
    /// Not an `async fn`, because its future would keep space for the arguments for as long as it
    /// lives. Most waiters spend their time in it.
    pub(super) fn pause(
        &self,
        asked_at: Instant,
        span: Option<Duration>,
    ) -> impl Future<Output = Result<bool, Error>> {
        let timer = span.and_then(|span| Instant::now().checked_add(span));
        async move {
            let (holds, request) = (self.handle.holds(), self.request);
            // One timer for both, because a timer is large.
            let until = timer.into_iter().chain(request.deadline()).min();
            self.waiter.sleeps_until(until);
            loop {
                if self.waiter.take_wake() {
                    request.observer.is_woken();
                    return Ok(true);
                }
                if holds.calls.life.is_closed() {
                    return Err(Error::Closed);
                }
                tokio::select! {
                    biased;
                    () = self.waiter.changed() => {}
                    () = sleep_until_some(until) => {
                        let asks = timer.is_some_and(|timer| timer <= Instant::now());
                        // At the end of the wait, a message may have been lost: ask Redis once more.
                        if asks || !is_fresh(asked_at) {
                            return Ok(false);
                        }
                        return Err(request.timed_out(holds));
                    }
                }
            }
        }
    }
}

/// True if the reply to a call sent at `asked_at` is recent enough to end the wait.
fn is_fresh(asked_at: Instant) -> bool {
    asked_at.elapsed() <= FRESH
}
