//! How several locks as one end: a lost member, a closed client, a caller that leaves.

use futures::FutureExt;
use leasehold::test_util::Reply;
use leasehold::{EmbeddedRedis, Ended, Error, HoldState, Lease, Lock, LockGuard, LossReason};
use leasehold_testbed::{Bed, Place, assert_lost, eventually, holds, ms, timed, waiting};
use tokio::time::{Instant, sleep};

use crate::multi::{NAMES, settled, there};

async fn is_lost(guard: &LockGuard, reason: LossReason) {
    assert_eq!(timed("lost", guard.ended()).await.0, Ended::Lost(reason));
    assert_eq!(guard.state(), HoldState::Lost);
    assert!(matches!(guard.check(), Err(Error::Lost { .. })));
}

pub(crate) async fn the_loss_of_one_member_is_the_loss_of_all(bed: Bed) {
    let client = bed.client_with_lease(bed.lease(300)).await;
    for name in NAMES {
        let guard = Lock::multi(NAMES.map(|name| client.lock(name)))
            .lock()
            .await
            .unwrap();
        sleep(bed.lease(400)).await;
        guard.check().unwrap();
        bed.command(&["DEL", name]);
        is_lost(&guard, LossReason::Gone).await;
        let late = guard.unlock().await.unwrap_err();
        assert!(matches!(late, Error::Lost { .. }), "{late}");
        eventually("the others are released", async || there(&bed).is_empty()).await;
    }
    let guard = Lock::multi(NAMES.map(|name| client.lock(name)))
        .try_lock(ms(9000), Lease::Fixed(bed.lease(100)))
        .await
        .unwrap();
    is_lost(&guard, LossReason::Expired).await;
    drop(guard);
    settled(&client).await;
}

pub(crate) async fn a_client_that_closes_ends_what_needs_it(bed: Bed) {
    let (stays, other) = (bed.client().await, bed.client().await);
    // In the middle of a wait: the members of the other client are given back.
    let held = other.lock("b").lock().await.unwrap();
    for closes_first in [true, false] {
        let closing = bed.client().await;
        let [a, b] = if closes_first {
            [&closing, &stays]
        } else {
            [&stays, &closing]
        };
        let lock = Lock::multi([a.fenced_lock("a").into(), b.lock("b")]);
        // The counter shows that it was taken, even after it has been given back.
        let counted = || bed.command(&["GET", "redisson_lock_token:{a}"]);
        let before = counted();
        let taking = tokio::spawn(async move { lock.lock().await });
        eventually("it has the first, or had it", async || counted() != before).await;
        waiting(b, 1).await;
        closing.shutdown(ms(5000)).await.unwrap();
        let error = timed("ended", taking).await.0.unwrap().unwrap_err();
        assert!(matches!(error, Error::Closed), "{error}");
        eventually("given back", async || there(&bed) == ["b"]).await;
        settled(&stays).await;
    }
    held.unlock().await.unwrap();
    // While held: a set ends, a quorum has one vote less.
    let clients = [bed.client().await, bed.client().await, bed.client().await];
    let members = || {
        clients
            .iter()
            .zip(NAMES)
            .map(|(client, name)| client.lock(name))
    };
    let (all, most) = (Lock::multi(members()), Lock::quorum(members()));
    let guard = all.lock().await.unwrap();
    guard.unlock().await.unwrap();
    // A server that answers much later than the others is left out. On a busy machine that may be
    // any server.
    let guard = loop {
        let guard = most
            .try_lock(ms(5000), Lease::Fixed(ms(60_000)))
            .await
            .unwrap();
        if clients.iter().all(|client| client.stats().holds == 1) {
            break guard;
        }
        guard.unlock().await.unwrap();
    };
    clients[2].shutdown(ms(5000)).await.unwrap();
    guard.check().unwrap();
    guard.unlock().await.unwrap();
    eventually("given back", async || there(&bed).is_empty()).await;
    assert!(matches!(all.lock().await, Err(Error::Closed)));
    let guard = most
        .try_lock(ms(5000), Lease::Fixed(ms(60_000)))
        .await
        .unwrap();
    clients[0].shutdown(ms(5000)).await.unwrap();
    is_lost(&guard, LossReason::Closed).await;
    drop(guard);
    assert!(matches!(most.lock().await, Err(Error::Closed)));
    eventually("given back", async || there(&bed).is_empty()).await;
}

/// Each member is released when `max_hold` ends, although it is renewed and its lease has not
/// ended.
pub(crate) async fn a_longest_hold_ends_a_quorum(bed: Bed) {
    // The leases exceed the tolerance for lateness, which is larger on a busy machine.
    let (lease, longest) = match &bed.place {
        Place::Server(..) => (ms(12_000), ms(6000)),
        Place::Embedded(_) => (ms(300), ms(250)),
    };
    let mut clients = Vec::new();
    for _ in NAMES {
        clients.push(bed.client_with_lease(lease).await);
    }
    let members = clients
        .iter()
        .zip(NAMES)
        .map(|(client, name)| client.string_lock(name));
    let lock = Lock::quorum(members);
    let guard = lock.acquire().max_hold(longest).await.unwrap();
    eventually("two are renewed", async || {
        clients
            .iter()
            .filter(|client| client.stats().renewed > 0)
            .count()
            >= 2
    })
    .await;
    guard.check().unwrap();
    is_lost(&guard, LossReason::MaxHold).await;
    let ended = Instant::now();
    eventually("all released", async || there(&bed).is_empty()).await;
    let took = ended.elapsed();
    assert!(took < bed.late(20), "before their leases end: {took:?}");
    let late = guard.unlock().await.unwrap_err();
    assert_lost(&late, LossReason::MaxHold);
    for client in &clients {
        settled(client).await;
    }
}

/// A member that takes part in only some of the nested grants does not count for the hold count.
pub(crate) async fn a_quorum_counts_as_its_majority_does(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let rival = other.lock("c").lock().await.unwrap();
    let lock = Lock::quorum(NAMES.map(|name| client.lock(name)));
    let outer = lock.lock().await.unwrap();
    rival.unlock().await.unwrap();
    // A busy server may be left out again.
    let inner = loop {
        let inner = lock.acquire().within(&outer).await.unwrap();
        eventually("settled", async || client.stats().releases_pending == 0).await;
        if there(&bed) == NAMES && holds(&lock).await.unwrap() == 2 {
            break inner;
        }
        inner.unlock().await.unwrap();
    };
    assert_eq!((outer.hold_count(), inner.hold_count()), (2, 2));
    inner.unlock().await.unwrap();
    // A majority has confirmed. A busy server may still have its release to come.
    eventually("settled", async || client.stats().releases_pending == 0).await;
    assert_eq!((outer.hold_count(), holds(&lock).await.unwrap()), (1, 1));
    outer.unlock().await.unwrap();
    eventually("free", async || there(&bed).is_empty()).await;
}

pub(crate) async fn members_on_several_servers_are_all_needed(bed: Bed) {
    // Three servers: this one and two more of the same kind.
    let others = [bed.another(), bed.another()];
    let beds = [&bed, &others[0], &others[1]];
    let mut clients = Vec::new();
    for bed in beds {
        clients.push([bed.client().await, bed.client().await]);
    }
    let set = |number: usize| Lock::multi(clients.iter().map(|pair| pair[number].lock("a")));
    let guard = set(0).lock().await.unwrap();
    for _ in 0..2 {
        bed.in_vain(async || set(1).try_lock_now(Lease::Fixed(ms(5000))).await)
            .await;
    }
    guard.unlock().await.unwrap();
    let last = clients[2][0].lock("a").lock().await.unwrap();
    bed.in_vain(async || set(1).try_lock_now(Lease::Fixed(ms(5000))).await)
        .await;
    eventually("given back", async || {
        !bed.exists("a") && !others[0].exists("a")
    })
    .await;
    last.unlock().await.unwrap();
    set(1).lock().await.unwrap().unlock().await.unwrap();
    assert!(beds.iter().all(|bed| !bed.exists("a")));
}

pub(crate) async fn a_member_that_is_lost_does_not_count_for_the_deadline(bed: Bed) {
    let client = bed.client().await;
    let quorum = Lock::quorum(NAMES.map(|name| client.lock(name)));
    // A server that answers much later than the others is left out. On a busy machine that may be
    // any server.
    let guard = loop {
        let guard = quorum
            .try_lock(ms(5000), Lease::Fixed(ms(10_000)))
            .await
            .unwrap();
        if client.stats().holds == 3 {
            break guard;
        }
        guard.unlock().await.unwrap();
    };
    let mut longer = Vec::new();
    for name in ["a", "b"] {
        let member = client.lock(name);
        let member = member.acquire().lease(Lease::Fixed(ms(60_000)));
        longer.push(member.within(&guard).await.unwrap());
    }
    assert!(guard.deadline() > Instant::now() + ms(40_000));
    assert!(client.lock("a").force_unlock("a test").await.unwrap());
    assert!(
        longer[0].extend(ms(90_000)).await.is_err(),
        "that one is lost"
    );
    guard.check().unwrap();
    assert!(guard.deadline() < Instant::now() + ms(10_000), "that of c");
}

pub(crate) async fn a_quorum_that_cannot_be_taken_looks_locked(bed: Bed) {
    const FIVE: [&str; 5] = ["a", "b", "c", "d", "e"];
    let holder = bed.client().await;
    let mut clients = Vec::new();
    for _ in FIVE {
        clients.push(bed.client().await);
    }
    let members = clients
        .iter()
        .zip(FIVE)
        .map(|(client, name)| client.lock(name));
    let quorum = Lock::quorum(members);
    let mut held = Vec::new();
    for name in &FIVE[..3] {
        held.push(holder.lock(name).lock().await.unwrap());
    }
    let owner = held[0].owner().to_owned();
    for server_is_there in [true, false] {
        if !server_is_there {
            clients[2].shutdown(ms(5000)).await.unwrap();
        }
        assert!(quorum.is_locked().await.unwrap());
        assert_eq!(
            quorum.holder().await.unwrap().map(|holder| holder.owner),
            Some(owner.clone())
        );
        assert!(quorum.remaining_lease().await.unwrap() > Some(ms(10_000)));
    }
    held.remove(0).unlock().await.unwrap();
    assert!(!quorum.is_locked().await.unwrap(), "a, d and e are free");
    assert_eq!(quorum.remaining_lease().await.unwrap(), None);
}

/// The member that did not answer in time ends with the outer guard, and the others go on.
#[tokio::test(start_paused = true)]
async fn a_quorum_re_entered_without_a_slow_member_has_not_ended() {
    let servers = NAMES.map(|_| EmbeddedRedis::new());
    let mut members = Vec::new();
    for server in &servers {
        members.push(server.builder().connect().await.unwrap().lock("x"));
    }
    let outer = Lock::quorum(members).lock().await.unwrap();
    let holds = |server: &EmbeddedRedis| server.command(&["EXISTS", "x"]).unwrap() == Reply::Int(1);
    assert!(servers.iter().all(holds));
    servers[0].delay(ms(100));
    let inner = outer.reenter().await.unwrap();
    let mut ended = Box::pin(outer.ended());
    outer.unlock().await.unwrap();
    eventually("the slow member ends", async || !holds(&servers[0])).await;
    assert!(servers[1..].iter().all(holds));
    assert_eq!(inner.state(), HoldState::Held);
    assert!(ended.as_mut().now_or_never().is_none());
    inner.unlock().await.unwrap();
    assert_eq!(timed("ended", ended).await.0, Ended::Released);
}
