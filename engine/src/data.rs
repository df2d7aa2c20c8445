//! The values that a key can have.

use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::reply::Bytes;

#[derive(Clone, Debug)]
pub(crate) enum Data {
    Text(Bytes),
    Hash(Hash),
    List(List),
    Zset(Zset),
}

impl Data {
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Data::Text(_) => "string",
            Data::Hash(_) => "hash",
            Data::List(_) => "list",
            Data::Zset(_) => "zset",
        }
    }

    /// Redis has no empty collections. A key disappears with its last element.
    pub(crate) fn is_empty(&self) -> bool {
        match self {
            Data::Text(_) => false,
            Data::Hash(hash) => hash.fields.is_empty(),
            Data::List(list) => list.is_empty(),
            Data::Zset(zset) => zset.scores.is_empty(),
        }
    }
}

/// One type of value, so that the keyspace can find "a hash at this key".
pub(crate) trait Kind: Default {
    fn of(data: &mut Data) -> Option<&mut Self>;
    fn wrap(self) -> Data;
}

macro_rules! kind {
    ($type:ty, $variant:ident) => {
        impl Kind for $type {
            fn of(data: &mut Data) -> Option<&mut Self> {
                if let Data::$variant(inner) = data {
                    Some(inner)
                } else {
                    None
                }
            }
            fn wrap(self) -> Data {
                Data::$variant(self)
            }
        }
    };
}

kind!(Bytes, Text);
kind!(Hash, Hash);
kind!(List, List);
kind!(Zset, Zset);

pub(crate) type List = VecDeque<Bytes>;

/// Fields in insertion order, as Redis lists a small hash.
#[derive(Clone, Debug, Default)]
pub(crate) struct Hash {
    fields: BTreeMap<Bytes, (u64, Bytes)>,
    arrivals: u64,
}

impl Hash {
    pub(crate) fn get(&self, field: &[u8]) -> Option<&Bytes> {
        self.fields.get(field).map(|(_, value)| value)
    }

    /// True if the field is new.
    pub(crate) fn set(&mut self, field: &[u8], value: Bytes) -> bool {
        if let Some((_, old)) = self.fields.get_mut(field) {
            *old = value;
            return false;
        }
        self.arrivals += 1;
        self.fields.insert(field.to_vec(), (self.arrivals, value));
        true
    }

    pub(crate) fn remove(&mut self, field: &[u8]) -> bool {
        self.fields.remove(field).is_some()
    }

    pub(crate) fn len(&self) -> usize {
        self.fields.len()
    }

    pub(crate) fn in_order(&self) -> Vec<(Bytes, Bytes)> {
        let mut fields: Vec<_> = self.fields.iter().collect();
        fields.sort_by_key(|(_, (arrival, _))| *arrival);
        fields
            .into_iter()
            .map(|(field, (_, value))| (field.clone(), value.clone()))
            .collect()
    }
}

/// A score, which is never NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Score(pub(crate) f64);

impl Eq for Score {}

impl Ord for Score {
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.partial_cmp(&other.0).unwrap_or(Ordering::Equal)
    }
}

impl PartialOrd for Score {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

/// Members by name and by score.
#[derive(Clone, Debug, Default)]
pub(crate) struct Zset {
    scores: BTreeMap<Bytes, Score>,
    order: BTreeSet<(Score, Bytes)>,
}

impl Zset {
    pub(crate) fn score(&self, member: &[u8]) -> Option<f64> {
        self.scores.get(member).map(|score| score.0)
    }

    /// True if the member is new.
    pub(crate) fn set(&mut self, member: &[u8], score: f64) -> bool {
        let new = !self.remove(member);
        // Redis stores whole scores as integers, so zero has no sign.
        let score = Score(score + 0.0);
        self.scores.insert(member.to_vec(), score);
        self.order.insert((score, member.to_vec()));
        new
    }

    pub(crate) fn remove(&mut self, member: &[u8]) -> bool {
        let Some(score) = self.scores.remove(member) else {
            return false;
        };
        self.order.remove(&(score, member.to_vec()))
    }

    pub(crate) fn len(&self) -> usize {
        self.scores.len()
    }

    pub(crate) fn in_order(&self) -> impl DoubleEndedIterator<Item = (f64, &Bytes)> {
        self.order.iter().map(|(score, member)| (score.0, member))
    }
}
