//! Keeps the places of this client's waiters in the queues that stand in Redis.
//!
//! A place is kept for a claim; each beat is one call for all waiters of one lock in this client,
//! several in a claim. It also finds what no message told: that it is a waiter's turn, or that its
//! place is gone. Whoever beats takes dead waiters off, and tells the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::stream;
use tokio::time::{Instant, sleep};

use super::Session;
use super::room::InLine;
use crate::mutant::Mutant;
use crate::protocol::place::Place;
use crate::protocol::replies::{self, Spot};
use crate::transport::Lane;

/// Waiters kept by one call: well under a millisecond of Redis.
const BATCH: usize = 200;
/// Calls on the wire at once: one after another, over a slow line the last would come too late.
const AT_ONCE: usize = 256;
/// A beat is late by this at most, whatever the claim.
const PERIOD_MAX: Duration = Duration::from_millis(500);
/// Nothing is asked or looked for more often than that.
const PERIOD_MIN: Duration = Duration::from_millis(10);

/// Beats for all rooms whose waiters stand in Redis, until it is dropped.
pub(crate) async fn run(session: &Session) {
    if session.mutants.has(Mutant::PlaceNotKept) {
        std::future::pending::<()>().await;
    }
    let period = (session.settings.fair_claim / 3).min(PERIOD_MAX);
    let mut due: BTreeMap<Arc<str>, Instant> = BTreeMap::new();
    loop {
        let places = session.rooms.with_lines();
        let late = schedule(&mut due, places, period);
        beat(session, late, |room, ends| {
            let wait = ends.map_or(period, |ends| {
                period.min((ends + Duration::from_millis(2)).max(PERIOD_MIN))
            });
            let at = Instant::now() + wait;
            // Several calls for one room: the first to end counts.
            due.entry(room.clone()).and_modify(|due| *due = at.min(*due)).or_insert(at);
        })
        .await;
        tokio::select! {
            biased;
            () = super::sleep_until_some(due.values().min().copied()) => {}
            // Perhaps in a room that is not known yet.
            () = newcomer(session) => {}
        }
    }
}

/// Somebody got a place since, and a moment passed in which others may.
async fn newcomer(session: &Session) {
    session.in_line.notified().await;
    sleep(PERIOD_MIN).await;
}

/// The rooms whose beat is due; they are to be given another time, and new ones get their first.
fn schedule(
    due: &mut BTreeMap<Arc<str>, Instant>,
    places: Vec<Arc<Place>>,
    period: Duration,
) -> Vec<Arc<Place>> {
    let now = Instant::now();
    let mut before = std::mem::take(due);
    let mut late = Vec::new();
    for place in places {
        let (room, at) =
            before.remove_entry(&place.room).unwrap_or_else(|| (place.room.clone(), now + period));
        if at <= now {
            late.push(place);
        } else {
            due.insert(room, at);
        }
    }
    late
}

/// One beat for each of these rooms; tells when something in it ends by itself, if that is known.
async fn beat(
    session: &Session,
    places: Vec<Arc<Place>>,
    mut told: impl FnMut(&Arc<str>, Option<Duration>),
) {
    let batches = places.into_iter().flat_map(|place| {
        let waiters = session.rooms.in_line(&place.room);
        let batches: Vec<_> = waiters.chunks(BATCH).map(<[_]>::to_vec).collect();
        batches.into_iter().map(move |batch| (place.clone(), batch))
    });
    let calls = batches.map(async |(place, batch): (Arc<Place>, InLine)| {
        let ends = keep(session, &place, &batch).await;
        (place, ends)
    });
    let mut calls = stream::iter(calls).buffer_unordered(AT_ONCE);
    while let Some((place, ends)) = calls.next().await {
        told(&place.room, ends);
    }
}

/// When something ends by itself, if that is known.
async fn keep(session: &Session, place: &Place, waiters: &InLine) -> Option<Duration> {
    let publish = session.transport.publish_command();
    let fields = waiters.iter().map(|(field, _)| field.clone());
    let sent = Instant::now();
    let call = place.beat(publish, session.settings.fair_claim, fields);
    // A beat that fails is followed by another one, and every waiter asks for itself in the end.
    let reply = session.call(Lane::Background, call).await.ok()?;
    let (ends, told) = replies::beaten(reply, waiters.len()).ok()?;
    for ((field, waiter), spot) in waiters.iter().zip(told) {
        match spot {
            Spot::Waits => waiter.in_line(field, sent),
            Spot::Gone | Spot::Next => waiter.wake(),
        }
    }
    ends
}
