//! Renews holds before their leases end, and ends holds that can no longer be held.
//!
//! One table holds all holds of a client, ordered by due time. Renewals go out in batches
//! (`watchdog.rs`), a third of the lease after the previous one was sent.
//!
//! # Invariants
//!
//! - **WATCHDOG-1** Every live hold is in the table, at the time of its next duty. While a hold is
//!   being renewed, it is listed at its deadline. A hold that ends stays in the table until its
//!   undo is posted.
//! - **WATCHDOG-2** A hold leaves the table before its release is sent, and nothing puts it back:
//!   `arm` asks for the hold's duty under the table's lock, and a hold that was given up has none.
//!
//! # Locking
//!
//! `table` first, then a hold's state or the fields under release.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::clock::Reading;
use crate::lease::ForcedRelease;
use crate::protocol::resource::Resource;
use crate::session::hold::{Duty, Hold};
use crate::session::in_flight_release::{InFlightRelease, InFlightReleases, ReleasesOfKey};
use crate::session::poll_watch::Caller;
use crate::sync::{Mutex, MutexGuard, Notify, no_lock_is_held};

/// Due times are rounded up to a grid of this fraction of a lease, so that holds taken together are
/// renewed together.
const GRID: u64 = 150;

/// The table of one client's holds.
#[derive(Debug)]
pub(crate) struct HoldTable {
    table: Mutex<Entries>,
    in_flight: InFlightReleases,
    pub(super) poke: Notify,
    start: Instant,
}

#[derive(Debug, Default)]
struct Entries {
    due: BTreeMap<(Instant, u64), Arc<Hold>>,
    /// By the key of their resource, and the id.
    by_key: BTreeMap<(Arc<str>, u64), Arc<Hold>>,
    /// The loop sleeps until this instant. Only an earlier duty has to wake it.
    asleep_until: Option<Instant>,
    /// When another server last became primary for some keys.
    primary_changed: Option<Instant>,
}

/// Why a field cannot be given to a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldConflict {
    /// Another hold of this client has it.
    Held,
    /// This client is releasing it.
    UnderRelease,
}

impl HoldTable {
    pub(crate) fn new() -> Self {
        let table = Mutex::new(Entries::default());
        let (in_flight, poke) = (InFlightReleases::default(), Notify::new());
        HoldTable {
            table,
            in_flight,
            poke,
            start: Instant::now(),
        }
    }

    /// Enters a hold, or moves it to its next duty, or to `not_before` if that is later.
    pub(crate) fn arm(&self, hold: &Arc<Hold>, not_before: Option<Instant>) {
        self.arm_by(hold, not_before, &hold.read_clock());
    }

    /// The same by a reading of the clock.
    pub(super) fn arm_by(&self, hold: &Arc<Hold>, not_before: Option<Instant>, clock: &Reading) {
        // This may wake waiters or call observers.
        no_lock_is_held();
        self.arm_in(self.table.lock(), [(hold, not_before, *clock)]);
    }

    /// Enters holds together, so that those that are due now are renewed together.
    fn arm_all(&self, holds: &[Arc<Hold>]) {
        no_lock_is_held();
        let holds = holds.iter().map(|hold| (hold, None, hold.read_clock()));
        self.arm_in(self.table.lock(), holds);
    }

    /// Enters a hold that was restored from its text, unless this client already holds or releases
    /// its field.
    pub(crate) fn arm_alone(&self, hold: &Arc<Hold>) -> Result<(), FieldConflict> {
        let table = self.table.lock();
        if table.has(&hold.resource, &hold.field) {
            return Err(FieldConflict::Held);
        }
        // Look here second: what leaves the table was noted here before (UNDERWAY-1).
        if self.in_flight.has(&hold.resource, &hold.field) {
            return Err(FieldConflict::UnderRelease);
        }
        self.arm_in(table, [(hold, None, hold.read_clock())]);
        Ok(())
    }

    fn arm_in<'a>(
        &self,
        mut table: MutexGuard<'_, Entries>,
        holds: impl IntoIterator<Item = (&'a Arc<Hold>, Option<Instant>, Reading)>,
    ) {
        let mut in_doubt = Vec::new();
        let mut sooner = false;
        for (hold, not_before, clock) in holds {
            // If the grant was in flight while another server took over, the hold was not in the
            // table when the others were marked.
            let is_in_doubt = table
                .primary_changed
                .is_some_and(|change| hold.is_older_than(change))
                && !hold.is_unverified()
                && hold.must_be_verified();
            let Some(due) = self.due(hold, not_before, &clock) else {
                continue;
            };
            table.put(hold, due);
            if table.asleep_until.is_none_or(|until| due < until) {
                table.asleep_until = Some(due);
                sooner = true;
            }
            if is_in_doubt {
                in_doubt.push(hold);
            }
        }
        drop(table);
        if sooner {
            self.poke.notify_one();
        }
        for hold in in_doubt {
            hold.report_uncertain();
        }
    }

    fn due(&self, hold: &Hold, not_before: Option<Instant>, clock: &Reading) -> Option<Instant> {
        let now = clock.instant;
        // Not at once, so that a duty that stays undone cannot make the loop spin.
        let soon = now + Duration::from_micros(500);
        let due = match hold.duty(clock) {
            Duty::None => return None,
            Duty::End(_) | Duty::Renew(_) => now,
            Duty::Wait(at) => self.on_grid(at, hold, clock).max(soon),
        };
        let latest = || hold.deadline_by(clock);
        Some(not_before.map_or(due, |at| at.max(due).min(latest()).max(soon)))
    }

    /// Removes a hold from the table.
    pub(crate) fn disarm(&self, hold: &Hold) {
        self.table.lock().remove(hold);
    }

    /// The machine was suspended, so every duty that was entered before is due earlier. A hold that
    /// was listed at its deadline since then stays there, because a renewal of it may be in flight.
    /// The timers of an earlier renewal are late, so it is sent again.
    pub(crate) fn set_timers_again(&self) {
        let mut holds = self.holds();
        for hold in &holds {
            hold.set_timers_again();
        }
        holds.retain(|hold| !hold.is_listed_at_deadline());
        self.arm_all(&holds);
    }

    pub(crate) fn holds(&self) -> Vec<Arc<Hold>> {
        self.table.lock().due.values().cloned().collect()
    }

    /// A live hold of this client under a key: the one that `caller` took, if it took one.
    pub(crate) fn held_under(&self, key: &Arc<str>, caller: Option<Caller>) -> Option<Arc<Hold>> {
        let table = self.table.lock();
        let live = || table.under(key).filter(|hold| hold.is_live());
        let its_own = caller.and_then(|_| live().find(|hold| hold.taken_by() == caller));
        its_own.or_else(|| live().next()).cloned()
    }

    /// The live hold of this client under a key that has this field.
    pub(crate) fn held_as(&self, key: &Arc<str>, field: &str) -> Option<Arc<Hold>> {
        let table = self.table.lock();
        let found = table
            .under(key)
            .find(|hold| hold.is_live() && *hold.field == *field);
        found.cloned()
    }

    /// Nobody is given this field until the returned value is dropped.
    pub(crate) fn begin_release(&self, resource: &Resource, field: &Arc<str>) -> InFlightRelease {
        self.in_flight.begin(resource, field)
    }

    /// The releases of this client under a key that have begun by now. `None` if there are none.
    pub(crate) fn releases_of(&self, key: &Arc<str>) -> Option<ReleasesOfKey> {
        self.in_flight.of_key(key)
    }

    /// The first keys that are being released, at most `number` of them.
    pub(crate) fn first_keys_under_release(&self, number: usize) -> Vec<Arc<str>> {
        self.in_flight.first_keys(number)
    }

    /// Another server serves these keys now. Each hold is uncertain until that server has confirmed
    /// it. So is each hold whose acquisition was sent before the change.
    pub(crate) fn must_verify(&self, concerns: &dyn Fn(&str) -> bool) {
        // Set this before looking for the holds: a hold that is entered later then sees the change.
        self.table.lock().primary_changed = Some(Instant::now());
        let holds = self.doubts(concerns);
        self.arm_all(&holds);
    }

    /// The server of these keys is out of reach. Another one may take its place, and give their
    /// locks to somebody else. So the holds, which are returned, are uncertain until a server has
    /// confirmed them.
    pub(crate) fn doubts(&self, concerns: &dyn Fn(&str) -> bool) -> Vec<Arc<Hold>> {
        let holds = self.concerned(concerns);
        for hold in &holds {
            if hold.must_be_verified() {
                hold.report_uncertain();
            }
        }
        holds
    }

    /// The server of these keys is reachable again. It may have lost its data without a change of
    /// its identity, or may not have told its identity. So each hold there is verified at once.
    pub(crate) fn verify_at_once(&self, concerns: &dyn Fn(&str) -> bool) {
        self.ask_again_about(&self.concerned(concerns), None);
    }

    /// Somebody may have ended the holds under a key by force: ask at once.
    pub(crate) fn ask_again(&self, key: &str, release: &Arc<ForcedRelease>) {
        let key = Arc::from(key);
        let holds: Vec<_> = self.table.lock().under(&key).cloned().collect();
        self.ask_again_about(&holds, Some(release));
    }

    fn ask_again_about(&self, holds: &[Arc<Hold>], forced: Option<&Arc<ForcedRelease>>) {
        for hold in holds {
            hold.ask_again(forced);
        }
        self.arm_all(holds);
    }

    fn concerned(&self, concerns: &dyn Fn(&str) -> bool) -> Vec<Arc<Hold>> {
        let mut holds = self.holds();
        holds.retain(|hold| concerns(&hold.resource.key));
        holds
    }

    /// Whether a hold is older than the one with this id would be.
    pub(crate) fn has_older_than(&self, id: u64) -> bool {
        self.table.lock().due.keys().any(|(_, hold)| *hold < id)
    }

    pub(crate) fn len(&self) -> usize {
        self.table.lock().due.len()
    }

    /// Takes the holds whose time has come. Each is listed at its deadline until it is armed again
    /// or lost (WATCHDOG-1).
    pub(super) fn take_due(&self, now: Instant) -> Vec<Arc<Hold>> {
        let mut table = self.table.lock();
        let mut taken = Vec::new();
        while let Some(entry) = table.due.first_entry() {
            if entry.key().0 > now {
                break;
            }
            taken.push(entry.remove());
        }
        for hold in &taken {
            let deadline = hold.deadline();
            let until = if deadline > now {
                deadline
            } else {
                now + Duration::from_secs(1)
            };
            table.put(hold, until);
        }
        // An empty table keeps the time at which the loop would have woken. So of holds that come
        // and go, only the first of a lease wakes it.
        let first = table.due.keys().next().map(|(due, _)| *due);
        table.asleep_until = first.or(table.asleep_until.filter(|until| *until > now));
        taken
    }

    pub(super) fn next(&self) -> Option<Instant> {
        self.table.lock().asleep_until
    }

    /// The next point of the grid, but at most the deadline.
    fn on_grid(&self, at: Instant, hold: &Hold, clock: &Reading) -> Instant {
        let deadline = hold.deadline_by(clock);
        if at >= deadline {
            return at;
        }
        let left = deadline
            .saturating_duration_since(at)
            .min(hold.renewal_lease());
        let step = (whole_micros(left) / GRID).max(100).next_power_of_two();
        let since = whole_micros(at.saturating_duration_since(self.start));
        let up = Duration::from_micros(step - since % step);
        (at + up).min(deadline)
    }
}

/// No lease and no process lasts so long that this is too small.
fn whole_micros(span: Duration) -> u64 {
    u64::try_from(span.as_micros()).unwrap_or(u64::MAX)
}

impl Entries {
    fn put(&mut self, hold: &Arc<Hold>, due: Instant) {
        if let Some(old) = hold.set_due(Some(due)) {
            self.due.remove(&(old, hold.id));
        } else {
            let key = (hold.resource.key.clone(), hold.id);
            self.by_key.insert(key, hold.clone());
        }
        self.due.insert((due, hold.id), hold.clone());
    }

    fn remove(&mut self, hold: &Hold) {
        let Some(due) = hold.set_due(None) else {
            return;
        };
        self.due.remove(&(due, hold.id));
        self.by_key.remove(&(hold.resource.key.clone(), hold.id));
    }

    fn has(&self, resource: &Resource, field: &Arc<str>) -> bool {
        self.under(&resource.key).any(|hold| hold.field == *field)
    }

    fn under(&self, key: &Arc<str>) -> impl Iterator<Item = &Arc<Hold>> {
        let all = (key.clone(), 0)..=(key.clone(), u64::MAX);
        self.by_key.range(all).map(|(_, hold)| hold)
    }
}

#[cfg(all(test, feature = "test-util"))]
mod tests;
