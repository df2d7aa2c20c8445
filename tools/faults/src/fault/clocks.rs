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
        what: "the wall clock of a server is set ten minutes ahead, so that its keys expire, and \
            later back",
        on: ALONE,
        forgets: ALONE,
        empties: true,
        begin: server_ahead,
        ..PLAIN
    },
    Fault {
        name: "server-clock-behind",
        what: "the wall clock of a server is set two seconds back, and later ahead again",
        on: ALONE,
        forgets: ALONE,
        empties: true,
        begin: server_behind,
        ..PLAIN
    },
];

fn set_clock(world: &World, whose: &str, seconds: i64) {
    world
        .clocks
        .as_ref()
        .expect("clocks were prepared")
        .set(whose, seconds);
}

fn client(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    set_clock(world, "client", 3600);
    let mut ahead = true;
    let back = |world: &mut World| set_clock(world, "client", 0);
    let number = world.clients.seats()[0].number;
    Injected::new("client 1: an hour ahead, an hour behind", back)
        .of_process(number)
        .repeatedly(move |world| {
            ahead = !ahead;
            set_clock(world, "client", if ahead { 3600 } else { -3600 });
        })
}

fn server_ahead(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    set_clock(world, "server", 600);
    Injected::new("server: ten minutes ahead", |world| {
        set_clock(world, "server", 0);
    })
}

fn server_behind(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    set_clock(world, "server", -2);
    Injected::new("server: two seconds behind", |world| {
        set_clock(world, "server", 0);
    })
}
