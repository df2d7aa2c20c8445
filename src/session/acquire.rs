//! The only wait loop: queue, ask, listen, ask again.
//!
//! `docs/dev/acquisition.md` has the states and transitions.

mod ask;
mod latch_wait;
mod pause;
mod reenter;

use std::sync::Arc;

use tokio::time::Instant;

use super::attempt::{Answer, Attempt};
use super::existing_hold::raise;
use super::for_caller::for_caller;
use super::hold::Hold;
use super::hold_share::HoldShare;
use super::local_queue::{Waiter, WaiterSignal, Yield, Yielded};
use super::proofs::OwnerRelation;
use super::request::{Request, outage_retry};
use super::retry_delay::RetryDelay;
use super::subscriptions::Listener;
use super::wait::Wait;
use super::{Handle, sleep_until_some};
use crate::error::Error;
use crate::protocol::kind::Kind;
use crate::stats::count;
use crate::transport::refused_until;

use ask::ask_aside;

pub(crate) use latch_wait::wait_open;
pub(crate) use reenter::reenter;

/// How a turn in the local queue ended.
enum Outcome {
    Granted(HoldShare),
    /// Start over: another future of the same `Owner` holds the lock, or others were ahead of a
    /// wait of zero.
    Again,
    /// The latch is open: there is nothing to hold.
    Open,
}

/// Takes the lock, or re-enters a hold that the request proves.
///
/// Not an `async fn`, because its future would keep space for the arguments for as long as it
/// lives.
pub(crate) fn acquire(
    handle: &Arc<Handle>,
    request: Request,
) -> impl Future<Output = Result<HoldShare, Error>> {
    let work = async |handle: Arc<Handle>, request: Arc<Request>| {
        take(&handle, &request).await?.unless_closed()
    };
    for_caller(handle, request, work)
}

async fn take(handle: &Arc<Handle>, request: &Request) -> Result<HoldShare, Error> {
    let holds = handle.holds();
    // What proves that it holds the lock, or would wait for itself, is told at once.
    if matches!(request.relation(), OwnerRelation::Unrelated) {
        let key = &request.resource.key;
        holds.own_releases_over(key, request.deadline()).await;
    }
    loop {
        if holds.calls.life.is_closed() {
            return Err(Error::Closed);
        }
        match request.relation() {
            // Boxed as `ask_aside` is, because otherwise every waiter would keep space for them.
            OwnerRelation::Nested(hold) => match Box::pin(raise(handle, request, &hold)).await? {
                Some(share) => return Ok(share),
                None => continue,
            },
            OwnerRelation::WouldDeadlock(how) => {
                return Err(Error::AlreadyHeld {
                    name: request.resource.name.clone(),
                    how,
                });
            }
            OwnerRelation::Concurrent => match Box::pin(ask_aside(handle, request)).await? {
                Some(share) => return Ok(share),
                // The owner's hold has just been lost, so the request queues like any other.
                None if request.wait != Wait::Once => {}
                None => return Err(request.timed_out(holds)),
            },
            OwnerRelation::Unrelated => {}
        }
        if request.wait == Wait::Once && holds.queues.is_occupied(&request.resource) {
            if let Some(share) = Box::pin(ask_aside(handle, request)).await? {
                return Ok(share);
            }
            return Err(request.timed_out(holds));
        }
        let mut slot = QueueSlot::take(handle, request);
        match slot.acquire().await? {
            Outcome::Granted(share) => return Ok(share),
            Outcome::Again | Outcome::Open => {}
        }
    }
}

/// A slot in the local queue. Dropping it lets the next waiter go on.
struct QueueSlot<'a> {
    handle: &'a Arc<Handle>,
    request: &'a Request,
    waiter: Arc<Waiter>,
    /// Other waiters were ahead in the queue.
    queued: bool,
    left: bool,
}

impl<'a> QueueSlot<'a> {
    fn take(handle: &'a Arc<Handle>, request: &'a Request) -> Self {
        let holds = handle.holds();
        let waiter = Waiter::new(request.terms, request.no_expiry.clone());
        holds.queues.enter(&request.resource, &waiter);
        QueueSlot {
            handle,
            request,
            waiter,
            queued: false,
            left: false,
        }
    }

    async fn acquire(&mut self) -> Result<Outcome, Error> {
        let holds = self.handle.holds();
        loop {
            // Test `is_closed` before taking the signal: shutdown sets it first and wakes the
            // waiters afterwards. If a signal came in between, the slot's drop passes it on.
            if holds.calls.life.is_closed() {
                return Err(Error::Closed);
            }
            match self.waiter.take_signal() {
                // Another waiter queued after `take` found the queue empty: start over without
                // queueing.
                WaiterSignal::None if self.request.wait == Wait::Once => return Ok(Outcome::Again),
                WaiterSignal::None => {}
                WaiterSignal::Granted(hold) => {
                    let share = self.share_of(hold);
                    // The lease ended before this waiter ran. Dropping the share releases the hold
                    // for the next one.
                    if share.hold().loss().is_some() {
                        return Ok(Outcome::Again);
                    }
                    // Renewals and re-entry begin only here, once the caller really has the hold.
                    // Pick it up before arming the watchdog, which does not renew it until then.
                    // The thread that handed it over may not have noted it in the table yet.
                    if share.hold().pick_up() {
                        holds.watchdog.arm(share.hold(), None);
                    }
                    self.left = true;
                    holds.describe(share.hold(), self.request.description.as_ref());
                    count(&holds.calls.counters.handed_over);
                    count(&holds.calls.counters.acquired_after_waiting);
                    self.request.observer.is_handed_over();
                    return Ok(Outcome::Granted(share));
                }
                WaiterSignal::Open => {
                    self.left = true;
                    return Ok(Outcome::Open);
                }
                WaiterSignal::Contend(yielding) => {
                    // A wait of zero asks at once or not at all, so it never yields.
                    let yielding = yielding.filter(|_| self.request.wait != Wait::Once);
                    return self.contend(yielding).await;
                }
            }
            if !self.queued {
                holds.calls.life.is_ours()?;
                self.queued = true;
            }
            self.waiter.sleeps_until(self.request.deadline());
            tokio::select! {
                biased;
                () = self.waiter.changed() => {}
                // CANCEL: the slot's drop passes its place, or a signal that came meanwhile, to the
                // next waiter.
                () = sleep_until_some(self.request.deadline()) => return self.too_late().await,
            }
        }
    }

    /// Wraps a hold that was handed over to this waiter.
    fn share_of(&self, hold: Arc<Hold>) -> HoldShare {
        HoldShare::new(self.handle.clone(), hold, self.waiter.terms)
    }

    /// The wait of a waiter behind the contender is over.
    async fn too_late(&self) -> Result<Outcome, Error> {
        let (holds, request) = (self.handle.holds(), self.request);
        if request.resource.kind == Kind::Latch {
            return Box::pin(self.ask_past_the_contender()).await;
        }
        if let Some(ends) = holds.calls.transport.grace_ends(&request.resource.key) {
            return Err(request.failed(refused_until(ends)));
        }
        // The contender has asked on behalf of all local waiters.
        if holds.queues.met_no_expiry(&request.resource) {
            request.met(None);
        }
        Err(request.timed_out(holds))
    }

    /// Runs as the contender: asks Redis until it has the lock or the wait is over.
    async fn contend(&mut self, yielding: Option<Box<Yield>>) -> Result<Outcome, Error> {
        self.request.contends();
        let waiter = self.waiter.clone();
        let mut attempt = Attempt::new(self.handle.holds(), self.request).waiting(&waiter);
        let outcome = self.ask_until_over(&mut attempt, yielding).await;
        if matches!(outcome, Err(Error::Timeout { .. })) {
            Box::pin(attempt.leave()).await;
        }
        outcome
    }

    async fn ask_until_over(
        &mut self,
        attempt: &mut Attempt<'_>,
        mut yielding: Option<Box<Yield>>,
    ) -> Result<Outcome, Error> {
        let (holds, request) = (self.handle.holds(), self.request);
        let (calls, kind) = (&holds.calls, request.resource.kind);
        let mut retry = outage_retry();
        let mut delay = RetryDelay::new(calls, kind, &request.settings);
        let (mut listener, mut woken, mut yielded) = (None, false, Yielded::Not);
        if attempt.is_heard_by_its_client() && request.wait != Wait::Once {
            listener = Some(self.registers(attempt.source()));
        } else if delay.listens() && (yielding.is_some() || self.listens_first()) {
            listener = Box::pin(self.listen(&mut retry, attempt.source(), None)).await?;
        }
        if let Some(yielding) = &mut yielding {
            listener.iter_mut().for_each(Listener::waits);
            yielded = self.yields(yielding).await;
        }
        loop {
            if calls.life.is_closed() {
                return Err(Error::Closed);
            }
            // Before the call: a wake during the call is about a release that the reply may not
            // show, and forgetting it would leave this waiter asleep.
            self.waiter.forget_wakes();
            let asked_at = Instant::now();
            attempt.listens_by(listener.as_ref());
            // Boxed, because otherwise the waiter would keep space for it while it sleeps.
            let left = match Box::pin(self.ask(attempt, &mut retry)).await? {
                Some(Answer::HeldFor(left)) => left,
                Some(Answer::Granted(hold)) => return Ok(self.granted(&hold, yielded)),
                Some(Answer::Open) => return Ok(self.opened(asked_at)),
                Some(Answer::Never(error)) => return Err(error),
                None => continue,
            };
            yielded = Yielded::ForOthers;
            if woken {
                count(&calls.counters.wakes_in_vain);
            }
            if request.is_over() || delay.is_over() {
                return Err(request.timed_out(holds));
            }
            let heard = |listener: &Listener<'_>| listener.hears(&attempt.source());
            if delay.listens() && !listener.as_ref().is_some_and(heard) {
                let source = attempt.source();
                listener = Box::pin(self.listen(&mut retry, source, Some(asked_at))).await?;
                delay.polls_if_needed(calls, kind, &request.settings);
                // Check, listen, check again: a release between the check and the subscription was
                // not heard.
                continue;
            }
            listener.iter_mut().for_each(Listener::waits);
            woken = self.pause(asked_at, delay.next(left)).await?;
            let may_yield = woken && !self.waiter.is_told_of_a_grant();
            if may_yield && let Some(mut yielding) = attempt.yields() {
                self.yields(&mut yielding).await;
            } else if let Some(yielding) = yielding.as_mut().filter(|_| may_yield)
                && yielding.goes_on()
            {
                self.yields(yielding).await;
            }
        }
    }

    fn opened(&mut self, asked_at: Instant) -> Outcome {
        self.handle
            .holds()
            .queues
            .opened(&self.request.resource, &self.waiter, asked_at);
        self.left = true;
        Outcome::Open
    }

    fn granted(&mut self, hold: &Arc<Hold>, yielded: Yielded) -> Outcome {
        let holds = self.handle.holds();
        // Inform the queue first (QUEUE-4). Code that ends the hold from here on then finds that this hold
        // occupies the queue, and lets the next waiter in.
        holds
            .queues
            .granted(&self.request.resource, &self.waiter, hold, yielded);
        self.left = true;
        let share = HoldShare::granted(self.handle, self.request, hold);
        holds.lose_if_closed(hold);
        count(if yielded == Yielded::Not && !self.queued {
            &holds.calls.counters.acquired_at_once
        } else {
            &holds.calls.counters.acquired_after_waiting
        });
        Outcome::Granted(share)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let holds = self.handle.holds();
        holds.queues.leave(&self.request.resource, &self.waiter);
        // Leave the queue first, then take the signal: nobody signals a waiter that has left. In
        // the other order, a hold that is granted in between would never be released, and its name
        // would stay locked until the lease ends.
        if let WaiterSignal::Granted(hold) = self.waiter.take_signal() {
            drop(self.share_of(hold));
        }
    }
}
