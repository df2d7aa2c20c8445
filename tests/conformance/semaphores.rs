//! What Redisson's tests pin of the semaphore, and what holders owe that die, are robbed or are not
//! answered.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use leasehold::{Client, Error, LossReason, Semaphore, SemaphorePermit};
use tokio::time::{Instant, sleep};

use crate::line::Line;
use crate::world::{World, eventually, ms, soon, waiting};

/// The most that Java can ask for.
const JAVAS_MOST: u32 = 2_147_483_647;

pub(crate) async fn set(client: &Client, name: &str, permits: u32) -> Semaphore {
    let semaphore = client.semaphore(name);
    assert!(semaphore.try_set_permits(permits).await.unwrap());
    semaphore
}

/// Waits in vain. A machine that stalls loses the last answer of a wait: then once more.
pub(crate) async fn in_vain<T: Debug>(wait: impl AsyncFn() -> Result<T, Error>) -> Error {
    for _ in 0..5 {
        let error = wait().await.unwrap_err();
        if error.is_timeout() {
            return error;
        }
        assert!(error.is_retryable(), "{error}");
    }
    panic!("no wait was answered")
}

/// Runs a wait beside what happens when all of its waiters wait, and the front of them listens.
pub(crate) async fn while_waiting<T>(
    client: &Client,
    waiters: u64,
    wait: impl Future<Output = T>,
    then: impl Future<Output = ()>,
) -> T {
    let before = client.stats().calls;
    let (done, ()) = tokio::join!(soon("the waiters get it", wait), async {
        waiting(client, waiters).await;
        // It asks, listens and asks again.
        let listens = async || client.stats().listeners >= 1 && client.stats().calls >= before + 2;
        eventually("it listens", listens).await;
        then.await;
    });
    done.0
}

pub(crate) async fn a_waiter_for_two_needs_two(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let semaphore = set(&one, "s", 1).await;
    let waiter = other.semaphore("s");
    let first = semaphore.acquire(1).await.unwrap();
    let two = while_waiting(&other, 1, waiter.acquire(2), async {
        first.release().await.unwrap();
        // One is there now: it asks in vain.
        eventually("it was woken", async || other.stats().wakes_in_vain == 1).await;
        assert_eq!(semaphore.available().await.unwrap(), 1);
        assert_eq!(other.stats().waiting, 1);
        semaphore.add_permits(1).await.unwrap();
    });
    let two = two.await.unwrap();
    assert_eq!((two.permits(), semaphore.available().await.unwrap()), (2, 0));
}

pub(crate) async fn none_is_taken_and_given_without_redis(world: World) {
    let client = world.client().await;
    let semaphore = client.semaphore("s");
    let before = client.stats().calls;
    let none = semaphore.acquire(0).await.unwrap();
    assert!(none.guard().is_none());
    none.release().await.unwrap();
    semaphore.try_acquire(0, Duration::ZERO).await.unwrap().forget();
    semaphore.release(0).await.unwrap();
    assert!(!semaphore.release_if_exists(0).await.unwrap());
    assert_eq!(client.stats().calls, before);
    assert_eq!(world.number(&["DBSIZE"]), 0);
}

pub(crate) async fn releases_make_a_semaphore(world: World) {
    let client = world.client().await;
    let semaphore = client.semaphore("s");
    semaphore.release(1).await.unwrap();
    assert_eq!(world.command(&["GET", "s"]), "1");
    semaphore.release(2).await.unwrap();
    let all = semaphore.try_acquire(3, Duration::ZERO).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);
    all.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 3);
}

pub(crate) async fn permits_are_set_once(world: World) {
    let client = world.client().await;
    let semaphore = set(&client, "s", 10).await;
    assert!(!semaphore.try_set_permits(15).await.unwrap());
    assert_eq!(semaphore.available().await.unwrap(), 10);
    let drained = semaphore.acquire(10).await.unwrap();
    assert!(!semaphore.try_set_permits(15).await.unwrap(), "none available is not none at all");
    drop(drained);
}

pub(crate) async fn a_semaphore_with_a_life_ends_with_its_holds(world: World) {
    let client = world.client().await;
    let semaphore = client.semaphore("s");
    let life = world.span(300);
    assert!(semaphore.try_set_permits_for(2, life).await.unwrap());
    let held = semaphore.acquire(1).await.unwrap();
    semaphore.add_permits(3).await.unwrap();
    let left = u64::try_from(world.left("s")).expect("adding leaves the expiry alone");
    assert!(ms(left) <= life);
    soon("it expires", world.until_gone("s")).await;
    soon("its holds, too", world.until_gone("leasehold_semaphore:{s}")).await;
    assert!(semaphore.try_set_permits(1).await.unwrap());
    // A hold of the one before gives nothing to the one of now.
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    assert_eq!(semaphore.available().await.unwrap(), 1);
    let refused = client.semaphore("t").try_set_permits_for(1, Duration::ZERO).await;
    assert!(matches!(refused, Err(Error::Config(_))));
}

pub(crate) async fn permits_are_added_and_taken_away(world: World) {
    let client = world.client().await;
    let semaphore = set(&client, "s", 10).await;
    let (five, three) = (semaphore.acquire(5).await.unwrap(), semaphore.acquire(3).await.unwrap());
    semaphore.add_permits(-10).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), -8);
    assert!(semaphore.try_acquire(1, Duration::ZERO).await.unwrap_err().is_timeout());
    five.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), -3);
    three.release().await.unwrap();
    semaphore.release(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
    assert_eq!(world.command(&["GET", "s"]), "1");
}

pub(crate) async fn a_waiter_for_many_waits_for_all(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let (semaphore, waiter) = (set(&one, "s", 3).await, other.semaphore("s"));
    let mut held = try_join_all((0..3).map(|_| semaphore.acquire(1))).await.unwrap();
    let many = while_waiting(&other, 1, waiter.acquire(3), async {
        for given in 0..3 {
            let vain = other.stats().wakes_in_vain;
            held.pop().unwrap().release().await.unwrap();
            if given < 2 {
                eventually("it asks in vain", async || other.stats().wakes_in_vain > vain).await;
            }
        }
    });
    many.await.unwrap().release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 3);
}

pub(crate) async fn a_timed_wait_ends_with_the_last_release(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    let (semaphore, waiter) = (set(&one, "s", 4).await, other.semaphore("s"));
    let pairs = try_join_all([semaphore.acquire(2), semaphore.acquire(2)]).await.unwrap();
    let start = Instant::now();
    let late = while_waiting(&other, 1, waiter.try_acquire(4, ms(9000)), async {
        for pair in pairs {
            sleep(world.span(100)).await;
            pair.release().await.unwrap();
        }
    });
    drop(late.await.unwrap());
    assert!(start.elapsed() >= 2 * world.span(100));
    if matches!(world, World::Embedded(_)) {
        assert!(start.elapsed() < ms(215), "told, not polled: {:?}", start.elapsed());
    }
    eventually("they are back", async || semaphore.available().await.unwrap() == 4).await;
    let all = semaphore.acquire(4).await.unwrap();
    let start = Instant::now();
    in_vain(async || waiter.try_acquire(1, world.span(50)).await).await;
    assert!(start.elapsed() >= world.span(50));
    all.release().await.unwrap();
}

pub(crate) async fn a_drained_semaphore_has_none(world: World) {
    let client = world.client().await;
    let semaphore = client.semaphore("s");
    assert_eq!(semaphore.drain().await.unwrap(), 0);
    assert!(!world.exists("s"), "draining makes none");
    set(&client, "s", 10).await;
    let held = semaphore.acquire(3).await.unwrap();
    assert_eq!(semaphore.drain().await.unwrap(), 7);
    assert_eq!(semaphore.available().await.unwrap(), 0);
    assert_eq!(semaphore.drain().await.unwrap(), 0);
    held.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 3);
}

pub(crate) async fn a_release_may_leave_a_missing_semaphore_missing(world: World) {
    let client = world.client().await;
    let semaphore = client.semaphore("s");
    assert!(!semaphore.release_if_exists(1).await.unwrap());
    assert!(!world.exists("s"));
    set(&client, "s", 0).await;
    assert!(semaphore.release_if_exists(2).await.unwrap());
    assert_eq!(semaphore.available().await.unwrap(), 2);
    // A hold that outlived its semaphore does not make it again either.
    let held = semaphore.acquire(1).await.unwrap();
    world.command(&["DEL", "s"]);
    drop(held);
    eventually("it is released", async || !world.exists("leasehold_semaphore:{s}")).await;
    assert!(!world.exists("s"));
}

/// A number that is read, and written after a while: two at once lose a step.
pub(crate) async fn step(number: &AtomicU64) {
    let before = number.load(SeqCst);
    tokio::task::yield_now().await;
    number.store(before + 1, SeqCst);
}

pub(crate) async fn one_permit_excludes(world: World) {
    let number = Arc::new(AtomicU64::new(0));
    let first = world.client().await;
    set(&first, "s", 1).await;
    let mut tasks = Vec::new();
    for _ in 0..4 {
        let client = world.client().await;
        for _ in 0..4 {
            let (semaphore, number) = (client.semaphore("s"), number.clone());
            tasks.push(tokio::spawn(async move {
                for _ in 0..10 {
                    let permit = semaphore.acquire(1).await.unwrap();
                    step(&number).await;
                    permit.release().await.unwrap();
                }
            }));
        }
    }
    for done in join_all(tasks).await {
        done.unwrap();
    }
    assert_eq!(number.load(SeqCst), 160);
    assert_eq!(first.semaphore("s").available().await.unwrap(), 1);
    assert!(!world.exists("leasehold_semaphore:{s}"));
}

pub(crate) async fn small_and_huge_acquisitions_all_complete(world: World) {
    let clients = [world.client().await, world.client().await];
    set(&clients[0], "s", JAVAS_MOST).await;
    let tasks = (0..12_usize).map(|number| {
        let semaphore = clients[number % 2].semaphore("s");
        let permits = if number % 3 == 0 { JAVAS_MOST } else { 1 };
        tokio::spawn(async move {
            for _ in 0..5 {
                semaphore.acquire(permits).await.unwrap().release().await.unwrap();
            }
        })
    });
    let (done, _) = soon("all complete", join_all(tasks)).await;
    for done in done {
        done.unwrap();
    }
    assert_eq!(clients[0].semaphore("s").available().await.unwrap(), i64::from(JAVAS_MOST));
}

async fn all_get_one(world: &World, clients: &[Client], message: impl AsyncFnOnce()) {
    let tasks: Vec<_> = (0..6)
        .map(|number| {
            let semaphore = clients[number % clients.len()].semaphore("s");
            tokio::spawn(async move { semaphore.acquire(1).await.unwrap() })
        })
        .collect();
    let each = 6 / u64::try_from(clients.len()).unwrap();
    for client in clients {
        let listens = async || client.stats().listeners == 1 && client.stats().calls >= 2;
        eventually("it listens", listens).await;
        waiting(client, each).await;
    }
    let start = Instant::now();
    message().await;
    let (held, _) = soon("everybody", join_all(tasks)).await;
    if matches!(world, World::Embedded(_)) {
        assert!(start.elapsed() < ms(100), "one message for all: {:?}", start.elapsed());
    }
    let held: Vec<SemaphorePermit> = held.into_iter().map(Result::unwrap).collect();
    assert_eq!(world.command(&["GET", "s"]), "0");
    for permit in held {
        permit.release().await.unwrap();
    }
}

pub(crate) async fn one_release_lets_many_in(world: World) {
    let giver = world.client().await;
    let semaphore = set(&giver, "s", 0).await;
    // A safety poll must not be what wakes them.
    let slow = || world.builder().safety_poll(ms(60_000)).connect();
    let one = [slow().await.unwrap()];
    all_get_one(&world, &one, async || semaphore.release(6).await.unwrap()).await;
    semaphore.drain().await.unwrap();
    let three = [slow().await.unwrap(), slow().await.unwrap(), slow().await.unwrap()];
    all_get_one(&world, &three, async || semaphore.release(6).await.unwrap()).await;
    // The same by the release of one hold that stood for all.
    let all = semaphore.acquire(6).await.unwrap();
    all_get_one(&world, &three, async || all.release().await.unwrap()).await;
}

pub(crate) async fn a_front_that_gives_up_lets_the_next_ask(world: World) {
    let (one, other) = (world.client().await, world.client().await);
    set(&one, "s", 2).await;
    // Served in the order in which they came: who wants less waits behind who wants more.
    let (many, few) = (other.semaphore("s"), other.semaphore("s"));
    let front = tokio::spawn(async move { many.try_acquire(3, ms(9000)).await });
    waiting(&other, 1).await;
    let behind = tokio::spawn(async move { few.acquire(2).await.unwrap() });
    waiting(&other, 2).await;
    // A zero wait asks beside the queue.
    other.semaphore("s").try_acquire(1, Duration::ZERO).await.unwrap().release().await.unwrap();
    assert!(!behind.is_finished());
    front.abort();
    drop(soon("the next asks", behind).await.0.unwrap());
}

pub(crate) async fn a_key_of_another_type_is_reported(world: World) {
    let client = world.client().await;
    world.command(&["LPUSH", "x", "not a number"]);
    let (semaphore, permits) = (client.semaphore("x"), client.permit_expirable_semaphore("x"));
    let latch = client.count_down_latch("x");
    let told = |outcome: Result<(), Error>| {
        let error = outcome.unwrap_err();
        assert!(matches!(&error, Error::Protocol { .. }), "{error}");
    };
    told(semaphore.acquire(1).await.map(drop));
    told(semaphore.available().await.map(drop));
    told(semaphore.release(1).await);
    told(permits.acquire(ms(9000)).await.map(drop));
    told(permits.permits().await.map(drop));
    told(latch.wait(Duration::MAX).await);
    told(latch.count_down().await.map(drop));
    assert_eq!(client.stats().waiting, 0);
}

pub(crate) async fn permits_of_a_dead_client_come_back(world: World) {
    let lease = world.span(400);
    let (mortal, line) = Line::with_lease(&world, lease).await;
    let (semaphore, waiter) = (set(&mortal, "s", 3).await, world.client().await);
    let held = semaphore.acquire(2).await.unwrap();
    line.die();
    let start = Instant::now();
    let (all, took) = soon("they come back", waiter.semaphore("s").acquire(3)).await;
    assert!(held.guard().unwrap().check().is_err(), "the dead one believes no longer");
    // It renewed at most a third of its lease before it died; the poll comes within 1.2 s.
    assert!(start.elapsed() >= lease / 2, "{took:?}");
    if matches!(world, World::Embedded(_)) {
        assert!(took < lease + ms(1300), "{took:?}");
    }
    drop(held);
    drop(all);
    let semaphore = waiter.semaphore("s");
    eventually("all three", async || semaphore.available().await.unwrap() == 3).await;
}

pub(crate) async fn permits_are_renewed_while_they_are_held(world: World) {
    let lease = world.span(300);
    let client = world.client_with_lease(lease).await;
    let semaphore = set(&client, "s", 2).await;
    let held = semaphore.acquire(2).await.unwrap();
    sleep(2 * lease).await;
    held.guard().unwrap().check().unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 0);
    held.release().await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 2);
}

pub(crate) async fn a_permit_that_is_taken_away_is_told(world: World) {
    let client = world.client_with_lease(world.span(300)).await;
    let semaphore = set(&client, "s", 1).await;
    let held = semaphore.acquire(1).await.unwrap();
    let guard = held.guard().unwrap();
    assert_eq!(world.number(&["ZREM", "leasehold_semaphore:{s}", guard.owner()]), 1);
    let (reason, _) = soon("it is told", guard.lost()).await;
    assert_eq!(reason, LossReason::Gone);
    assert!(matches!(held.release().await, Err(Error::Lost { .. })));
    assert_eq!(semaphore.available().await.unwrap(), 0, "whoever took it has it");
}

pub(crate) async fn a_forgotten_permit_comes_back_by_no_lease(world: World) {
    let lease = world.span(200);
    let client = world.client_with_lease(lease).await;
    let semaphore = set(&client, "s", 1).await;
    semaphore.acquire(1).await.unwrap().forget();
    sleep(2 * lease).await;
    assert_eq!(semaphore.available().await.unwrap(), 0);
    semaphore.release(1).await.unwrap();
    assert_eq!(semaphore.available().await.unwrap(), 1);
}

pub(crate) async fn a_great_number_of_dead_holds_comes_back_in_one_call(world: World) {
    const DEAD: usize = 20_000;
    let client = world.client().await;
    let semaphore = set(&client, "s", 0).await;
    let members: Vec<_> = (0..DEAD).map(|number| format!("dead:{number}:2")).collect();
    let mut words = vec!["ZADD", "leasehold_semaphore:{s}"];
    words.extend(members.iter().flat_map(|member| ["1", member.as_str()]));
    assert_eq!(world.number(&words), 20_000);
    let before = client.stats().calls;
    assert_eq!(semaphore.available().await.unwrap(), 40_000);
    assert_eq!(client.stats().calls - before, 1);
    assert!(!world.exists("leasehold_semaphore:{s}"));
}

/// The server knows the scripts: a call whose reply is lost was executed.
async fn scripts_known(world: &World) {
    let known = world.client().await.semaphore("known");
    known.try_set_permits(1).await.unwrap();
    known.acquire(1).await.unwrap().release().await.unwrap();
    known.add_permits(1).await.unwrap();
    known.drain().await.unwrap();
}

pub(crate) async fn a_change_whose_reply_was_lost_counts_once(world: World) {
    scripts_known(&world).await;
    let (client, line) = Line::with(&world, |builder| builder.command_timeout(ms(9000))).await;
    let semaphore = client.semaphore("s");
    let held = || world.command(&["GET", "s"]);
    let cut_when = async |expected: &str| {
        eventually("it is done", async || held() == expected).await;
        line.reconnect();
    };
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.try_set_permits(4), cut_when("4"));
    assert!(done.unwrap(), "the first one did it");
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.add_permits(3), cut_when("7"));
    done.unwrap();
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.release_if_exists(1), cut_when("8"));
    assert!(done.unwrap());
    line.lose_replies();
    // Before the lease of the first one would end.
    let take = soon("it finds its own", semaphore.acquire(5));
    let (done, ()) = tokio::join!(take, cut_when("3"));
    let five = done.0.unwrap();
    line.lose_replies();
    let (done, ()) = tokio::join!(five.release(), cut_when("8"));
    done.unwrap();
    line.lose_replies();
    let (done, ()) = tokio::join!(semaphore.drain(), cut_when("0"));
    assert_eq!(done.unwrap(), 8);
    assert_eq!(held(), "0");
    assert!(!world.exists("leasehold_semaphore:{s}"));
}

pub(crate) async fn a_cancelled_acquisition_gives_back_what_it_took(world: World) {
    scripts_known(&world).await;
    let (client, line) = Line::with(&world, |builder| builder.command_timeout(ms(9000))).await;
    let semaphore = set(&client, "s", 5).await;
    line.lose_replies();
    tokio::select! {
        taken = semaphore.acquire(3) => panic!("no reply came: {taken:?}"),
        () = eventually("it is taken", async || world.command(&["GET", "s"]) == "2") => {}
    }
    line.reconnect();
    eventually("it is undone", async || world.command(&["GET", "s"]) == "5").await;
    eventually("off the books", async || !world.exists("leasehold_semaphore:{s}")).await;
}
