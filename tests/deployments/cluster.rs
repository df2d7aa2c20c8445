//! The cluster that the tests use: slots, failovers, migrations, and commands that find their node.

use std::time::Instant;

use leasehold_testbed::{Cluster, Reply, SLOTS, keyslot};

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
