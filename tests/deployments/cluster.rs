//! The cluster that the tests use: slots, failovers, migrations, and commands that find their node.

use std::time::Instant;

use leasehold_testbed::{Cluster, Reply, SLOTS, Shape, keyslot};

fn integer(number: i64) -> Reply {
    Reply::Int(number)
}

fn ok() -> Reply {
    Reply::Status("OK".into())
}

#[test]
#[expect(
    clippy::print_stderr,
    reason = "measured times are shown with --nocapture"
)]
fn slots_are_those_of_the_server() {
    let start = Instant::now();
    let cluster = Cluster::start();
    eprintln!("a cluster of six: {:?}", start.elapsed());
    let names = [
        "",
        "a",
        "{}",
        "{}a",
        "a{b}c",
        "a{b}{c}",
        "a{b",
        "a}b{c}d",
        "{{b}}",
        "ä{ö}",
        "123456789",
    ];
    for name in names {
        let slot = cluster.command(&["CLUSTER", "KEYSLOT", name]);
        assert_eq!(slot, integer(keyslot(name).into()), "{name}");
    }
    assert_eq!(keyslot("123456789"), 0x31C3 % SLOTS);
    for shard in 0..cluster.shards() {
        let name = cluster.name_in(shard, "n");
        assert_eq!(cluster.owner_of_key(&name), shard);
        assert_eq!(cluster.master(shard), shard);
        assert_eq!(cluster.replica_of(shard), shard + 3);
        let reply = cluster.node(shard).command(&["SET", &name, "1"]);
        assert_eq!(reply, ok(), "{name}");
    }
}

#[test]
fn commands_find_their_nodes() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let names = [0, 1, 2].map(|shard| cluster.name_in(shard, "x"));
    for name in &names {
        assert_eq!(cluster.command(&["SET", name, "1"]), ok());
        assert_eq!(cluster.command(&["GET", name]).text(), "1");
    }
    let [a, b, c] = [&names[0], &names[1], &names[2]].map(String::as_str);
    assert_eq!(cluster.command(&["EXISTS", a, b, c, "none"]), integer(3));
    assert_eq!(cluster.command(&["MGET", a, b, c]).array().len(), 3);
    assert_eq!(cluster.command(&["DBSIZE"]), integer(3));
    assert_eq!(cluster.command(&["KEYS", "*"]).array().len(), 3);
    let script = "return redis.call('GET', KEYS[1])";
    assert_eq!(cluster.command(&["EVAL", script, "1", b]).text(), "1");
    assert_eq!(
        cluster.command(&["EVAL", "return #redis.call('KEYS', '*')", "0"]),
        integer(3)
    );
    let stats = cluster.command(&["INFO", "commandstats"]).text();
    assert_eq!(
        stats
            .lines()
            .filter(|line| line.starts_with("cmdstat_eval:calls="))
            .count(),
        3
    );
    assert_eq!(cluster.command(&["DEL", a, b]), integer(2));
    assert_eq!(cluster.command(&["FLUSHALL"]), ok());
    assert_eq!(cluster.command(&["DBSIZE"]), integer(0));
    let error = cluster.command(&["INCR"]);
    assert!(
        matches!(&error, Reply::Error(text) if text.contains("wrong number")),
        "{error:?}"
    );
}

#[test]
fn a_failover_by_order_loses_nothing() {
    let cluster = Cluster::start();
    let name = cluster.name_in(1, "n");
    let mut old = cluster.master(1);
    for round in 0..4 {
        assert_eq!(cluster.command(&["INCR", &name]), integer(round + 1));
        let new = cluster.failover(1);
        assert_ne!(new, old);
        assert_eq!(cluster.replica_of(1), old);
        assert_eq!(cluster.owner_of_key(&name), new);
        old = new;
    }
    assert_eq!(cluster.command(&["GET", &name]).text(), "4");
}

#[test]
fn a_replica_follows_a_master_that_is_gone() {
    let mut cluster = Cluster::start();
    let name = cluster.name_in(0, "n");
    assert_eq!(cluster.command(&["SET", &name, "kept"]), ok());
    cluster.until_in_step();
    let killed = cluster.master(0);
    cluster.kill(killed);
    let successor = cluster.until_replaced(0, killed);
    assert_eq!(cluster.command(&["GET", &name]).text(), "kept");
    cluster.restart(killed);
    cluster.until_agreed();
    cluster.until_in_step();
    assert_eq!(cluster.replica_of(0), killed);

    // A paused former master is still master until it hears of its successor.
    cluster.pause(successor);
    assert_eq!(cluster.until_replaced(0, successor), killed);
    cluster.resume(successor);
    cluster.until_agreed();
    assert_eq!(cluster.master(0), killed);
    assert_eq!(cluster.command(&["GET", &name]).text(), "kept");
}

#[test]
fn a_shard_that_is_down_leaves_the_others_up_if_that_is_wanted() {
    let shape = Shape {
        replicas: 0,
        full_coverage: false,
        ..Shape::default()
    };
    let mut cluster = Cluster::start_with(shape);
    let name = cluster.name_in(1, "n");
    cluster.kill(0);
    assert_eq!(cluster.command(&["SET", &name, "1"]), ok());
    cluster.until_agreed();
    assert_eq!(cluster.command(&["GET", &name]).text(), "1");
}

#[test]
fn a_slot_moves_with_its_keys() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let name = cluster.name_in(0, "n");
    let key = |number: usize| format!("{{{name}}}:{number}");
    let keys: Vec<_> = (0..10).map(key).collect();
    for key in &keys {
        assert_eq!(cluster.command(&["SET", key, "1"]), ok());
    }
    let (slot, source, target) = (keyslot(&name), cluster.node(0), cluster.node(2));
    let migration = cluster.begin_migration(slot, 2);
    assert_eq!(migration.move_keys(4), 4);
    let stayed = |key: &&String| source.command(&["EXISTS", key]) == integer(1);
    assert_eq!(keys.iter().filter(stayed).count(), 6);
    let sent_on = |key: &&String| {
        let reply = source.command(&["GET", key]);
        matches!(reply, Reply::Error(text) if text.starts_with("ASK "))
    };
    assert_eq!(keys.iter().filter(sent_on).count(), 4);
    for key in &keys {
        assert_eq!(
            cluster.command(&["INCR", key]),
            integer(2),
            "wherever it is"
        );
    }
    assert_eq!(cluster.command(&["SET", &key(10), "2"]), ok());
    assert_eq!(cluster.owner(slot), 0);
    migration.finish();
    assert_eq!(cluster.owner(slot), 2);
    let moved = source.command(&["GET", &keys[0]]);
    assert!(matches!(moved, Reply::Error(text) if text.starts_with("MOVED ")));
    for key in keys.iter().chain([&key(10)]) {
        assert_eq!(target.command(&["GET", key]).text(), "2");
        assert_eq!(cluster.command(&["GET", key]).text(), "2");
    }
    cluster.migrate(slot, 1);
    assert_eq!(cluster.owner(slot), 1);
    assert_eq!(cluster.command(&["DEL", &keys[0]]), integer(1));
}

#[test]
fn an_empty_slot_moves_at_once() {
    let cluster = Cluster::start_with(Shape {
        replicas: 0,
        ..Shape::default()
    });
    let name = cluster.name_in(0, "n");
    for owner in [1, 2, 0] {
        cluster.move_empty_slot(keyslot(&name), owner);
        assert_eq!(cluster.owner_of_key(&name), owner);
    }
    let given_up = cluster.begin_migration(keyslot(&name), 1);
    given_up.give_up();
    assert_eq!(cluster.command(&["SET", &name, "1"]), ok());
    assert_eq!(cluster.owner_of_key(&name), 0);
}
