//! Holds that change hands, and holds that others end.

use leasehold::{ConfigError, Error, LockGuard};
use tokio::time::{Instant, sleep};

use super::grip::Grip;
use super::{Wanted, Wild};
use crate::kind::Kind;
use crate::ledger::Side;
use crate::locks::shared::{Left, Offer};
use crate::plan::{Weather, ms, us};

impl Wild {
    pub(super) async fn parts_with(&mut self, wanted: &Wanted, grip: Grip) {
        if self.rng.u8(0..4) == 0 {
            self.hands_on(wanted, grip);
        } else {
            self.releases(wanted, grip).await;
        }
    }

    fn hands_on(&self, wanted: &Wanted, grip: Grip) {
        let since = grip.since;
        let (field, until) = (grip.guard().owner().to_owned(), grip.guard().deadline());
        let (name, side, process) = (wanted.name, wanted.side, self.actor.process);
        match grip.into_guard().hand_on() {
            Ok(text) => {
                self.notes(wanted, "hands it on");
                let tried = false;
                // An earlier call may have asked for a longer lease than the confirmed one.
                let until = until + self.plan.lease;
                let offer = Offer {
                    name,
                    side,
                    text: text.into(),
                    field,
                    until,
                    process,
                    since,
                    tried,
                };
                self.shared.offers(offer);
            }
            Err(Error::Lost { .. }) => {}
            // It read within its write lock.
            Err(Error::Config(ConfigError::OtherGuards { .. }))
                if self.plan.kind == Kind::ReadWrite && side == Side::Write => {}
            Err(error) => {
                self.ledger
                    .violation(format!("{:?} cannot hand on: {error}", wanted.actor));
            }
        }
    }

    /// Restores a hold that was handed on: twice at once, or after another user.
    pub(super) async fn takes_over(&mut self) {
        let (own, kind) = (self.actor.process, self.plan.kind);
        // The value of a string lock does not change, so two clients would both have it.
        let fits = |offer: &Offer| kind != Kind::String || offer.process == own;
        let left = if self.rng.bool() {
            Left::ForOthers
        } else {
            Left::No
        };
        let Some(offer) = self.shared.offer(left, fits) else {
            return;
        };
        let wanted = self.wanted(offer.name, offer.side);
        self.asks();
        self.asks();
        self.shared.begins_to_move(wanted.name);
        let lock = wanted.lock.side(wanted.side).clone();
        let restore = lock.restore(&offer.text);
        let results = match self.rng.u8(0..4) {
            0 => {
                let (one, two) = tokio::join!(restore, lock.restore(&offer.text));
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
        self.shared.has_moved(wanted.name);
        let calm = self.plan.is_calm() && !self.is_closed();
        let alone = !offer.tried && left == Left::No && results.len() == 1;
        let in_time = Instant::now() + self.plan.lease < offer.until;
        let mut grips = Vec::new();
        for result in results {
            let fresh = self.wanted(offer.name, offer.side);
            match result {
                Ok(guard) => grips.push(self.has_taken_over(&offer, fresh, guard)),
                Err(error) => {
                    self.notes(&wanted, &format!("does not take over: {error}"));
                    let odd = match error {
                        // The value of a string lock may be handed on repeatedly.
                        Error::NotOwner { .. } => calm && alone && in_time && kind != Kind::String,
                        Error::AlreadyHeld { .. } => kind != Kind::String,
                        _ => calm,
                    };
                    let broken = self.ledger.broken_since(wanted.name, offer.since);
                    if odd && !broken {
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

    fn has_taken_over(&self, offer: &Offer, wanted: Wanted, guard: LockGuard) -> (Wanted, Grip) {
        self.notes(&wanted, "takes over");
        if !self.shared.takes(offer) {
            self.ledger
                .violation(format!("{:?} takes over what is taken", wanted.actor));
        }
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
