//! A server that comes back empty, for every kind of lock: holders learn of the loss, and waiters
//! go on.

use std::time::{Duration, Instant};

use leasehold::{Error, HoldState, Stats};
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

#[test]
fn waiters_of_every_kind_are_served_after_it() {
    alone(LIMIT, async {
        let mut server = Server::start();
        let make = || brisk(&server.url()).lease(LEASE).connect();
        let (holder, client) = (
            make().await.expect("connects"),
            make().await.expect("connects"),
        );
        let kinds = KINDS.into_iter().filter(|kind| kind.exclusive);
        let (mut guards, mut takings) = (Vec::new(), Vec::new());
        for kind in kinds {
            guards.push(kind.lock(&holder, kind.name).lock().await.expect("free"));
            for _ in 0..3 {
                let lock = kind.lock(&client, kind.name);
                takings.push(tokio::spawn(
                    async move { lock.lock().await?.unlock().await },
                ));
            }
        }
        // Waiters of a quorum are refused by two of three servers, and are in no local queue while
        // they pause.
        let asking = KINDS.iter().filter(|kind| kind.quorum).count() as u64 * 3;
        let waiting = takings.len() as u64 - asking;
        let wait = |stats: Stats| stats.waiting >= waiting && stats.timed_out >= asking * 2;
        eventually_within(LIMIT, "all queued", async || wait(client.stats())).await;
        server.restart();
        for taking in takings {
            within(LIMIT, "granted", taking)
                .await
                .expect("no panic")
                .expect("held");
        }
        drop(guards);
        at_rest(&client, LIMIT).await;
    });
}
