//! The safety poll: what a lost message can cost at most.
//!
//! About once a second one call asks how many of the keys that this client waits for exist. All do
//! while they are held; only where one is missing is it searched for and its waiter woken. Ten
//! thousand waited-for names cost twenty calls a second.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;

use super::{Session, jittered};
use crate::lease::LossReason;
use crate::mutant::Mutant;
use crate::protocol::calls;
use crate::protocol::place::Place;
use crate::protocol::replies;
use crate::stats::count;
use crate::transport::Lane;

/// Keys in one call.
const BATCH: usize = 500;
/// So few keys are not searched further: their waiters ask for themselves.
const FEW: usize = 4;

/// How often subscriptions and rooms that nobody uses any more are ended.
const SWEEP: Duration = Duration::from_secs(1);

/// Ends what nobody uses any more, until it is dropped.
pub(crate) async fn sweep(session: &Session) {
    loop {
        sleep(SWEEP).await;
        session.wakes.sweep(&session.transport);
        session.rooms.sweep();
    }
}

/// Polls until it is dropped.
pub(crate) async fn run(session: &Session) {
    loop {
        sleep(jittered(session.settings.poll)).await;
        if session.mutants.has(Mutant::NoTimer) {
            continue;
        }
        let places = session.rooms.waited_for();
        for batch in places.chunks(BATCH) {
            check(session, batch).await;
        }
    }
}

/// Finds the keys that are gone, by halves.
async fn check(session: &Session, places: &[Arc<Place>]) {
    let mut parts = vec![places];
    while let Some(part) = parts.pop() {
        // A hold that is older than the question must be there; a younger one may not have been.
        let known: Vec<_> = part.iter().map(|place| session.rooms.holder(&place.room)).collect();
        let keys = part.iter().map(|place| place.key.clone()).collect();
        count(&session.counters.polls);
        let reply = session.call(Lane::Background, calls::keys_exist(keys)).await;
        let Some(exist) = reply.ok().and_then(|value| replies::count(value).ok()) else { return };
        if exist == part.len() {
            continue;
        }
        // But nobody asks behind a hold of ours: whether it is gone must be known of it alone.
        let ours = part.len() > 1 && exist > 0 && known.iter().any(Option::is_some);
        if part.len() > FEW || ours {
            let (left, right) = part.split_at(part.len() / 2);
            parts.extend([left, right]);
            continue;
        }
        for (place, known) in part.iter().zip(known) {
            let holder = session.rooms.nudge(&place.room);
            if exist == 0 && holder.is_some() && holder == known {
                lose(session, &place.key, holder);
            }
        }
    }
}

/// Our own hold's key is gone: nobody told us, so its waiters would wait for the next renewal.
fn lose(session: &Session, key: &str, id: Option<u64>) {
    if let Some(hold) = id.and_then(|id| session.watchdog.find(key, id)) {
        session.lose(&hold, LossReason::Gone);
    }
}
