//! Holds that change hands, and those that are ended by others.

use leasehold::{Error, LockGuard};
use tokio::time::{Instant, sleep};

use super::grip::Grip;
use super::{Wanted, Wild};
use crate::kind::Kind;
use crate::plan::{Weather, ms, us};
use crate::rare::{Left, Offer};

impl Wild {
    pub(super) async fn lets_go(&mut self, wanted: &Wanted, grip: Grip) {
        if self.0.rng.u8(0..4) == 0 {
            self.hands_on(wanted, grip);
        } else {
            self.releases(wanted, grip).await;
        }
    }

    fn hands_on(&self, wanted: &Wanted, grip: Grip) {
        let since = grip.since;
        let (field, until) = (grip.guard().owner().to_owned(), grip.guard().deadline());
        let Some(guard) = grip.into_guard() else {
            return self.0.history.violation("a guard in two hands".into());
        };
        let (name, side, client) = (wanted.number, wanted.side, self.0.who.client);
        match guard.hand_on() {
            Ok(text) => {
                self.note(wanted, "hands it on");
                let tried = false;
                // What an earlier call asked for may be longer than what was confirmed.
                let until = until + self.0.plan.lease;
                self.0.history.rare.offers(Offer {
                    name,
                    side,
                    text,
                    field,
                    until,
                    client,
                    since,
                    tried,
                });
            }
            Err(Error::Lost { .. }) => {}
            Err(error) => {
                self.0.history.violation(format!("{:?} cannot hand on: {error}", wanted.actor));
            }
        }
    }

    /// Takes over what somebody handed on, twice at once or after somebody else.
    pub(super) async fn takes_over(&mut self) {
        let (own, kind) = (self.0.who.client, self.0.plan.kind);
        // The value of a string lock stays as it is: two clients would both have it.
        let fits = |offer: &Offer| kind != Kind::String || offer.client == own;
        let left = if self.0.rng.bool() { Left::ForOthers } else { Left::No };
        let Some(offer) = self.0.history.rare.offer(left, fits) else { return };
        let wanted = self.wanted(offer.name, format!("lock:{}", offer.name), offer.side);
        self.0.history.asks(wanted.actor);
        self.0.history.asks(wanted.actor);
        self.0.history.rare.begins_to_move(&wanted.name);
        let lock = wanted.lock.side(wanted.side).clone();
        let restore = lock.restore(&offer.text);
        let results = match self.0.rng.u8(0..4) {
            0 => {
                let (one, two) = tokio::join!(restore, lock.restore(&offer.text));
                vec![one, two]
            }
            1 => {
                let at = us(self.0.rng.u64(0..8000));
                self.0.cancelled_at(Some(at), restore).await.into_iter().collect()
            }
            _ => vec![restore.await],
        };
        self.0.history.rare.has_moved(&wanted.name);
        let calm = self.0.is_calm() && !self.is_closed();
        let alone = !offer.tried && left == Left::No && results.len() == 1;
        let in_time = Instant::now() + self.0.plan.lease < offer.until;
        let mut grips = Vec::new();
        for result in results {
            let fresh = self.wanted(offer.name, wanted.name.clone(), offer.side);
            match result {
                Ok(guard) => grips.push(self.has_taken_over(&offer, fresh, guard)),
                Err(error) => {
                    self.note(&wanted, &format!("does not take over: {error}"));
                    let odd = match error {
                        // The value of a string lock may be handed on again and again.
                        Error::NotOwner { .. } => calm && alone && in_time && kind != Kind::String,
                        Error::AlreadyHeld { .. } => kind != Kind::String,
                        _ => calm,
                    };
                    let broken = self.0.history.broken_since(&wanted.name, offer.since);
                    if odd && !broken {
                        let text = format!("{:?} does not take over: {error}", wanted.actor);
                        self.0.history.violation(text);
                    }
                }
            }
        }
        for (wanted, grip) in grips {
            sleep(us(self.0.rng.u64(0..200_000))).await;
            self.lets_go(&wanted, grip).await;
        }
    }

    fn has_taken_over(&self, offer: &Offer, wanted: Wanted, guard: LockGuard) -> (Wanted, Grip) {
        self.note(&wanted, "takes over");
        if !self.0.history.rare.takes(offer) {
            self.0.history.violation(format!("{:?} takes over what is taken", wanted.actor));
        }
        let grip = Grip::new(self, &wanted, guard);
        (wanted, grip)
    }

    /// Ends whatever is held there.
    pub(super) async fn forces(&mut self, wanted: &Wanted) {
        let names = [wanted.name.clone()];
        self.note(wanted, "forces it open");
        self.0.history.asks(wanted.actor);
        self.0.history.rare.begins_to_force(&wanted.name);
        self.0.history.void(&names);
        let forced = wanted.lock.side(wanted.side).force_unlock().await;
        self.note(wanted, &format!("forced it: {forced:?}"));
        if forced.is_err() && matches!(self.0.plan.weather, Weather::Storm | Weather::Lossy) {
            // It may come late: a server that is paused executes it when it goes on.
            sleep(ms(600) + 2 * self.0.plan.lease.min(ms(2500))).await;
        }
        self.0.history.void(&names);
        self.0.history.rare.has_forced(&wanted.name);
    }
}
