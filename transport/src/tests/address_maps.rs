//! Clusters and sentinels in this process that announce addresses which nobody can use.

use super::fakes::{Answer, Fakes, array, as_usual, bulk};
use super::*;

/// Keys in slot 3300 and in slot 15495.
const LOW: &str = "b";
const HIGH: &str = "a";

/// What the nodes of a cluster say at present.
#[derive(Default)]
struct View {
    /// The owners of the lower and the upper half of the slots: IP address, and host name.
    owners: [(&'static str, &'static str); 2],
    epoch: u64,
    /// The answer to scripts of the node at the first tunnel.
    redirect: Option<String>,
}

type World = Arc<Mutex<View>>;

/// Nodes at the tunnels `t:1`, `t:2` and `t:3`. They announce `10.0.0.1:6379` and so on.
fn cluster() -> (World, Fakes) {
    let shared: World = Arc::new(Mutex::new(View {
        owners: [("10.0.0.1", ""), ("10.0.0.2", "")],
        epoch: 1,
        redirect: None,
    }));
    let view = shared.clone();
    let fakes = Fakes::new(move |address, words| {
        let view = view.lock();
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let range = |first: u16, last: u16, (host, name): (&str, &str)| {
            let metadata = array(&["hostname", name].map(bulk));
            let node = array(&[bulk(host), ":6379\r\n".to_owned(), bulk("id"), metadata]);
            array(&[format!(":{first}\r\n"), format!(":{last}\r\n"), node])
        };
        let info = format!(
            "cluster_state:ok\r\ncluster_current_epoch:{}\r\n",
            view.epoch
        );
        match (word(0), word(1)) {
            _ if !address.starts_with("t:") => Answer::End,
            ("CLUSTER", "SLOTS") => Answer::Reply(array(&[
                range(0, 8_191, view.owners[0]),
                range(8_192, 16_383, view.owners[1]),
            ])),
            ("CLUSTER", "INFO") => Answer::Reply(bulk(&info)),
            ("EVALSHA", _) => match (&view.redirect, address) {
                (Some(redirect), "t:1") => Answer::Reply(format!("-{redirect}\r\n")),
                _ => Answer::Reply(bulk(address)),
            },
            ("ASKING", _) => Answer::Reply("+OK\r\n".to_owned()),
            _ => as_usual(words),
        }
    });
    (shared, fakes)
}

/// `10.0.0.N:6379` is reached at `t:N`. What the URL names leads nowhere.
fn tunnels() -> AddressMap {
    AddressMap::table([
        ("10.0.0.1:6379", "t:1"),
        ("10.0.0.2:6379", "t:2"),
        ("10.0.0.3:6379", "t:3"),
        ("t:1", "nowhere:1"),
        ("t:2", "nowhere:2"),
    ])
}

/// The outcome of a call to the server at this address.
#[expect(clippy::unnecessary_wraps, reason = "it is compared with an outcome")]
fn at(address: &str) -> Result<Value, CallError> {
    Ok(Value::Text(address.to_owned()))
}

async fn answers(redis: &Transport, key: &str, address: &str) {
    let deadline = Instant::now() + SECOND * 60;
    while redis.call(Lane::Caller, add(key)).await != at(address) {
        assert!(Instant::now() < deadline, "{key} is not at {address}");
        sleep(SECOND / 10).await;
    }
}

#[tokio::test(start_paused = true)]
async fn every_address_that_a_node_names_is_mapped_once() {
    let (world, fakes) = cluster();
    let opened = fakes.open_by(
        "redis-cluster://t:1,t:2",
        IfUnreachable::Fail,
        Some(tunnels()),
    );
    let (redis, events) = opened.await.unwrap();
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
    assert_eq!(redis.call(Lane::Caller, add(HIGH)).await, at("t:2"));
    let shown = redis.server_of(redis.node_of(LOW));
    assert_eq!(shown, "redis://t:1 (announced as 10.0.0.1:6379)");

    // A slot is on its way, and then it has moved to a node that the client does not know yet.
    for redirect in ["ASK 3300 10.0.0.3:6379", "MOVED 3300 10.0.0.3:6379"] {
        world.lock().redirect = Some(redirect.to_owned());
        assert_eq!(
            redis.call(Lane::Caller, add(LOW)).await,
            at("t:3"),
            "{redirect}"
        );
    }
    world.lock().redirect = None;
    answers(&redis, LOW, "t:1").await;

    let before = events.changed();
    {
        let mut view = world.lock();
        view.owners[0] = ("10.0.0.3", "");
        view.epoch = 2;
    }
    answers(&redis, LOW, "t:3").await;
    until("the failover is reported", || events.changed() > before).await;
    assert_eq!(fakes.all_dialled(), ["t:1", "t:2", "t:3"]);
}

/// Otherwise one client would have two sets of connections to one server, and their order would
/// mean nothing.
#[tokio::test(start_paused = true)]
async fn a_server_with_two_names_is_one_node() {
    let by_both = [("10.0.0.1:6379", "t:1"), ("n1:6379", "t:1")];
    for entries in [&by_both[..], &by_both[..1], &by_both[1..]] {
        let (world, fakes) = cluster();
        world.lock().owners = [("10.0.0.1", "n1"); 2];
        let map = Some(AddressMap::table(entries.iter().copied()));
        let opened = fakes.open_by("redis-cluster://t:1", IfUnreachable::Fail, map);
        let (redis, _) = opened.await.unwrap();
        assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
        let node = redis.node_of(LOW);
        let dialled = fakes.dialled("t:1");
        for name in ["n1", "10.0.0.1"] {
            world.lock().redirect = Some(format!("MOVED 3300 {name}:6379"));
            drop(redis.call(Lane::Caller, add(LOW)).await);
            world.lock().redirect = None;
            assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
            assert_eq!(redis.node_of(LOW), node, "{name}: the same node");
        }
        assert_eq!(fakes.dialled("t:1"), dialled, "{entries:?}");
        assert_eq!(fakes.all_dialled(), ["t:1"], "{entries:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_is_reached_elsewhere_from_now_on_is_followed() {
    let (_world, fakes) = cluster();
    let tunnel = Arc::new(AtomicUsize::new(1));
    let now = tunnel.clone();
    let map = AddressMap::function(move |_, _| {
        let number = u16::try_from(now.load(Ordering::SeqCst)).unwrap();
        Some(("t".to_owned(), number))
    });
    let opened = fakes.open_by("redis-cluster://t:1", IfUnreachable::Fail, Some(map));
    let (redis, events) = opened.await.unwrap();
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
    tunnel.store(2, Ordering::SeqCst);
    answers(&redis, LOW, "t:2").await;
    assert_eq!(events.changed(), 1, "every hold is verified there");
}

#[tokio::test(start_paused = true)]
async fn a_map_that_panics_is_named_and_costs_no_connection() {
    let (world, fakes) = cluster();
    let is_broken = Arc::new(AtomicUsize::new(1));
    let broken = is_broken.clone();
    let map = AddressMap::function(move |host, _| {
        assert_eq!(broken.load(Ordering::SeqCst), 0, "a bug in the map");
        let number = host.rsplit('.').next()?.parse().ok()?;
        Some(("t".to_owned(), number))
    });
    let url = "redis-cluster://t:1";
    let refused = fakes
        .open_by(url, IfUnreachable::Fail, Some(map.clone()))
        .await;
    let refused = format!("{:?}", refused.map(drop).unwrap_err());
    assert!(
        refused.contains("the address map panicked for 10.0.0.1:6379"),
        "{refused}"
    );

    is_broken.store(0, Ordering::SeqCst);
    let (redis, events) = fakes
        .open_by(url, IfUnreachable::Fail, Some(map))
        .await
        .unwrap();
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
    is_broken.store(1, Ordering::SeqCst);
    sleep(SECOND * 60).await;
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
    assert_eq!((events.changed(), redis.reconnects()), (0, 0));
    // A redirect that cannot be followed says why.
    world.lock().redirect = Some("MOVED 3300 10.0.0.3:6379".to_owned());
    let outcome = redis.call(Lane::Caller, add(LOW)).await;
    let is_named = matches!(
        &outcome,
        Err(CallError::NotApplied(Fault(text))) if text.contains("panicked for 10.0.0.3")
    );
    assert!(is_named, "{outcome:?}");
}

/// Sentinels `t:11` and `t:12` announce themselves as `10.0.1.1:26379` and `10.0.1.2:26379`, and
/// name `primary`.
fn sentinels(primary: Arc<Mutex<&'static str>>) -> Fakes {
    Fakes::new(move |address, words| {
        let word = |at: usize| words.get(at).map_or("", String::as_str);
        let primary = *primary.lock();
        let other = |number: &str| {
            let host = format!("10.0.1.{number}");
            array(&["ip", &host, "port", "26379", "flags", "sentinel"].map(bulk))
        };
        match (address, word(0), word(1)) {
            _ if !address.starts_with("t:") => Answer::End,
            (_, "SENTINEL", "MASTER") => {
                Answer::Reply(array(&["ip", primary, "port", "6379"].map(bulk)))
            }
            ("t:11", "SENTINEL", _) => Answer::Reply(array(&[other("2")])),
            ("t:12", "SENTINEL", _) => Answer::Reply(array(&[other("1")])),
            (_, "EVALSHA", _) => Answer::Reply(bulk(address)),
            _ => as_usual(words),
        }
    })
}

#[tokio::test(start_paused = true)]
async fn every_address_that_a_sentinel_names_is_mapped() {
    let primary = Arc::new(Mutex::new("10.0.0.1"));
    let fakes = sentinels(primary.clone());
    let map = AddressMap::table([
        ("10.0.0.1:6379", "t:1"),
        ("10.0.0.2:6379", "t:2"),
        ("10.0.1.1:26379", "t:11"),
        ("10.0.1.2:26379", "t:12"),
        ("t:11", "nowhere:1"),
    ]);
    let url = "redis-sentinel://t:11/locks";
    let (redis, events) = fakes
        .open_by(url, IfUnreachable::Fail, Some(map))
        .await
        .unwrap();
    assert_eq!(redis.call(Lane::Caller, add(LOW)).await, at("t:1"));
    until("the other sentinel is asked", || fakes.dialled("t:12") > 0).await;
    *primary.lock() = "10.0.0.2";
    answers(&redis, LOW, "t:2").await;
    assert_eq!(events.changed(), 1);
    sleep(SECOND * 60).await;
    assert_eq!(fakes.all_dialled(), ["t:1", "t:11", "t:12", "t:2"]);
    assert_eq!(
        fakes.dialled("t:11"),
        1,
        "it is one sentinel with one voice"
    );
}

/// A tunnel or a proxy for all servers may still lead to the former primary.
#[tokio::test(start_paused = true)]
async fn another_primary_at_the_same_address_gets_new_connections() {
    let primary = Arc::new(Mutex::new("10.0.0.1"));
    let fakes = sentinels(primary.clone());
    let map = AddressMap::function(|_, _| Some(("t".to_owned(), 1)));
    let url = "redis-sentinel://t:11/locks";
    let (redis, events) = fakes
        .open_by(url, IfUnreachable::Fail, Some(map))
        .await
        .unwrap();
    let before = fakes.dialled("t:1");
    *primary.lock() = "10.0.0.2";
    until("every hold is verified", || events.changed() == 1).await;
    until("all connections are new", || {
        fakes.dialled("t:1") >= before + 3
    })
    .await;
    answers(&redis, LOW, "t:1").await;
}
