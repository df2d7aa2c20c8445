//! Failovers, and slots that move between masters.

use leasehold_testbed::{Deployment, keyslot};

use super::{Fault, Injected, NOWHERE, Needs, REPLACED, partition};
use crate::world::{Kind, Node, World};

const PLAIN: Fault = Fault {
    on: REPLACED,
    forgets: REPLACED,
    ..Fault::lasting(10..40, by_order)
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "failover-ordered",
        what: "a failover on command",
        ..PLAIN
    },
    Fault {
        name: "failover-killed",
        what: "SIGKILL of a master; a replica replaces it, and it restarts as a replica",
        begin: by_death,
        ..PLAIN
    },
    Fault {
        name: "failover-frozen",
        what: "SIGSTOP of a master until it is replaced; then it continues and briefly still acts \
            as master",
        begin: by_silence,
        ..PLAIN
    },
    Fault {
        name: "failover-behind",
        what: "a forced failover to a replica that has not received recent writes",
        on: &[Kind::Cluster],
        lasts: 5..20,
        begin: behind,
        ..PLAIN
    },
    Fault {
        name: "partition",
        what: "a master and one client are cut off from all other servers and clients; another \
            master is elected",
        lasts: 120..160,
        needs: Needs::Namespace,
        begin: partition::begin,
        ..PLAIN
    },
    Fault {
        name: "moving-slots",
        what: "slots move from master to master, with their keys",
        on: &[Kind::Cluster],
        lasts: 80..120,
        forgets: NOWHERE,
        begin: moving_slots,
        ..PLAIN
    },
];

/// The replaced master, and its slots.
type Replaced = (Node, Vec<(u16, u16)>);

fn replace(world: &mut World, random: &mut fastrand::Rng, how: fn(&mut World, Node)) -> Replaced {
    let old = world.victims(random)[0];
    world.settle();
    let slots = world.slots_of(&[old]);
    how(world, old);
    (old, slots)
}

fn until_replaced(world: &World, Node(_, old): Node) {
    match &world.deployments[0] {
        Deployment::Server(_) => {}
        Deployment::Sentinels(sentinels) => drop(sentinels.until_replaced(old)),
        Deployment::Cluster(cluster) => {
            cluster.until_replaced(old % cluster.shards(), old);
        }
    }
}

fn by_order(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let (Node(_, old), slots) = replace(world, random, |world, Node(_, old)| {
        match &world.deployments[0] {
            Deployment::Server(_) => {}
            Deployment::Sentinels(sentinels) => drop(sentinels.failover()),
            Deployment::Cluster(cluster) => drop(cluster.failover(old % cluster.shards())),
        }
    });
    Injected::new(format!("master {old} is replaced on command"), |_| {}).of_slots(slots)
}

fn by_death(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let (old, slots) = replace(world, random, |world, old| {
        world.kill(old);
        until_replaced(world, old);
    });
    Injected::new(
        format!("master {} was killed and is replaced", old.1),
        move |world| {
            world.restart(old);
        },
    )
    .of_slots(slots)
}

fn by_silence(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let (old, slots) = replace(world, random, |world, old| {
        world.server(old).pause();
        until_replaced(world, old);
    });
    Injected::new(
        format!("master {} was stopped and is replaced", old.1),
        move |world| {
            world.server(old).resume();
        },
    )
    .of_slots(slots)
}

/// The new master does not know the last grants and releases of the old one.
fn behind(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let (Node(_, old), slots) = replace(world, random, |_, _| {});
    let Deployment::Cluster(cluster) = &world.deployments[0] else {
        unreachable!("the fault applies to clusters only")
    };
    let shard = old % cluster.shards();
    let new = cluster.replica_of(shard);
    let mut master = cluster.node(old).connection();
    let mut set_password = move |password: &str| {
        let reply = master.command(&["CONFIG", "SET", "requirepass", password]);
        assert_eq!(reply.expect("the master replies").text(), "OK");
    };
    // Existing connections stay open. The replica is disconnected below, and cannot reconnect
    // without the password.
    set_password("nobody knows");
    cluster
        .node(new)
        .command(&["CLIENT", "KILL", "TYPE", "master"]);
    Injected::new(
        format!("replica {new} receives no writes of master {old}, and replaces it"),
        move |world| {
            let Deployment::Cluster(cluster) = &world.deployments[0] else {
                return;
            };
            cluster
                .node(new)
                .command(&["CLUSTER", "FAILOVER", "TAKEOVER"]);
            set_password("");
            cluster.until_replaced(shard, old);
        },
    )
    .of_slots(slots)
}

/// Moves the slots of some locks from master to master, in turn.
fn moving_slots(_: &mut World, random: &mut fastrand::Rng) -> Injected {
    let mut turn = random.usize(0..4);
    let migrate = move |world: &mut World| {
        let Deployment::Cluster(cluster) = &world.deployments[0] else {
            return;
        };
        let names = [
            "plain:0",
            "fenced:1",
            "multi:1",
            "fair:0",
            "permits:0",
            "string:0",
            "read-write:0",
        ];
        turn += 1;
        let slot = keyslot(names[turn % names.len()]);
        let owner = cluster.owner(slot);
        let masters: Vec<_> = world
            .masters()
            .into_iter()
            .map(|Node(_, node)| node)
            .collect();
        let at = masters
            .iter()
            .position(|&master| master == owner)
            .expect("a master");
        cluster.migrate(slot, masters[(at + 1) % masters.len()]);
    };
    Injected::new("slots move", |_| {}).repeatedly(migrate)
}
