//! Faults that operators and their tools cause on servers.

use std::fs;

use leasehold_testbed::{Server, keyslot};

use super::{EVERYWHERE, Fault, Injected, REPLACED};
use crate::world::{Node, World};

const PLAIN: Fault = Fault::lasting(50..100, flush_scripts);

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "script-flush",
        what: "SCRIPT FLUSH, ten times a second",
        ..PLAIN
    },
    Fault {
        name: "client-kill",
        what: "CLIENT KILL TYPE normal, pubsub, replica, in turn, ten times a second",
        begin: kill_connections,
        ..PLAIN
    },
    Fault {
        name: "acl",
        what: "ACL rules forbid scripts and subscriptions, and later allow them again",
        begin: take_rights,
        ..PLAIN
    },
    Fault {
        name: "out-of-server-memory",
        what: "`maxmemory` is reached with `noeviction`: writes are refused",
        begin: no_memory,
        ..PLAIN
    },
    Fault {
        name: "eviction",
        what: "`maxmemory` is reached with each eviction policy in turn: keys of locks are evicted",
        lasts: 70..110,
        forgets: EVERYWHERE,
        empties: true,
        begin: evict,
        ..PLAIN
    },
    Fault {
        name: "busy-script",
        what: "a script does not end: the server refuses every command with BUSY",
        lasts: 20..60,
        forgets: REPLACED,
        begin: busy,
        ..PLAIN
    },
    Fault {
        name: "disk-full",
        what: "a snapshot cannot be written: writes are refused with MISCONF",
        begin: misconfigured,
        ..PLAIN
    },
];

/// The eviction policies that delete keys.
const POLICIES: [&str; 7] = [
    "allkeys-lru",
    "volatile-ttl",
    "allkeys-random",
    "volatile-lru",
    "allkeys-lfu",
    "volatile-random",
    "volatile-lfu",
];

fn flush_scripts(_: &mut World, _: &mut fastrand::Rng) -> Injected {
    Injected::new("scripts are flushed", |_| {}).repeatedly(|world| {
        for node in world.masters() {
            world.server(node).command(&["SCRIPT", "FLUSH"]);
        }
    })
}

fn kill_connections(_: &mut World, random: &mut fastrand::Rng) -> Injected {
    let mut turn = random.usize(0..3);
    Injected::new("connections are killed by type", |_| {}).repeatedly(move |world| {
        turn += 1;
        for node in world.masters() {
            let kind = ["normal", "pubsub", "replica"][turn % 3];
            world
                .server(node)
                .command(&["CLIENT", "KILL", "TYPE", kind]);
        }
    })
}

/// Applies `set` to each victim, and `unset` when the fault is healed.
fn settings(
    world: &mut World,
    random: &mut fastrand::Rng,
    detail: &str,
    set: fn(&Server),
    unset: fn(&Server),
) -> Injected {
    let victims = world.victims(random);
    let slots = world.slots_of(&victims);
    for &node in &victims {
        set(world.server(node));
    }
    Injected::new(detail, move |world| {
        for &node in &victims {
            unset(world.server(node));
        }
    })
    .of_slots(slots)
}

fn take_rights(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let taken = |server: &Server| {
        let rights = ["-eval", "-evalsha", "-subscribe", "-psubscribe"];
        let reply = server.command(&[&["ACL", "SETUSER", "default"][..], &rights].concat());
        assert_eq!(reply.text(), "OK");
    };
    settings(
        world,
        random,
        "scripts and subscriptions are forbidden",
        taken,
        |server| {
            server.command(&["ACL", "SETUSER", "default", "+@all"]);
        },
    )
}

fn config(server: &Server, name: &str, value: &str) {
    let reply = server.command(&["CONFIG", "SET", name, value]);
    assert_eq!(reply.text(), "OK", "{name} {value}");
}

fn no_memory(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let full = |server: &Server| {
        config(server, "maxmemory-policy", "noeviction");
        config(server, "maxmemory", "1");
    };
    settings(world, random, "`maxmemory` is reached", full, |server| {
        config(server, "maxmemory", "0");
    })
}

fn used_memory(server: &Server) -> u64 {
    let info = server.command(&["INFO", "memory"]).text();
    let used = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    used.and_then(|used| used.trim().parse().ok())
        .expect("INFO reports the used memory")
}

fn evict(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let (victims, mut turn) = (world.victims(random), random.usize(0..POLICIES.len()));
    // A hash tag of foreign keys that are stored on the same server.
    let owner = |Node(_, node)| {
        let is_there = |name: &String| match &world.deployments[0] {
            leasehold_testbed::Deployment::Cluster(cluster) => cluster.owner(keyslot(name)) == node,
            _ => true,
        };
        (0..100_000)
            .map(|number| format!("{{junk{number}}}"))
            .find(is_there)
            .expect("each master has some of these slots")
    };
    let places: Vec<_> = victims.iter().map(|&node| (node, owner(node))).collect();
    let (again, slots) = (places.clone(), world.slots_of(&victims));
    Injected::new("keys are evicted, by each policy in turn", move |world| {
        for (node, tag) in &places {
            let server = world.server(*node);
            config(server, "maxmemory", "0");
            for number in 0..FILLERS {
                server.command(&["UNLINK", &format!("{tag}:{number}")]);
            }
        }
    })
    .of_slots(slots)
    .repeatedly(move |world| {
        turn += 1;
        for (node, tag) in &again {
            let server = world.server(*node);
            config(server, "maxmemory-policy", POLICIES[turn % POLICIES.len()]);
            config(
                server,
                "maxmemory",
                &(used_memory(server) + 200_000).to_string(),
            );
            let filler = "x".repeat(20_000);
            let mut connection = server.connection();
            for number in 0..FILLERS {
                let key = format!("{tag}:{number}");
                drop(connection.command(&["SET", &key, &filler]));
            }
            config(server, "maxmemory", "0");
        }
    })
}

/// Number of foreign keys, with 20 kB each.
const FILLERS: u32 = 40;

fn busy(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let start = |server: &Server| {
        config(server, "lua-time-limit", "50");
        let mut connection = server.connection();
        connection
            .send(&["EVAL", "while true do end", "0"])
            .expect("the command is sent");
        // The script keeps running after its connection is closed. So the connection may be dropped
        // as soon as the server is busy.
        let is_busy = || {
            let reply = server.connection().command(&["PING"]);
            reply.is_ok_and(|reply| reply.text().starts_with("BUSY"))
        };
        leasehold_testbed::wait_until(
            "the server is busy",
            std::time::Duration::from_secs(5),
            is_busy,
        );
    };
    settings(world, random, "a script does not end", start, |server| {
        // A sentinel may have killed the script already. Either way, the script ends a moment after
        // the kill.
        let has_ended = || {
            let mut connection = server.connection();
            drop(connection.command(&["SCRIPT", "KILL"]));
            connection
                .command(&["PING"])
                .is_ok_and(|reply| reply.text() == "PONG")
        };
        leasehold_testbed::wait_until(
            "the script ends",
            std::time::Duration::from_secs(10),
            has_ended,
        );
    })
}

fn misconfigured(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let full = |server: &Server| {
        // A non-empty folder with the name of the snapshot: Redis cannot rename its file over it.
        let file = server.folder().join("dump.rdb");
        fs::remove_file(&file).ok();
        fs::create_dir_all(file.join("full")).expect("the folder is writable");
        config(server, "save", "3600 1000000");
        let failed = || {
            server.command(&["BGSAVE"]);
            let info = server.command(&["INFO", "persistence"]).text();
            info.contains("rdb_last_bgsave_status:err")
        };
        leasehold_testbed::wait_until(
            "a snapshot fails",
            std::time::Duration::from_secs(5),
            failed,
        );
    };
    settings(
        world,
        random,
        "snapshots cannot be written",
        full,
        |server| {
            config(server, "save", "");
            fs::remove_dir_all(server.folder().join("dump.rdb")).expect("the folder is writable");
            server.command(&["BGSAVE"]);
        },
    )
}
