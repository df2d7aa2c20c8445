//! Fields that this client is releasing. Nobody can restore them until the release is confirmed or
//! given up, and this client's own acquisitions wait for it.
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
//! locks. Waiters are woken without it (FOREIGN-1).
//!
//! # Bounds
//!
//! One entry for each hold that is leaving and each undo that is posted.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use tokio::sync::Semaphore;

use crate::protocol::resource::Resource;
use crate::sync::{Mutex, call_out};

/// The fields being released. Several kinds of locks may share a key and a field.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlightReleases {
    fields: Arc<Mutex<Fields>>,
}

#[derive(Debug, Default)]
struct Fields {
    /// By key, and in the order in which the releases began.
    releases: BTreeMap<(Arc<str>, u64), LeavingField>,
    begun: u64,
}

#[derive(Debug)]
struct LeavingField {
    field: Arc<str>,
    waited_for: WaitedFor,
}

#[derive(Debug)]
enum WaitedFor {
    ByNobody,
    /// Closed when the release is over. A closed semaphore stays closed, so nobody comes too late,
    /// and it wakes in the order in which the waiters came.
    By(Arc<Semaphore>),
    /// It would only remove what an earlier call may still take.
    NotAnyMore,
}

impl WaitedFor {
    /// Wakes who waits.
    fn wake_waiters(&self) {
        if let WaitedFor::By(over) = self {
            call_out(|| over.close());
        }
    }
}

impl InFlightReleases {
    pub(crate) fn begin(&self, resource: &Resource, field: &Arc<str>) -> InFlightRelease {
        let release = LeavingField {
            field: field.clone(),
            waited_for: WaitedFor::ByNobody,
        };
        let mut fields = self.fields.lock();
        fields.begun += 1;
        let name = (resource.key.clone(), fields.begun);
        fields.releases.insert(name.clone(), release);
        InFlightRelease {
            all: self.clone(),
            name,
        }
    }

    pub(crate) fn has(&self, resource: &Resource, field: &Arc<str>) -> bool {
        let fields = self.fields.lock();
        let mut of_key = fields.releases.range(of_key(&resource.key, u64::MAX));
        of_key.any(|(_, release)| release.field == *field)
    }

    /// The first keys that are being released, at most `number` of them.
    pub(crate) fn first_keys(&self, number: usize) -> Vec<Arc<str>> {
        let fields = self.fields.lock();
        let mut keys: Vec<_> = fields.releases.keys().map(|(key, _)| key.clone()).collect();
        keys.dedup();
        keys.truncate(number);
        keys
    }

    /// The releases of a key that have begun by now. `None` if there are none.
    pub(crate) fn of_key(&self, key: &Arc<str>) -> Option<ReleasesOfKey> {
        let begun = {
            let fields = self.fields.lock();
            let mut of_key = fields.releases.range(of_key(key, u64::MAX));
            of_key.next().map(|_| fields.begun)?
        };
        let mut releases = ReleasesOfKey {
            all: self.clone(),
            key: key.clone(),
            begun,
            next: None,
        };
        releases.next = releases.find_next();
        releases.next.is_some().then_some(releases)
    }
}

fn of_key(key: &Arc<str>, begun: u64) -> std::ops::RangeInclusive<(Arc<str>, u64)> {
    (key.clone(), 0)..=(key.clone(), begun)
}

/// Releases of one key that began before a certain instant.
pub(crate) struct ReleasesOfKey {
    all: InFlightReleases,
    key: Arc<str>,
    begun: u64,
    /// Closed when the first of them is over.
    next: Option<Arc<Semaphore>>,
}

impl ReleasesOfKey {
    /// Returns when all of them are over.
    pub(crate) async fn over(mut self) {
        while let Some(next) = self.next {
            // It has no permits, so this ends when it is closed.
            drop(next.acquire().await);
            self.next = None;
            self.next = self.find_next();
        }
    }

    fn find_next(&self) -> Option<Arc<Semaphore>> {
        let mut fields = self.all.fields.lock();
        let of_key = fields.releases.range_mut(of_key(&self.key, self.begun));
        let mut waits = of_key.filter_map(|(_, release)| match &release.waited_for {
            WaitedFor::ByNobody => {
                let over = Arc::new(Semaphore::new(0));
                release.waited_for = WaitedFor::By(over.clone());
                Some(over)
            }
            WaitedFor::By(over) => Some(over.clone()),
            WaitedFor::NotAnyMore => None,
        });
        waits.next()
    }
}

/// A field that is being released for one reason. Dropped when that is over.
pub(crate) struct InFlightRelease {
    all: InFlightReleases,
    name: (Arc<str>, u64),
}

impl InFlightRelease {
    /// What this client took is free again. The release goes on, against a call that may still
    /// arrive.
    pub(super) fn let_waiters_go(&self) {
        let before = {
            let mut fields = self.all.fields.lock();
            let release = fields.releases.get_mut(&self.name);
            release.map(|entry| std::mem::replace(&mut entry.waited_for, WaitedFor::NotAnyMore))
        };
        if let Some(waited_for) = before {
            waited_for.wake_waiters();
        }
    }
}

impl Drop for InFlightRelease {
    fn drop(&mut self) {
        let over = self.all.fields.lock().releases.remove(&self.name);
        if let Some(release) = over {
            release.waited_for.wake_waiters();
        }
    }
}

impl fmt::Debug for InFlightRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlightRelease").field(&self.name).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;
    use crate::protocol::kind::Kind;

    #[test]
    fn a_field_is_noted_until_the_last_reason_is_gone() {
        let resource = |kind, name| Resource::new(kind, "", name).expect("a good name");
        let (field, other): (Arc<str>, Arc<str>) = (Arc::from("a"), Arc::from("b"));
        let (in_flight, x) = (InFlightReleases::default(), resource(Kind::Fair, "x"));
        let (one, two) = (in_flight.begin(&x, &field), in_flight.begin(&x, &field));
        drop(one);
        assert!(
            in_flight.has(&resource(Kind::Lock, "x"), &field),
            "kinds share a key"
        );
        assert!(!in_flight.has(&x, &other));
        assert!(!in_flight.has(&resource(Kind::Fair, "y"), &field));
        drop(two);
        assert!(!in_flight.has(&x, &field));
        assert!(
            in_flight.fields.lock().releases.is_empty(),
            "nothing is kept"
        );
    }

    #[test]
    fn an_acquisition_waits_for_the_releases_that_began_before_it() {
        let resource = |name| Resource::new(Kind::Lock, "", name).expect("a good name");
        let field: Arc<str> = Arc::from("a");
        let (in_flight, x) = (InFlightReleases::default(), resource("x"));
        assert!(in_flight.of_key(&x.key).is_none());
        let one = in_flight.begin(&x, &field);
        let late = in_flight.begin(&x, &field);
        let _other_key = in_flight.begin(&resource("y"), &field);
        let waits = in_flight.of_key(&x.key).expect("two are under way");
        let mut over = std::pin::pin!(waits.over());
        let mut is_over = || {
            let mut cx = Context::from_waker(Waker::noop());
            over.as_mut().poll(&mut cx).is_ready()
        };
        let _later = in_flight.begin(&x, &field);
        assert!(!is_over());
        drop(one);
        assert!(!is_over(), "another one began before");
        late.let_waiters_go();
        assert!(is_over());
        assert!(in_flight.has(&x, &field), "it still goes on");
    }
}
