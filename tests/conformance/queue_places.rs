//! Places in the queue of a fair lock: how long they last, how they are lost and regained.

use std::time::Duration;

use leasehold::{Error, Lease};
use leasehold_testbed::{Bed, SOON, connected, eventually, ms, take_turn, timed};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::fair::{
    CLAIM, DEAD, DEADLINES, JAVA, QUEUE, deadline, deadlines, nothing_is_left, put, queue, queued,
    served,
};

const LONG: Lease = Lease::Fixed(Duration::from_secs(600));

pub(crate) async fn deadlines_are_the_servers_and_do_not_add_up(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one
        .fair_lock("x")
        .try_lock_now(Lease::Fixed(ms(600_000)))
        .await
        .unwrap();
    let before = bed.clock();
    let mut takings = Vec::new();
    for number in 0..8 {
        takings.push(queued(&bed, if number % 2 == 0 { &one } else { &other }).await);
        // Other waiters come and go, with their own waits and leases.
        bed.in_vain(async || {
            other
                .fair_lock("x")
                .try_lock(bed.span(20), Lease::Fixed(ms(600_000)))
                .await
        })
        .await;
        eventually("left the queue", async || queue(&bed).len() == number + 1).await;
        for (owner, at) in deadlines(&bed) {
            let bounds = before..=bed.clock() + CLAIM;
            assert!(bounds.contains(&at), "{owner}: {at} is not in {bounds:?}");
        }
    }
    // Grants and passing time do not change them either.
    guard.unlock().await.unwrap();
    for taking in takings {
        let (guard, _) = served("granted", taking).await;
        sleep(ms(700)).await;
        // Heartbeats continue in between, so read the deadlines between two looks at the clock.
        let (before, deadlines, now) = (bed.clock(), deadlines(&bed), bed.clock());
        for (owner, at) in deadlines {
            assert!(
                (before..=now + CLAIM).contains(&at),
                "{owner}: {at}, now {now}"
            );
        }
        guard.unlock().await.unwrap();
    }
    nothing_is_left(&bed).await;
}

pub(crate) async fn dead_places_cost_one_claim_together(bed: Bed) {
    let claim = bed.lease(300);
    let client = bed.builder().fair_claim(claim).connect().await.unwrap();
    let start = Instant::now();
    for number in 0..20 {
        put(&bed, &format!("{}{number}", &DEAD[..DEAD.len() - 2]), claim);
    }
    let guard = timed("after the claim", client.fair_lock("x").lock())
        .await
        .0
        .unwrap();
    let took = start.elapsed();
    assert!(
        took + ms(50) > claim && took < claim + bed.late(150),
        "{took:?}"
    );
    assert!(!bed.exists(QUEUE) && !bed.exists(DEADLINES));
    guard.unlock().await.unwrap();
    // The same while the lock is held: they expire during the hold.
    let guard = client.fair_lock("x").lock().await.unwrap();
    put(&bed, DEAD, claim);
    let next = queued(&bed, &client).await;
    sleep(claim + bed.span(50)).await;
    let held = Instant::now();
    guard.unlock().await.unwrap();
    served("at the release", next)
        .await
        .0
        .unlock()
        .await
        .unwrap();
    assert!(held.elapsed() < claim, "{:?}", held.elapsed());
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_dead_java_waiter_costs_its_deadline(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let span = bed.lease(400);
    let start = Instant::now();
    put(&bed, JAVA, span);
    let (first, second) = (queued(&bed, &one).await, queued(&bed, &other).await);
    let line = queue(&bed);
    assert_eq!(line[0], JAVA);
    // A Java client that is granted would subtract its wait from these. They must outlast that.
    for owner in &line[1..] {
        assert!(deadline(&bed, owner).unwrap() > bed.clock() + 290_000);
    }
    let (guard, _) = served("after its deadline", first).await;
    let took = start.elapsed();
    assert!(
        took + ms(50) > span && took < span + bed.late(200),
        "{took:?}"
    );
    guard.unlock().await.unwrap();
    served("the next at once", second)
        .await
        .0
        .unlock()
        .await
        .unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn no_waiter_spins_behind_a_dead_head(bed: Bed) {
    for dead in [DEAD, JAVA] {
        for held in [false, true] {
            // The claim is so long that a dead head of ours stays as well.
            let client = async || {
                bed.builder()
                    .fair_claim(ms(60_000))
                    .connect()
                    .await
                    .unwrap()
            };
            let (one, other) = (client().await, client().await);
            let lock = one.fair_lock("x");
            let guard = if held {
                Some(lock.lock().await.unwrap())
            } else {
                None
            };
            put(&bed, dead, ms(600_000));
            let mut takings = Vec::new();
            for number in 0..6 {
                takings.push(queued(&bed, if number % 2 == 0 { &one } else { &other }).await);
            }
            sleep(ms(600)).await;
            let (before, start) = (bed.calls(), Instant::now());
            sleep(ms(2000)).await;
            // Two clients that send heartbeats at least every half second.
            let (calls, seconds) = (bed.calls() - before, start.elapsed().as_secs());
            assert!(
                (2..=8 * (seconds + 1)).contains(&calls),
                "{dead}, {held}: {calls} calls"
            );
            assert_eq!(queue(&bed).len(), 7, "all live ones keep their places");
            takings.iter().for_each(JoinHandle::abort);
            // Whoever leaves a free lock gives it to the next owner of this library, dead or alive.
            let is_given = !held && dead == DEAD;
            let left = if is_given { vec![] } else { vec![dead] };
            eventually("left the queue", async || queue(&bed) == left).await;
            if let Some(guard) = guard {
                guard.unlock().await.unwrap();
            }
            bed.command(&["DEL", "x", QUEUE, DEADLINES]);
        }
    }
}

pub(crate) async fn a_place_without_a_deadline_is_dead(bed: Bed) {
    let client = bed.client().await;
    bed.command(&["RPUSH", QUEUE, JAVA]);
    bed.command(&["RPUSH", QUEUE, DEAD]);
    let guard = client
        .fair_lock("x")
        .try_lock_now(Lease::Fixed(ms(5000)))
        .await
        .unwrap();
    guard.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

pub(crate) async fn a_purged_waiter_gets_its_place_back(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let (first, second) = (queued(&bed, &one).await, queued(&bed, &other).await);
    // Heartbeats keep the place before it is removed.
    sleep(ms(600)).await;
    let line = queue(&bed);
    // Like a Java client whose clock or arithmetic says that the waiter is late.
    bed.command(&["LREM", QUEUE, "0", &line[0]]);
    bed.command(&["ZREM", DEADLINES, &line[0]]);
    eventually("it is back, and before the other", async || {
        queue(&bed) == line
    })
    .await;
    guard.unlock().await.unwrap();
    served("the first", first).await.0.unlock().await.unwrap();
    served("the second", second).await.0.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

/// So many that going through the queue for each waiter would show.
const MANY: usize = 400;
/// What a waiter may cost that goes back to its place, with the heartbeats meanwhile.
const COMMANDS_EACH: u64 = 60;

pub(crate) async fn a_deleted_queue_forms_again(bed: Bed) {
    // So long that a slow machine loses no place, and no reply, in between.
    let patient = || {
        bed.builder()
            .fair_claim(Duration::from_secs(60))
            .command_timeout(SOON)
    };
    let client = async || connected(patient()).await;
    let (one, other) = (client().await, client().await);
    let guard = one.fair_lock("x").lock().await.unwrap();
    let takings: Vec<_> = (0..MANY)
        .map(|number| {
            let lock = if number % 2 == 0 {
                one.fair_lock("x")
            } else {
                other.fair_lock("x")
            };
            tokio::spawn(async move { lock.lock().await?.unlock().await })
        })
        .collect();
    eventually("all in the queue", async || queue(&bed).len() == MANY).await;
    let line = queue(&bed);
    let before = bed.commands();
    bed.command(&["DEL", QUEUE, DEADLINES]);
    eventually("all back", async || queue(&bed).len() == MANY).await;
    let commands = bed.commands() - before;
    assert!(
        commands <= COMMANDS_EACH * u64::try_from(MANY).unwrap(),
        "{commands} commands"
    );
    assert_eq!(deadlines(&bed).len(), MANY);
    // No client knows the order of another client's waiters, but each knows its own. If it takes
    // this thread a second to get to a waiter, that one takes another place.
    let back = queue(&bed);
    let stayed = |owners: &[String]| {
        let both = owners
            .iter()
            .filter(|one| back.contains(one) && line.contains(one));
        by_client(both.cloned().collect())
    };
    assert!(stayed(&back) == stayed(&line), "in another order");
    assert!(!bed.is_embedded() || stayed(&line).len() == MANY);
    // With the lock itself gone, the head of the queue gets it.
    bed.command(&["DEL", QUEUE, DEADLINES, "x"]);
    for taking in takings {
        timed("granted", taking).await.0.unwrap().unwrap();
    }
    assert!(matches!(guard.unlock().await, Err(Error::Lost { .. })));
    nothing_is_left(&bed).await;
}

/// The waiters of each client together, in their order.
fn by_client(mut owners: Vec<String>) -> Vec<String> {
    owners.sort_by_key(|owner| owner.rsplit_once(':').map(|(client, _)| client.to_owned()));
    owners
}

/// Runs the script with which a waiter asks.
fn ask(bed: &Bed, args: &[&str]) {
    let mut scripts = leasehold::test_util::scripts().into_iter();
    let (_, text, _) = scripts.find(|(name, ..)| *name == "fair_acquire").unwrap();
    let call = ["EVAL", text, "3", "x", QUEUE, DEADLINES, "c", "PUBLISH"];
    bed.command(&[&call, args].concat());
}

/// Waiters of two clients come back in any order. Each names the last eight that came before it,
/// which may not be back.
pub(crate) async fn waiters_that_come_back_stand_in_their_order(bed: Bed) {
    const WAITERS: usize = 61;
    let line: Vec<String> = (0..WAITERS)
        .map(|number| {
            let client = [
                "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11",
                "7d7cbb0d-1cf9-4b6a-9b6f-0c5f9d6b0f12",
            ];
            format!("{}:5{:018}", client[number % 2], 2 * number)
        })
        .collect();
    for step in [1, 2, 17, 37, WAITERS - 1] {
        bed.command(&["HSET", "x", JAVA, "1"]);
        for round in 0..WAITERS {
            let number = round * step % WAITERS;
            let earlier = line[..number].iter().rev().skip(1).step_by(2);
            let earlier: Vec<_> = earlier.take(8).map(String::as_str).collect();
            ask(
                &bed,
                &[&[&line[number], "30000", "60000", "3"], &earlier[..]].concat(),
            );
        }
        assert_eq!(by_client(queue(&bed)), by_client(line.clone()), "{step}");
        bed.command(&["DEL", "x", QUEUE, DEADLINES]);
    }
}

/// Only a Redisson thread makes a newcomer read the queue.
pub(crate) async fn a_longer_claim_ahead_costs_a_newcomer_nothing(bed: Bed) {
    let [first, second] = [4, 6].map(|number| format!("{}{number}", &DEAD[..DEAD.len() - 1]));
    let costs = ["2000", "60000"].map(|claim| {
        bed.command(&["HSET", "x", DEAD, "1"]);
        ask(&bed, &[&first, "30000", claim, "1"]);
        let before = bed.commands();
        ask(&bed, &[&second, "30000", "2000", "1"]);
        let cost = bed.commands() - before;
        assert_eq!(queue(&bed), [&*first, &second]);
        bed.command(&["DEL", "x", QUEUE, DEADLINES]);
        cost
    });
    assert_eq!(costs[0], costs[1]);
}

/// A rolling deployment with a new setting: old and new claims are in one queue.
pub(crate) async fn claims_of_different_lengths_keep_their_order(bed: Bed) {
    let one = connected(bed.builder().fair_claim(ms(60_000))).await;
    let other = bed.builder().fair_claim(ms(100)).connect().await.unwrap();
    let guard = one.fair_lock("x").lock().await.unwrap();
    let (first, second) = (queued(&bed, &one).await, queued(&bed, &other).await);
    let head = queue(&bed).remove(0);
    let end = Instant::now() + ms(1500);
    while Instant::now() < end {
        assert_eq!(queue(&bed).first(), Some(&head));
        // Each waiter's own claim counts, whoever else sends heartbeats.
        assert!(deadline(&bed, &head).unwrap() > bed.clock() + 30_000);
        sleep(ms(10)).await;
    }
    guard.unlock().await.unwrap();
    served("the first", first).await.0.unlock().await.unwrap();
    served("the second", second).await.0.unlock().await.unwrap();
    nothing_is_left(&bed).await;
}

/// The ways in which a client of ours removes a dead waiter from the queue of a free lock.
const PURGES: [&str; 6] = [
    "a heartbeat",
    "an acquisition",
    "a release",
    "a late release",
    "a forced release",
    "a leaver",
];

/// A Redisson thread sends no heartbeats: it is notified that it is next, or sleeps for as long as
/// the reply said.
pub(crate) async fn a_redisson_thread_behind_dead_waiters_is_notified(bed: Bed) {
    let ours = bed.client().await;
    let lock = ours.fair_lock("x");
    // A plain lock of such a name shares the channel of that thread.
    let (name, holder) = (format!("{{x}}:{JAVA}"), bed.client().await);
    for way in PURGES {
        let thread = bed.client_without_polls().await;
        let held = holder.lock(&name).try_lock_now(LONG).await.unwrap();
        let (listening, before) = (thread.lock(&name), thread.stats().calls);
        let listening = tokio::spawn(async move { listening.lock().await });
        // The thread asks once more after it has subscribed, and starts over if the machine is so
        // busy that it is polled late.
        eventually("listening", async || thread.stats().calls >= before + 2).await;
        let asked = thread.stats().calls;
        let released = way.ends_with("release") && way != "a forced release";
        let guard = if released {
            Some(lock.try_lock_now(LONG).await.unwrap())
        } else {
            None
        };
        let dies_in = if released {
            Duration::ZERO
        } else {
            bed.lease(100)
        };
        put(&bed, DEAD, dies_in);
        put(&bed, JAVA, Duration::from_secs(600));
        let mut behind = None;
        if ["a heartbeat", "a leaver"].contains(&way) {
            behind = Some(queued(&bed, &ours).await);
        }
        if way == "a late release" {
            bed.command(&["DEL", "x"]);
        }
        assert_eq!(thread.stats().calls, asked, "{way}: nobody is told yet");
        match way {
            "a heartbeat" => {}
            "a release" | "a late release" => {
                let held = guard.expect("held").unlock().await.is_ok();
                assert_eq!(held, way == "a release");
            }
            _ => {
                sleep(dies_in).await;
                if way == "a forced release" {
                    assert!(!lock.force_unlock("a test").await.unwrap());
                } else if way == "a leaver" {
                    behind.take().expect("queued").abort();
                } else {
                    bed.in_vain(async || lock.try_lock_now(LONG).await).await;
                }
            }
        }
        eventually(way, async || thread.stats().calls > asked).await;
        assert_eq!(queue(&bed).first().map(String::as_str), Some(JAVA), "{way}");
        held.unlock().await.unwrap();
        take_turn("it has heard", listening).await;
        if let Some(behind) = behind {
            behind.abort();
        }
        eventually("only the thread is left", async || queue(&bed) == [JAVA]).await;
        bed.command(&["DEL", QUEUE, DEADLINES]);
    }
}
