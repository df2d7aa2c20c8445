//! One user of locks: takes, nests, works, cancels and releases in every possible way.

use std::sync::Arc;

use leasehold::{Error, Lease, LockGuard, Owner};
use tokio::time::{Instant, sleep, timeout};

use super::shared::Shared;
use super::target::Target;
use crate::kind::Kind;
use crate::ledger::{Entry, Held, Side, Wish};
use crate::plan::{ms, us};
use crate::user::{User, take};

pub(crate) struct Owned {
    pub(crate) owner: Owner,
    pub(crate) shared: Shared,
}

impl User<Owned> {
    pub(crate) async fn run(mut self) {
        let lock = |name| Target::new(&self, name, Some(&self.shared.owner));
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
            self.shared.shared.check_grant(self, &entry);
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
                (Kind::NonReentrant, _) => self.refused_at_once(lock, side).await,
                (Kind::ReadWrite, Side::Read) if !self.shares_owner && self.rng.bool() => {
                    self.refused_at_once(lock, Side::Write).await;
                }
                (Kind::ReadWrite, Side::Write) if depth == 0 && self.rng.bool() => {
                    return self.downgrade(lock, entry).await;
                }
                // In calm weather this always works while the lock is held.
                _ => {
                    if let Some(inner) = self.again(lock, entry.wish.names[0], side).await {
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
        match self.again(lock, entry.wish.names[0], Side::Read).await {
            Some(inner) if self.rng.bool() => {
                Box::pin(self.inside(lock, inner, 2)).await;
                self.lets_go(entry).await;
            }
            Some(inner) => {
                self.lets_go(entry).await;
                sleep(us(self.rng.u64(0..200_000))).await;
                if inner.held.check().is_ok() && !self.shares_owner {
                    self.refused_at_once(lock, Side::Write).await;
                }
                self.lets_go(inner).await;
            }
            None => self.lets_go(entry).await,
        }
    }

    /// Takes once more what it holds.
    async fn again(&mut self, lock: &Target, name: usize, side: Side) -> Option<Entry> {
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
        let error = match self
            .cancelled_at(cancel_at, take(lock.side(side), wait, lease))
            .await?
        {
            Ok(inner) => return Some(self.has(Wish::of_lock(self.actor, name, side), inner)),
            Err(error) => error,
        };
        // Its hold may be lost, and the owner's other future may hold the other side.
        let shares_sides = self.shares_owner && self.plan.kind == Kind::ReadWrite;
        let told = matches!(error, Error::AlreadyHeld { .. }) && side == Side::Write;
        if told && shares_sides || self.ledger.excuses(self.actor, &error) {
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
        self.shared.shared.check_grant(self, &entry);
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
    async fn refused_at_once(&mut self, lock: &Target, side: Side) {
        let wait = self.rng.bool().then(|| ms(self.rng.u64(0..400)));
        self.asks();
        let started = Instant::now();
        let outcome = timeout(ms(500), take(lock.side(side), wait, Lease::Renewed)).await;
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
