//! Faults of client processes.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{Fault, Injected, Needs};
use crate::clock;
use crate::world::World;

/// A client that holds a lock reaches its next write within this time.
const SOON: Duration = Duration::from_secs(2);

/// Extra time for the process to stop itself.
const MOMENT: Duration = Duration::from_millis(200);

const PLAIN: Fault = Fault::lasting(130..180, freeze);

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "freeze-client",
        what: "SIGSTOP of a client between checking its guard and writing, for longer than the \
            lease",
        ..PLAIN
    },
    Fault {
        name: "kill-client",
        what: "SIGKILL of a client; a new one replaces it",
        lasts: 20..60,
        begin: kill,
        ..PLAIN
    },
    Fault {
        name: "blocked-runtime",
        what: "all threads of a client's runtime are blocked",
        lasts: 50..130,
        begin: block,
        ..PLAIN
    },
    Fault {
        name: "out-of-memory",
        what: "a client asks for more memory than it may have, and the kernel kills it",
        lasts: 30..60,
        needs: Needs::MemoryLimit,
        begin: exhaust,
        ..PLAIN
    },
];

fn any_seat(world: &World, random: &mut fastrand::Rng) -> usize {
    random.usize(0..world.clients.seats().len())
}

fn freeze(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let seat = any_seat(world, random);
    let number = world.clients.seats()[seat].number;
    // Let the client stop itself at the worst moment, just before a write. A client that gets no
    // lock in time never does, so it is stopped from outside.
    let until = clock::monotonic() + u64::try_from(SOON.as_nanos()).expect("seconds");
    world
        .clients
        .order(seat, &format!("freeze-before-write {until}"));
    if !world.clients.wait_until_stopped(seat, SOON + MOMENT) {
        world.clients.signal(seat, Signal::SIGSTOP);
    }
    Injected::new(format!("client {number} is stopped"), move |world| {
        world.clients.signal(seat, Signal::SIGCONT);
    })
    .of_process(number)
}

fn kill(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let seat = any_seat(world, random);
    let number = world.clients.seats()[seat].number;
    world.clients.signal(seat, Signal::SIGKILL);
    Injected::new(format!("client {number} is killed"), move |world| {
        world.clients.replace(seat);
    })
    .of_process(number)
}

fn block(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let seat = any_seat(world, random);
    let number = world.clients.seats()[seat].number;
    let blocked = move |world: &mut World| world.clients.order(seat, "block 90");
    blocked(world);
    Injected::new(
        format!("all threads of client {number} are blocked"),
        |_| {},
    )
    .repeatedly(blocked)
    .of_process(number)
}

fn exhaust(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    // Only the memory of the first client is limited.
    let number = world.clients.seats()[0].number;
    world.clients.order(0, "hog");
    let what = format!("client {number} is out of memory");
    Injected::new(what, |world| world.clients.replace(0)).of_process(number)
}
