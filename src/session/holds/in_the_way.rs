//! Reports acquisitions that have waited long for a hold of their own client.
//!
//! Such a wait may never end: a second `lock()` in one task waits for its own release, and a leaked guard has none. A
//! wait with an end says so in its error. A wait without one can only be reported while it lasts.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use super::Holds;
use crate::holder::Holder;
use crate::protocol::resource::Resource;
use crate::session::caller::Caller;
use crate::sync::Mutex;
use crate::telemetry;

/// After so many looks, which are a second apart, it is reported.
const LOOKS: u32 = 10;

/// How many looks in a row have found each hold in the way, by the number of the hold.
#[derive(Debug, Default)]
pub(crate) struct InTheWay(HashMap<u64, u32>);

impl InTheWay {
    /// Called about once a second. Each hold is reported once.
    pub(crate) fn look(&mut self, holds: &Holds) {
        if !telemetry::is_traced() {
            return;
        }
        let mut found = HashMap::new();
        let queued = holds.queues.locks_with_waiters();
        for resource in queued.into_iter().chain(holds.in_rounds.resources()) {
            let Some(hold) = holds.watchdog.held_under(&resource.key, None) else {
                continue;
            };
            let looks = self.0.get(&hold.id).map_or(1, |before| before + 1);
            let is_new = found.insert(hold.id, looks).is_none();
            if looks == LOOKS && is_new {
                let waits = |caller| {
                    holds.queues.has_waiter_of(&resource, caller)
                        || holds.in_rounds.has(&resource, caller)
                };
                let report = match hold.taken_by() {
                    Some(caller) if waits(caller) => telemetry::waits_for_itself,
                    _ => telemetry::waits_for_own_client,
                };
                report(resource.kind.label(), &resource.name);
            }
        }
        self.0 = found;
    }
}

impl Holds {
    /// The hold of this client that an acquisition waits for, and whether the caller has taken it. Permits are held by
    /// many, so they are in nobody's way.
    pub(crate) fn held_here(&self, resource: &Resource, caller: Caller) -> Option<(Holder, bool)> {
        let is_lock = resource.kind.is_lock();
        let found = is_lock.then(|| self.watchdog.held_under(&resource.key, Some(caller)));
        let hold = found.flatten()?;
        Some((self.holder(&hold), hold.taken_by() == Some(caller)))
    }
}

/// Waiters of quorum locks, from their first refused round on: between two rounds they have no place in a local queue.
///
/// # Bounds
///
/// One entry for each member of each quorum lock that is waited for.
#[derive(Debug, Default)]
pub(crate) struct InRounds(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    waiters: BTreeMap<u64, (Arc<Resource>, Caller)>,
    next: u64,
}

/// A waiter of a quorum lock, until this is dropped.
#[derive(Debug)]
pub(crate) struct WaiterInRounds<'a> {
    all: &'a InRounds,
    id: u64,
}

impl InRounds {
    /// The caller waits for this lock.
    pub(crate) fn begin(&self, resource: &Arc<Resource>) -> WaiterInRounds<'_> {
        let waiter = (resource.clone(), Caller::current());
        let mut entries = self.0.lock();
        let id = entries.next;
        entries.next += 1;
        entries.waiters.insert(id, waiter);
        WaiterInRounds { all: self, id }
    }

    pub(crate) fn waiting(&self) -> usize {
        self.0.lock().waiters.len()
    }

    fn resources(&self) -> Vec<Arc<Resource>> {
        let entries = self.0.lock();
        let resource = |(resource, _): &(Arc<Resource>, _)| resource.clone();
        entries.waiters.values().map(resource).collect()
    }

    fn has(&self, resource: &Resource, caller: Caller) -> bool {
        let entries = self.0.lock();
        let is_it = |(of, waits): &(Arc<Resource>, Caller)| {
            of.queue_name() == resource.queue_name() && *waits == caller
        };
        entries.waiters.values().any(is_it)
    }
}

impl Drop for WaiterInRounds<'_> {
    fn drop(&mut self) {
        self.all.0.lock().waiters.remove(&self.id);
    }
}
