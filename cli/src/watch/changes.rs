//! What changed between two polls.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use serde::Serialize;
use tokio::time::Instant;

use crate::found::Found;
use crate::name::Name;

/// The time over which changes are counted.
const WINDOW: Duration = Duration::from_secs(30);
/// How long a free lock is remembered, because it may be taken again.
const REMEMBERED: Duration = Duration::from_secs(120);

/// All locks that were seen.
#[derive(Debug, Default)]
pub(super) struct Seen {
    locks: BTreeMap<Name, History>,
    began: Option<Instant>,
}

/// One lock over time.
#[derive(Debug)]
pub(super) struct History {
    /// `None` if the lock is free.
    pub(super) now: Option<Found>,
    /// Since when the lock has these holders, or is free, as far as polls have shown.
    pub(super) since: Instant,
    changes: VecDeque<Instant>,
}

/// A change between two polls.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "change")]
pub(super) enum Change {
    /// The lock was free at the previous poll, or this is the first one.
    Held {
        lock: Found,
    },
    /// The holders, their numbers of holds or the count of a latch changed.
    Changed {
        from: Found,
        to: Found,
    },
    Free {
        name: Name,
    },
}

impl Seen {
    /// Compares all locks with those of the previous poll.
    pub(super) fn update(&mut self, found: Vec<Found>, now: Instant) -> Vec<Change> {
        self.began.get_or_insert(now);
        let mut found: BTreeMap<_, _> = found
            .into_iter()
            .map(|lock| (lock.name.clone(), lock))
            .collect();
        let mut changes = Vec::new();
        for (name, history) in &mut self.locks {
            changes.extend(history.update(name, found.remove(name), now));
        }
        for (name, lock) in found {
            changes.push(Change::Held { lock: lock.clone() });
            let history = History {
                now: Some(lock),
                since: now,
                changes: VecDeque::from([now]),
            };
            self.locks.insert(name, history);
        }
        self.locks.retain(|_, history| {
            history.now.is_some() || now.duration_since(history.since) < REMEMBERED
        });
        changes
    }

    pub(super) fn locks(&self) -> impl Iterator<Item = (&Name, &History)> {
        self.locks.iter()
    }

    /// Changes per second. A lower bound, because polls miss faster changes.
    pub(super) fn rate(&self, history: &History, now: Instant) -> f64 {
        let first = now.checked_sub(WINDOW).unwrap_or(now);
        // A lock that was held at the first poll has not changed then.
        let counts = |at: &&Instant| **at > first && Some(**at) != self.began;
        let count =
            u32::try_from(history.changes.iter().filter(counts).count()).unwrap_or(u32::MAX);
        let seen = self
            .began
            .map_or(WINDOW, |began| now.duration_since(began))
            .min(WINDOW);
        if seen.is_zero() {
            0.0
        } else {
            f64::from(count) / seen.as_secs_f64()
        }
    }
}

impl History {
    fn update(&mut self, name: &Name, found: Option<Found>, now: Instant) -> Option<Change> {
        let change = match (&self.now, &found) {
            (None, None) => return None,
            (Some(_), None) => Some(Change::Free { name: name.clone() }),
            (None, Some(lock)) => Some(Change::Held { lock: lock.clone() }),
            (Some(from), Some(to)) => (who(from) != who(to)).then(|| Change::Changed {
                from: from.clone(),
                to: to.clone(),
            }),
        };
        self.now = found;
        if change.is_some() {
            self.since = now;
            self.changes.push_back(now);
            while self
                .changes
                .front()
                .is_some_and(|at| now.duration_since(*at) > WINDOW)
            {
                self.changes.pop_front();
            }
        }
        change
    }
}

/// The holders and their numbers of holds, and the count of a latch. Leases change all the time, so
/// they do not count.
fn who(found: &Found) -> (Vec<(&str, u64)>, Option<i64>) {
    let mut who: Vec<_> = found
        .holders
        .iter()
        .map(|holder| (holder.owner.as_str(), holder.holds))
        .collect();
    who.sort_unstable();
    (who, found.count)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::found::FoundHolder;

    fn lock(name: &str, owner: &str) -> Found {
        Found {
            name: Name::new(name),
            kind: "lock".to_owned(),
            holders: vec![FoundHolder {
                owner: owner.to_owned(),
                holds: 1,
                lease_ms: Some(1),
                name: None,
                purpose: None,
                held_for_ms: None,
            }],
            available: None,
            limit: None,
            count: None,
            lease_ms: Some(1),
            waiters: None,
            listening: None,
            foreign: false,
        }
    }

    #[test]
    fn each_change_is_reported_once_and_counted() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        let at = |second| start + Duration::from_secs(second);
        let (first, second) = (lock("a", "x"), lock("a", "y"));
        let held = |lock: &Found| vec![Change::Held { lock: lock.clone() }];

        assert_eq!(seen.update(vec![first.clone()], at(0)), held(&first));
        assert_eq!(seen.update(vec![first.clone()], at(1)), vec![]);
        let changed = Change::Changed {
            from: first.clone(),
            to: second.clone(),
        };
        assert_eq!(seen.update(vec![second.clone()], at(2)), vec![changed]);
        assert_eq!(
            seen.update(vec![], at(3)),
            vec![Change::Free {
                name: Name::new("a")
            }]
        );
        assert_eq!(seen.update(vec![], at(4)), vec![]);
        assert_eq!(seen.update(vec![first.clone()], at(10)), held(&first));

        let (_, history) = seen.locks().next().expect("it is known");
        assert_eq!(history.since, at(10));
        // Three changes in ten seconds. The hold at the first poll does not count.
        assert!((seen.rate(history, at(10)) - 0.3).abs() < 1e-9);
        seen.update(vec![first], at(60));
        let (_, history) = seen.locks().next().expect("it is known");
        assert!(seen.rate(history, at(60)) < 1e-9);
    }

    #[test]
    fn a_free_lock_is_forgotten_after_a_while() {
        let (mut seen, start) = (Seen::default(), Instant::now());
        seen.update(vec![lock("a", "x")], start);
        seen.update(vec![], start + Duration::from_secs(1));
        assert_eq!(seen.locks().count(), 1);
        seen.update(vec![], start + Duration::from_secs(200));
        assert_eq!(seen.locks().count(), 0);
    }
}
