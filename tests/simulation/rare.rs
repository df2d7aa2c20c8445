//! What users of the rare calls do to each other, so that the checks know of it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use std::time::Duration;

use leasehold::Error;
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::target::Side;

/// Longer than a call is on its way.
const MOMENT: Duration = Duration::from_millis(100);

/// A hold that was handed on, for whoever takes it.
#[derive(Clone, Debug)]
pub(crate) struct Offer {
    pub(crate) name: usize,
    pub(crate) side: Side,
    pub(crate) text: String,
    pub(crate) field: String,
    /// Its lease ends then at the earliest.
    pub(crate) until: Instant,
    pub(crate) client: usize,
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
    offers: Vec<Offer>,
    /// Texts, each with whether somebody has its hold.
    taken: BTreeMap<String, bool>,
    /// Fields that stand without a guard, and until when they may.
    strays: BTreeMap<String, Instant>,
    /// Names that somebody is about to force open: how many do.
    forcing: BTreeMap<String, u32>,
    /// Who takes holds over, by name, and when somebody last did; beside the queue.
    moves: BTreeMap<String, (u32, Instant)>,
    /// Clients that were shut down, since when, and whether nothing may be left of them.
    closed: BTreeMap<usize, (Instant, bool)>,
    /// How often the server lost all it had.
    emptied: u32,
}

#[derive(Clone, Default)]
pub(crate) struct Rare {
    state: Arc<Mutex<State>>,
    owners: Arc<AtomicUsize>,
}

impl Rare {
    /// Every acquisition without an owner is one of its own.
    pub(crate) fn fresh_owner(&self) -> usize {
        1000 + self.owners.fetch_add(1, Relaxed)
    }

    pub(crate) fn offers(&self, offer: Offer) {
        let mut state = self.state.lock();
        state.strays.insert(offer.field.clone(), offer.until);
        state.taken.insert(offer.text.clone(), false);
        state.offers.push(offer);
    }

    /// An offer that `fits`; it is left to be tried by another, too, if it is `left` and was not.
    pub(crate) fn offer(&self, left: Left, fits: impl Fn(&Offer) -> bool) -> Option<Offer> {
        let mut state = self.state.lock();
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
        let mut state = self.state.lock();
        state.strays.remove(&offer.field);
        state.taken.insert(offer.text.clone(), true) != Some(true)
    }

    /// A hold is being taken over: nobody stands in the queue for it.
    pub(crate) fn begins_to_move(&self, name: &str) {
        let mut state = self.state.lock();
        let (number, _) = state.moves.entry(name.to_owned()).or_insert((0, Instant::now()));
        *number += 1;
    }

    pub(crate) fn has_moved(&self, name: &str) {
        if let Some((number, last)) = self.state.lock().moves.get_mut(name) {
            (*number, *last) = (*number - 1, Instant::now());
        }
    }

    /// Is a hold being taken over, or was one a moment ago? A call that was given up may run yet.
    pub(crate) fn is_moved(&self, name: &str) -> bool {
        let moves = self.state.lock().moves.get(name).copied();
        moves.is_some_and(|(number, last)| number > 0 || last.elapsed() <= MOMENT)
    }

    /// May this field stand without a guard?
    pub(crate) fn is_stray(&self, field: &str) -> bool {
        self.state.lock().strays.contains_key(field)
    }

    /// What has outlived its lease is nobody's any more.
    pub(crate) fn sweep(&self) {
        let now = Instant::now();
        let late = |until: Instant| now > until + Duration::from_millis(50);
        self.state.lock().strays.retain(|_, until| !late(*until));
    }

    pub(crate) fn begins_to_force(&self, name: &str) {
        *self.state.lock().forcing.entry(name.to_owned()).or_default() += 1;
    }

    pub(crate) fn has_forced(&self, name: &str) {
        if let Some(number) = self.state.lock().forcing.get_mut(name) {
            *number -= 1;
        }
    }

    pub(crate) fn is_forced(&self, name: &str) -> bool {
        self.state.lock().forcing.get(name).is_some_and(|number| *number > 0)
    }

    pub(crate) fn closes(&self, client: usize) {
        self.state.lock().closed.insert(client, (Instant::now(), false));
    }

    /// Its shutdown has said that nothing is left.
    pub(crate) fn has_closed(&self, client: usize) {
        if let Some((_, settled)) = self.state.lock().closed.get_mut(&client) {
            *settled = true;
        }
    }

    pub(crate) fn is_closed(&self, client: usize) -> bool {
        self.state.lock().closed.contains_key(&client)
    }

    pub(crate) fn is_settled(&self, client: usize) -> bool {
        self.state.lock().closed.get(&client).is_some_and(|(_, settled)| *settled)
    }

    /// Those whose shutdown has begun.
    pub(crate) fn closed(&self) -> Vec<usize> {
        let state = self.state.lock();
        let begun = state.closed.iter().filter(|(_, (since, _))| !since.elapsed().is_zero());
        begun.map(|(client, _)| *client).collect()
    }

    /// The client was shut down, and says so.
    pub(crate) fn excuses(&self, client: usize, error: &Error) -> bool {
        matches!(error, Error::Closed) && self.is_closed(client)
    }

    pub(crate) fn is_emptied(&self) {
        self.state.lock().emptied += 1;
    }

    pub(crate) fn emptied(&self) -> u32 {
        self.state.lock().emptied
    }
}
