//! The only wait loop: take a place in the room, ask, listen, ask again.
//!
//! `docs/acquisition.md` has the states and transitions.

mod opening;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::{Instant, sleep_until};

use super::attempt::{Answer, Attempt};
use super::hold::Hold;
use super::pacing::Pacing;
use super::rejoin::{reenter, settle};
use super::releases::Chore;
use super::request::{Outage, Request, Standing, Wait};
use super::room::{REST, Rest, Rested, Turn, Waiter};
use super::tenancy::Tenancy;
use super::wake::Listener;
use super::{Handle, jittered, sleep_until_some};
use crate::error::Error;
use crate::protocol::kind::Kind;
use crate::stats::count;

pub(crate) use opening::wait_open;

/// A wait does not end without an attempt as recent as this.
const FRESH: Duration = Duration::from_millis(50);

/// How a place in the room ended.
enum Seated {
    Granted(Tenancy),
    /// Look again: its `Owner` holds the lock by another future, or a zero wait was not the first.
    Again,
    /// There is nothing to hold: what was waited for has come.
    Open,
}

/// Takes the lock, again where what is held already is shown.
pub(crate) async fn acquire(handle: &Arc<Handle>, request: Request) -> Result<Tenancy, Error> {
    let work = async |handle: Arc<Handle>, request: Arc<Request>| {
        take(&handle, &request).await?.unless_closed()
    };
    attended(handle, request, work).await
}

/// Does the work of a request for its caller. A caller that stops polling is taken for one that
/// dropped its future; if it polls again within its wait, it begins again.
///
/// No `async fn`: those keep room for their arguments for as long as they live.
pub(super) fn attended<T, W>(
    handle: &Arc<Handle>,
    request: Request,
    work: impl Fn(Arc<Handle>, Arc<Request>) -> W + Sync,
) -> impl Future<Output = Result<T, Error>>
where
    W: Future<Output = Result<T, Error>> + Send + 'static,
{
    let request = Arc::new(request);
    async move {
        let session = &handle.session;
        let work = || work(handle.clone(), request.clone());
        let done = session.attendance.attend_until_over(request.wait, work).await;
        done.unwrap_or_else(|| Err(request.timed_out(session)))
    }
}

async fn take(handle: &Arc<Handle>, request: &Request) -> Result<Tenancy, Error> {
    let session = &*handle.session;
    loop {
        if session.is_closed() {
            return Err(Error::Closed);
        }
        let standing = request.standing();
        let apart = matches!(standing, Standing::Apart);
        match standing {
            Standing::Within(hold) => match reenter(handle, request, &hold).await? {
                Some(tenancy) => return Ok(tenancy),
                None => continue,
            },
            Standing::Refused(how) => {
                return Err(Error::AlreadyHeld { name: request.place.name.clone(), how });
            }
            Standing::Beside => match ask_aside(handle, request).await? {
                Some(tenancy) => return Ok(tenancy),
                // What it held has just been lost: then as anybody.
                None if request.wait != Wait::Once => {}
                None => return Err(request.timed_out(session)),
            },
            Standing::Apart => {}
        }
        if request.wait == Wait::Once && session.rooms.is_occupied(&request.place) {
            if !request.lets_others_first(session)
                && let Some(tenancy) = ask_aside(handle, request).await?
            {
                return Ok(tenancy);
            }
            return Err(request.timed_out(session));
        }
        let seat = Seat::take(handle, request);
        // Another future of its `Owner` that gets it calls in those that wait by then.
        let again = match request.standing() {
            Standing::Apart => false,
            Standing::Beside => apart,
            Standing::Within(_) | Standing::Refused(_) => true,
        };
        if again {
            continue;
        }
        match seat.acquire().await? {
            Seated::Granted(tenancy) => return Ok(tenancy),
            Seated::Again | Seated::Open => {}
        }
    }
}

/// Asks beside the room: a zero wait neither queues nor jumps over a queue in Redis, and who is let
/// in by what it holds must not wait behind those who wait for that. `None` if it is held.
pub(super) async fn ask_aside(
    handle: &Arc<Handle>,
    request: &Request,
) -> Result<Option<Tenancy>, Error> {
    let session = &*handle.session;
    let mut outage = Outage::new();
    let mut attempt = Attempt::new(session, request, None);
    loop {
        match attempt.ask(request.limit(session)).await {
            Ok(Answer::Granted(hold) | Answer::TookOver(hold)) => {
                let tenancy = settle(handle, request, &hold);
                session.lose_if_closed(&hold);
                count(&session.counters.acquired_at_once);
                return Ok(Some(tenancy));
            }
            Ok(Answer::HeldFor(_) | Answer::Open) => return Ok(None),
            Err(error) => outage.ride_out(session, request, error).await?,
        }
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
        let waiter = Waiter::new(request.terms, request.no_expiry.clone());
        if let Some(owner) = &request.proofs.owner {
            owner.waits(handle.session.client_id, &request.place.key, &waiter);
        }
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
                // Another came between the look at the room and this seat: then beside it.
                Turn::Wait if self.request.wait == Wait::Once => return Ok(Seated::Again),
                Turn::Wait => {}
                // Its lease ended before it was picked up: its drop lets the next one in.
                Turn::Granted(tenancy) if tenancy.hold().loss().is_some() => {
                    return Ok(Seated::Again);
                }
                Turn::Granted(tenancy) => {
                    self.left = true;
                    // Only now is it renewed, and do its other futures find what they shall re-enter.
                    if tenancy.hold().claim() {
                        session.watchdog.arm(tenancy.hold(), None);
                    }
                    self.request.proofs.add(tenancy.hold());
                    count(&session.counters.handed_over);
                    count(&session.counters.acquired_after_waiting);
                    return Ok(Seated::Granted(tenancy));
                }
                Turn::Reenter => return Ok(Seated::Again),
                Turn::Open => {
                    self.left = true;
                    return Ok(Seated::Open);
                }
                Turn::Front(rest) => {
                    // A zero wait asks at once or not at all.
                    let rest = rest.filter(|_| self.request.wait != Wait::Once);
                    return self.contend(rest, None).await;
                }
                Turn::TakeOver(hold) => {
                    count(&session.counters.handed_over);
                    return self.contend(None, Some(hold)).await;
                }
            }
            self.queued = true;
            self.waiter.sleeps_until(self.request.deadline());
            tokio::select! {
                biased;
                () = self.waiter.changed() => {}
                // CANCEL: our drop gives the place, or what was told meanwhile, to the next.
                () = sleep_until_some(self.request.deadline()) => return self.too_late().await,
            }
        }
    }

    /// The wait of one behind the front is over.
    async fn too_late(&self) -> Result<Seated, Error> {
        let (session, request) = (&*self.handle.session, self.request);
        if request.place.kind == Kind::Latch {
            return self.ask_past_the_front().await;
        }
        // The front has asked for all.
        if session.rooms.met_no_expiry(&request.place) {
            request.met(None);
        }
        Err(request.timed_out(session))
    }

    /// The front: asks Redis until it has the lock or the wait is over.
    async fn contend(
        &mut self,
        rest: Option<Rest>,
        from: Option<Arc<Hold>>,
    ) -> Result<Seated, Error> {
        let waiter = self.waiter.clone();
        let mut attempt = Attempt::new(&self.handle.session, self.request, from).waiting(&waiter);
        let outcome = self.ask_until_over(&mut attempt, rest).await;
        if matches!(outcome, Err(Error::Timeout { .. })) {
            attempt.leave().await;
        }
        outcome
    }

    async fn ask_until_over(
        &mut self,
        attempt: &mut Attempt<'_>,
        rest: Option<Rest>,
    ) -> Result<Seated, Error> {
        let (session, request) = (&*self.handle.session, self.request);
        let mut outage = Outage::new();
        let mut pacing = Pacing::new(session, request.place.kind.pace());
        let mut listener = None;
        let mut woken = false;
        let mut rested = if rest.is_some() { Rested::InVain } else { Rested::Not };
        let mut polite = rest.map_or(0, |rest| rest.others - 1);
        if let Some(rest) = rest {
            if pacing.listens() {
                listener = self.listen(&mut outage, attempt.channel(), None).await?;
            }
            self.rest_until(rest.until).await;
        }
        loop {
            if session.is_closed() {
                return Err(Error::Closed);
            }
            self.waiter.forget_wakes();
            let asked = Instant::now();
            // What may have been granted already is not given to others by waiting.
            let answer = if !attempt.is_in_doubt() && request.lets_others_first(session) {
                Ok(Answer::HeldFor(None))
            } else {
                attempt.ask(request.limit(session)).await
            };
            let left = match answer {
                Ok(Answer::HeldFor(left)) => left,
                Ok(Answer::Granted(hold)) => return Ok(self.granted(&hold, rested)),
                Ok(Answer::TookOver(hold)) => return Ok(self.granted(&hold, Rested::TookOver)),
                Ok(Answer::Open) => return Ok(self.opened(asked)),
                Err(error) => {
                    outage.ride_out(session, request, error).await?;
                    continue;
                }
            };
            rested = Rested::ForOthers;
            if woken {
                count(&session.counters.wakes_in_vain);
            }
            if request.is_over() {
                return Err(request.timed_out(session));
            }
            let channel = attempt.channel();
            let heard = |listener: &Listener<'_>| *listener.channel() == channel;
            if pacing.listens() && !listener.as_ref().is_some_and(heard) {
                listener = self.listen(&mut outage, channel, Some(asked)).await?;
                // Check, listen, check again: a release between the two was not heard.
                continue;
            }
            match self.pause(asked, pacing.next(left)).await? {
                Pause::Ask { by_message } => {
                    woken = by_message;
                    if by_message && polite > 0 {
                        polite -= 1;
                        self.rest_until(Instant::now() + jittered(REST)).await;
                    }
                }
                Pause::Reenter => return Ok(Seated::Again),
            }
        }
    }

    /// Lets other clients go first, within the wait.
    async fn rest_until(&self, rest: Instant) {
        let rest = self.request.deadline().map_or(rest, |deadline| rest.min(deadline));
        self.waiter.sleeps_until(Some(rest));
        let mut slept = pin!(sleep_until(rest));
        // What it is told meanwhile it looks at when it has asked.
        while !slept.is_elapsed() {
            tokio::select! {
                biased;
                () = slept.as_mut() => {}
                () = self.waiter.changed() => {}
            }
        }
    }

    fn opened(&mut self, asked: Instant) -> Seated {
        self.handle.session.rooms.opened(&self.request.place, &self.waiter, asked);
        self.left = true;
        Seated::Open
    }

    fn granted(&mut self, hold: &Arc<Hold>, rested: Rested) -> Seated {
        let session = &*self.handle.session;
        let tenancy = settle(self.handle, self.request, hold);
        session.rooms.granted(&self.request.place, &self.waiter, hold, rested);
        session.lose_if_closed(hold);
        self.left = true;
        count(if rested == Rested::Not && !self.queued {
            &session.counters.acquired_at_once
        } else {
            &session.counters.acquired_after_waiting
        });
        Seated::Granted(tenancy)
    }

    /// Subscribes, riding out an outage; `None` if it could not be confirmed yet, and it is time to ask.
    async fn listen(
        &self,
        outage: &mut Outage,
        channel: Arc<str>,
        asked: Option<Instant>,
    ) -> Result<Option<Listener<'a>>, Error> {
        let session = &*self.handle.session;
        let mut listener = session.wakes.listen(&session.transport, &channel, &self.waiter);
        if self.request.place.kind == Kind::Fair {
            listener = listener.private();
        }
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
                outage.ride_out(session, self.request, error.took_nothing()).await?;
                Ok(None)
            }
            None if asked.is_some_and(is_fresh) => Err(self.request.timed_out(session)),
            // It was not listened for a release: the last word is Redis'.
            None => Ok(None),
        }
    }

    /// Sleeps until it makes sense to ask again.
    async fn pause(&self, asked: Instant, span: Option<Duration>) -> Result<Pause, Error> {
        let (session, request) = (&*self.handle.session, self.request);
        let timer = span.and_then(|span| Instant::now().checked_add(span));
        self.waiter.sleeps_until(timer.into_iter().chain(request.deadline()).min());
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
                    if !is_fresh(asked) {
                        return Ok(Pause::Ask { by_message: false });
                    }
                    return Err(request.timed_out(session));
                }
            }
        }
    }
}

/// What was asked then is the last word.
fn is_fresh(asked: Instant) -> bool {
    asked.elapsed() <= FRESH
}

enum Pause {
    Ask { by_message: bool },
    Reenter,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if self.left {
            return;
        }
        let session = &*self.handle.session;
        session.rooms.leave(&self.request.place, &self.waiter);
        // Out of the room nothing more is told; what was told before is paid here.
        match self.waiter.take_turn() {
            Turn::Granted(tenancy) => drop(tenancy),
            Turn::TakeOver(hold) => session.releases.post(Chore::Release(hold)),
            Turn::Wait | Turn::Front(_) | Turn::Reenter | Turn::Open => {}
        }
    }
}
