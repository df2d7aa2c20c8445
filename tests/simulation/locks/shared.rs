//! What the users of locks do and its checkers must know: tokens that were given out, turns that came,
//! and holds that change hands.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

use crate::kind::Kind;
use crate::ledger::{Entry, Side};
use crate::plan::ms;
use crate::user::User;

/// A hold that was handed on, for whoever takes it.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) name: usize,
    pub(crate) side: Side,
    pub(crate) text: String,
    pub(crate) field: String,
    /// Its lease ends then at the earliest.
    pub(crate) until: Instant,
    pub(crate) process: usize,
    /// When it was granted.
    pub(crate) since: Instant,
    /// Somebody tried before.
    pub(crate) tried: bool,
}

/// Whether an offer that is tried is left to others as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Left {
    No,
    ForOthers,
}

#[derive(Default)]
struct State {
    /// The highest fencing token of each name and the hold that has it.
    tokens: BTreeMap<usize, (i64, String)>,
    /// Whose turn has come, by name and owner field, since that was last asked.
    served: Vec<(usize, String)>,
    /// How many owners were made that no user is.
    fresh_owners: usize,
    offers: Vec<Offer>,
    /// Texts, each with whether somebody has its hold.
    taken: BTreeMap<String, bool>,
    /// Fields that stand without a guard, and until when they may.
    strays: BTreeMap<String, Instant>,
    /// Who takes holds over, by name, and when somebody last did; beside the queue.
    moves: BTreeMap<usize, (u32, Instant)>,
    /// How often the server lost all it had.
    emptied: u32,
}

#[derive(Clone, Default)]
pub(crate) struct Shared(Arc<Mutex<State>>);

impl Shared {
    /// A guard was given out: nobody else's may be valid now.
    pub(crate) fn check_grant<S>(&self, user: &User<S>, entry: &Entry) {
        let (Entry { wish, held, .. }, ledger) = (entry, &user.ledger);
        // What was forced open before anybody looked was served before those who wait now.
        if entry.is_void() || ledger.is_forced(wish.names[0]) {
            return;
        }
        self.is_served(entry);
        if let Err(lost) = held.check() {
            // A hold that the server forgot may be handed on before anybody knows.
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

    /// What is odd about the token of a new guard. Tokens grow with each outermost acquisition and are
    /// the same in nested ones.
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

    /// The server lost all it had, the last tokens included.
    pub(crate) fn is_emptied(&self) {
        let mut state = self.0.lock();
        state.emptied += 1;
        state.tokens.clear();
    }

    pub(crate) fn emptied(&self) -> u32 {
        self.0.lock().emptied
    }

    fn is_served(&self, entry: &Entry) {
        let turn = (entry.wish.names[0], entry.held.owner().to_owned());
        self.0.lock().served.push(turn);
    }

    /// Names and owner fields that were granted since this was last asked.
    pub(crate) fn served(&self) -> Vec<(usize, String)> {
        std::mem::take(&mut self.0.lock().served)
    }

    /// Every acquisition without an owner is one of its own.
    pub(crate) fn fresh_owner(&self) -> usize {
        let mut state = self.0.lock();
        state.fresh_owners += 1;
        1000 + state.fresh_owners
    }

    pub(crate) fn offers(&self, offer: Offer) {
        let mut state = self.0.lock();
        state.strays.insert(offer.field.clone(), offer.until);
        state.taken.insert(offer.text.clone(), false);
        state.offers.push(offer);
    }

    /// An offer that `fits`; it is left to be tried by another, too, if it is `left` and was not.
    pub(crate) fn offer(&self, left: Left, fits: impl Fn(&Offer) -> bool) -> Option<Offer> {
        let mut state = self.0.lock();
        let at = state.offers.iter().position(fits)?;
        let offer = state.offers[at].clone();
        state.offers[at].tried = true;
        if left == Left::No || offer.tried {
            state.offers.remove(at);
        }
        Some(offer)
    }

    /// A hold was taken over; false if somebody else had it before.
    pub(crate) fn takes(&self, offer: &Offer) -> bool {
        let mut state = self.0.lock();
        state.strays.remove(&offer.field);
        state.taken.insert(offer.text.clone(), true) != Some(true)
    }

    /// A hold is being taken over: nobody stands in the queue for it.
    pub(crate) fn begins_to_move(&self, name: usize) {
        let mut state = self.0.lock();
        state.moves.entry(name).or_insert((0, Instant::now())).0 += 1;
    }

    pub(crate) fn has_moved(&self, name: usize) {
        if let Some((number, last)) = self.0.lock().moves.get_mut(&name) {
            (*number, *last) = (*number - 1, Instant::now());
        }
    }

    /// Is a hold being taken over, or was one a moment ago? A call that was given up may run yet.
    pub(crate) fn is_moved(&self, name: usize) -> bool {
        let moves = self.0.lock().moves.get(&name).copied();
        moves.is_some_and(|(number, last)| number > 0 || last.elapsed() <= ms(100))
    }

    /// May this field stand without a guard?
    pub(crate) fn is_stray(&self, field: &str) -> bool {
        self.0.lock().strays.contains_key(field)
    }

    /// What has outlived its lease is nobody's any more.
    pub(crate) fn sweep(&self) {
        self.0
            .lock()
            .strays
            .retain(|_, until| Instant::now() <= *until + ms(50));
    }
}
