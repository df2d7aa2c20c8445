//! Whether a fair lock is granted in the order of its queue in the engine.

use std::collections::{BTreeMap, BTreeSet};

use super::redis_state::RedisState;
use crate::plan::Weather;

#[derive(Default)]
pub(crate) struct QueueOrder {
    /// The queue of each name at the last look.
    last: BTreeMap<usize, Vec<String>>,
    /// Fields whose turn is over or has begun.
    served: BTreeSet<String>,
    /// Fields whose grant reached the client.
    told: BTreeSet<String>,
    /// Every field that was ever seen waiting.
    known: BTreeSet<String>,
}

impl QueueOrder {
    /// Compares a queue with the previous one. `granted` are the fields that were granted in
    /// between.
    ///
    /// Between two looks many waiters may come and go, but a field that is in both queues waited
    /// all the time.
    pub(crate) fn look(
        &mut self,
        weather: Weather,
        (name, state): (usize, &RedisState),
        granted: &[String],
    ) -> Option<String> {
        let (now, is_lossy) = (&state.queue, weather == Weather::Lossy);
        let mut before = self.last.insert(name, now.clone()).unwrap_or_default();
        if is_lossy {
            self.put_back(&mut before, now.iter().chain(granted));
        }
        self.told.extend(granted.iter().cloned());
        let mut served = Vec::new();
        for field in granted.iter().chain(state.holds.keys()) {
            let renamed = is_lossy && !self.known.contains(field) && self.has_an_untold(field);
            if self.served.insert(field.clone()) && !renamed {
                served.push(field);
            }
        }
        let stayed: Vec<_> = before.iter().filter(|field| now.contains(field)).collect();
        for field in served {
            let place = before.iter().position(|waiting| waiting == field);
            let ahead = |waiting: &&&String| {
                let at = before.iter().position(|other| other == **waiting);
                place.is_none_or(|place| at < Some(place))
            };
            if let Some(passed) = stayed.iter().find(ahead) {
                return Some(format!(
                    "{field} got {name} before {passed}: {before:?}, {now:?}"
                ));
            }
        }
        self.known.extend(now.iter().cloned());
        // Behind those of its own client.
        let put_back = |field: &&String| {
            is_lossy && !before.contains(field) && of_same_client(self.served.iter(), field)
        };
        let line = now
            .iter()
            .filter(|field| !put_back(field))
            .take(stayed.len());
        if !stayed.iter().copied().eq(line) {
            return Some(format!(
                "the queue of {name} changed its order: {before:?}, {now:?}"
            ));
        }
        None
    }

    /// A waiter whose grant came after its lease had ended is put back at the front under a new
    /// name. True if there is such a turn of this field's client.
    fn has_an_untold(&self, field: &str) -> bool {
        of_same_client(self.served.difference(&self.told), field)
    }

    /// A waiter whose turn came and ended before its lost reply was asked for again returns to its
    /// former place, at the front.
    fn put_back<'a>(&self, before: &mut Vec<String>, fields: impl Iterator<Item = &'a String>) {
        let mut back = Vec::new();
        for field in fields {
            let is_new = !before.contains(field) && !back.contains(field);
            if is_new && self.known.contains(field) {
                back.push(field.clone());
            }
        }
        before.splice(0..0, back);
    }
}

/// True if one of them belongs to the same client.
fn of_same_client<'a>(mut others: impl Iterator<Item = &'a String>, field: &str) -> bool {
    let client = |field: &str| field.rsplit_once(':').map(|(client, _)| client.to_owned());
    others.any(|other| client(other) == client(field))
}
