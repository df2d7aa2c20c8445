//! One user of the locks: takes, nests, works, cancels, lets go, in every way there is.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Client, Error, Lease, Lock, LockGuard, Owner};
use tokio::time::{Instant, sleep, timeout};

use crate::history::{Actor, History};
use crate::kind::Kind;
use crate::plan::{Plan, Weather, ms, us};
use crate::stalls::Stalls;
use crate::target::{Manners, Side, Target};

/// Longer than any bounded wait may overrun.
const SLACK: Duration = Duration::from_millis(60);

pub(crate) struct User {
    pub(crate) who: Actor,
    pub(crate) plan: Plan,
    pub(crate) history: History,
    pub(crate) client: Client,
    pub(crate) owner: Owner,
    pub(crate) shares_owner: bool,
    pub(crate) rng: fastrand::Rng,
    pub(crate) over: Arc<AtomicBool>,
    pub(crate) stalls: Stalls,
}

impl User {
    pub(crate) async fn run(mut self) {
        let manners = self.manners();
        let client = (self.who.client, &self.client);
        let make =
            |name: String| Target::new(self.plan.kind, client, &name, Some(&self.owner), manners);
        let locks: Vec<_> = self.plan.all_names().into_iter().map(make).collect();
        while !self.is_over() {
            if !self.is_relentless() {
                sleep(us(self.rng.u64(0..40_000))).await;
            }
            let name = self.rng.usize(0..locks.len());
            self.visit(&locks[name], name, manners).await;
        }
    }

    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst) || self.history.rare.is_closed(self.who.client)
    }

    pub(crate) fn manners(&mut self) -> Manners {
        match self.plan.kind {
            Kind::ReadWrite if self.rng.bool() => Manners::PreferWriters,
            _ => Manners::Plain,
        }
    }

    /// Those who never pause only write: readers may pass writers for ever.
    fn side(&mut self) -> Side {
        let reads = self.plan.kind == Kind::ReadWrite && !self.is_relentless();
        if reads && self.rng.u8(0..10) < 6 { Side::Read } else { Side::Write }
    }

    /// Takes the lock again and again, without a pause, and in no way that would make the client
    /// give it back to Redis.
    fn is_relentless(&self) -> bool {
        self.plan.weather == Weather::Busy && self.who.client == 0
    }

    fn lease(&self, side: Side, lease: Lease) -> Lease {
        match side {
            Side::Read if !self.plan.reads_end_untold() => Lease::Renewed,
            _ => lease,
        }
    }

    /// One acquisition, with whatever happens in it.
    async fn visit(&mut self, lock: &Target, name: usize, manners: Manners) {
        let name = format!("lock:{name}");
        let busy = self.plan.weather == Weather::Busy;
        let wait = match self.rng.u8(0..10) {
            _ if busy => None,
            0..2 => Some(Duration::ZERO),
            2..6 => Some(ms(self.rng.u64(1..400))),
            _ => None,
        };
        let lease = match self.rng.u8(0..if self.plan.overrun { 2 } else { 3 }) {
            0 if !busy => Lease::Fixed(ms(self.rng.u64(40..self.plan.fixed_lease_max()))),
            _ => Lease::Renewed,
        };
        let side = self.side();
        let lease = self.lease(side, lease);
        let patience = if busy { 10_000_000 } else { self.rng.u64(0..1_500_000) };
        let cancel_at =
            (self.rng.u8(0..4) == 0 && !busy).then(|| us(patience * patience / 1_500_000));
        let waiting = self.history.waits(self.who, &name, side, manners);
        self.history.note(&format!(
            "{:?} wants {name}, {side:?} {manners:?}: {wait:?}, {lease:?}",
            self.who
        ));
        self.history.asks(self.who);
        let started = Instant::now();
        let outcome = self.cancelled_at(cancel_at, take(lock.side(side), wait, lease)).await;
        drop(waiting);
        self.check_wait(wait, started);
        match outcome {
            None => self.history.note(&format!("{:?} gives up on {name}", self.who)),
            Some(Ok(guard)) => self.inside(lock, &name, side, guard, 0).await,
            Some(Err(error)) => {
                self.refused(&name, wait, &error);
                if matches!(error, Error::AlreadyHeld { .. }) {
                    // The other future of this owner needs time to go on.
                    sleep(us(100)).await;
                }
            }
        }
    }

    /// The outcome, or nothing if it was dropped before: after a time, or after a few polls.
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

    pub(crate) fn check_wait(&self, wait: Option<Duration>, started: Instant) {
        let limit = match wait {
            Some(wait) if wait.is_zero() => self.plan.command_timeout,
            Some(wait) => wait,
            None => self.plan.served_within(),
        };
        let waited = started.elapsed();
        let slack = SLACK + self.plan.slack() + self.stalls.since(self.who.client, started);
        if waited > limit + slack {
            self.history.violation(format!("{:?} waited {waited:?} for {wait:?}", self.who));
        }
    }

    pub(crate) fn is_calm(&self) -> bool {
        matches!(self.plan.weather, Weather::Calm | Weather::Busy | Weather::Lag)
    }

    pub(crate) fn refused(&self, name: &str, wait: Option<Duration>, error: &Error) {
        self.history.note(&format!("{:?} is refused {name}: {error}", self.who));
        if self.history.rare.excuses(self.who.client, error) {
            return;
        }
        let own = matches!(error, Error::AlreadyHeld { .. }) && self.shares_owner;
        let own = own && matches!(self.plan.kind, Kind::ReadWrite | Kind::NonReentrant);
        if self.is_calm() && !error.is_timeout() && !own {
            self.history.violation(format!("{:?}: {error}", self.who));
        }
        if matches!(error, Error::Protocol { .. } | Error::NotOwner { .. } | Error::Config(_)) {
            self.history.violation(format!("{:?}: {error}", self.who));
        }
        if wait.is_none() && !own {
            self.history.violation(format!("{:?} would wait for ever: {error}", self.who));
        }
    }

    /// The critical section.
    async fn inside(
        &mut self,
        lock: &Target,
        name: &str,
        side: Side,
        guard: LockGuard,
        depth: u32,
    ) {
        let (id, guard) = self.history.granted(self.who, name, side, guard);
        let work = match self.plan.weather {
            Weather::Busy => us(self.rng.u64(50..3000)),
            _ => us(self.rng.u64(0..1_000_000).pow(2) / 2_000_000),
        };
        if self.rng.bool() && !self.plan.overrun {
            // Stops by itself when the lock is lost.
            let _ended = guard.run(sleep(work)).await;
        } else {
            sleep(work).await;
        }
        if depth < 2 && !self.is_relentless() && self.rng.u8(0..4) == 0 && guard.check().is_ok() {
            match (self.plan.kind, side) {
                (Kind::NonReentrant, _) => self.refused_at_once(lock, side).await,
                (Kind::ReadWrite, Side::Read) if !self.shares_owner && self.rng.bool() => {
                    self.refused_at_once(lock, Side::Write).await;
                }
                (Kind::ReadWrite, Side::Write) if depth == 0 && self.rng.bool() => {
                    return self.downgrade(lock, name, (id, guard)).await;
                }
                _ => self.nested(lock, name, side, depth + 1).await,
            }
            sleep(work / 4).await;
        }
        if self.rng.u8(0..8) == 0 {
            self.history.asks(self.who);
            let _extended = guard.extend(self.plan.lease).await;
        }
        self.let_go(id, guard).await;
    }

    /// Takes the lock again; in calm weather that always works while it is held.
    async fn nested(&mut self, lock: &Target, name: &str, side: Side, depth: u32) {
        if let Some(inner) = self.again(lock, name, side).await {
            Box::pin(self.inside(lock, name, side, inner, depth)).await;
        }
    }

    /// Reads under the own write hold, and goes on reading when that is released.
    async fn downgrade(&mut self, lock: &Target, name: &str, held: (u64, Arc<LockGuard>)) {
        let reading = self.again(lock, name, Side::Read).await;
        let (id, guard) = held;
        match reading {
            Some(inner) if self.rng.bool() => {
                Box::pin(self.inside(lock, name, Side::Read, inner, 2)).await;
                self.let_go(id, guard).await;
            }
            Some(inner) => {
                let (inner_id, inner) = self.history.granted(self.who, name, Side::Read, inner);
                self.let_go(id, guard).await;
                sleep(us(self.rng.u64(0..200_000))).await;
                if inner.check().is_ok() && !self.shares_owner {
                    self.refused_at_once(lock, Side::Write).await;
                }
                self.let_go(inner_id, inner).await;
            }
            None => self.let_go(id, guard).await,
        }
    }

    async fn again(&mut self, lock: &Target, name: &str, side: Side) -> Option<LockGuard> {
        let lease = if self.rng.bool() { Lease::Renewed } else { Lease::Fixed(ms(60)) };
        let lease = self.lease(side, lease);
        let wait = ms(self.rng.u64(200..600));
        let cancel_at = (self.rng.u8(0..3) == 0).then(|| us(self.rng.u64(0..20_000)));
        self.history.asks(self.who);
        let patient = self.plan.kind == Kind::ReadWrite && self.rng.bool();
        let wait = (!patient).then_some(wait);
        match self.cancelled_at(cancel_at, take(lock.side(side), wait, lease)).await? {
            Ok(inner) => return Some(inner),
            // What it held may be lost, and the owner's other future may hold the other side.
            Err(Error::AlreadyHeld { .. }) if self.may_be_refused(side) => {}
            Err(error) if self.history.rare.excuses(self.who.client, &error) => {}
            // A fixed lease may have ended meanwhile, or the lock was forced open: then somebody else
            // may hold it.
            Err(error) => {
                let lost = !self.history.holds(self.who, name) || self.history.has_void(name);
                if self.is_calm() && !(error.is_timeout() && lost) {
                    self.history.violation(format!("{:?} cannot re-enter: {error}", self.who));
                }
                if wait.is_none() {
                    self.history.violation(format!("{:?} would wait: {error}", self.who));
                }
            }
        }
        None
    }

    fn may_be_refused(&self, side: Side) -> bool {
        self.shares_owner && self.plan.kind == Kind::ReadWrite && side == Side::Write
    }

    /// What would wait for its own release is told so, without a moment's wait.
    async fn refused_at_once(&mut self, lock: &Target, side: Side) {
        let wait = self.rng.bool().then(|| ms(self.rng.u64(0..400)));
        self.history.asks(self.who);
        let started = Instant::now();
        let outcome = timeout(ms(500), take(lock.side(side), wait, Lease::Renewed)).await;
        let odd = match outcome {
            Ok(Err(Error::AlreadyHeld { .. })) if started.elapsed().is_zero() => return,
            Ok(Err(error)) if self.history.rare.excuses(self.who.client, &error) => return,
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(_guard)) => "granted".into(),
            Err(_) => "it waits".into(),
        };
        self.history.violation(format!("{:?} takes what it holds: {odd}", self.who));
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
                if let Err(error) = result {
                    self.history.note(&format!("{:?} unlocks: {error}", self.who));
                    let told = matches!(error, Error::Lost { .. })
                        || self.history.rare.is_closed(self.who.client);
                    if self.is_calm() && valid && !told {
                        self.history.violation(format!("{:?} cannot unlock: {error}", self.who));
                    }
                }
            }
        }
    }
}

async fn take(lock: &Lock, wait: Option<Duration>, lease: Lease) -> Result<LockGuard, Error> {
    match wait {
        Some(wait) => lock.try_lock(wait, lease).await,
        None => lock.acquire().lease(lease).await,
    }
}
