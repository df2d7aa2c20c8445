//! What the users and the checkers of locks share: tokens that were given out, turns that came, and
//! forgotten holds of string locks.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kind::Kind;
use crate::ledger::Entry;
use crate::plan::ms;
use crate::user::User;

/// A hold of a string lock whose guard was forgotten. It may be restored.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) name: usize,
    pub(crate) owner: String,
    /// Its lease ends at this instant at the latest.
    pub(crate) until: Instant,
    pub(crate) process: usize,
    /// When it was granted.
    pub(crate) since: Instant,
    /// Somebody has tried before.
    pub(crate) tried: bool,
}

/// Whether an offer that is tried stays available to others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    No,
    ForOthers,
}

#[derive(Default)]
struct State {
    /// The highest fencing token of each name, and the hold that has it.
    tokens: BTreeMap<usize, (i64, String)>,
    /// Whose turn has come since the last call, by name and owner field.
    served: Vec<(usize, String)>,
    /// The number of owners that belong to no user.
    fresh_owners: usize,
    offers: Vec<Offer>,
    /// Fields without a guard, and until when they may exist.
    strays: BTreeMap<String, Instant>,
}

#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    /// A guard was given out: no other guard may be valid now.
    pub(crate) fn check_grant<S>(&self, user: &User<S>, entry: &Entry) {
        let (Entry { wish, held, .. }, ledger) = (entry, &user.ledger);
        // A waiter that got a lock before it was forced open was served before the present waiters.
        if entry.is_void() || ledger.is_forced(wish.names[0]) {
            return;
        }
        self.is_served(entry);
        if let Err(lost) = held.check() {
            // A hold that the server forgot may be handed over before anybody knows.
            let process = wish.actor.process;
            if !ledger.is_closed(process) && !user.frozen.lately(process) {
                ledger.violation(format!("{wish:?} is given what is lost: {lost}"));
            }
            return;
        }
        if let Some(odd) = self.check_token(user.plan.kind, entry) {
            ledger.violation(format!("{wish:?} with {odd}"));
        }
        if let Some(rival) = ledger.rival(entry) {
            ledger.violation(format!("two hold one lock: {wish:?} beside {rival:?}"));
        }
    }

    /// What is wrong with the token of a new guard. Tokens grow with each outermost acquisition and
    /// are the same in nested ones.
    fn check_token(&self, kind: Kind, entry: &Entry) -> Option<String> {
        let token = entry.held.token().map(leasehold::FencingToken::value);
        if kind != Kind::Fenced {
            return token.map(|token| format!("a token: {token}"));
        }
        let Some(token) = token else {
            return Some("no token".into());
        };
        let owner = entry.held.owner();
        let last = self
            .0
            .lock()
            .tokens
            .insert(entry.wish.names[0], (token, owner.to_owned()));
        let (last, holder) = last.unwrap_or_default();
        let follows = if owner == holder {
            token == last
        } else {
            token > last
        };
        (!follows).then(|| format!("token {token} after {last}"))
    }

    /// The server lost all its data, including the last tokens.
    pub(crate) fn is_emptied(&self) {
        self.0.lock().tokens.clear();
    }

    fn is_served(&self, entry: &Entry) {
        let turn = (entry.wish.names[0], entry.held.owner().to_owned());
        self.0.lock().served.push(turn);
    }

    /// Names and owner fields that were granted since the last call.
    pub(crate) fn served(&self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.0.lock().served)
    }

    /// Every acquisition is its own owner.
    pub(crate) fn fresh_owner(&self) -> usize {
        let mut state = self.0.lock();
        state.fresh_owners += 1;
        1000 + state.fresh_owners
    }

    pub(crate) fn offers(&self, offer: Offer) {
        let mut state = self.0.lock();
        state.strays.insert(offer.owner.clone(), offer.until);
        state.offers.push(offer);
    }

    /// An offer of this process, because a second one would have the hold as well. With `left`,
    /// another user may try it too, once.
    pub(crate) fn offer(&self, left: Left, process: usize) -> Option<Offer> {
        let mut state = self.0.lock();
        let own = |offer: &Offer| offer.process == process;
        let at = state.offers.iter().position(own)?;
        let offer = state.offers[at].clone();
        state.offers[at].tried = true;
        if left == Left::No || offer.tried {
            state.offers.remove(at);
        }
        Some(offer)
    }

    /// A hold was restored, so it has a guard.
    pub(crate) fn takes(&self, offer: &Offer) {
        self.0.lock().strays.remove(&offer.owner);
    }

    /// True if this field may exist without a guard.
    pub(crate) fn is_stray(&self, field: &str) -> bool {
        self.0.lock().strays.contains_key(field)
    }

    /// Forgets fields whose leases have ended.
    pub(crate) fn sweep(&self) {
        self.0
            .lock()
            .strays
            .retain(|_, until| Instant::now() <= *until + ms(50));
    }
}
