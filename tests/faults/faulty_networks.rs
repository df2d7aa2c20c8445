//! Two clients contend over faulty connections: never are two guards trusted at once.

use std::sync::Arc;
use std::time::{Duration, Instant};

use leasehold::settings::LocalHandover;
use leasehold::{Client, Error, Lease, LockGuard};
use leasehold_testbed::{Borrowed, Line, Outside, eventually_within, ms, within};
use parking_lot::Mutex;

use crate::lost_replies::{HEALED, LEASE, LIMIT};

use crate::testbed::{alone, at_rest, brisk, connect, note, seed, size};

#[test]
fn a_hand_over_whose_reply_is_lost_is_never_two_holds() {
    alone(LIMIT, async {
        for fixed in [false, true] {
            let server = Borrowed::take();
            let proxy = server.line();
            let client = brisk(proxy.url())
                .lease(LEASE)
                .local_handover(LocalHandover::Streak {
                    count: 1_000,
                    time: LIMIT,
                })
                .connect()
                .await
                .expect("connects");
            let rival = connect(&server.url()).await;
            let mut outside = Outside::of(&server);
            let lease = if fixed {
                Lease::Fixed(LEASE)
            } else {
                Lease::Renewed
            };
            // Once without a fault, to load the scripts.
            for lose in [false, true] {
                let first = client.lock("n");
                let second = client.lock("n");
                let guard = first.try_lock(ms(1_000), lease).await.expect("free");
                let next = tokio::spawn(async move { second.try_lock(LIMIT, lease).await });
                eventually_within(LIMIT, "the next waits", async || {
                    client.stats().waiting == 1
                })
                .await;
                if lose {
                    proxy.swallow_replies();
                }
                drop(guard);
                let other = rival.lock("n");
                let theirs =
                    tokio::spawn(async move { other.try_lock(LIMIT, Lease::Fixed(LEASE)).await });
                let (mut most, end) = (0, Instant::now() + ms(700));
                eventually_within(LIMIT, "the take-over is lost", async || {
                    most = most.max(outside.holds("n").len());
                    Instant::now() > end
                })
                .await;
                proxy.pass();
                // Both get the lock, one after the other.
                let (next, theirs) = (spans(next), spans(theirs));
                let (next, theirs) = tokio::join!(next, theirs);
                assert!(most <= 1, "two holds at once");
                assert!(disjoint(&[next, theirs]), "{next:?} {theirs:?}");
                eventually_within(LEASE + HEALED, "free", async || !outside.exists("n")).await;
                at_rest(&client, LEASE + HEALED).await;
            }
        }
    });
}

/// The time span during which a client believed that it held the lock.
type Span = (Instant, Instant);

async fn spans(taking: tokio::task::JoinHandle<Result<LockGuard, Error>>) -> Option<Span> {
    let guard = within(LIMIT, "a turn", taking)
        .await
        .expect("no panic")
        .ok()?;
    let from = Instant::now();
    tokio::time::sleep(ms(20)).await;
    // In this order, because the machine may stall between the two.
    let now = Instant::now();
    let until = if guard.check().is_ok() {
        now
    } else {
        guard.deadline().into_std()
    };
    drop(guard);
    Some((from, until.max(from)))
}

fn disjoint(spans: &[Option<Span>]) -> bool {
    let mut spans: Vec<Span> = spans.iter().copied().flatten().collect();
    spans.sort_unstable();
    spans.windows(2).all(|pair| pair[0].1 <= pair[1].0)
}

/// Several clients, each behind a connection with random faults. At the end, all spans are compared
/// on one clock.
#[test]
fn no_two_guards_believe_at_once_whatever_the_lines_do() {
    let seconds = size("LEASEHOLD_CHAOS_SECONDS", 12);
    let seed = seed("no_two_guards");
    let limit = Duration::from_secs(seconds as u64) + LIMIT;
    alone(limit, async move {
        let server = Borrowed::take();
        let end = Instant::now() + Duration::from_secs(seconds as u64);
        let spans = Arc::new(Mutex::new(Vec::new()));
        let (mut tasks, mut clients, mut lines) = (Vec::new(), Vec::new(), Vec::new());
        for line in 0..3_u64 {
            let proxy = Arc::new(server.line());
            let client = brisk(proxy.url())
                .command_timeout(ms(100))
                .lease(ms(400))
                .connect();
            let client = client.await.expect("connects");
            for task in 0..6 {
                let random = fastrand::Rng::with_seed(seed ^ (line << 32) ^ task);
                tasks.push(tokio::spawn(contend(
                    client.clone(),
                    random,
                    spans.clone(),
                    end,
                )));
            }
            let random = fastrand::Rng::with_seed(seed.wrapping_add(line));
            tasks.push(tokio::spawn(misbehave(proxy.clone(), random, end)));
            clients.push(client);
            lines.push(proxy);
        }
        for task in tasks {
            task.await.expect("no panic");
        }
        for line in &lines {
            line.pass();
        }
        let mut outside = Outside::of(&server);
        eventually_within(ms(5_000), "free at the end", async || outside.keys() == 0).await;
        for client in &clients {
            at_rest(client, ms(5_000)).await;
        }
        let spans: Vec<Option<Span>> = spans.lock().iter().copied().map(Some).collect();
        let stats: Vec<_> = clients.iter().map(Client::stats).collect();
        note(&format!("{} sections; {stats:#?}", spans.len()));
        assert!(
            spans.len() > seconds * 5,
            "hardly anybody got in: {}",
            spans.len()
        );
        assert!(disjoint(&spans), "two at once; seed {seed}");
    });
}

async fn contend(
    client: Client,
    mut random: fastrand::Rng,
    spans: Arc<Mutex<Vec<Span>>>,
    end: Instant,
) {
    let lock = client.lock("n");
    while Instant::now() < end {
        let wait = ms(random.u64(0..300));
        let taken = if random.bool() {
            lock.try_lock(wait, Lease::Renewed).await
        } else {
            lock.try_lock(wait, Lease::Fixed(ms(random.u64(20..300))))
                .await
        };
        let Ok(guard) = taken else {
            tokio::time::sleep(ms(random.u64(0..20))).await;
            continue;
        };
        let from = Instant::now();
        if guard.check().is_err() {
            continue;
        }
        let stay = if random.u8(0..20) == 0 {
            random.u64(0..600)
        } else {
            random.u64(0..4)
        };
        tokio::time::sleep(ms(stay)).await;
        // The time for which the guard vouches: until now, or until its deadline passed.
        let now = Instant::now();
        let to = if guard.check().is_ok() {
            now
        } else {
            guard.deadline().into_std()
        };
        spans.lock().push((from, to.max(from)));
        if random.bool() {
            drop(guard);
        } else {
            // Lost, unknown and unavailable are all expected here.
            drop(guard.unlock().await);
        }
    }
}

async fn misbehave(line: Arc<Line>, mut random: fastrand::Rng, end: Instant) {
    while Instant::now() < end {
        tokio::time::sleep(ms(random.u64(50..800))).await;
        let fault = random.u8(0..6);
        match fault {
            0 => line.swallow_replies(),
            1 => line.swallow_requests(),
            2 => line.half_open(),
            3 => line.cut(),
            4 => line.delay_replies(ms(random.u64(1..150))),
            _ => {
                line.refuse();
                line.cut();
            }
        }
        tokio::time::sleep(ms(random.u64(1..250))).await;
        // A stream with a missing piece does not occur in a real network, so end such a connection.
        if fault > 2 && random.bool() {
            line.flow();
        } else {
            line.pass();
        }
    }
}
