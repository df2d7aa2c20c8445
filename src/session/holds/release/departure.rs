//! The last guard of a hold is gone: who has the field next.

use std::sync::Arc;

use crate::session::hold::{Hold, HoldTerms};
use crate::session::holds::Holds;

/// Takes a hold out of the watchdog's table. True if the next local waiter has it; else it is to be released.
pub(crate) fn hand_over(holds: &Holds, hold: &Arc<Hold>, terms: HoldTerms) -> bool {
    hold.set_under_way(
        holds
            .watchdog
            .release_under_way(&hold.resource, &hold.field),
    );
    holds.watchdog.disarm(hold);
    if holds.calls.life.is_closed() {
        return false;
    }
    let pass = |next| Arc::new(hold.handed_over(holds.calls.next_id(), next));
    let Some(passed) = holds.queues.hand_over(hold, terms, pass) else {
        return false;
    };
    // Not before: the queue is locked until now, and all of this calls code of others (FOREIGN-1).
    passed.observe(&holds.calls.settings.telemetry);
    holds.watchdog.arm(&passed, None);
    hold.passed_on();
    // A shutdown meanwhile may have looked for holds before this one was handed over.
    holds.lose_if_closed(&passed);
    true
}
