//! After which changes of server nothing is taken, and for how long.

use super::fakes::{Answer, Fakes, array, as_usual, bulk};
use super::*;

/// What a server says about itself: run id, replication id, and the former replication id.
type Says = Option<(&'static str, &'static str, &'static str)>;

const NEVER: &str = "0000000000000000000000000000000000000000";
const A: Says = Some(("run-a", "history-a", NEVER));
const B: Says = Some(("run-b", "history-b", "history-a"));
const GRACE: Duration = TIMING.grace;

#[derive(Default)]
struct World {
    /// Servers by address. Others cannot be reached.
    servers: Vec<(&'static str, Says)>,
    /// Addresses that accept connections and say nothing.
    silent: Vec<&'static str>,
    /// The address that the sentinels name.
    primary: &'static str,
    /// Slots of a cluster: the first, the last, the address, and the name of the node.
    slots: Vec<(u16, u16, &'static str, &'static str)>,
    epoch: u64,
    /// The address to which all servers redirect scripts, except that server.
    moved: Option<&'static str>,
}

#[derive(Clone, Default)]
struct Deployment(Arc<Mutex<World>>);

impl Deployment {
    fn of(servers: &[(&'static str, Says)]) -> Self {
        let world = Deployment::default();
        world.0.lock().servers = servers.to_vec();
        world
    }

    fn set(&self, change: impl FnOnce(&mut World)) {
        change(&mut self.0.lock());
    }

    fn fakes(&self) -> Fakes {
        let world = self.clone();
        Fakes::new(move |address, words| world.answer(address, words))
    }

    async fn open(&self, url: &str) -> (Fakes, Transport) {
        let fakes = self.fakes();
        let (redis, _) = fakes.open(url, IfUnreachable::Fail).await.unwrap();
        (fakes, redis)
    }

    fn answer(&self, address: &str, words: &[String]) -> Answer {
        let inside = self.0.lock();
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let told = |text: &str| Answer::Reply(bulk(text));
        if inside.silent.contains(&address) {
            return Answer::Silence;
        }
        if address.starts_with("sentinel") {
            let (host, port) = inside.primary.split_once(':').unwrap();
            return match (word(0), word(1)) {
                ("SENTINEL", "MASTER") => {
                    Answer::Reply(array(&["ip", host, "port", port].map(bulk)))
                }
                _ => as_usual(words),
            };
        }
        let Some((_, says)) = inside.servers.iter().find(|(at, _)| *at == address) else {
            return Answer::End;
        };
        match (word(0), word(1), says) {
            ("INFO", _, None) => Answer::Reply("-NOPERM no permission\r\n".to_owned()),
            ("INFO", "server", Some((run, ..))) => told(&format!("run_id:{run}\r\n")),
            ("INFO", _, Some((_, id, former))) => told(&format!(
                "role:master\r\nmaster_replid:{id}\r\nmaster_replid2:{former}\r\n"
            )),
            ("CLUSTER", "SLOTS", _) => {
                let slots = inside.slots.iter().map(|(first, last, address, name)| {
                    let (host, port) = address.split_once(':').unwrap();
                    let node = array(&[bulk(host), format!(":{port}\r\n"), bulk(name)]);
                    array(&[format!(":{first}\r\n"), format!(":{last}\r\n"), node])
                });
                Answer::Reply(array(&slots.collect::<Vec<_>>()))
            }
            ("CLUSTER", "INFO", _) => told(&format!(
                "cluster_state:ok\r\ncluster_current_epoch:{}\r\n",
                inside.epoch
            )),
            _ if word(0).starts_with("EVAL") && inside.moved.is_some_and(|to| to != address) => {
                Answer::Reply(format!("-MOVED 3300 {}\r\n", inside.moved.unwrap()))
            }
            _ => as_usual(words),
        }
    }
}

/// A key in slot 3300.
const LOW: &str = "b";

async fn takes(redis: &Transport) -> Result<Value, CallError> {
    redis.call(Lane::Caller, take(LOW, "owner")).await
}

/// Whether nothing is taken now. Everything else goes on.
async fn is_in_grace(redis: &Transport) -> bool {
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, Ok(Value::Nil));
    let ends = redis.grace_ends(LOW);
    match takes(redis).await {
        Ok(_) => {
            assert_eq!(ends, None);
            false
        }
        Err(CallError::NotApplied(Fault(text))) => {
            assert!(
                text.contains("nothing is taken there for another"),
                "{text}"
            );
            assert!(ends.unwrap() <= Instant::now() + GRACE);
            true
        }
        Err(error) => panic!("{error:?}"),
    }
}

/// Waits until calls are answered again.
async fn back(redis: &Transport) {
    let limit = Instant::now() + SECOND * 20;
    while redis.call(Lane::Background, add(LOW)).await.is_err()
        || redis.call(Lane::Caller, add(LOW)).await.is_err()
    {
        assert!(Instant::now() < limit, "not back");
        sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_taken_on_another_run_of_the_server_for_a_while() {
    let others: [(&str, Says, bool); 6] = [
        ("the same run", A, false),
        ("another run", Some(("run-b", "history-b", NEVER)), true),
        (
            "the same run, promoted meanwhile",
            Some(("run-a", "history-b", "history-a")),
            true,
        ),
        (
            "the same run, without a replica for long",
            Some(("run-a", "history-b", NEVER)),
            false,
        ),
        (
            "the same run, which has told more",
            Some(("run-a", "history-a", NEVER)),
            false,
        ),
        ("it does not say", None, true),
    ];
    for (what, says, expected) in others {
        let world = Deployment::of(&[("one:1", A)]);
        let (_, redis) = world.open("redis://one:1").await;
        assert!(!is_in_grace(&redis).await, "{what}: the first server");
        world.set(|world| world.servers.clear());
        until("the loss is noticed", || {
            redis.fault(Lane::Caller, LOW).is_some()
        })
        .await;
        world.set(|world| world.servers.push(("one:1", says)));
        back(&redis).await;
        assert_eq!(is_in_grace(&redis).await, expected, "{what}");
        sleep(GRACE).await;
        assert!(!is_in_grace(&redis).await, "{what}: it ends");
    }
}

/// One connection of three says nothing about a server that the others still reach.
#[tokio::test(start_paused = true)]
async fn a_server_that_does_not_say_who_it_is_may_lose_a_connection() {
    let server = memory::MemoryServer::answering(memory::echo);
    let testbed = memory::MemoryTestbed::new(server.clone()).await;
    server.socket(memory::CALLER).end(memory::Ending::Closed);
    until("it is replaced", || testbed.redis.reconnects() == 1).await;
    let slot = testbed.redis.shared.slot(Lane::Caller);
    until("the lane is up", || slot.connection().is_ok()).await;
    assert_eq!(testbed.redis.grace_ends(), None);
    for socket in server.living() {
        socket.end(memory::Ending::Closed);
    }
    until("all are replaced", || testbed.redis.reconnects() == 4).await;
    assert!(testbed.redis.grace_ends().is_some());
}

#[tokio::test(start_paused = true)]
async fn the_server_counts_and_not_its_address() {
    for (says, expected) in [(A, false), (B, true), (None, true)] {
        let world = Deployment::of(&[("one:1", A), ("two:1", says)]);
        world.set(|world| world.primary = "one:1");
        let (_, redis) = world.open("redis-sentinel://sentinel:1/locks").await;
        assert!(!is_in_grace(&redis).await, "the first server");
        world.set(|world| world.primary = "two:1");
        until("the client follows", || {
            redis.server_of(NodeId::default()).contains("two")
        })
        .await;
        back(&redis).await;
        assert_eq!(is_in_grace(&redis).await, expected, "{says:?}");
    }
}

/// A client that has met no server has seen the change all the same.
#[tokio::test(start_paused = true)]
async fn a_primary_that_was_never_reached_counts() {
    for (says, expected) in [(B, true), (Some(("run-b", "history-b", NEVER)), false)] {
        let world = Deployment::of(&[("two:1", says)]);
        world.set(|world| world.primary = "one:1");
        let fakes = world.fakes();
        let url = "redis-sentinel://sentinel:1/locks";
        let (redis, _) = fakes.open(url, IfUnreachable::RetryLater).await.unwrap();
        until("it was tried", || fakes.dialled("one:1") > 0).await;
        world.set(|world| world.primary = "two:1");
        back(&redis).await;
        assert_eq!(is_in_grace(&redis).await, expected);
    }
}

/// An attempt at a silent server takes as long as connecting may, and then half of the grace would
/// be over.
#[tokio::test(start_paused = true)]
async fn a_silent_server_does_not_keep_the_client_from_its_successor() {
    let world = Deployment::of(&[("one:1", A), ("two:1", B)]);
    world.set(|world| world.primary = "one:1");
    let (fakes, redis) = world.open("redis-sentinel://sentinel:1/locks").await;
    world.set(|world| world.silent.push("one:1"));
    until("the loss is noticed", || {
        redis.fault(Lane::Background, LOW).is_some()
    })
    .await;
    let tried = fakes.dialled("one:1");
    until("an attempt has begun", || fakes.dialled("one:1") > tried).await;
    let start = Instant::now();
    world.set(|world| world.primary = "two:1");
    until("the client follows", || fakes.dialled("two:1") > 0).await;
    back(&redis).await;
    // Sentinels are asked at least every 1.8 s.
    let took = start.elapsed();
    assert!(took < Duration::from_millis(1_900), "{took:?}");
    assert!(is_in_grace(&redis).await);
}

/// Whoever holds something must be back before the grace of the others ends.
#[tokio::test(start_paused = true)]
async fn a_server_that_is_gone_is_tried_every_200_ms_while_a_grace_lasts() {
    let world = Deployment::of(&[("one:1", A)]);
    let (fakes, redis) = world.open("redis://one:1").await;
    sleep(SECOND * 60).await;
    world.set(|world| world.servers.clear());
    until("the loss is noticed", || {
        redis.fault(Lane::Background, LOW).is_some()
    })
    .await;
    let (mut tried, mut last) = (fakes.dialled("one:1"), Instant::now());
    let end = last + GRACE - Duration::from_millis(200);
    while Instant::now() < end {
        sleep(Duration::from_millis(1)).await;
        if fakes.dialled("one:1") > tried {
            (tried, last) = (fakes.dialled("one:1"), Instant::now());
        }
        assert!(
            last.elapsed() <= Duration::from_millis(205),
            "{:?}",
            last.elapsed()
        );
    }
    sleep(SECOND * 60).await;
    let before = fakes.dialled("one:1");
    sleep(SECOND * 60).await;
    assert!(
        fakes.dialled("one:1") - before < 130,
        "later it is tried rarely"
    );
}

const ALL: u16 = 16_383;

/// A cluster in which `one:1` has all slots, and is called `n1`.
async fn cluster(more: &[(&'static str, Says)]) -> (Deployment, Transport) {
    let world = Deployment::of(&[&[("one:1", A)], more].concat());
    world.set(|world| world.slots = vec![(0, ALL, "one:1", "n1")]);
    let (_, redis) = world.open("redis-cluster://one:1").await;
    assert!(!is_in_grace(&redis).await, "the first server");
    (world, redis)
}

/// The nodes describe other owners of slots from now on.
async fn is_laid_out(
    world: &Deployment,
    redis: &Transport,
    slots: &[(u16, u16, &'static str, &'static str)],
) {
    world.set(|world| {
        world.epoch += 1;
        world.slots = slots.to_vec();
    });
    let (_, _, address, _) = slots[0];
    let host = address.split_once(':').unwrap().0;
    let limit = Instant::now() + SECOND * 30;
    while !redis.server_of(redis.node_of(LOW)).contains(host) {
        assert!(Instant::now() < limit, "the layout is not followed");
        sleep(Duration::from_millis(20)).await;
    }
    back(redis).await;
}

#[tokio::test(start_paused = true)]
async fn in_a_cluster_a_promoted_replica_counts_and_a_slot_that_moves_does_not() {
    type Slots = &'static [(u16, u16, &'static str, &'static str)];
    let fresh = Some(("run-c", "history-c", NEVER));
    let cases: [(&str, Says, Slots, bool); 6] = [
        ("a promoted replica", B, &[(0, ALL, "two:1", "n2")], true),
        ("it does not say", None, &[(0, ALL, "two:1", "n2")], true),
        (
            "a slot moves to a node that has joined",
            fresh,
            &[(0, 5_000, "two:1", "n2"), (5_001, ALL, "one:1", "n1")],
            false,
        ),
        (
            "all slots move to a node that has joined",
            fresh,
            &[(0, ALL, "two:1", "n2")],
            false,
        ),
        (
            "a new address of the same node",
            A,
            &[(0, ALL, "two:1", "n1")],
            false,
        ),
        (
            "the same node has restarted there",
            fresh,
            &[(0, ALL, "two:1", "n1")],
            true,
        ),
    ];
    for (what, says, slots, expected) in cases {
        let (world, redis) = cluster(&[("two:1", says)]).await;
        is_laid_out(&world, &redis, slots).await;
        assert_eq!(is_in_grace(&redis).await, expected, "{what}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_slot_that_moves_to_a_known_primary_does_not_count() {
    let world = Deployment::of(&[("one:1", A), ("two:1", B)]);
    world.set(|world| world.slots = vec![(0, 5_000, "one:1", "n1"), (5_001, ALL, "two:1", "n2")]);
    let (_, redis) = world.open("redis-cluster://one:1").await;
    assert!(!is_in_grace(&redis).await, "the first servers");
    is_laid_out(&world, &redis, &[(0, ALL, "two:1", "n2")]).await;
    assert!(!is_in_grace(&redis).await);
}

/// A redirect comes before the layout.
#[tokio::test(start_paused = true)]
async fn a_call_that_takes_something_follows_no_redirect_to_a_promoted_replica() {
    let (world, redis) = cluster(&[("two:1", B)]).await;
    world.set(|world| world.moved = Some("two:1"));
    let refused = takes(&redis).await;
    assert!(
        matches!(refused, Err(CallError::NotApplied(_))),
        "{refused:?}"
    );
    assert!(is_in_grace(&redis).await);
    sleep(GRACE).await;
    assert_eq!(takes(&redis).await, Ok(Value::Nil));
}

#[tokio::test(start_paused = true)]
async fn a_grace_of_zero_is_none() {
    let world = Deployment::of(&[("one:1", A)]);
    let fakes = world.fakes();
    let setup = Setup {
        streams: Some(fakes.streams()),
        ..setup(
            Timing {
                grace: Duration::ZERO,
                ..TIMING
            },
            Arc::default(),
            &Handle::current(),
        )
    };
    let deployment = crate::Deployment::parse("redis://one:1").unwrap();
    let redis = Transport::connect(deployment, setup, IfUnreachable::Fail);
    let redis = redis.await.unwrap();
    world.set(|world| world.servers.clear());
    until("the loss is noticed", || {
        redis.fault(Lane::Caller, LOW).is_some()
    })
    .await;
    world.set(|world| world.servers.push(("one:1", B)));
    back(&redis).await;
    assert!(!is_in_grace(&redis).await);
}
