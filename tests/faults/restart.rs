//! A server that comes back empty, for every kind of lock: holders learn of the loss, and waiters
//! go on.

use std::time::{Duration, Instant};

use leasehold::{Error, HoldState};
use leasehold_testbed::{KINDS, Server, connected, eventually_within, lost, ms, within};

use crate::testbed::{alone, at_rest, brisk};

const LIMIT: Duration = Duration::from_secs(60);
const LEASE: Duration = ms(3_000);

#[test]
fn holds_of_every_kind_are_lost_and_later_ones_are_renewed() {
    alone(LIMIT, async {
        let mut server = Server::start();
        let client = connected(brisk(&server.url()).lease(LEASE)).await;
        let locks = KINDS.map(|kind| kind.lock(&client, kind.name));
        let mut guards = Vec::new();
        for lock in &locks {
            guards.push(lock.lock().await.expect("free"));
        }
        server.restart();
        for (guard, kind) in guards.into_iter().zip(KINDS) {
            within(LEASE * 2, "lost", lost(&guard)).await;
            let late = within(LEASE, "ended", guard.unlock()).await;
            assert!(
                matches!(late, Err(Error::Lost { .. })),
                "{}: {late:?}",
                kind.name
            );
        }
        let mut guards = Vec::new();
        for lock in &locks {
            guards.push(within(LIMIT, "again", lock.lock()).await.expect("free"));
        }
        let end = Instant::now() + LEASE * 2;
        eventually_within(LIMIT, "several leases", async || {
            for (guard, kind) in guards.iter().zip(&KINDS) {
                assert_eq!(guard.state(), HoldState::Held, "{}", kind.name);
            }
            Instant::now() > end
        })
        .await;
        for guard in guards {
            guard.unlock().await.expect("renewed until now");
        }
        at_rest(&client, LIMIT).await;
    });
}
