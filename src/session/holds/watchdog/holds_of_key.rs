//! The holds under one key, as entries of a set.

use std::borrow::Borrow;
use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use crate::session::hold::Hold;

/// The holds under one key, usually a single one. The key is that of their resources.
#[derive(Debug)]
pub(super) enum HoldsOfKey {
    One(Arc<Hold>),
    /// By id, and never empty.
    #[expect(clippy::box_collection, reason = "it is rare, and entries are many")]
    Several(Box<BTreeMap<u64, Arc<Hold>>>),
}

impl HoldsOfKey {
    pub(super) fn with(others: Option<Self>, hold: Arc<Hold>) -> Self {
        let mut holds = match others {
            None => return HoldsOfKey::One(hold),
            Some(HoldsOfKey::One(other)) => Box::new(BTreeMap::from([(other.id, other)])),
            Some(HoldsOfKey::Several(holds)) => holds,
        };
        holds.insert(hold.id, hold);
        HoldsOfKey::Several(holds)
    }

    /// `None` if no hold is left.
    pub(super) fn without(self, hold: &Hold) -> Option<Self> {
        match self {
            HoldsOfKey::One(one) => (one.id != hold.id).then_some(HoldsOfKey::One(one)),
            HoldsOfKey::Several(mut holds) => {
                holds.remove(&hold.id);
                (!holds.is_empty()).then_some(HoldsOfKey::Several(holds))
            }
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Arc<Hold>> {
        let (one, several) = match self {
            HoldsOfKey::One(one) => (Some(one), None),
            HoldsOfKey::Several(holds) => (None, Some(holds.values())),
        };
        one.into_iter().chain(several.into_iter().flatten())
    }

    fn key(&self) -> &str {
        self.iter().next().map_or("", |hold| &hold.resource.key)
    }
}

impl Borrow<str> for HoldsOfKey {
    fn borrow(&self) -> &str {
        self.key()
    }
}

impl Hash for HoldsOfKey {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.key().hash(state);
    }
}

impl PartialEq for HoldsOfKey {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for HoldsOfKey {}
