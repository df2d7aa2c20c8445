//! The last guard of a hold is gone: who has the field next.

use std::sync::Arc;

use crate::session::Session;
use crate::session::hold::{Hold, HoldTerms};

/// Takes a hold out of the watchdog's table. True if the next local waiter has it; else it is to be released.
pub(crate) fn hand_over(session: &Session, hold: &Arc<Hold>, terms: HoldTerms) -> bool {
    hold.set_under_way(
        session
            .watchdog
            .release_under_way(&hold.resource, &hold.field),
    );
    session.watchdog.disarm(hold);
    if session.is_closed() {
        return false;
    }
    let pass = |next| Arc::new(hold.handed_over(session.next_id(), next));
    let Some(passed) = session.queues.hand_over(hold, terms, pass) else {
        return false;
    };
    // Not before: the queue is locked until now, and all of this calls code of others (FOREIGN-1).
    passed.observe(&session.settings.telemetry);
    session.watchdog.arm(&passed, None);
    hold.passed_on();
    // A shutdown meanwhile may have looked for holds before this one was handed over.
    session.lose_if_closed(&passed);
    true
}
