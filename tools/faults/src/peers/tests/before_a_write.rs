//! Tests that each driver checks its lock before it writes to the resource.

use std::collections::BTreeMap;
use std::thread::sleep;
use std::time::Duration;

use leasehold_testbed::wait_until;
use nix::sys::signal::Signal;

use super::clients::{Client, Resource, Run};
use super::{Deployment, Kind, Peer, count};
use crate::clock;
use crate::history::{Event, What};

pub(super) fn each_write_follows_a_check(peer: &Peer) {
    let (deployment, resource) = (Deployment::start(Kind::Single), Resource::start());
    // Holds that are longer than the lease must be renewed, even while the worker does not check
    // them.
    let lease = Duration::from_secs(1);
    // One of eight long holds pauses. With this seed, redis-py pauses for the first time after 20
    // seconds, so the run is long.
    let (url, seconds, long_ms) = (deployment.url(), 30, "200-2500");
    let resource_at = resource.address();
    let run = Run {
        url,
        resource: resource_at,
        seconds,
        long_ms,
        lease,
        ..Run::default()
    };
    let (_, history) = Client::start(peer, &run, 1).history();
    let mut before = BTreeMap::<u32, &What>::new();
    for event in history.iter().filter(|event| !event.name.is_empty()) {
        let before = before.insert(event.worker, &event.what);
        let checked = matches!(before, Some(What::Held { .. }));
        let wrote = matches!(event.what, What::Wrote { .. });
        assert!(
            checked || !wrote,
            "{}: {event:?} after {before:?}",
            peer.name
        );
        assert!(
            wrote || !checked,
            "{}: {event:?} after {before:?}",
            peer.name
        );
    }
    let did = |which: &str| count(&history, |what| format!("{what:?}").contains(which));
    let [renewed, paused] = [did("what: Renewed"), did("what: Paused")];
    println!(
        "{}: {} writes, {renewed} renewals, {paused} pauses",
        peer.name,
        resource.writes()
    );
    let renews = ["redisson", "rueidislock"].contains(&peer.name);
    assert!(
        paused > 0 && (renewed > 0) != renews,
        "{}: {renewed} {paused}",
        peer.name
    );
    let lost = count(&history, |what| {
        matches!(what, What::Doubted | What::Lost { .. })
    });
    assert_eq!(lost, 0, "{}: a hold was not renewed", peer.name);
}

pub(super) fn a_client_stops_itself_before_a_write(peer: &Peer) {
    let (deployment, resource) = (Deployment::start(Kind::Single), Resource::start());
    // With one worker, the next event belongs to the worker that has stopped the process.
    let (url, workers, seconds) = (deployment.url(), 1, 60);
    let run = Run {
        url,
        resource: resource.address(),
        seconds,
        workers,
        ..Run::default()
    };
    let mut client = Client::start(peer, &run, 1);
    let limit = Duration::from_secs(30);
    wait_until("the client writes", limit, || resource.writes() > 20);
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).expect("seconds");
    client.send(&format!(
        "freeze-before-write {}",
        clock::monotonic() + nanos(limit)
    ));
    wait_until("the client is stopped", limit, || client.is_stopped());
    let (stopped, before) = (clock::monotonic(), resource.writes());
    sleep(Duration::from_millis(500));
    let (went_on, meanwhile) = (clock::monotonic(), resource.writes());
    client.signal(Signal::SIGCONT);
    // The order applies once: the client keeps running although the time of the order is not over.
    wait_until("the client writes again", limit, || {
        resource.writes() > before + 20
    });
    client.send("stop");
    let (_, history) = client.history();

    assert_eq!(
        meanwhile, before,
        "{}: the client wrote while it was stopped",
        peer.name
    );
    let (before, after): (Vec<&Event>, Vec<_>) = history
        .iter()
        .filter(|event| !event.name.is_empty())
        .partition(|event| event.at < stopped);
    let [last, next] = [before.last(), after.first()].map(|event| event.expect("an event"));
    assert!(
        matches!(last.what, What::Held { .. }),
        "{}: {last:?}",
        peer.name
    );
    assert!(
        matches!(next.what, What::Wrote { .. }),
        "{}: {next:?}",
        peer.name
    );
    assert!(
        next.at > went_on,
        "{}: {next:?} before {went_on}",
        peer.name
    );
}
