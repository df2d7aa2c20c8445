//! Faults of client processes.

use std::time::Duration;

use nix::sys::signal::Signal;

use super::{Fault, Injected, Needs};
use crate::clock;
use crate::world::World;

/// A client that holds something soon gets to a write.
const SOON: Duration = Duration::from_secs(2);

/// What a process that is about to stop may take for it.
const MOMENT: Duration = Duration::from_millis(200);

const PLAIN: Fault = Fault::lasting(130..180, freeze);

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "freeze-client",
        what: "SIGSTOP of a client, between its look at a guard and its write, for longer than the lease",
        ..PLAIN
    },
    Fault {
        name: "kill-client",
        what: "SIGKILL of a client; another one takes its place",
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
    // It stops itself, at the worst moment. One that is not ours does not know how, and one that gets no lock does not.
    let until = clock::monotonic() + u64::try_from(SOON.as_nanos()).expect("seconds");
    world
        .clients
        .order(seat, &format!("freeze-before-write {until}"));
    if !world.clients.stands_still(seat, SOON + MOMENT) {
        world.clients.signal(seat, Signal::SIGSTOP);
    }
    Injected::new(format!("client {number} stands still"), move |world| {
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
        format!("client {number} has no thread for its tasks"),
        |_| {},
    )
    .meanwhile(blocked)
    .of_process(number)
}

fn exhaust(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    // The first of them has a limit.
    let number = world.clients.seats()[0].number;
    world.clients.order(0, "hog");
    let what = format!("client {number} is out of memory");
    Injected::new(what, |world| world.clients.replace(0)).of_process(number)
}
