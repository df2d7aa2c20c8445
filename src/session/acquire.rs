//! The only wait loop: take a place in the room, ask, listen, ask again.
//!
//! `docs/acquisition.md` has the states and transitions.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::attempt::{Answer, Attempt};
use super::hold::Hold;
use super::rejoin::{reenter, settle};
use super::releases::Chore;
use super::request::{Outage, Request, Wait};
use super::room::{REST, Rest, Rested, Turn, Waiter};
use super::tenancy::Tenancy;
use super::wake::Listener;
use super::{Handle, jittered, sleep_until_some};
use crate::error::Error;
use crate::lease::LossReason;
use crate::mutant::Mutant;
use crate::stats::count;
use crate::transport::CallError;

/// A wait does not end without an attempt as recent as this.
const FRESH: Duration = Duration::from_millis(50);

/// How a place in the room ended.
enum Seated {
    Granted(Tenancy),
    /// The owner holds the lock by another future.
    Reenter,
}

/// Takes the lock for the owner, again if it holds it already.
pub(crate) async fn acquire(handle: &Arc<Handle>, request: &Request) -> Result<Tenancy, Error> {
    let tenancy = take(handle, request).await?;
    let session = &handle.session;
    // Shutdown marks the session before it looks for holds: one of the two sees the other.
    if session.is_closed() {
        session.lose(tenancy.hold(), LossReason::Closed);
        return Err(Error::Closed);
    }
    Ok(tenancy)
}

async fn take(handle: &Arc<Handle>, request: &Request) -> Result<Tenancy, Error> {
    let session = &*handle.session;
    loop {
        if session.is_closed() {
            return Err(Error::Closed);
        }
        let held = request.owner.hold_of(&request.place.key);
        if let Some(hold) = held.filter(|_| !session.mutants.has(Mutant::ReentryForgotten)) {
            match reenter(handle, request, &hold).await? {
                Some(tenancy) => return Ok(tenancy),
                None => continue,
            }
        }
        if request.wait == Wait::Once && session.rooms.is_occupied(&request.place) {
            return ask_aside(handle, request).await;
        }
        match Seat::take(handle, request).acquire().await? {
            Seated::Granted(tenancy) => return Ok(tenancy),
            Seated::Reenter => {}
        }
    }
}

/// Asks once beside the room: a zero wait neither queues nor jumps over a queue in Redis.
async fn ask_aside(handle: &Arc<Handle>, request: &Request) -> Result<Tenancy, Error> {
    let session = &*handle.session;
    let mut attempt = Attempt::new(session, request, None);
    match attempt.ask(request.limit(session)).await {
        Ok(Answer::Granted(hold)) => {
            let tenancy = settle(handle, request, &Arc::new(hold));
            session.rooms.granted_aside(&request.place, request.owner.id());
            count(&session.counters.acquired_at_once);
            Ok(tenancy)
        }
        Ok(Answer::HeldFor(_)) => Err(request.timed_out(session)),
        Err(error) => Err(request.failed(error)),
    }
}

/// A place in the room; dropping it gives it to the next.
struct Seat<'a> {
    handle: &'a Arc<Handle>,
    request: &'a Request,
    waiter: Arc<Waiter>,
    /// Others were ahead of it in the room.
    queued: bool,
    left: bool,
}

impl<'a> Seat<'a> {
    fn take(handle: &'a Arc<Handle>, request: &'a Request) -> Self {
        let waiter = Waiter::new(request.owner.id(), request.terms);
        handle.session.rooms.enter(&request.place, &waiter);
        Seat { handle, request, waiter, queued: false, left: false }
    }

    async fn acquire(mut self) -> Result<Seated, Error> {
        let session = &*self.handle.session;
        loop {
            // Closed is set before waiters are woken. What was told meanwhile, our drop pays.
            if session.is_closed() {
                return Err(Error::Closed);
            }
            match self.waiter.take_turn() {
                Turn::Wait => {}
                Turn::Granted(tenancy) => {
                    self.left = true;
                    self.request.owner.add(tenancy.hold());
                    count(&session.counters.handed_over);
                    count(&session.counters.acquired_after_waiting);
                    return Ok(Seated::Granted(tenancy));
                }
                Turn::Reenter => return Ok(Seated::Reenter),
                Turn::Front(rest) => {
                    // A zero wait asks at once or not at all.
                    let rest = rest.filter(|_| self.request.wait != Wait::Once);
                    return self.contend(rest, None).await;
                }
                Turn::TakeOver(hold) => return self.contend(None, Some(hold)).await,
            }
            self.queued = true;
            tokio::select! {
                biased;
                () = self.waiter.changed() => {}
                // CANCEL: our drop gives the place, or what was told meanwhile, to the next.
                () = sleep_until_some(self.request.deadline()) => {
                    return Err(self.request.timed_out(session));
                }
            }
        }
    }

    /// The front: asks Redis until it has the lock or the wait is over.
    async fn contend(
        &mut self,
        rest: Option<Rest>,
        from: Option<Arc<Hold>>,
    ) -> Result<Seated, Error> {
        let (session, request) = (&*self.handle.session, self.request);
        let mut outage = Outage::new();
        let handed_over = from.is_some();
        let mut attempt = Attempt::new(session, request, from);
        let mut listener = None;
        let mut woken = false;
        let mut at_once = true;
        let rests = rest.is_some();
        let mut polite = rest.map_or(0, |rest| rest.others - 1);
        if let Some(rest) = rest {
            listener = self.listen(&mut outage).await?;
            self.rest_until(rest.until).await;
        }
        loop {
            if session.is_closed() {
                return Err(Error::Closed);
            }
            self.waiter.forget_wakes();
            let asked = Instant::now();
            let left = match attempt.ask(request.limit(session)).await {
                Ok(Answer::Granted(hold)) => {
                    if handed_over {
                        count(&session.counters.handed_over);
                    }
                    let rested = match (rests, at_once) {
                        (true, true) => Rested::InVain,
                        (_, false) => Rested::ForOthers,
                        (false, true) => Rested::Not,
                    };
                    return Ok(Seated::Granted(self.granted(hold, rested)));
                }
                Ok(Answer::HeldFor(left)) => left,
                Err(error) => {
                    outage.ride_out(session, request, error).await?;
                    continue;
                }
            };
            at_once = false;
            if woken {
                count(&session.counters.wakes_in_vain);
            }
            if request.is_over() {
                return Err(request.timed_out(session));
            }
            if listener.is_none() {
                listener = self.listen(&mut outage).await?;
                // Check, listen, check again: a release between the two was not heard.
                if !session.mutants.has(Mutant::NoRecheckAfterSubscribe) {
                    continue;
                }
            }
            match self.pause(asked, left).await? {
                Pause::Ask { by_message } => {
                    woken = by_message;
                    if by_message && polite > 0 {
                        polite -= 1;
                        self.rest_until(Instant::now() + jittered(REST)).await;
                    }
                }
                Pause::Reenter => return Ok(Seated::Reenter),
            }
        }
    }

    /// Lets other clients go first, within the wait.
    async fn rest_until(&self, rest: Instant) {
        sleep_until(self.request.deadline().map_or(rest, |deadline| rest.min(deadline))).await;
    }

    fn granted(&mut self, hold: Hold, rested: Rested) -> Tenancy {
        let session = &*self.handle.session;
        let hold = Arc::new(hold);
        let tenancy = settle(self.handle, self.request, &hold);
        session.rooms.granted(&self.request.place, &self.waiter, &hold, rested);
        self.left = true;
        count(if rested == Rested::Not && !self.queued {
            &session.counters.acquired_at_once
        } else {
            &session.counters.acquired_after_waiting
        });
        tenancy
    }

    /// Subscribes, riding out an outage; `None` if it could not be confirmed yet.
    async fn listen(&self, outage: &mut Outage) -> Result<Option<Listener<'a>>, Error> {
        let session = &*self.handle.session;
        let place = &self.request.place;
        let listener = session.wakes.listen(&session.transport, &place.channel, &self.waiter);
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
            Some(Err(error)) => {
                // A subscription takes nothing: whatever became of it, no lock is in doubt.
                let error = match error {
                    CallError::Unknown(fault) => CallError::NotApplied(fault),
                    other => other,
                };
                outage.ride_out(session, self.request, error).await?;
                Ok(None)
            }
            None => Err(self.request.timed_out(session)),
        }
    }

    /// Sleeps until it makes sense to ask again.
    async fn pause(&self, asked: Instant, left: Option<Duration>) -> Result<Pause, Error> {
        let (session, request) = (&*self.handle.session, self.request);
        let timer = left
            .filter(|_| !session.mutants.has(Mutant::NoTimer))
            .and_then(|left| Instant::now().checked_add(left + expiry_jitter()));
        loop {
            if self.waiter.take_wake() {
                return Ok(Pause::Ask { by_message: true });
            }
            if matches!(self.waiter.take_turn(), Turn::Reenter) {
                return Ok(Pause::Reenter);
            }
            if session.is_closed() {
                return Err(Error::Closed);
            }
            tokio::select! {
                biased;
                () = self.waiter.changed() => {}
                () = sleep_until_some(timer) => return Ok(Pause::Ask { by_message: false }),
                () = sleep_until_some(request.deadline()) => {
                    // A message may have been lost: the last word is Redis'.
                    if asked.elapsed() > FRESH {
                        return Ok(Pause::Ask { by_message: false });
                    }
                    return Err(request.timed_out(session));
                }
            }
        }
    }
}

enum Pause {
    Ask { by_message: bool },
    Reenter,
}

/// Waiters of many clients see the same remaining lease; they should not ask at the same moment.
fn expiry_jitter() -> Duration {
    Duration::from_micros(fastrand::u64(1_000..10_000))
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let session = &*self.handle.session;
        if !session.mutants.has(Mutant::FrontStranded) {
            session.rooms.leave(&self.request.place, &self.waiter);
        }
        // Out of the room nothing more is told; what was told before is paid here.
        match self.waiter.take_turn() {
            Turn::Granted(tenancy) => drop(tenancy),
            Turn::TakeOver(hold) => session.releases.post(Chore::Release(hold)),
            Turn::Wait | Turn::Front(_) | Turn::Reenter => {}
        }
    }
}
