//! One user of the locks: takes, nests, works, cancels, lets go, in every way there is.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Client, Error, Lease, Lock, LockGuard};
use tokio::time::{Instant, sleep, timeout};

use crate::history::{Actor, History};
use crate::plan::{Kind, Plan, ms, us};

/// Longer than any bounded wait may overrun.
const SLACK: Duration = Duration::from_millis(60);

pub(crate) struct User {
    pub(crate) who: Actor,
    pub(crate) plan: Plan,
    pub(crate) history: History,
    pub(crate) client: Client,
    pub(crate) rng: fastrand::Rng,
    pub(crate) over: Arc<AtomicBool>,
    /// A process was frozen or the clock of all was moved on: times mean less.
    pub(crate) stalled: Arc<AtomicBool>,
}

impl User {
    pub(crate) async fn run(mut self) {
        let mut locks: Vec<Lock> =
            (0..self.plan.names).map(|name| self.client.lock(format!("lock:{name}"))).collect();
        while !self.over.load(SeqCst) {
            if !self.is_relentless() {
                sleep(us(self.rng.u64(0..40_000))).await;
            }
            let name = self.rng.usize(0..locks.len());
            self.visit(&mut locks[name], name, 0).await;
        }
    }

    /// Takes the lock again and again, without a pause, and in no way that would make the client
    /// give it back to Redis.
    fn is_relentless(&self) -> bool {
        self.plan.kind == Kind::Busy && self.who.client == 0
    }

    /// One acquisition, with whatever happens in it.
    async fn visit(&mut self, lock: &mut Lock, name: usize, depth: u32) {
        let name = format!("lock:{name}");
        let busy = self.plan.kind == Kind::Busy;
        let wait = match self.rng.u8(0..10) {
            _ if busy => None,
            0..2 => Some(Duration::ZERO),
            2..6 => Some(ms(self.rng.u64(1..400))),
            _ => None,
        };
        let lease = match self.rng.u8(0..3) {
            0 if !busy => {
                let most = u64::try_from(self.plan.lease.as_millis()).expect("small");
                Lease::Fixed(ms(self.rng.u64(40..most)))
            }
            _ => Lease::Renewed,
        };
        let patience = if busy { 10_000_000 } else { self.rng.u64(0..1_500_000) };
        let cancel_at =
            (self.rng.u8(0..4) == 0 && !busy).then(|| us(patience * patience / 1_500_000));
        let waiting = (depth == 0).then(|| self.history.waits(self.who, &name));
        self.history.note(&format!("{:?} wants {name}: {wait:?}, {lease:?}", self.who));
        let started = Instant::now();
        let acquire = async {
            match wait {
                Some(wait) => lock.try_lock(wait, lease).await,
                None => lock.acquire().lease(lease).await,
            }
        };
        let outcome = self.cancelled_at(cancel_at, acquire).await;
        drop(waiting);
        self.check_wait(wait, started);
        match outcome {
            None => self.history.note(&format!("{:?} gives up on {name}", self.who)),
            Some(Ok(guard)) => self.inside(lock, &name, guard, depth).await,
            Some(Err(error)) => self.refused(&name, &error),
        }
    }

    /// The outcome, or nothing if it was dropped before: after a time, or after a few polls.
    async fn cancelled_at<F: Future>(
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

    fn check_wait(&self, wait: Option<Duration>, started: Instant) {
        let limit = match wait {
            Some(wait) if wait.is_zero() => self.plan.command_timeout,
            Some(wait) => wait,
            None => self.plan.served_within(),
        };
        let waited = started.elapsed();
        if waited > limit + SLACK && !self.stalled.load(SeqCst) && self.plan.kind != Kind::Storm {
            self.history.violation(format!("{:?} waited {waited:?} for {wait:?}", self.who));
        }
    }

    fn refused(&self, name: &str, error: &Error) {
        self.history.note(&format!("{:?} is refused {name}: {error}", self.who));
        let calm = matches!(self.plan.kind, Kind::Calm | Kind::Busy | Kind::Lag);
        // A reply slower than the grace after a wait is as good as lost.
        let slow = self.plan.faults.reply.max > ms(20) && error.may_be_held();
        if calm && !error.is_timeout() && !slow {
            self.history.violation(format!("{:?}: {error}", self.who));
        }
        if matches!(error, Error::Protocol { .. } | Error::NotOwner { .. } | Error::Config(_)) {
            self.history.violation(format!("{:?}: {error}", self.who));
        }
    }

    /// The critical section.
    async fn inside(&mut self, lock: &mut Lock, name: &str, guard: LockGuard, depth: u32) {
        let (id, guard) = self.history.granted(self.who, name, guard);
        let work = match self.plan.kind {
            Kind::Busy => us(self.rng.u64(50..3000)),
            _ => us(self.rng.u64(0..1_000_000).pow(2) / 2_000_000),
        };
        if self.rng.bool() {
            // Stops by itself when the lock is lost.
            let _ended = guard.run(sleep(work)).await;
        } else {
            sleep(work).await;
        }
        if depth < 2 && !self.is_relentless() && self.rng.u8(0..4) == 0 && guard.check().is_ok() {
            let number = name.trim_start_matches("lock:").parse().expect("a number");
            Box::pin(self.nested(lock, number, depth + 1)).await;
            sleep(work / 4).await;
        }
        if self.rng.u8(0..8) == 0 {
            let _extended = guard.extend(self.plan.lease).await;
        }
        self.let_go(id, guard).await;
    }

    /// Takes the lock again; in calm weather that always works while it is held.
    async fn nested(&mut self, lock: &mut Lock, name: usize, depth: u32) {
        let text = format!("lock:{name}");
        let calm = matches!(self.plan.kind, Kind::Calm | Kind::Busy | Kind::Lag);
        let lease = if self.rng.bool() { Lease::Renewed } else { Lease::Fixed(ms(60)) };
        let wait = ms(self.rng.u64(200..600));
        let cancel_at = (self.rng.u8(0..3) == 0).then(|| us(self.rng.u64(0..20_000)));
        let outcome = self.cancelled_at(cancel_at, lock.try_lock(wait, lease)).await;
        match outcome {
            None => {}
            Some(Ok(inner)) => self.inside(lock, &text, inner, depth).await,
            // A fixed lease may have ended meanwhile, and then somebody else may hold it.
            Some(Err(error)) => {
                let lease_ended = error.is_timeout() && !self.history.holds(self.who, &text);
                if calm && !lease_ended && !error.may_be_held() {
                    self.history.violation(format!("{:?} cannot re-enter: {error}", self.who));
                }
            }
        }
    }

    async fn let_go(&mut self, id: u64, guard: Arc<LockGuard>) {
        let valid = guard.check().is_ok();
        self.history.leaves(self.who, id);
        let Some(guard) = Arc::into_inner(guard) else {
            return self.history.violation("a guard in two hands".into());
        };
        match self.rng.u8(0..4) {
            0 => drop(guard),
            1 if !self.is_relentless() => {
                let at = us(self.rng.u64(0..8000));
                self.cancelled_at(Some(at), guard.unlock()).await;
            }
            _ => {
                let result = guard.unlock().await;
                let calm = matches!(self.plan.kind, Kind::Calm | Kind::Busy | Kind::Lag);
                if let Err(error) = result {
                    self.history.note(&format!("{:?} unlocks: {error}", self.who));
                    if calm && valid && !matches!(error, Error::Lost { .. }) {
                        self.history.violation(format!("{:?} cannot unlock: {error}", self.who));
                    }
                }
            }
        }
    }
}
