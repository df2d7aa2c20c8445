//! Says in Redis what long waiters hold and wait for, so that deadlocks can be found.
//!
//! | wait | in Redis |
//! |------|----------|
//! | for less than [`LONG`] | no |
//! | its caller holds no lock | no: it cannot be part of a deadlock |
//! | its client does not describe its holds | no |
//! | any other | at the next period, and in each later one with a higher number |
//! | over | gone at the next period; if the client died, after [`KEPT`] |
//!
//! All waits of a client are one call in each [`PERIOD`]. Nobody waits for it, and a lost one is
//! made up for by the next.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Holds;
use crate::protocol::description::purpose_in;
use crate::protocol::waits::{self, HeldLock, LongWait};
use crate::session::caller::Caller;
use crate::session::hold::Hold;
use crate::timer::{Instant, sleep, timeout};
use crate::transport::{CallError, Lane};

/// A shorter wait is not said. A multi lock waits for a second at most while it holds other members, so such a
/// wait is never said twice.
const LONG: Duration = Duration::from_millis(600);

const PERIOD: Duration = Duration::from_millis(500);

/// How long Redis keeps what a client has said.
const KEPT: Duration = Duration::from_secs(2);

/// The pause after the server has refused a call.
const REFUSED: Duration = Duration::from_secs(60);

/// Waits of one client, and holds of one waiter. More are left out.
const MOST_WAITS: usize = 64;
const MOST_HOLDS: usize = 16;

/// Says the long waits of a client that describes its holds, until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let calls = &holds.calls;
    if !calls.settings.describe_holds {
        return std::future::pending().await;
    }
    let (mut number, mut is_said) = (0, false);
    loop {
        sleep(PERIOD).await;
        let waits = long_waits(holds);
        if waits.is_empty() && !is_said {
            continue;
        }
        number += 1;
        is_said = !waits.is_empty();
        let text = waits::encode(calls.settings.name.as_deref(), number, &waits);
        let call = waits::say(calls.client_id(), &text, KEPT);
        let reply = timeout(PERIOD, calls.call(Lane::Background, call)).await;
        if let Ok(Err(CallError::Refused(_))) = reply {
            sleep(REFUSED).await;
        }
    }
}

fn long_waits(holds: &Holds) -> Vec<LongWait> {
    let now = Instant::now();
    let waiters = now
        .checked_sub(LONG)
        .map(|then| holds.queues.long_waiters(then));
    let waiters = waiters.unwrap_or_default();
    if waiters.is_empty() {
        return Vec::new();
    }
    let mut taken: HashMap<Caller, Vec<Arc<Hold>>> = HashMap::new();
    for hold in holds.watchdog.holds() {
        if let Some(caller) = hold.taken_by()
            && hold.resource.kind.is_lock()
            && hold.is_live()
        {
            taken.entry(caller).or_default().push(hold);
        }
    }
    let mut waits = Vec::new();
    for (resource, waiter) in waiters {
        let held = taken.get(&waiter.caller).map_or(&[][..], Vec::as_slice);
        let held = if resource.kind.is_lock() { held } else { &[] };
        if !held.is_empty() {
            waits.push(LongWait {
                id: waiter.id,
                waited: now.saturating_duration_since(waiter.since),
                kind: resource.kind,
                key: resource.key.clone(),
                holds: held.iter().take(MOST_HOLDS).map(held_lock).collect(),
            });
        }
        if waits.len() == MOST_WAITS {
            break;
        }
    }
    waits
}

fn held_lock(hold: &Arc<Hold>) -> HeldLock {
    HeldLock {
        kind: hold.resource.kind,
        key: hold.resource.key.clone(),
        field: hold.field.clone(),
        purpose: hold.description().and_then(|said| purpose_in(&said.text)),
    }
}
