//! One user of locks: takes, nests, works, cancels and releases in every possible way.

use std::sync::Arc;
use std::time::Duration;

use leasehold::{Acquire, Error, Lease, Lock, LockGuard};
use tokio::time::{Instant, sleep, timeout};

use super::shared::Shared;
use super::target::Target;
use crate::kind::Kind;
use crate::ledger::{Entry, Held, Side, Wish};
use crate::plan::{ms, us};
use crate::user::User;

pub(crate) struct Usual(pub(crate) Shared);

impl User<Usual> {
    pub(crate) async fn run(mut self) {
        let lock = |name| Target::new(&self, name);
        let locks: Vec<_> = (0..self.plan.names).map(lock).collect();
        while !self.is_over() {
            self.pauses().await;
            let name = self.rng.usize(0..locks.len());
            let wish = Wish::new(self.actor, vec![name]);
            Box::pin(self.visit(&locks[name], wish)).await;
        }
    }

    /// One acquisition and everything that happens in it.
    async fn visit(&mut self, lock: &Target, wish: Wish) {
        let request = self.request();
        let wish = Wish {
            side: request.side,
            ..wish
        };
        let taking = request.take(lock.side(request.side));
        if let Some(entry) = Box::pin(self.takes(wish, request, taking)).await {
            self.shared.0.check_grant(self, &entry);
            self.inside(lock, entry, 0).await;
        }
    }

    /// The critical section.
    async fn inside(&mut self, lock: &Target, entry: Entry, depth: u32) {
        let work = self.works(&entry).await;
        let side = entry.wish.side;
        let nests = depth < 2 && !self.is_relentless() && self.rng.u8(0..4) == 0;
        if nests && entry.held.check().is_ok() {
            match (self.plan.kind, side) {
                (Kind::NonReentrant, _) => self.refused_at_once(lock, &entry, side).await,
                (Kind::ReadWrite, Side::Read) if self.rng.bool() => {
                    self.refused_at_once(lock, &entry, Side::Write).await;
                }
                (Kind::ReadWrite, Side::Write) if depth == 0 && self.rng.bool() => {
                    return self.downgrade(lock, entry).await;
                }
                // In calm weather this always works while the lock is held.
                _ => {
                    if let Some(inner) = self.again(lock, &entry, side).await {
                        Box::pin(self.inside(lock, inner, depth + 1)).await;
                    }
                }
            }
            sleep(work / 4).await;
        }
        self.extends(&entry).await;
        self.lets_go(entry).await;
    }

    /// Reads under its own write hold, and continues to read after releasing that.
    async fn downgrade(&mut self, lock: &Target, entry: Entry) {
        match self.again(lock, &entry, Side::Read).await {
            Some(inner) if self.rng.bool() => {
                Box::pin(self.inside(lock, inner, 2)).await;
                self.lets_go(entry).await;
            }
            Some(inner) => {
                self.lets_go(entry).await;
                sleep(us(self.rng.u64(0..200_000))).await;
                if inner.held.check().is_ok() {
                    self.refused_at_once(lock, &inner, Side::Write).await;
                }
                self.lets_go(inner).await;
            }
            None => self.lets_go(entry).await,
        }
    }

    /// Takes once more what it holds.
    async fn again(&mut self, lock: &Target, held: &Entry, side: Side) -> Option<Entry> {
        let name = held.wish.names[0];
        let lease = if self.rng.bool() {
            Lease::Renewed
        } else {
            Lease::Fixed(ms(60))
        };
        let lease = self.lease_of(side, lease);
        let wait = ms(self.rng.u64(200..600));
        let cancel_at = (self.rng.u8(0..3) == 0).then(|| us(self.rng.u64(0..20_000)));
        self.asks();
        let patient = self.plan.kind == Kind::ReadWrite && self.rng.bool();
        let wait = (!patient).then_some(wait);
        let taking = within(lock.side(side), held, wait).lease(lease);
        let error = match self.cancelled_at(cancel_at, taking.into_future()).await? {
            Ok(inner) => return Some(self.has(Wish::of_lock(self.actor, name, side), inner)),
            Err(error) => error,
        };
        // Its hold may be lost.
        if self.ledger.excuses(self.actor, &error) {
            return None;
        }
        // A fixed lease may have ended or the lock been forced open in the meantime, so that
        // another user may hold it.
        if self.plan.is_calm() && !(error.is_timeout() && self.may_be_lost(name)) {
            self.violation(&format!("cannot re-enter: {error}"));
        }
        if wait.is_none() {
            self.violation(&format!("would wait: {error}"));
        }
        None
    }

    /// A guard that was obtained otherwise than by [`takes`](User::takes).
    pub(crate) fn has(&self, wish: Wish, guard: LockGuard) -> Entry {
        let entry = self.ledger.enters(wish, Held::Lock(Arc::new(guard)));
        self.shared.0.check_grant(self, &entry);
        entry
    }

    /// True if its owner has no valid guard of a name, or a guard is void without knowing yet.
    fn may_be_lost(&self, name: usize) -> bool {
        let entries = self.ledger.entries();
        let mut valid = entries
            .iter()
            .filter(|entry| entry.wish.names == [name] && entry.held.check().is_ok());
        let own = |entry: &Entry| !entry.wish.actor.excludes(self.actor);
        !valid.clone().any(own) || valid.any(Entry::is_void)
    }

    /// What would wait for its own release is told so, without a moment's wait.
    async fn refused_at_once(&mut self, lock: &Target, held: &Entry, side: Side) {
        let wait = self.rng.bool().then(|| ms(self.rng.u64(0..400)));
        self.asks();
        let started = Instant::now();
        let taking = within(lock.side(side), held, wait).into_future();
        let outcome = timeout(ms(500), taking).await;
        let odd = match outcome {
            Ok(Err(Error::AlreadyHeld { .. })) if started.elapsed().is_zero() => return,
            Ok(Err(error)) if self.ledger.excuses(self.actor, &error) => return,
            Ok(Err(error)) => error.to_string(),
            Ok(Ok(_guard)) => "granted".into(),
            Err(_) => "it waits".into(),
        };
        self.violation(&format!("takes what it holds: {odd}"));
    }
}

/// An acquisition by the owner of what is held.
fn within<'a>(lock: &'a Lock, held: &'a Entry, wait: Option<Duration>) -> Acquire<'a> {
    let Held::Lock(guard) = &held.held else {
        unreachable!("it is a lock")
    };
    let taking = lock.acquire().within(&**guard);
    match wait {
        Some(wait) => taking.wait(wait),
        None => taking,
    }
}
