//! Several locks as one: all or none, and no two acquisitions that wait for each other.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use leasehold::test_util::{Delay, Faults};
use leasehold::{Client, ConfigError, EmbeddedRedis, Error, HoldState, Lease, Lock};
use leasehold_testbed::{Bed, eventually, ms, no_expiry, take_turn, timed, waiting};
use tokio::time::{Instant, sleep};

use crate::semaphores::in_vain;

pub(crate) const NAMES: [&str; 3] = ["a", "b", "c"];

pub(crate) fn there(bed: &Bed) -> Vec<&'static str> {
    NAMES.into_iter().filter(|name| bed.exists(name)).collect()
}

pub(crate) async fn settled(client: &Client) {
    eventually("settled", async || {
        let stats = client.stats();
        (
            stats.waiting,
            stats.listeners,
            stats.releases_pending,
            stats.holds,
        ) == (0, 0, 0, 0)
    })
    .await;
}

pub(crate) async fn a_failed_multi_lock_gives_back_exactly_what_it_took(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let outer = one.lock("a").lock().await.unwrap();
    let held = other.lock("c").lock().await.unwrap();
    // One held by the same owner, one free, one held by another owner.
    for wait in [Duration::ZERO, ms(100)] {
        let multi = Lock::multi(NAMES.map(|name| one.lock(name)));
        in_vain(async || multi.acquire().wait(wait).within(&outer).await).await;
        eventually("b is given back", async || there(&bed) == ["a", "c"]).await;
        assert_eq!(bed.count("a", outer.owner()), 1);
        assert_eq!((outer.hold_count(), outer.state()), (1, HoldState::Held));
        held.check().unwrap();
    }
    held.unlock().await.unwrap();
    outer.unlock().await.unwrap();
}

pub(crate) async fn opposite_orders_do_not_wait_for_each_other(bed: Bed) {
    let clients = [bed.client().await, bed.client().await];
    let orders = [
        ["a", "b", "c"],
        ["c", "b", "a"],
        ["b", "c", "a"],
        ["c", "a", "b"],
    ];
    let tasks: Vec<_> = (0..8)
        .map(|number| {
            let client = clients[number % 2].clone();
            tokio::spawn(async move {
                for _ in 0..5 {
                    // Half of them in order, with members of another kind.
                    let multi = if number < 4 {
                        Lock::multi(orders[number % 4].map(|name| client.lock(name)))
                    } else {
                        Lock::multi(orders[number % 4].map(|name| client.spin_lock(name)))
                    };
                    let guard = multi.lock().await.unwrap();
                    sleep(ms(1)).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    let start = Instant::now();
    for task in tasks {
        timed("nobody waits for ever", task).await.0.unwrap();
    }
    assert!(start.elapsed() < ms(10_000), "{:?}", start.elapsed());
    assert_eq!(there(&bed), [""; 0]);
}

pub(crate) async fn a_peer_with_another_order_is_given_way(bed: Bed) {
    let (one, peer) = (bed.client().await, bed.client().await);
    // Like Redisson: in the given order, keeping what it has.
    let later = peer.lock("b").lock().await.unwrap();
    let multi = Lock::multi([one.fenced_lock("a").into(), one.lock("b")]);
    let taking = tokio::spawn(async move { multi.lock().await });
    // Its counter shows that it was taken, even after it has been given back.
    let taken = async || bed.exists("redisson_lock_token:{a}");
    eventually("it has the first, or had it", taken).await;
    let first = timed("given back", peer.lock("a").lock()).await.0.unwrap();
    assert!(!taking.is_finished());
    first.unlock().await.unwrap();
    later.unlock().await.unwrap();
    take_turn("granted", taking).await;
}

pub(crate) async fn a_member_with_a_long_queue_is_taken_in_the_end(bed: Bed) {
    let client = bed.client_with_long_streaks().await;
    let done = Arc::new(AtomicBool::new(false));
    let others: Vec<_> = (0..25)
        .map(|_| {
            let (lock, done) = (client.lock("b"), done.clone());
            tokio::spawn(async move {
                while !done.load(SeqCst) {
                    let guard = lock.lock().await.unwrap();
                    sleep(ms(100)).await;
                    guard.unlock().await.unwrap();
                }
            })
        })
        .collect();
    waiting(&client, 24).await;
    // Longer than the acquisition waits for a member while it holds another.
    let lock = Lock::multi(NAMES.map(|name| client.lock(name)));
    let guard = timed("granted", lock.lock()).await.0.unwrap();
    done.store(true, SeqCst);
    guard.unlock().await.unwrap();
    for other in others {
        timed("the others", other).await.0.unwrap();
    }
    settled(&client).await;
}

pub(crate) async fn there_is_one_deadline_for_all(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let mut held = Vec::new();
    for name in NAMES {
        held.push(other.lock(name).lock().await.unwrap());
    }
    let wait = bed.span(400);
    let (start, multi) = (
        Instant::now(),
        Lock::multi(NAMES.map(|name| one.lock(name))),
    );
    let taking = tokio::spawn(async move { multi.try_lock(wait, Lease::Fixed(ms(5000))).await });
    // The members are released at different times, the last one too late.
    held.remove(0).unlock().await.unwrap();
    sleep(wait / 2).await;
    held.remove(0).unlock().await.unwrap();
    let refused = timed("in the end", taking).await.0.unwrap();
    let took = start.elapsed();
    bed.timed_out(&refused.unwrap_err());
    assert!(took >= wait && took < wait + bed.late(100), "{took:?}");
    eventually("the others are given back", async || there(&bed) == ["c"]).await;
    settled(&one).await;
    // The guard's deadline is that of the member whose lease ends first.
    let long = Lease::Fixed(ms(90_000));
    let longer = one.lock("a").try_lock_now(long).await.unwrap();
    let two = Lock::multi(["a", "b"].map(|name| one.lock(name)));
    let guard = two.acquire().wait(ms(1000)).lease(Lease::Fixed(ms(60_000)));
    let guard = guard.within(&longer).await.unwrap();
    assert!(guard.deadline() < longer.deadline());
    guard.unlock().await.unwrap();
}

pub(crate) async fn a_fixed_lease_begins_when_the_last_is_taken(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    let make: [fn(&Client) -> Lock; 2] = [
        |client| Lock::multi(NAMES.map(|name| client.lock(name))),
        |client| {
            let (read, _write) = client.read_write_lock("a").split();
            Lock::multi([read, client.fenced_lock("b").into(), client.lock("c")])
        },
    ];
    for make in make {
        let held = other.lock("c").lock().await.unwrap();
        let (multi, lease) = (make(&one), ms(8000));
        let taking = tokio::spawn(async move { multi.acquire().lease(Lease::Fixed(lease)).await });
        waiting(&one, 1).await;
        if bed.is_embedded() {
            // On a server the machine may have stalled, so the members may have been given back.
            assert_eq!(there(&bed), NAMES);
        }
        // More than a twentieth of the lease, but less than the wait for a member while others are
        // held.
        sleep(ms(450)).await;
        let released = Instant::now();
        held.unlock().await.unwrap();
        let guard = timed("granted", taking).await.0.unwrap().unwrap();
        let margin = lease / 20 + ms(1) + lease / 1000;
        assert!(
            guard.deadline() + margin >= released + lease,
            "a part of it only"
        );
        guard.unlock().await.unwrap();
        assert_eq!(there(&bed), [""; 0]);
    }
}

pub(crate) async fn members_of_members_have_one_order(bed: Bed) {
    let (one, other) = (bed.client().await, bed.client().await);
    // All on one node, if the deployment has several.
    let [a, b, c] = ["{m}a", "{m}b", "{m}c"];
    let nested = || Lock::multi([Lock::multi([c, a].map(|name| one.lock(name))), one.lock(b)]);
    nested().lock().await.unwrap().unlock().await.unwrap();
    let seen = bed.calls();
    let guard = nested().lock().await.unwrap();
    assert_eq!(bed.calls() - seen, 3, "they are one set");
    guard.unlock().await.unwrap();
    // A holder of a later member is not waited for while an earlier one is free.
    let held = other.lock(b).lock().await.unwrap();
    let lock = nested();
    let taking = tokio::spawn(async move { lock.lock().await });
    eventually("waiting", async || one.stats().listeners == 1).await;
    if bed.is_embedded() {
        // What is behind the busy one was given back, so that nobody waits for a later one while an
        // earlier one is free. On a server the machine may have stalled, so the members may have
        // been given back.
        assert_eq!([a, b, c].map(|name| bed.exists(name)), [true, true, false]);
    }
    held.unlock().await.unwrap();
    take_turn("granted", taking).await;
}

pub(crate) async fn one_name_on_two_servers_has_one_order(bed: Bed) {
    let elsewhere = bed.another();
    let (here, there) = (bed.client().await, elsewhere.client().await);
    let holders = [bed.client().await, elsewhere.client().await];
    let mut first = Vec::new();
    for turned in [false, true] {
        let mut held = Vec::new();
        for holder in &holders {
            held.push(holder.lock("a").lock().await.unwrap());
        }
        let mut pair = [here.lock("a"), there.lock("a")];
        if turned {
            pair.reverse();
        }
        let lock = Lock::multi(pair);
        let taking = tokio::spawn(async move { lock.lock().await });
        // Both are asked at first. Only who waits for one listens.
        eventually("queued", async || {
            here.stats().listeners + there.stats().listeners == 1
        })
        .await;
        first.push(here.stats().listeners);
        for held in held {
            held.unlock().await.unwrap();
        }
        take_turn("granted", taking).await;
    }
    assert_eq!(first[0], first[1], "however they were given");
}

pub(crate) async fn one_that_is_locked_in_part_looks_locked(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let multi = Lock::multi(NAMES.map(|name| client.lock(name)));
    assert_eq!(
        (
            multi.holder().await.unwrap(),
            multi.remaining_lease().await.unwrap()
        ),
        (None, None)
    );
    let held = other
        .lock("b")
        .try_lock_now(Lease::Fixed(ms(60_000)))
        .await
        .unwrap();
    assert!(multi.is_locked().await.unwrap());
    assert_eq!(multi.holder().await.unwrap().unwrap().owner, held.owner());
    assert!(multi.remaining_lease().await.unwrap() > Some(ms(50_000)));
    // One of three members is in nobody's way.
    let quorum = Lock::quorum(NAMES.map(|name| client.lock(name)));
    assert!(!quorum.is_locked().await.unwrap());
    assert_eq!(
        (
            quorum.holder().await.unwrap(),
            quorum.remaining_lease().await.unwrap()
        ),
        (None, None)
    );
    held.unlock().await.unwrap();
}

pub(crate) async fn a_member_without_expiry_is_reported(bed: Bed) {
    let client = bed.client().await;
    let members = || NAMES.map(|name| client.string_lock(name));
    let told = async |lock: Lock, wait: Duration| {
        let error = in_vain(async || lock.try_lock(wait, Lease::Fixed(ms(60_000))).await).await;
        no_expiry(&error).expect("a timeout")
    };
    for wait in [Duration::ZERO, bed.span(100)] {
        for name in NAMES {
            bed.command(&["SET", name, "somebody"]);
            // A wait that a stall used up asked no member, or not all of them.
            eventually("reported", async || {
                told(Lock::multi(members()), wait).await
            })
            .await;
            bed.command(&["PEXPIRE", name, "60000"]);
            assert!(!told(Lock::multi(members()), wait).await);
            bed.command(&["DEL", name]);
        }
        // Two held members block a quorum. With one of the two freed, it takes the other.
        bed.command(&["SET", "a", "somebody"]);
        bed.command(&["SET", "b", "somebody"]);
        eventually("reported", async || {
            told(Lock::quorum(members()), wait).await
        })
        .await;
        bed.command(&["PEXPIRE", "b", "60000"]);
        assert!(!told(Lock::quorum(members()), wait).await);
        eventually("given back", async || there(&bed) == ["a", "b"]).await;
        bed.command(&["DEL", "a", "b"]);
    }
}

pub(crate) async fn sets_that_make_no_sense_are_refused(bed: Bed) {
    let (client, other) = (bed.client().await, bed.client().await);
    let sets = [
        Lock::multi(Vec::<Lock>::new()),
        Lock::multi(["a", "a"].map(|name| client.lock(name))),
        Lock::multi(["a", "b", "a"].map(|name| client.lock(name))),
        Lock::multi([client.lock("a"), client.fair_lock("a")]),
    ];
    let quorum = [Lock::quorum(Vec::<Lock>::new())];
    for set in sets.into_iter().chain(quorum) {
        let refused = [
            set.lock().await.err(),
            set.try_lock_now(Lease::Fixed(ms(100))).await.err(),
            set.is_locked().await.err(),
            set.force_unlock("a test").await.err(),
        ];
        for error in refused {
            let error = error.expect("refused");
            assert!(
                matches!(error, Error::Config(ConfigError::Members { .. })),
                "{error}"
            );
        }
    }
    // A bad name among good ones is not a server that is down.
    let bad = [
        Lock::multi(["a", ""].map(|name| client.lock(name))),
        Lock::multi([
            client.fair_lock("a"),
            Lock::multi(["b", ""].map(|name| client.lock(name))),
        ]),
        Lock::quorum(["a", "b", ""].map(|name| client.lock(name))),
    ];
    for bad in bad {
        for error in [bad.lock().await.err(), bad.is_locked().await.err()] {
            let error = error.expect("refused");
            assert!(
                matches!(error, Error::Config(ConfigError::Name { .. })),
                "{error}"
            );
        }
    }
    // The same name on clients of two servers would be two locks, and one server never grants both.
    let error = Lock::multi([client.lock("a"), other.fair_lock("a")])
        .lock()
        .await
        .unwrap_err();
    assert!(
        matches!(error, Error::Config(ConfigError::Members { .. })),
        "{error}"
    );
    assert_eq!((client.stats().calls, other.stats().calls), (0, 0));
    assert_eq!(there(&bed), [""; 0]);
    // Unless both are only read.
    let read = |client: &Client| client.read_write_lock("a").split().0;
    let both = Lock::multi([read(&client), read(&other)])
        .lock()
        .await
        .unwrap();
    both.unlock().await.unwrap();
    eventually("nothing is kept", async || there(&bed).is_empty()).await;
}

/// A multi lock of ten, whose client has called each script. Each message takes 100 ms from now on.
async fn far_away(engine: &EmbeddedRedis) -> Lock {
    let client = engine.client();
    let lock = Lock::multi((0..10).map(|number| client.lock(format!("x:{number}"))));
    let guard = lock.lock().await.unwrap();
    drop(guard.run(lock.lock()).await.unwrap());
    guard.unlock().await.unwrap();
    let way = Delay::between(ms(100), ms(100));
    let far = Faults {
        request: way,
        reply: way,
        ..Faults::default()
    };
    for link in engine.links() {
        link.set_faults(far.clone(), 1);
    }
    lock
}

/// Members that are free, or that the section around the call holds, are asked for by one write.
#[tokio::test(start_paused = true)]
async fn members_of_one_client_cost_one_round_trip() {
    let lock = far_away(&EmbeddedRedis::new()).await;
    let begin = Instant::now();
    let guard = lock.lock().await.unwrap();
    assert!(begin.elapsed() < ms(300), "{:?}", begin.elapsed());
    let inner = guard.run(lock.lock()).await.unwrap().unwrap();
    assert!(begin.elapsed() < ms(600), "{:?}", begin.elapsed());
    inner.unlock().await.unwrap();
    assert!(begin.elapsed() < ms(900), "{:?}", begin.elapsed());
    guard.unlock().await.unwrap();
    assert!(begin.elapsed() < ms(1200), "{:?}", begin.elapsed());
}

/// After a wait for one member, the members behind it are asked for by one write.
#[tokio::test(start_paused = true)]
async fn members_behind_a_busy_one_cost_one_round_trip() {
    let engine = EmbeddedRedis::new();
    let lock = far_away(&engine).await;
    let holder = engine.client();
    let busy = holder.lock("x:0").lock().await.unwrap();
    let release = async {
        sleep(ms(2000)).await;
        busy.unlock().await.unwrap();
        Instant::now()
    };
    let (taken, released) = tokio::join!(lock.lock(), release);
    // The message, a question about the first member, and one about the others.
    assert!(released.elapsed() < ms(600), "{:?}", released.elapsed());
    taken.unwrap().unlock().await.unwrap();
}
