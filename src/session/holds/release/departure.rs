//! Decides who gets the field when the last guard of a hold is gone.

use std::sync::Arc;

use crate::session::hold::{Hold, HoldTerms};
use crate::session::holds::Holds;

/// Takes a hold out of the watchdog's table. True if the next local waiter gets it; otherwise it
/// must be released.
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
    // Only now, because the queue was locked until here, and all of this calls foreign code
    // (FOREIGN-1).
    passed.observe(&holds.calls.settings.telemetry);
    holds.watchdog.arm(&passed, None);
    hold.passed_on();
    // A shutdown in the meantime may have collected holds before this one existed.
    holds.lose_if_closed(&passed);
    true
}
