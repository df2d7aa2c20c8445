//! A release of a plain lock gives it to the first waiter that is listed beside it, and tells its
//! client.
//!
//! In a cluster nobody is listed, because there a script does not hear whether its message has
//! arrived.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use futures::future::{join_all, select_all};
use leasehold::test_util::{Delay, Faults};
use leasehold::{Client, Ended, Error, HoldState, Lease, LockGuard, LossReason};
use leasehold_testbed::{Bed, Place, SOON, eventually, ms, timed, until_listed, within};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use crate::faulty_connection::FaultyConnection;

type Taking = JoinHandle<Result<LockGuard, Error>>;

/// For how long a release gives the lock.
const CLAIM: u64 = 2000;

/// A client that has met another one, so its releases look for waiters.
async fn client(bed: &Bed) -> Client {
    let client = bed.client().await;
    meets_another(bed, &client).await;
    client
}

async fn meets_another(bed: &Bed, client: &Client) {
    bed.command(&["HSET", "met", "somebody:1", "1"]);
    bed.command(&["PEXPIRE", "met", "60000"]);
    bed.in_vain(async || client.lock("met").try_lock(ms(50), Lease::Renewed).await)
        .await;
    bed.command(&["DEL", "met"]);
}

/// The field of the holder: count, streak, and the waiters.
fn beside(bed: &Bed) -> String {
    let fields = bed.list(&["HGETALL", "x"]);
    fields.into_iter().nth(1).unwrap_or_default()
}

/// The waiters beside the lock: number of question, lease and field of each.
fn listed(bed: &Bed) -> Vec<(u64, u64, String)> {
    let text = beside(bed);
    let entry = |entry: &str| {
        let mut parts = entry.splitn(3, ':');
        let mut number = || parts.next()?.parse().ok();
        Some((number()?, number()?, parts.next()?.to_owned()))
    };
    text.split(';').skip(2).filter_map(entry).collect()
}

/// A waiter that is listed, and its field.
async fn waits(bed: &Bed, client: &Client, lease: Lease) -> (Taking, String) {
    let before = listed(bed).len();
    let takes = || {
        let lock = client.lock("x");
        tokio::spawn(async move { lock.try_lock(SOON, lease).await })
    };
    let taking = until_listed(takes, async || listed(bed).len() > before).await;
    let (_, _, field) = listed(bed).pop().expect("the last one");
    (taking, field)
}

async fn served(what: &str, (taking, field): (Taking, String)) -> LockGuard {
    let guard = timed(what, taking).await.0.expect("no panic");
    let guard = guard.expect("granted");
    assert_eq!(guard.owner(), field);
    guard
}

/// What a release says that gives the lock to this waiter.
fn forge(bed: &Bed, client: &Client, question: u64, field: &str) {
    let said = format!("\0granted {question} 60000 {field} redisson_lock__channel:{{x}}");
    bed.publish(&format!("leasehold_client:{{{}}}", client.id()), &said);
}

async fn stays_waiting(waiter: &(Taking, String)) {
    sleep(ms(300)).await;
    assert!(!waiter.0.is_finished(), "it believes a message");
}

async fn is_free(bed: &Bed) {
    eventually("no key is left", async || bed.number(&["DBSIZE"]) == 0).await;
}

pub(crate) async fn a_release_gives_the_lock_to_the_next_waiter(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    let calls = bed.calls();
    guard.unlock().await.unwrap();
    let guard = served("the next", next).await;
    if bed.is_embedded() {
        assert_eq!(bed.calls() - calls, 1, "the release");
        assert!((1..=CLAIM).contains(&bed.left("x").unsigned_abs()));
    }
    eventually("renewed", async || bed.left("x") > 20_000).await;
    guard.unlock().await.unwrap();
    is_free(&bed).await;
}

/// Its first renewal is due when it would have been without the hand-over, and sets the whole
/// lease.
pub(crate) async fn what_was_given_is_handed_over_and_renewed(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client_with_long_streaks().await);
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    let lock = other.lock("x");
    let last = tokio::spawn(async move { lock.lock().await });
    eventually("both wait", async || other.stats().waiting == 2).await;
    let calls = bed.calls();
    guard.unlock().await.unwrap();
    served("the next", next).await.unlock().await.unwrap();
    let guard = timed("the last", last).await.0.unwrap().unwrap();
    if bed.is_embedded() {
        assert_eq!(bed.calls() - calls, 1, "the release");
    }
    eventually("renewed", async || bed.left("x") > 20_000).await;
    if bed.is_embedded() {
        // On a server, the message may come too late, and the waiter asks.
        eventually("once", async || other.stats().renewed == 1).await;
    }
    guard.unlock().await.unwrap();
    is_free(&bed).await;
}

pub(crate) async fn waiters_get_it_in_the_order_in_which_they_came(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let clients = [
        client(&bed).await,
        bed.client().await,
        bed.client().await,
        bed.client().await,
    ];
    let mut guard = clients[0].lock("x").lock().await.unwrap();
    let mut waiters = Vec::new();
    for client in &clients[1..] {
        waiters.push(waits(&bed, client, Lease::Renewed).await);
    }
    for waiter in waiters {
        guard.unlock().await.unwrap();
        guard = served("in order", waiter).await;
    }
    guard.unlock().await.unwrap();
    is_free(&bed).await;
}

/// The lease counts from when it was refused. Of a claim, less than half would be left. It asks.
pub(crate) async fn who_has_waited_for_long_asks(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    sleep(ms(CLAIM / 2 + 100)).await;
    let calls = bed.calls();
    guard.unlock().await.unwrap();
    let guard = served("the next", next).await;
    if bed.is_embedded() {
        assert_eq!(bed.calls() - calls, 2, "the release, and its question");
    }
    assert!(bed.left("x") > 20_000, "it has asked");
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_fixed_lease_is_asked_for(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let lease = Lease::Fixed(Duration::from_secs(600));
    let next = waits(&bed, &other, lease).await;
    guard.unlock().await.unwrap();
    let guard = served("the next", next).await;
    assert!(bed.left("x") > 500_000);
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_short_lease_ends_in_time(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let lease = bed.lease(300);
    let next = waits(&bed, &other, Lease::Fixed(lease)).await;
    guard.unlock().await.unwrap();
    let guard = served("the next", next).await;
    assert!(ms(bed.left("x").unsigned_abs()) <= lease);
    guard.forget();
    bed.until_gone("x").await;
}

/// A message about another question, or another waiter, says nothing about this one.
pub(crate) async fn only_the_last_attempt_is_believed(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    let (question, _, field) = listed(&bed).remove(0);
    forge(&bed, &other, question + 1, &field);
    forge(&bed, &other, question.wrapping_sub(1), &field);
    forge(&bed, &other, question, &format!("{field}0"));
    stays_waiting(&next).await;
    guard.unlock().await.unwrap();
    served("the next", next).await.unlock().await.unwrap();
}

/// What the channel of releases says is for everybody.
pub(crate) async fn no_message_to_all_is_believed(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    bed.publish("redisson_lock__channel:{x}", "60000");
    stays_waiting(&next).await;
    guard.unlock().await.unwrap();
    served("the next", next).await.unlock().await.unwrap();
}

/// Not from the question that was refused.
pub(crate) async fn the_longest_hold_counts_from_the_grant(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    // From now on, this client listens, so that the next waiter is listed.
    waits(&bed, &other, Lease::Renewed).await.0.abort();
    eventually("it has left", async || listed(&bed).is_empty()).await;
    let lock = other.lock("x");
    let next = tokio::spawn(async move { lock.acquire().max_hold(ms(1500)).await });
    eventually("it is listed", async || listed(&bed).len() == 1).await;
    sleep(ms(800)).await;
    guard.unlock().await.unwrap();
    let guard = timed("the next", next).await.0.unwrap().unwrap();
    if bed.is_embedded() {
        sleep(ms(1000)).await;
        assert_eq!(guard.state(), HoldState::Held);
    }
    let (ended, _) = timed("it ends", guard.ended()).await;
    assert_eq!(ended, Ended::Lost(LossReason::MaxHold));
}

/// Behind a new connection may be another server, and messages of the former one may still come.
pub(crate) async fn after_a_reconnect_no_message_of_before_is_believed(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let one = client(&bed).await;
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    let (question, _, field) = listed(&bed).remove(0);
    line.reconnect();
    eventually("it has asked again", async || {
        listed(&bed)
            .first()
            .is_some_and(|(last, ..)| *last > question)
    })
    .await;
    forge(&bed, &other, question, &field);
    stays_waiting(&next).await;
    guard.unlock().await.unwrap();
    served("the next", next).await.unlock().await.unwrap();
}

/// A waiter that stops waiting is taken off the list.
pub(crate) async fn who_has_left_is_given_nothing(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other, third) = (client(&bed).await, bed.client().await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let (gone, _) = waits(&bed, &other, Lease::Renewed).await;
    let last = waits(&bed, &third, Lease::Renewed).await;
    gone.abort();
    eventually("it has left", async || listed(&bed).len() == 1).await;
    guard.unlock().await.unwrap();
    served("the last", last).await.unlock().await.unwrap();
    is_free(&bed).await;
}

/// The release has given it the lock, but the future is dropped before it knows.
pub(crate) async fn who_leaves_with_the_lock_passes_it_on(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, third) = (client(&bed).await, bed.client().await);
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let guard = one.lock("x").lock().await.unwrap();
    let (gone, field) = waits(&bed, &other, Lease::Renewed).await;
    let last = waits(&bed, &third, Lease::Renewed).await;
    line.lose_messages();
    guard.unlock().await.unwrap();
    assert!(bed.command(&["HGET", "x", &field]).starts_with("1;1;"));
    gone.abort();
    let guard = within(bed.late(100), "the last", last.0).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    is_free(&bed).await;
}

/// No subscriber hears the message, so the next waiter is tried.
pub(crate) async fn who_does_not_listen_is_given_nothing(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, third) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let dead = "1;0;1:2000:00000000-0000-0000-0000-000000000000:1;";
    bed.command(&["HSET", "x", guard.owner(), dead]);
    let last = waits(&bed, &third, Lease::Renewed).await;
    let calls = bed.calls();
    guard.unlock().await.unwrap();
    served("the last", last).await.unlock().await.unwrap();
    if bed.is_embedded() {
        assert_eq!(bed.calls() - calls, 2, "two releases");
    }
    is_free(&bed).await;
}

/// The lease that a release begins is short, so a waiter that died costs no more than that, and a
/// poll.
pub(crate) async fn who_dies_with_the_lock_costs_a_claim(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, third) = (client(&bed).await, bed.client().await);
    let (other, line) = FaultyConnection::with(&bed, |builder| builder).await;
    let guard = one.lock("x").lock().await.unwrap();
    let (dead, field) = waits(&bed, &other, Lease::Renewed).await;
    let (last, _) = waits(&bed, &third, Lease::Renewed).await;
    line.die();
    guard.unlock().await.unwrap();
    if !bed.is_embedded() {
        assert!(bed.command(&["HGET", "x", &field]).starts_with("1;1;"));
    }
    let guard = within(bed.late(2 * CLAIM), "the last", last).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    dead.abort();
}

/// Nobody else listens. Still, after a streak all may ask, because nobody knows who listens without
/// a trace.
pub(crate) async fn after_a_streak_all_waiters_may_ask(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let clients = [client(&bed).await, client(&bed).await];
    assert_eq!(given_in_sixteen_rounds(&bed, &clients).await, 14);
}

/// A client without an entry, like those of Redisson, is passed over once by the only waiter that
/// is listed, and not twice in a row. Then it may ask as early as the others.
pub(crate) async fn who_is_not_listed_gets_its_turn(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let clients = [client(&bed).await, client(&bed).await];
    assert_eq!(given_beside_a_stranger(&bed, &clients).await, 8);
}

/// Three that are listed may each pass it over.
pub(crate) async fn who_is_not_listed_has_no_larger_share(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let clients = [
        client(&bed).await,
        client(&bed).await,
        client(&bed).await,
        client(&bed).await,
    ];
    assert_eq!(given_beside_a_stranger(&bed, &clients).await, 12);
}

async fn given_beside_a_stranger(bed: &Bed, clients: &[Client]) -> u32 {
    let other = bed.client().await;
    let turns = Arc::new(AtomicU32::new(0));
    // Its waiters listen on the same channel.
    let (lock, counted) = (other.fenced_lock("x"), turns.clone());
    let guard = clients[0].lock("x").lock().await.unwrap();
    let stranger = tokio::spawn(async move {
        loop {
            lock.lock().await.unwrap().unlock().await.unwrap();
            counted.fetch_add(1, Relaxed);
        }
    });
    eventually("it waits", async || other.stats().listeners == 1).await;
    guard.unlock().await.unwrap();
    let given = given_in_sixteen_rounds(bed, clients).await;
    stranger.abort();
    assert_ne!(turns.load(Relaxed), 0, "turns in sixteen rounds");
    given
}

/// All clients always want the lock. How often was it given?
async fn given_in_sixteen_rounds(bed: &Bed, clients: &[Client]) -> u32 {
    let others = clients.len() - 1;
    let (mut holder, mut guard) = (0, clients[0].lock("x").lock().await.unwrap());
    let mut waiting = Vec::new();
    for (number, client) in clients.iter().enumerate().skip(1) {
        let (taking, _) = waits(bed, client, Lease::Renewed).await;
        waiting.push(Box::pin(taken_by(number, taking)));
    }
    let mut given = 0;
    for _ in 1..=16 {
        eventually("all are listed", async || listed(bed).len() == others).await;
        guard.unlock().await.unwrap();
        // The list begins with the streak, and ends with a lock that is free.
        let list = beside(bed);
        let streak = list.split(';').nth(1).and_then(|text| text.parse().ok());
        given += u32::from(streak.is_some_and(|streak: u32| streak > 0));
        let number = holder;
        ((holder, guard), _, waiting) = timed("the next", select_all(waiting)).await.0;
        eventually("the rest is", async || listed(bed).len() == others - 1).await;
        let (taking, _) = waits(bed, &clients[number], Lease::Renewed).await;
        waiting.push(Box::pin(taken_by(number, taking)));
    }
    guard.unlock().await.unwrap();
    given
}

async fn taken_by(number: usize, taking: Taking) -> (usize, LockGuard) {
    (number, taking.await.unwrap().unwrap())
}

/// A re-entry keeps the waiters beside the lock.
pub(crate) async fn the_list_stays_with_the_hold(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let next = waits(&bed, &other, Lease::Renewed).await;
    let is_listed = || listed(&bed).iter().any(|(_, _, field)| *field == next.1);
    let inner = guard.reenter().await.unwrap();
    assert_eq!(bed.count("x", guard.owner()), 2);
    assert!(is_listed());
    inner.unlock().await.unwrap();
    let lowered = async || bed.count("x", guard.owner()) == 1;
    eventually("lowered", lowered).await;
    assert!(is_listed());
    guard.unlock().await.unwrap();
    served("the next", next).await.unlock().await.unwrap();
}

/// The release of a fair lock does not read the list, and no release of a writer or of Redisson
/// either.
pub(crate) async fn who_waits_for_a_holder_of_another_kind_is_not_listed(bed: Bed) {
    let (one, other) = (client(&bed).await, bed.client().await);
    // From now on, this client can be listed.
    let guard = one.lock("x").lock().await.unwrap();
    let next = listens(&other).await.0;
    guard.unlock().await.unwrap();
    let guard = timed("plain", next).await.0.unwrap().unwrap();
    guard.unlock().await.unwrap();
    let fair = one.fair_lock("x").lock().await.unwrap();
    let next = listens(&other).await.0;
    sleep(ms(100)).await;
    assert_eq!(bed.list(&["HGETALL", "x"]), [fair.owner(), "1"]);
    fair.unlock().await.unwrap();
    let guard = timed("after the fair lock", next).await.0.unwrap().unwrap();
    guard.unlock().await.unwrap();
    let (_, writer) = one.read_write_lock("x").split();
    let write = writer.lock().await.unwrap();
    let next = listens(&other).await.0;
    sleep(ms(100)).await;
    let owner = write.owner();
    assert_eq!(bed.list(&["HGETALL", "x"]), ["mode", "write", owner, "1"]);
    write.unlock().await.unwrap();
    let guard = timed("after the writer", next).await.0.unwrap().unwrap();
    guard.unlock().await.unwrap();
    let java = "0b4e4b9c-9a1f-4c0e-8f6a-0c5f9d6b0f11:57";
    bed.command(&["HSET", "x", java, "1"]);
    bed.command(&["PEXPIRE", "x", "30000"]);
    let next = listens(&other).await.0;
    sleep(ms(100)).await;
    assert_eq!(bed.list(&["HGETALL", "x"]), [java, "1"]);
    bed.command(&["DEL", "x"]);
    bed.publish("redisson_lock__channel:{x}", "0");
    let guard = timed("after Redisson", next).await.0.unwrap().unwrap();
    guard.unlock().await.unwrap();
}

/// A waiter that listens, and may be listed.
async fn listens(client: &Client) -> (Taking,) {
    let lock = client.lock("x");
    let waiter = tokio::spawn(async move { lock.lock().await });
    eventually("it waits", async || client.stats().listeners == 1).await;
    (waiter,)
}

/// A holder, and so many other clients whose waiters are listed.
async fn with_waiters(bed: &Bed, number: usize) -> (Client, LockGuard, Vec<(Taking, String)>) {
    let holder = client(bed).await;
    let guard = holder.lock("x").lock().await.unwrap();
    let mut waiters = Vec::new();
    for _ in 0..number {
        waiters.push(waits(bed, &bed.client().await, Lease::Renewed).await);
    }
    (holder, guard, waiters)
}

/// The list has an end. Who finds no room is woken by the message to all.
pub(crate) async fn who_finds_no_room_waits_all_the_same(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (_holder, mut guard, mut waiters) = with_waiters(&bed, 8).await;
    let next = listens(&bed.client_without_polls().await).await.0;
    sleep(ms(100)).await;
    assert_eq!(listed(&bed).len(), 8);
    let last = waiters.pop().expect("the eighth").0;
    for waiter in waiters {
        guard.unlock().await.unwrap();
        guard = served("in order", waiter).await;
    }
    guard.unlock().await.unwrap();
    each_has_its_turn([last, next]).await;
    is_free(&bed).await;
}

async fn each_has_its_turn(waiters: impl IntoIterator<Item = Taking>) {
    let turn = async |taking: Taking| taking.await.unwrap().unwrap().unlock().await;
    timed("turns", join_all(waiters.into_iter().map(turn))).await;
}

/// However many find no room, they are no reason to tell all sooner.
pub(crate) async fn a_full_list_is_given_to_its_end(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (_holder, mut guard, mut waiters) = with_waiters(&bed, 8).await;
    let last = waiters.pop().expect("the eighth").0;
    let mut crowd = Vec::new();
    for _ in 0..6 {
        crowd.push(listens(&bed.client_without_polls().await).await.0);
    }
    for (streak, waiter) in (1..=7).zip(waiters) {
        guard.unlock().await.unwrap();
        guard = served("in order", waiter).await;
        let given = beside(&bed);
        assert!(given.starts_with(&format!("1;{streak};")), "{given}");
    }
    guard.unlock().await.unwrap();
    crowd.push(last);
    each_has_its_turn(crowd).await;
}

/// Who has just had its turn lets the message pass after which those ask that came before it.
pub(crate) async fn who_finds_no_room_lets_earlier_waiters_go_first(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (holder, guard, mut waiters) = with_waiters(&bed, 8).await;
    guard.unlock().await.unwrap();
    let guard = served("the first", waiters.remove(0)).await;
    let again = listens(&holder).await.0;
    sleep(ms(100)).await;
    assert_eq!(listed(&bed).len(), 7, "there is no room for it");
    bed.command(&["HSET", "x", guard.owner(), "1;0;"]);
    let (from, field) = (Instant::now(), format!("{}:", holder.id()));
    bed.publish("redisson_lock__channel:{x}", "0");
    let is_listed = |(_, _, waiter): &(u64, u64, String)| waiter.starts_with(&field);
    // No other message comes, so it asks all the same.
    eventually("it asks", async || listed(&bed).iter().any(is_listed)).await;
    if bed.is_embedded() {
        assert!(from.elapsed() >= ms(50), "it lets the message pass");
    }
    guard.unlock().await.unwrap();
    let earlier = waiters.into_iter().map(|(taking, _)| taking);
    each_has_its_turn(earlier.chain([again])).await;
}

/// A waiter that lets others go first after a message to all hears at once that a release has given
/// it the lock.
pub(crate) async fn a_yielding_waiter_takes_what_it_is_given(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (_holder, guard, mut waiters) = with_waiters(&bed, 1).await;
    bed.publish("redisson_lock__channel:{x}", "0");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    let from = Instant::now();
    guard.unlock().await.unwrap();
    let guard = served("the next", waiters.remove(0)).await;
    if bed.is_embedded() {
        assert_eq!(from.elapsed(), Duration::ZERO);
    }
    guard.unlock().await.unwrap();
}

/// If the waiter that is given the lock is dead, nothing is published when that ends. So a client
/// without an entry, like those of Redisson, hears of the grant, and learns how short its lease is.
pub(crate) async fn who_is_not_listed_is_told_of_a_short_lease(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let one = client(&bed).await;
    let (other, line) =
        FaultyConnection::with(&bed, |builder| builder.safety_poll(Duration::from_secs(60))).await;
    let third = bed.client_without_polls().await;
    let long = Lease::Fixed(Duration::from_secs(600));
    let guard = one.lock("x").acquire().lease(long).await.unwrap();
    let (dead, field) = waits(&bed, &other, Lease::Renewed).await;
    let lock = third.fenced_lock("x");
    let last = tokio::spawn(async move { lock.lock().await });
    eventually("it waits", async || third.stats().listeners == 1).await;
    line.lose_messages();
    guard.unlock().await.unwrap();
    assert!(bed.command(&["HGET", "x", &field]).starts_with("1;1;"));
    line.die();
    let guard = within(bed.late(CLAIM + 100), "the last", last).await;
    guard.unwrap().unwrap().unlock().await.unwrap();
    dead.abort();
}

/// A grant that ends before its waiter can ask would keep the lock from all others.
pub(crate) async fn who_is_too_far_away_for_its_claim_is_not_listed(bed: Bed) {
    let Place::Embedded(engine) = &bed.place else {
        return;
    };
    if bed.is_cluster() {
        return;
    }
    let one = client(&bed).await;
    let guard = one.lock("x").lock().await.unwrap();
    for (way, entries) in [(10, 1), (90, 0)] {
        let (other, _link) =
            FaultyConnection::with(&bed, |builder| builder.fair_claim(ms(100))).await;
        let delay = Delay::between(ms(way), ms(way));
        let far = Faults {
            request: delay,
            reply: delay,
            ..Faults::default()
        };
        engine.links().pop().unwrap().set_faults(far, 1);
        let next = listens(&other).await.0;
        for _ in 0..5 {
            sleep(ms(500)).await;
            bed.publish("redisson_lock__channel:{x}", "0");
        }
        sleep(ms(500)).await;
        assert_eq!(listed(&bed).len(), entries, "{way} ms away");
        next.abort();
        eventually("it has left", async || listed(&bed).is_empty()).await;
    }
    guard.unlock().await.unwrap();
}

/// Who looks at the lock sees its holder, and no list.
pub(crate) async fn the_list_is_no_holder(bed: Bed) {
    if bed.is_cluster() {
        return;
    }
    let (one, other) = (client(&bed).await, bed.client().await);
    let guard = one.lock("x").lock().await.unwrap();
    let (next, _) = waits(&bed, &other, Lease::Renewed).await;
    let lock = one.lock("x");
    assert!(lock.is_locked().await.unwrap());
    let holder = lock.holder().await.unwrap().expect("held");
    assert_eq!((holder.owner.as_str(), holder.holds), (guard.owner(), 1));
    bed.in_vain(async || other.lock("x").try_lock(ms(50), Lease::Renewed).await)
        .await;
    next.abort();
    guard.unlock().await.unwrap();
}
