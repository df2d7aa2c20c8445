//! The only wait loop: queue, ask, listen, ask again.
//!
//! `docs/dev/acquisition.md` has the states and transitions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::error::Error;
use crate::lease::LossReason;
use crate::protocol::kind::Kind;
use crate::session::attempt::{Answer, Attempt, Grant};
use crate::session::core::{Core, Handle};
use crate::session::hold::Hold;
use crate::session::poll_watch::{PollLimit, Wait};
use crate::session::reentry::{OwnerRelation, Proofs};
use crate::session::request::{OutageRetry, Request, run_watched};
use crate::session::retry::RetryDelay;
use crate::session::share::{HoldShare, raise};
use crate::session::subscriptions::{Listener, Source};
use crate::session::waiter::{SHORTEST, Waiter, WaiterSignal, Yield, Yielded};
use crate::stats::count;
use crate::timer::sleep_until_some;
use crate::transport::{CallError, rarely, refused_until};

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
    run_watched(handle, request, work)
}

/// In this order: a caller that proves a hold never queues behind waiters for it, a wait of zero
/// never queues at all, and everybody else does.
async fn take(handle: &Arc<Handle>, request: &Request) -> Result<HoldShare, Error> {
    let core = handle.core();
    // Wait for this client's own releases first, or a lock whose guard was dropped would not be
    // free for the next caller. A caller that proves a hold does not need that, and one that would
    // wait for itself is told at once.
    if matches!(request.relation(), OwnerRelation::Unrelated) {
        let key = &request.resource.key;
        core.own_releases_over(key, request.deadline()).await;
    }
    loop {
        if core.calls.life.is_closed() {
            return Err(Error::Closed);
        }
        match request.relation() {
            OwnerRelation::Nested(hold) => match rarely(raise(handle, request, &hold)).await? {
                Some(share) => return Ok(share),
                None => continue,
            },
            OwnerRelation::WouldDeadlock(how) => {
                return Err(Error::AlreadyHeld {
                    name: request.resource.name.clone(),
                    how,
                });
            }
            OwnerRelation::Concurrent => {
                match rarely(try_without_queueing(handle, request)).await? {
                    Some(share) => return Ok(share),
                    // The owner's hold has just been lost, so the request queues like any other.
                    None if request.wait != Wait::Once => {}
                    None => return Err(request.timed_out(core)),
                }
            }
            OwnerRelation::Unrelated => {}
        }
        // Others of this client are ahead of it, and the slot of a contender is for those that
        // wait.
        if request.wait == Wait::Once && core.queues.is_occupied(&request.resource) {
            if let Some(share) = rarely(try_without_queueing(handle, request)).await? {
                return Ok(share);
            }
            return Err(request.timed_out(core));
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
    /// Others wait, so this one will wait, too.
    crowded: bool,
    left: bool,
}

impl<'a> QueueSlot<'a> {
    fn take(handle: &'a Arc<Handle>, request: &'a Request) -> Self {
        let core = handle.core();
        let waiter = Waiter::new(request.terms, request.started);
        core.queues.enter(&request.resource, &waiter);
        QueueSlot {
            handle,
            request,
            waiter,
            queued: false,
            crowded: false,
            left: false,
        }
    }

    async fn acquire(&mut self) -> Result<Outcome, Error> {
        let core = self.handle.core();
        loop {
            // Test `is_closed` before taking the signal: shutdown sets it first and wakes the
            // waiters afterwards. If a signal came in between, the slot's drop passes it on.
            if core.calls.life.is_closed() {
                return Err(Error::Closed);
            }
            match self.waiter.take_signal() {
                // Another waiter queued after `take` found the queue empty: start over without
                // queueing.
                WaiterSignal::None if self.request.wait == Wait::Once => return Ok(Outcome::Again),
                WaiterSignal::None => {}
                WaiterSignal::HandedOver(hold) => {
                    let share = self.share_of(hold);
                    // The lease ended before this waiter ran. Dropping the share releases the hold
                    // for the next one.
                    if share.hold().loss().is_some() {
                        return Ok(Outcome::Again);
                    }
                    share.pick_up(self.request);
                    self.left = true;
                    count(&core.calls.counters.handed_over);
                    count(&core.calls.counters.acquired_after_waiting);
                    self.request.observer.on_handed_over();
                    return Ok(Outcome::Granted(share));
                }
                WaiterSignal::Open => {
                    self.left = true;
                    return Ok(Outcome::Open);
                }
                WaiterSignal::Contend { yielding, crowded } => {
                    self.crowded = crowded;
                    // A wait of zero asks at once or not at all, so it never yields.
                    let yielding = yielding.filter(|_| self.request.wait != Wait::Once);
                    return self.contend(yielding).await;
                }
            }
            if !self.queued {
                core.calls.life.check_process()?;
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
        let (core, request) = (self.handle.core(), self.request);
        if request.resource.kind == Kind::Latch {
            return rarely(self.ask_past_the_contender()).await;
        }
        if let Some(ends) = core.calls.transport.grace_ends(&request.resource.key) {
            return Err(request.failed(refused_until(ends)));
        }
        // The contender has asked on behalf of all local waiters.
        if core.queues.met_no_expiry(&request.resource) {
            request.saw_holder(None);
        }
        Err(request.timed_out(core))
    }

    /// Runs as the contender: asks Redis until it has the lock or the wait is over.
    async fn contend(&mut self, yielding: Option<Box<Yield>>) -> Result<Outcome, Error> {
        self.request.contends();
        if self.waiter.met_no_expiry() {
            self.request.saw_holder(None);
        }
        let waiter = self.waiter.clone();
        let mut attempt = Attempt::new(self.handle.core(), self.request).waiting(&waiter);
        let timeout = match self.ask_until_over(&mut attempt, yielding).await {
            Err(timeout @ Error::Timeout { .. }) => timeout,
            done => return done,
        };
        rarely(attempt.leave()).await;
        Err(timeout)
    }

    /// Each round forgets, asks, listens and sleeps, in this order, so that no release is missed:
    /// one before the call shows in its reply, and one after the call wakes a waiter that listens.
    /// Yields come before a call, never between a call and the sleep that relies on its reply.
    async fn ask_until_over(
        &mut self,
        attempt: &mut Attempt<'_>,
        mut yielding: Option<Box<Yield>>,
    ) -> Result<Outcome, Error> {
        let (core, request) = (self.handle.core(), self.request);
        let (calls, kind) = (&core.calls, request.resource.kind);
        let mut retry = None;
        let mut delay = RetryDelay::new(calls, kind, &request.settings);
        let (mut listener, mut woken, mut yielded) = (None, false, Yielded::Not);
        // Listen first if that is free, or if this waiter will wait in any case: then one call is
        // enough.
        if attempt.is_heard_by_its_client() && request.wait != Wait::Once {
            listener = Some(self.registers(attempt.source()));
        } else if delay.listens() && (yielding.is_some() || self.listens_first()) {
            listener = rarely(self.listen(&mut retry, attempt.source(), None)).await?;
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
            attempt.set_listening(listener.as_ref());
            let left = match attempt.ask().await {
                Ok(Answer::HeldFor(left)) => left,
                Ok(Answer::Granted(grant)) => return Ok(self.granted(&grant, yielded)),
                Ok(Answer::Open) => return Ok(self.opened(attempt.asked_at())),
                Ok(Answer::Never(error)) => return Err(error),
                Err(error) => {
                    rarely(request.ride_out(calls, &mut retry, error)).await?;
                    continue;
                }
            };
            let asked_at = attempt.asked_at();
            self.waiter.learns(&request.no_expiry);
            // Another owner had the lock, so whatever this waiter gets from now on comes after
            // others.
            yielded = Yielded::ForOthers;
            if woken {
                count(&calls.counters.wakes_in_vain);
            }
            if request.is_over() || delay.is_over() {
                return Err(request.timed_out(core));
            }
            let heard = |listener: &Listener<'_>| listener.hears(&attempt.source());
            if delay.listens() && !listener.as_ref().is_some_and(heard) {
                let source = attempt.source();
                listener = rarely(self.listen(&mut retry, source, Some(asked_at))).await?;
                delay.polls_if_needed(calls, kind, &request.settings);
                // Check, listen, check again: a release between the check and the subscription was
                // not heard.
                continue;
            }
            listener.iter_mut().for_each(Listener::waits);
            woken = self.pause(asked_at, delay.next(left)).await?;
            // A grant belongs to this waiter alone. After any other message, those go first that no
            // release hands the lock over to.
            let may_yield = woken && !self.waiter.has_handover();
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
            .core()
            .queues
            .opened(&self.request.resource, &self.waiter, asked_at);
        self.left = true;
        Outcome::Open
    }

    fn granted(&mut self, grant: &Grant, yielded: Yielded) -> Outcome {
        let core = self.handle.core();
        // Inform the queue first (QUEUE-4). Code that ends the hold from here on then finds that
        // this hold occupies the queue, and lets the next waiter in.
        let granted = (&grant.hold, grant.clock.instant);
        core.queues
            .granted(&self.request.resource, &self.waiter, granted, yielded);
        self.left = true;
        let share = HoldShare::granted(self.handle, self.request, &grant.hold, &grant.clock);
        core.lose_if_closed(&grant.hold);
        count(if yielded == Yielded::Not && !self.queued {
            &core.calls.counters.acquired_at_once
        } else {
            &core.calls.counters.acquired_after_waiting
        });
        Outcome::Granted(share)
    }
}

impl Drop for QueueSlot<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let core = self.handle.core();
        core.queues.leave(&self.request.resource, &self.waiter);
        // Leave the queue first, then take the signal: nobody signals a waiter that has left. In
        // the other order, a hold that is granted in between would never be released, and its name
        // would stay locked until the lease ends.
        if let WaiterSignal::HandedOver(hold) = self.waiter.take_signal() {
            drop(self.share_of(hold));
        }
    }
}

// Asks Redis: as the contender of a queue, or aside from it.

/// Asks once without queueing; `None` if the lock is held. Used for a wait of zero, which neither
/// queues nor overtakes a queue in Redis, and for an owner that already holds the resource, which
/// never queues behind waiters for it.
async fn try_without_queueing(
    handle: &Arc<Handle>,
    request: &Request,
) -> Result<Option<HoldShare>, Error> {
    let core = handle.core();
    let mut retry = None;
    let mut attempt = Attempt::new(core, request);
    loop {
        match attempt.ask().await {
            Ok(Answer::Granted(Grant { hold, clock })) => {
                let share = HoldShare::granted(handle, request, &hold, &clock);
                core.lose_if_closed(&hold);
                count(&core.calls.counters.acquired_at_once);
                return Ok(Some(share));
            }
            Ok(Answer::HeldFor(_) | Answer::Open) => return Ok(None),
            Ok(Answer::Never(error)) => return Err(error),
            Err(error) => request.ride_out(&core.calls, &mut retry, error).await?,
        }
    }
}

impl QueueSlot<'_> {
    /// True if it will wait, or the channel is subscribed anyway: then no release is missed, and
    /// one question is enough. Each waiter of a fair lock has a channel of its own.
    fn listens_first(&self) -> bool {
        let (core, request) = (self.handle.core(), self.request);
        let is_subscribed = |channel: &str| core.subscriptions.is_subscribed(channel);
        let is_warm = request.wait != Wait::Once
            && request.resource.kind != Kind::Fair
            && request.resource.looks_at_channel(is_subscribed);
        is_warm || self.crowded
    }
}

// What the contender does between two calls: yield, subscribe, or sleep.

/// A wait times out only if its last call is at most this old.
const FRESH: Duration = Duration::from_millis(50);

impl<'a> QueueSlot<'a> {
    /// Lets other clients go first, until the yield is over, each of them has had the lock, or the
    /// wait ends.
    async fn yields(&self, yielding: &mut Yield) -> Yielded {
        let mut yielded = Yielded::InVain;
        // A message that comes this early may be about this client's own release.
        let from = Instant::now() + SHORTEST;
        while !self.handle.core().calls.life.is_closed() {
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
                    if self.waiter.has_handover() {
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
    fn registers(&self, source: Source) -> Listener<'a> {
        let core = self.handle.core();
        let (transport, key) = (&core.calls.transport, &self.request.resource.key);
        let listener = core
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
    async fn listen(
        &self,
        retry: &mut OutageRetry,
        source: Source,
        asked_at: Option<Instant>,
    ) -> Result<Option<Listener<'a>>, Error> {
        let core = self.handle.core();
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
            Some(Err(CallError::Refused(_))) if core.calls.polls_only() => Ok(None),
            Some(Err(error)) => {
                let error = error.took_nothing();
                rarely(self.request.ride_out(&core.calls, retry, error)).await?;
                Ok(None)
            }
            None if asked_at.is_some_and(is_fresh) => Err(self.request.timed_out(core)),
            // The subscription was not live, so a release may have been missed: ask Redis once
            // more.
            None => Ok(None),
        }
    }

    /// Sleeps until it makes sense to ask again. True if a message is the reason.
    ///
    /// Not an `async fn`, because its future would keep space for the arguments for as long as it
    /// lives. Most waiters spend their time in it.
    fn pause(
        &self,
        asked_at: Instant,
        span: Option<Duration>,
    ) -> impl Future<Output = Result<bool, Error>> {
        let timer = span.and_then(|span| Instant::now().checked_add(span));
        async move {
            let (core, request) = (self.handle.core(), self.request);
            // One timer for both, because a timer is large.
            let until = timer.into_iter().chain(request.deadline()).min();
            self.waiter.sleeps_until(until);
            loop {
                if self.waiter.take_wake() {
                    request.observer.on_woken();
                    return Ok(true);
                }
                if core.calls.life.is_closed() {
                    return Err(Error::Closed);
                }
                tokio::select! {
                    biased;
                    () = self.waiter.changed() => {}
                    () = sleep_until_some(until) => {
                        let asks = timer.is_some_and(|timer| timer <= Instant::now());
                        // At the end of the wait, a message may have been lost: ask Redis once
                        // more.
                        if asks || !is_fresh(asked_at) {
                            return Ok(false);
                        }
                        return Err(request.timed_out(core));
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

// Waits for a latch to open. Such a wait ends without a hold.

/// Waits until the latch is open.
pub(crate) async fn wait_open(handle: &Arc<Handle>, request: Request) -> Result<(), Error> {
    let work = async |handle: Arc<Handle>, request: Arc<Request>| {
        loop {
            let core = handle.core();
            if core.calls.life.is_closed() {
                return Err(Error::Closed);
            }
            if request.wait == Wait::Once {
                return ask_once(core, &request).await;
            }
            if let Outcome::Open = QueueSlot::take(&handle, &request).acquire().await? {
                return Ok(());
            }
        }
    };
    run_watched(handle, request, work).await
}

/// Asks once; fails with a timeout if the latch is closed.
async fn ask_once(core: &Core, request: &Request) -> Result<(), Error> {
    match Attempt::new(core, request).ask().await {
        Ok(Answer::Open) => Ok(()),
        Ok(Answer::HeldFor(_) | Answer::Granted(..)) => Err(request.timed_out(core)),
        Ok(Answer::Never(error)) => Err(error),
        Err(error) => Err(request.failed(error)),
    }
}

impl QueueSlot<'_> {
    /// Asks Redis itself when the wait is over. The contender asks for all local waiters, but its
    /// caller may not have polled it lately.
    async fn ask_past_the_contender(&self) -> Result<Outcome, Error> {
        let (core, asked) = (self.handle.core(), Instant::now());
        ask_once(core, self.request).await?;
        core.queues
            .opened(&self.request.resource, &self.waiter, asked);
        // The slot's drop leaves the queue.
        Ok(Outcome::Open)
    }
}

// A further guard for a caller that presents an existing one.

/// Adds a share to the hold of `shown`, with the same lease. A read lock takes a hold of its own
/// instead.
pub(crate) async fn reenter(shown: &HoldShare) -> Result<HoldShare, Error> {
    let handle = shown.handle();
    let (core, resource) = (handle.core(), shown.hold().resource.clone());
    if !resource.kind.is_lock() {
        let how = "and permits are not re-entrant: acquire more of them";
        return Err(Error::AlreadyHeld {
            name: resource.name.clone(),
            how,
        });
    }
    let mut poll_limit = PollLimit::FIRST;
    loop {
        let proofs = Proofs(vec![shown.hold().clone()]);
        let wait = Wait::Until(Instant::now() + core.calls.settings.command_timeout);
        let mut request = Request::new(&core.calls, resource.clone(), proofs, shown.terms(), wait);
        request.poll_limit = poll_limit;
        match reenter_shown(handle, request, shown.hold().clone()).await {
            // The caller did not poll in time, and polls again now: start over.
            Err(Error::Timeout { .. }) => poll_limit = poll_limit.doubled(),
            done => return done,
        }
    }
}

/// Fails with a timeout only if its caller did not poll it in time.
async fn reenter_shown(
    handle: &Arc<Handle>,
    request: Request,
    shown: Arc<Hold>,
) -> Result<HoldShare, Error> {
    run_watched(handle, request, move |handle, request| {
        let shown = shown.clone();
        async move {
            let again = match request.relation() {
                OwnerRelation::Nested(hold) => raise(&handle, &request, &hold).await?,
                OwnerRelation::Concurrent => try_without_queueing(&handle, &request).await?,
                OwnerRelation::WouldDeadlock(how) => {
                    return Err(Error::AlreadyHeld {
                        name: request.resource.name.clone(),
                        how,
                    });
                }
                OwnerRelation::Unrelated => None,
            };
            // A re-entry never waits for the lock. Without a share, the presented hold must have
            // been lost.
            let lost = || shown.loss().unwrap_or(LossReason::Gone);
            again
                .ok_or_else(|| Error::lost(&request.resource.name, lost()))?
                .unless_closed()
        }
    })
    .await
}
