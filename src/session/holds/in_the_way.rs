//! Reports acquisitions that have waited long for a hold of their own client.
//!
//! Such a wait may never end: a second `lock()` in one task waits for its own release, and a leaked guard has none. A
//! wait with an end says so in its error. A wait without one can only be reported while it lasts.

use std::collections::HashMap;

use super::Holds;
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
        for resource in holds.queues.locks_with_waiters() {
            let Some(hold) = holds.watchdog.held_under(&resource.key, None) else {
                continue;
            };
            let looks = self.0.get(&hold.id).map_or(1, |before| before + 1);
            found.insert(hold.id, looks);
            if looks == LOOKS {
                let report = match hold.taken_by() {
                    Some(caller) if holds.queues.has_waiter_of(&resource, caller) => {
                        telemetry::waits_for_itself
                    }
                    _ => telemetry::waits_for_own_client,
                };
                report(resource.kind.label(), &resource.name);
            }
        }
        self.0 = found;
    }
}
