//! Fields that this client is releasing. Nobody can restore them until the release is confirmed or
//! given up.
//!
//! # Invariants
//!
//! - **UNDERWAY-1** A field is noted here before it leaves the watchdog's table for a release, a
//!   hand-over or an undo, and stays until that is over. So a look at the table and then at this
//!   set misses no field that may still be freed.
//!
//! # Locking
//!
//! `fields` is the last lock in the order. It is held for one look or one change, also under other
//! locks.
//!
//! # Bounds
//!
//! One entry for each hold that is leaving and each undo that is posted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::Arc;

use crate::protocol::resource::Resource;
use crate::sync::Mutex;

/// A key and one of its fields. Several kinds of locks may share both.
type Name = (Arc<str>, Arc<str>);

fn name(resource: &Resource, field: &Arc<str>) -> Name {
    (resource.key.clone(), field.clone())
}

/// The fields being released, with the number of reasons for each.
#[derive(Clone, Debug, Default)]
pub(crate) struct ReleasesUnderWay {
    fields: Arc<Mutex<HashMap<Name, u32>>>,
}

impl ReleasesUnderWay {
    pub(crate) fn begin(&self, resource: &Resource, field: &Arc<str>) -> ReleaseUnderWay {
        let name = name(resource, field);
        *self.fields.lock().entry(name.clone()).or_insert(0) += 1;
        ReleaseUnderWay {
            all: self.clone(),
            name,
        }
    }

    pub(crate) fn has(&self, resource: &Resource, field: &Arc<str>) -> bool {
        self.fields.lock().contains_key(&name(resource, field))
    }
}

/// A field that is being released for one reason. Dropped when that is over.
pub(crate) struct ReleaseUnderWay {
    all: ReleasesUnderWay,
    name: Name,
}

impl Drop for ReleaseUnderWay {
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

impl fmt::Debug for ReleaseUnderWay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ReleaseUnderWay").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::kind::Kind;

    #[test]
    fn a_field_is_noted_until_the_last_reason_is_gone() {
        let resource = |kind, name| Resource::new(kind, "", name).expect("a good name");
        let (field, other): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        let (under_way, x) = (ReleasesUnderWay::default(), resource(Kind::Fair, "x"));
        let (one, two) = (under_way.begin(&x, &field), under_way.begin(&x, &field));
        drop(one);
        assert!(
            under_way.has(&resource(Kind::Lock, "x"), &field),
            "kinds share a key"
        );
        assert!(!under_way.has(&x, &other));
        assert!(!under_way.has(&resource(Kind::Fair, "y"), &field));
        drop(two);
        assert!(!under_way.has(&x, &field));
        assert!(under_way.fields.lock().is_empty(), "nothing is kept");
    }
}
