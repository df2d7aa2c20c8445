//! One user: what the users of all kinds have in common.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use leasehold::{Client, Error, Lease, Lock, LockGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::frozen::Frozen;
use crate::kind::Kind;
use crate::ledger::{Actor, Entry, Held, Ledger, Side, Wish};
use crate::plan::{Plan, Weather, in_ms, ms, us};

/// The futures of users.
pub(crate) type Users = Vec<BoxFuture<'static, ()>>;

/// `S` is what the users of one kind share.
pub(crate) struct User<S> {
    pub(crate) actor: Actor,
    pub(crate) plan: Plan,
    pub(crate) ledger: Ledger,
    /// One for each engine.
    pub(crate) clients: Vec<Client>,
    pub(crate) frozen: Frozen,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) rng: fastrand::Rng,
    pub(crate) shared: S,
}

/// The settings of one acquisition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    /// `None` waits without a limit.
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Lease,
    pub(crate) side: Side,
    pub(crate) cancel_at: Option<Duration>,
}

impl Request {
    pub(crate) async fn take(self, lock: &Lock) -> Result<Held, Error> {
        take(lock, self.wait, self.lease)
            .await
            .map(|guard| Held::Lock(Arc::new(guard)))
    }
}

pub(crate) async fn take(
    lock: &Lock,
    wait: Option<Duration>,
    lease: Lease,
) -> Result<LockGuard, Error> {
    match wait {
        Some(wait) => lock.try_lock(wait, lease).await,
        None => lock.acquire().lease(lease).await,
    }
}

impl<S> User<S> {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst) || self.ledger.is_closed(self.actor.process)
    }

    pub(crate) fn note(&self, text: &str) {
        self.ledger.note(&format!("{:?} {text}", self.actor));
    }

    pub(crate) fn violation(&self, text: &str) {
        self.ledger.violation(format!("{:?} {text}", self.actor));
    }

    pub(crate) fn asks(&self) {
        self.ledger.asks(self.actor);
    }

    /// Takes locks again and again without a pause, and in a way that never makes the client
    /// release them to Redis.
    pub(crate) fn is_relentless(&self) -> bool {
        self.plan.weather == Weather::Busy && self.actor.process == 0
    }

    pub(crate) async fn pauses(&mut self) {
        if !self.is_relentless() {
            sleep(us(self.rng.u64(0..40_000))).await;
        }
    }

    pub(crate) fn request(&mut self) -> Request {
        let busy = self.plan.weather == Weather::Busy;
        let wait = match self.rng.u8(0..10) {
            _ if busy => None,
            0..2 => Some(Duration::ZERO),
            2..6 => Some(ms(self.rng.u64(1..400))),
            _ => None,
        };
        let lease = match self.rng.u8(0..if self.plan.overrun { 2 } else { 3 }) {
            0 if !busy => Lease::Fixed(self.fixed_lease()),
            _ => Lease::Renewed,
        };
        let side = self.side();
        let lease = self.lease_of(side, lease);
        let patience = if busy {
            10_000_000
        } else {
            self.rng.u64(0..1_500_000)
        };
        let cancels = self.rng.u8(0..4) == 0 && !busy;
        let cancel_at = cancels.then(|| us(patience * patience / 1_500_000));
        Request {
            wait,
            lease,
            side,
            cancel_at,
        }
    }

    fn fixed_lease(&mut self) -> Duration {
        // Each server may use its part of the lease to answer.
        let quorum = self.plan.kind == Kind::Quorum;
        let most = if quorum {
            self.plan.lease
        } else {
            self.plan.fixed_lease_max()
        };
        let least = if quorum { most / 2 } else { ms(40) };
        ms(self.rng.u64(in_ms(least)..in_ms(most)))
    }

    /// Users that never pause only write, because readers may pass writers forever.
    fn side(&mut self) -> Side {
        let reads = self.plan.kind == Kind::ReadWrite && !self.is_relentless();
        if reads && self.rng.u8(0..10) < 6 {
            Side::Read
        } else {
            Side::Write
        }
    }

    pub(crate) fn lease_of(&self, side: Side, lease: Lease) -> Lease {
        match side {
            Side::Read if !self.plan.reads_end_untold() => Lease::Renewed,
            _ => lease,
        }
    }

    /// One acquisition, unless it is given up before.
    pub(crate) async fn takes<F>(&mut self, wish: Wish, request: Request, take: F) -> Option<Entry>
    where
        F: Future<Output = Result<Held, Error>>,
    {
        let waiting = self.ledger.waits(wish.clone());
        self.note(&format!(
            "wants {:?} x {}: {request:?}",
            wish.names, wish.permits
        ));
        self.asks();
        let outcome = self.cancelled_at(request.cancel_at, take).await;
        drop(waiting);
        self.check_wait(request.wait, wish.since);
        match outcome {
            None => self.note("gives up"),
            Some(Ok(held)) => return Some(self.ledger.enters(wish, held)),
            Some(Err(error)) => self.refused(request.wait, &error),
        }
        None
    }

    /// The outcome, or `None` if the future was dropped before: after a time, or after a few polls.
    pub(crate) async fn cancelled_at<F: Future>(
        &mut self,
        at: Option<Duration>,
        future: F,
    ) -> Option<F::Output> {
        match at {
            None => Some(future.await),
            Some(after) if self.rng.bool() => timeout(after, future).await.ok(),
            Some(_) => {
                let mut future = Box::pin(future);
                for _ in 0..self.rng.u8(0..12) {
                    if let Some(done) = future.as_mut().now_or_never() {
                        return Some(done);
                    }
                    sleep(us(self.rng.u64(0..3000))).await;
                }
                None
            }
        }
    }

    pub(crate) fn check_wait(&self, wait: Option<Duration>, since: Instant) {
        let Some(slack) = self.plan.slack() else {
            return;
        };
        let limit = match wait {
            Some(wait) if wait.is_zero() => self.plan.command_timeout,
            Some(wait) => wait,
            None => self.plan.served_within(),
        };
        let waited = since.elapsed();
        if waited > limit + slack + self.frozen.since(self.actor.process, since) {
            self.violation(&format!("waited {waited:?} for {wait:?}"));
        }
    }

    pub(crate) fn refused(&self, wait: Option<Duration>, error: &Error) {
        let mut told = error.clone();
        if let Error::Timeout {
            in_the_way: Some(holder),
            ..
        } = &mut told
        {
            // Its client has another uuid in each run.
            holder.owner.clear();
        }
        self.note(&format!("is refused: {told}"));
        if self.ledger.excuses(self.actor, error) {
            return;
        }
        // Servers may be too slow if they are asked only for a part of a short lease.
        let slow = !self.plan.kind.is_lock() && self.plan.line.reply.max > ms(20);
        let slow = slow && matches!(error, Error::Unavailable { .. } | Error::Quorum { .. });
        let unhurt = self.plan.is_calm() && !error.is_timeout() && !slow;
        let endless = wait.is_none() && self.plan.kind.is_lock();
        let wrong = matches!(
            error,
            Error::Protocol { .. }
                | Error::NotOwner { .. }
                | Error::AlreadyHeld { .. }
                | Error::Config(_)
        );
        if wrong || unhurt || endless {
            self.violation(&format!("must not be told: {error}"));
        }
    }

    /// The critical section.
    pub(crate) async fn works(&mut self, entry: &Entry) -> Duration {
        let work = match self.plan.weather {
            Weather::Busy => us(self.rng.u64(50..3000)),
            _ => us(self.rng.u64(0..1_000_000).pow(2) / 2_000_000),
        };
        if self.rng.bool() && !self.plan.overrun {
            // Ends on its own when the hold is lost.
            let _ended = entry.held.run(sleep(work)).await;
        } else {
            sleep(work).await;
        }
        work
    }

    /// Now and then.
    pub(crate) async fn extends(&mut self, entry: &Entry) {
        if self.rng.u8(0..8) == 0 {
            self.asks();
            let _extended = entry.held.extend(self.plan.lease).await;
        }
    }

    pub(crate) async fn lets_go(&mut self, entry: Entry) {
        let valid = entry.is_valid();
        self.ledger.leaves(&entry);
        let result = match self.rng.u8(0..4) {
            0 => return drop(entry.held),
            1 if !self.is_relentless() => {
                let at = us(self.rng.u64(0..8000));
                self.cancelled_at(Some(at), entry.held.release()).await
            }
            _ => Some(entry.held.release().await),
        };
        let Some(Err(error)) = result else { return };
        self.note(&format!("releases: {error}"));
        let unhurt = self.plan.is_calm() || self.plan.weather == Weather::Crash;
        let told = matches!(error, Error::Lost { .. }) || self.ledger.is_closed(self.actor.process);
        if unhurt && valid && !told {
            self.violation(&format!("cannot release: {error}"));
        }
    }
}
