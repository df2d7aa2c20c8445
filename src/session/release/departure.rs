//! The last guard of a hold is gone: who has the field next.

use std::sync::Arc;

use crate::session::Session;
use crate::session::hold::{Hold, HoldTerms};
use crate::session::local_queue::Departure;

/// Takes a hold out of the watchdog's table, and hands it to the next local waiter if that is allowed.
pub(crate) fn depart(session: &Session, hold: &Arc<Hold>, terms: HoldTerms) -> Departure {
    hold.set_under_way(
        session
            .watchdog
            .release_under_way(&hold.resource, &hold.field),
    );
    session.watchdog.disarm(hold);
    if session.is_closed() {
        return Departure::Release;
    }
    let mut passed = None;
    let departure = session.queues.depart(hold, terms, |next| {
        let next_hold = Arc::new(hold.handed_over(session.next_id(), next));
        passed = Some(next_hold.clone());
        next_hold
    });
    // A shutdown meanwhile may have looked for holds before this one was handed over.
    match (&departure, passed) {
        (_, Some(passed)) => {
            // Not before: the queue is locked until now, and all of this calls code of others (FOREIGN-1).
            passed.observe(&session.settings.telemetry);
            session.watchdog.arm(&passed, None);
            hold.passed_on();
            session.lose_if_closed(&passed);
        }
        (Departure::HandedOver, None) if session.is_closed() => session.recall(),
        (Departure::HandedOver | Departure::Release, None) => {}
    }
    departure
}
