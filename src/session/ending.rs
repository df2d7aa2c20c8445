//! Fields that this client is ending: nobody restores them until that is confirmed or given up.
//!
//! # Invariants
//!
//! - **E1** A field is noted here before it leaves the watchdog's table for a release, a hand-over
//!   or an undo, and until that is over. So a look at both never misses one that may yet be freed.
//!
//! # Locking
//!
//! `fields` comes last: it is taken for one look or one change, also under other locks.
//!
//! # Bounds
//!
//! One entry for each hold that is leaving and each undo that is posted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use super::hold::Hold;
use crate::protocol::place::Place;

/// A key and a field in it. Kinds of locks may share both.
type Name = (Arc<str>, Arc<str>);

fn name(place: &Place, field: &Arc<str>) -> Name {
    (place.key.clone(), field.clone())
}

/// All of them, and for how many reasons each is there.
#[derive(Clone, Debug, Default)]
pub(super) struct Endings {
    fields: Arc<Mutex<HashMap<Name, u32>>>,
}

impl Endings {
    pub(super) fn begin(&self, place: &Place, field: &Arc<str>) -> Ending {
        let name = name(place, field);
        *self.fields.lock().entry(name.clone()).or_insert(0) += 1;
        Ending { all: self.clone(), name }
    }

    pub(super) fn has(&self, place: &Place, field: &Arc<str>) -> bool {
        self.fields.lock().contains_key(&name(place, field))
    }
}

/// A field that is being ended, for one reason; dropped when that is over.
pub(crate) struct Ending {
    all: Endings,
    name: Name,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let mut fields = self.all.fields.lock();
        if let Entry::Occupied(mut reasons) = fields.entry(self.name.clone()) {
            *reasons.get_mut() -= 1;
            if *reasons.get() == 0 {
                reasons.remove();
            }
        }
    }
}

impl fmt::Debug for Ending {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Ending").field(&self.name).finish()
    }
}

impl Hold {
    /// It is leaving: its field is being ended for as long as the hold is known to anybody.
    pub(super) fn ends(&self, ending: Ending) {
        *self.ending.lock() = Some(ending);
    }

    /// Its field is released, or another hold's.
    pub(super) fn has_ended(&self) {
        let ending = self.ending.lock().take();
        drop(ending);
        self.is_released();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::kind::Kind;

    #[test]
    fn a_field_is_noted_until_the_last_reason_is_gone() {
        let place = |kind, name| Place::new(kind, "", name).expect("a good name");
        let (field, other): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        let (endings, x) = (Endings::default(), place(Kind::Fair, "x"));
        let (one, two) = (endings.begin(&x, &field), endings.begin(&x, &field));
        drop(one);
        assert!(endings.has(&place(Kind::Lock, "x"), &field), "kinds share a key");
        assert!(!endings.has(&x, &other));
        assert!(!endings.has(&place(Kind::Fair, "y"), &field));
        drop(two);
        assert!(!endings.has(&x, &field));
        assert!(endings.fields.lock().is_empty(), "nothing is kept");
    }
}
