//! Servers that are stopped, killed and restarted.

use super::{ALONE, Fault, Injected, NOWHERE, Needs, REPLACED};
use crate::world::{Node, World};

const PLAIN: Fault = Fault {
    forgets: REPLACED,
    ..Fault::lasting(10..150, freeze)
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "freeze-server",
        what: "SIGSTOP of a master, for a moment or for longer than the lease; a replica replaces \
            it if there is one",
        ..PLAIN
    },
    Fault {
        name: "kill-server",
        what: "SIGKILL of a server without persistence, which restarts empty",
        on: ALONE,
        lasts: 10..60,
        forgets: ALONE,
        empties: true,
        begin: kill,
        ..PLAIN
    },
    Fault {
        name: "kill-server-disk",
        what: "SIGKILL of a server that persists every write (appendfsync always), and restarts \
            with its data",
        on: ALONE,
        lasts: 10..60,
        forgets: NOWHERE,
        empties: false,
        needs: Needs::Disk,
        begin: kill,
    },
    Fault {
        name: "old-data",
        what: "SIGKILL of a server, which restarts with the data of a second ago",
        on: ALONE,
        lasts: 35..60,
        forgets: ALONE,
        empties: true,
        begin: age,
        ..PLAIN
    },
];

fn ports(world: &World, nodes: &[Node]) -> String {
    let ports = nodes
        .iter()
        .map(|&node| world.server(node).port().to_string());
    ports.collect::<Vec<_>>().join(", ")
}

fn freeze(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let victims = world.victims(random);
    let slots = world.slots_of(&victims);
    for &node in &victims {
        world.server(node).pause();
    }
    Injected::new(
        format!("server {} is stopped", ports(world, &victims)),
        move |world| {
            for &node in &victims {
                world.server(node).resume();
            }
        },
    )
    .of_slots(slots)
}

fn kill(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    // Of five servers, kill only one at a time, because that is all the guarantee covers: two
    // servers that lose their data may be two of the three that granted a lock.
    let mut victims = world.victims(random);
    victims.truncate(1);
    for &node in &victims {
        world.kill(node);
    }
    Injected::new(
        format!("server {} is killed", ports(world, &victims)),
        move |world| {
            for &node in &victims {
                world.restart(node);
            }
        },
    )
}

fn age(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let node = world.victims(random)[0];
    world.server(node).command(&["SAVE"]);
    let what = format!("server {} loses all later writes", ports(world, &[node]));
    Injected::new(what, move |world| {
        world.kill(node);
        world.restart(node);
    })
}
