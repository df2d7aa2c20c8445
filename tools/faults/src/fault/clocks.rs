//! Wall clocks that are stepped.

use super::{ALONE, Fault, Injected, Needs};
use crate::world::World;

const PLAIN: Fault = Fault {
    needs: Needs::Clocks,
    ..Fault::lasting(50..100, client)
};

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "client-clock",
        what: "the wall clock of a client is an hour ahead, then an hour behind",
        ..PLAIN
    },
    Fault {
        name: "server-clock-ahead",
        what: "the wall clock of a server goes ten minutes ahead: its keys expire; then back",
        on: ALONE,
        forgets: ALONE,
        empties: true,
        begin: server_ahead,
        ..PLAIN
    },
    Fault {
        name: "server-clock-behind",
        what: "the wall clock of a server goes two seconds back, then ahead again",
        on: ALONE,
        forgets: ALONE,
        empties: true,
        begin: server_behind,
        ..PLAIN
    },
];

fn step(world: &World, whose: &str, seconds: i64) {
    world
        .clocks
        .as_ref()
        .expect("clocks were prepared")
        .set(whose, seconds);
}

fn client(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    step(world, "client", 3600);
    let mut ahead = true;
    let back = |world: &mut World| step(world, "client", 0);
    let number = world.clients.seats()[0].number;
    Injected::new("client 1: an hour ahead, an hour behind", back)
        .of_process(number)
        .meanwhile(move |world| {
            ahead = !ahead;
            step(world, "client", if ahead { 3600 } else { -3600 });
        })
}

fn server_ahead(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    step(world, "server", 600);
    Injected::new("server: ten minutes ahead", |world| {
        step(world, "server", 0);
    })
}

fn server_behind(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    step(world, "server", -2);
    Injected::new("server: two seconds behind", |world| {
        step(world, "server", 0);
    })
}
