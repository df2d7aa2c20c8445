//! Holds that are forgotten and restored, and holds that others end.

use leasehold::{Error, LockGuard};
use tokio::time::sleep;

use super::grip::Grip;
use super::{Wanted, Wild};
use crate::kind::Kind;
use crate::ledger::Side;
use crate::locks::shared::{Left, Offer};
use crate::plan::{Weather, ms, us};

impl Wild {
    /// Only the owner of a string lock restores a hold.
    pub(super) async fn parts_with(&mut self, wanted: &Wanted, grip: Grip) {
        let forgets = self.plan.kind == Kind::String && self.rng.u8(0..4) == 0;
        if forgets && grip.guard().check().is_ok() {
            self.forgets(wanted, grip);
        } else {
            self.releases(wanted, grip).await;
        }
    }

    fn forgets(&self, wanted: &Wanted, grip: Grip) {
        let since = grip.since;
        let guard = grip.into_guard();
        self.notes(wanted, "forgets it");
        self.shared.offers(Offer {
            name: wanted.name,
            owner: guard.owner().to_owned(),
            // An earlier call may have asked for a longer lease than the confirmed one.
            until: guard.deadline() + self.plan.lease,
            process: self.actor.process,
            since,
            tried: false,
        });
        guard.forget();
    }

    /// Restores a forgotten hold: twice at once, or after another user.
    pub(super) async fn takes_over(&mut self) {
        let left = if self.rng.bool() {
            Left::ForOthers
        } else {
            Left::No
        };
        let Some(offer) = self.shared.offer(left, self.actor.process) else {
            return;
        };
        let wanted = self.wanted(offer.name, Side::Write);
        self.asks();
        self.asks();
        let lock = wanted.lock.side(wanted.side).clone();
        let restore = lock.restore(&offer.owner);
        let results = match self.rng.u8(0..4) {
            0 => {
                let (one, two) = tokio::join!(restore, lock.restore(&offer.owner));
                vec![one, two]
            }
            1 => {
                let at = us(self.rng.u64(0..8000));
                self.cancelled_at(Some(at), restore)
                    .await
                    .into_iter()
                    .collect()
            }
            _ => vec![restore.await],
        };
        let calm = self.plan.is_calm() && !self.is_closed();
        let mut grips = Vec::new();
        for result in results {
            match result {
                Ok(guard) => grips.push(self.has_taken_over(&offer, guard)),
                Err(error) => {
                    self.notes(&wanted, &format!("does not take over: {error}"));
                    // The hold may have ended, and it may have been restored before.
                    let told = matches!(error, Error::NotOwner { .. } | Error::AlreadyHeld { .. });
                    let broken = self.ledger.broken_since(wanted.name, offer.since);
                    if calm && !told && !broken {
                        let text = format!("{:?} does not take over: {error}", wanted.actor);
                        self.ledger.violation(text);
                    }
                }
            }
        }
        for (wanted, grip) in grips {
            sleep(us(self.rng.u64(0..200_000))).await;
            self.parts_with(&wanted, grip).await;
        }
    }

    fn has_taken_over(&self, offer: &Offer, guard: LockGuard) -> (Wanted, Grip) {
        let wanted = self.wanted(offer.name, Side::Write);
        self.notes(&wanted, "takes over");
        self.shared.takes(offer);
        let grip = Grip::new(self, &wanted, guard);
        (wanted, grip)
    }

    /// Ends every hold of the lock.
    pub(super) async fn forces(&mut self, wanted: &Wanted) {
        self.notes(wanted, "forces it open");
        self.asks();
        self.ledger.begins_to_force(wanted.name);
        let forced = wanted.lock.side(wanted.side).force_unlock("a test").await;
        self.notes(wanted, &format!("forced it: {forced:?}"));
        if forced.is_err() && matches!(self.plan.weather, Weather::Storm | Weather::Lossy) {
            // The call may run late: a paused server executes it when it resumes.
            sleep(ms(600) + 2 * self.plan.lease.min(ms(2500))).await;
        }
        self.ledger.has_forced(wanted.name);
    }
}
