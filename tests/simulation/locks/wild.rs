//! One user of what is rare: sections, guards shown, futures that are kept without being polled,
//! holds forgotten and restored, locks forced open.

mod grip;
mod moves;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Error, Lease, LockGuard};
use tokio::time::{Instant, sleep};

use super::shared::Shared;
use super::target::Target;
use crate::kind::Kind;
use crate::ledger::{Actor, Side, Waiting, Wish};
use crate::plan::{in_ms, ms, us};
use crate::user::User;
use grip::Grip;

/// What is acquired, by whom.
#[derive(Clone)]
struct Wanted {
    lock: Target,
    name: usize,
    side: Side,
    actor: Actor,
}

/// A task of its own beside the users of [`user`](super::user).
type Wild = User<Shared>;

impl Wild {
    pub(crate) async fn run(mut self) {
        while !self.is_over() {
            sleep(us(self.rng.u64(0..60_000))).await;
            let wanted = self.wants();
            match self.rng.u8(0..16) {
                0 => self.forces(&wanted).await,
                1..5 => self.takes_over().await,
                5..7 => Box::pin(self.in_section(&wanted)).await,
                _ => self.visit(&wanted).await,
            }
        }
    }

    fn is_closed(&self) -> bool {
        self.ledger.is_closed(self.actor.process)
    }

    /// Each acquisition is an owner of its own.
    fn wants(&mut self) -> Wanted {
        let names = self.plan.names;
        let name = self.rng.usize(0..names);
        let reads = self.plan.kind == Kind::ReadWrite && self.rng.bool();
        self.wanted(name, if reads { Side::Read } else { Side::Write })
    }

    fn wanted(&self, name: usize, side: Side) -> Wanted {
        let lock = Target::new(self, name);
        let actor = Actor {
            owner: self.shared.fresh_owner(),
            ..self.actor
        };
        Wanted {
            lock,
            name,
            side,
            actor,
        }
    }

    fn waits(&self, wanted: &Wanted) -> Waiting {
        self.ledger
            .waits(Wish::of_lock(wanted.actor, wanted.name, wanted.side))
    }

    fn lease(&mut self, side: Side) -> Lease {
        if side == Side::Read && !self.plan.reads_end_untold() {
            return Lease::Renewed;
        }
        let longest = in_ms(self.plan.fixed_lease_max());
        match self.rng.u8(0..4) {
            0 => Lease::Fixed(ms(self.rng.u64(40..longest.max(41)))),
            1 => Lease::RenewedFor(
                self.plan
                    .lease
                    .mul_f64(0.5 + 0.5 * self.rng.f64())
                    .max(ms(100)),
            ),
            _ => Lease::Renewed,
        }
    }

    async fn visit(&mut self, wanted: &Wanted) {
        let wait = match self.rng.u8(0..8) {
            0 => Some(Duration::ZERO),
            1..4 => Some(ms(self.rng.u64(1..500))),
            _ => None,
        };
        let lease = self.lease(wanted.side);
        let max_hold = (self.rng.u8(0..5) == 0 && wanted.side == Side::Write)
            .then(|| ms(self.rng.u64(20..600)));
        self.notes(
            wanted,
            &format!("wants: {wait:?}, {lease:?}, at most {max_hold:?}"),
        );
        let lock = wanted.lock.clone();
        let mut acquire = lock.side(wanted.side).acquire().lease(lease);
        if let Some(wait) = wait {
            acquire = acquire.wait(wait);
        }
        if let Some(max_hold) = max_hold {
            acquire = acquire.max_hold(max_hold);
        }
        self.asks();
        let started = Instant::now();
        let outcome = if self.rng.u8(0..3) == 0 {
            self.kept(acquire.into_future(), Some(wanted)).await
        } else {
            let waiting = self.waits(wanted);
            let outcome = acquire.await;
            drop(waiting);
            self.check_wait(wait, started);
            Some(outcome)
        };
        match outcome {
            None => self.notes(wanted, "gives up"),
            Some(Err(error)) => self.refused(wait, &error),
            Some(Ok(guard)) => {
                let grip = Grip::new(self, wanted, guard);
                self.inside(wanted, grip, max_hold).await;
            }
        }
    }

    fn notes(&self, wanted: &Wanted, text: &str) {
        self.ledger
            .note(&format!("{:?} at {} {text}", wanted.actor, wanted.name));
    }

    /// Polls a future a few times, keeps it for a while, and then drops it or goes on.
    async fn kept<F: Future>(&mut self, future: F, wanted: Option<&Wanted>) -> Option<F::Output> {
        let mut future = Box::pin(future);
        let waiting = wanted.map(|wanted| self.waits(wanted));
        for _ in 0..self.rng.u8(1..5) {
            if let Some(done) = future.as_mut().now_or_never() {
                return Some(done);
            }
            sleep(us(self.rng.u64(0..3000))).await;
        }
        drop(waiting);
        let kept = us(self.rng.u64(0..600_000));
        self.ledger
            .note(&format!("{:?} keeps a future for {kept:?}", self.actor));
        sleep(kept).await;
        if self.rng.bool() {
            return None;
        }
        // It begins again, which is asked for once more.
        self.asks();
        let _waiting = wanted.map(|wanted| self.waits(wanted));
        Some(future.await)
    }

    async fn inside(&mut self, wanted: &Wanted, grip: Grip, max_hold: Option<Duration>) {
        let began = Instant::now();
        for _ in 0..self.rng.u8(1..4) {
            match self.rng.u8(0..6) {
                0 | 1 => self.again(wanted, &grip).await,
                2 => {
                    let guard = grip.guard();
                    let work = Box::pin(self.by_name(wanted, &grip));
                    // Dropped when the hold is lost, with the guard inside.
                    let _ended = guard.run(work).await;
                }
                3 => {
                    self.asks();
                    let (guard, lease) = (grip.guard(), self.plan.lease);
                    let at = us(self.rng.u64(0..6000));
                    let _extended = self.cancelled_at(Some(at), guard.extend(lease)).await;
                }
                _ => sleep(us(self.rng.u64(0..200_000))).await,
            }
        }
        if let Some(most) = max_hold {
            if self.rng.bool() {
                sleep((began + most + ms(60)).saturating_duration_since(Instant::now())).await;
            }
            let over = began.elapsed() > most + ms(50);
            let frozen = self.frozen.since(self.actor.process, began) > ms(0);
            if over && !frozen && grip.guard().check().is_ok() {
                self.ledger
                    .violation(format!("{:?} holds longer than {most:?}", wanted.actor));
            }
        }
        self.parts_with(wanted, grip).await;
    }

    /// A further guard of what is held, in one of the ways.
    async fn again(&mut self, wanted: &Wanted, grip: &Grip) {
        let (guard, started) = (grip.guard(), Instant::now());
        self.asks();
        if self.rng.bool() {
            let inner = match self.rng.u8(0..4) {
                // Polled again after its time it may as well say that it is over.
                0 => match self.kept(guard.reenter(), None).await {
                    Some(Err(Error::Timeout { .. })) => None,
                    other => other,
                },
                1 => {
                    let at = us(self.rng.u64(0..6000));
                    self.cancelled_at(Some(at), guard.reenter()).await
                }
                _ => Some(guard.reenter().await),
            };
            if let Some(inner) = inner {
                self.has_again(wanted, grip, started, inner).await;
            }
        } else {
            // A write hold lets read holds in.
            let reads = self.plan.kind == Kind::ReadWrite && self.rng.bool();
            let side = if reads { Side::Read } else { wanted.side };
            let wait = ms(self.rng.u64(200..600));
            let inner = wanted
                .lock
                .side(side)
                .acquire()
                .within(&*guard)
                .wait(wait)
                .await;
            let wanted = Wanted {
                side,
                ..wanted.clone()
            };
            self.has_again(&wanted, grip, started, inner).await;
        }
    }

    async fn has_again(
        &mut self,
        wanted: &Wanted,
        grip: &Grip,
        started: Instant,
        inner: Result<LockGuard, Error>,
    ) {
        let inner = inner.map(|inner| Grip::new(self, wanted, inner));
        self.judge(wanted, grip, started, inner.as_ref().err());
        if let Ok(inner) = inner {
            sleep(us(self.rng.u64(0..50_000))).await;
            self.releases(wanted, inner).await;
        }
    }

    /// Who holds a lock gets it again, unless it is of the kind that is held once.
    fn judge(&self, wanted: &Wanted, grip: &Grip, started: Instant, error: Option<&Error>) {
        let once = self.plan.kind == Kind::NonReentrant;
        let valid = grip.guard().check().is_ok();
        let broken = self
            .ledger
            .broken_since(wanted.name, grip.since.min(started));
        let odd = match error {
            None if once && valid && !broken => "re-enters what is held once".to_owned(),
            Some(Error::AlreadyHeld { .. }) if once => return,
            Some(error) if self.plan.is_calm() && valid && !broken && !self.is_closed() => {
                format!("cannot re-enter: {error}")
            }
            _ => return,
        };
        self.ledger.violation(format!("{:?} {odd}", wanted.actor));
    }

    /// Inside a section: the lock is taken by its name alone.
    async fn by_name(&mut self, wanted: &Wanted, grip: &Grip) {
        let fresh = self.wanted(wanted.name, wanted.side);
        self.asks();
        let (started, wait) = (Instant::now(), ms(self.rng.u64(200..600)));
        let inner = fresh
            .lock
            .side(wanted.side)
            .try_lock(wait, Lease::Renewed)
            .await;
        // It is the hold of the section.
        self.has_again(wanted, grip, started, inner).await;
    }

    /// `lock.run(..)`, and the same lock taken by name in it.
    async fn in_section(&mut self, wanted: &Wanted) {
        let (wait, lease) = (ms(self.rng.u64(1..500)), self.lease(wanted.side));
        self.notes(wanted, &format!("runs within {wait:?}, {lease:?}"));
        self.asks();
        let (lock, waiting, started) = (wanted.lock.clone(), self.waits(wanted), Instant::now());
        let this = &mut *self;
        let done = lock
            .side(wanted.side)
            .run(wait, lease, async |guard: Arc<LockGuard>| {
                drop(waiting);
                this.check_wait(Some(wait), started);
                let grip = Grip::shared(this, wanted, guard);
                this.by_name(wanted, &grip).await;
                sleep(us(this.rng.u64(0..100_000))).await;
            });
        let done = Box::pin(done).await;
        if let Err(error) = done
            && !matches!(error, Error::Lost { .. })
        {
            self.refused(Some(wait), &error);
        }
    }

    /// Unlocks, polled or not.
    async fn releases(&mut self, wanted: &Wanted, grip: Grip) {
        let (valid, since) = (grip.guard().check().is_ok(), grip.since);
        let guard = grip.into_guard();
        let result = match self.rng.u8(0..5) {
            0 => return drop(guard),
            1 => return drop(guard.unlock()),
            2 => self.kept(guard.unlock(), None).await,
            _ => Some(guard.unlock().await),
        };
        let Some(Err(error)) = result else { return };
        self.notes(wanted, &format!("unlocks: {error}"));
        let told = matches!(error, Error::Lost { .. });
        let broken = self.ledger.broken_since(wanted.name, since) || self.is_closed();
        if self.plan.is_calm() && valid && !told && !broken {
            self.ledger
                .violation(format!("{:?} cannot unlock: {error}", wanted.actor));
        }
    }
}
