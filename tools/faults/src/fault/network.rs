//! Network faults, caused by a proxy between each client and each server.

use std::time::Duration;

use leasehold_testbed::Line;

use super::{Fault, Injected};
use crate::world::World;

const PLAIN: Fault = Fault::lasting(40..90, cut);

pub(super) const FAULTS: &[Fault] = &[
    Fault {
        name: "cut",
        what: "all connections are cut, over and over",
        ..PLAIN
    },
    Fault {
        name: "refused",
        what: "all connections are cut, and new ones are refused",
        begin: refuse,
        ..PLAIN
    },
    Fault {
        name: "half-open",
        what: "connections stay open but carry no data in either direction, for longer than the \
            lease",
        lasts: 110..150,
        begin: half_open,
        ..PLAIN
    },
    Fault {
        name: "no-replies",
        what: "requests arrive, replies do not",
        begin: no_replies,
        ..PLAIN
    },
    Fault {
        name: "no-requests",
        what: "requests do not arrive",
        begin: no_requests,
        ..PLAIN
    },
    Fault {
        name: "lost-replies",
        what: "replies are lost and connections cut, over and over",
        begin: lost_replies,
        ..PLAIN
    },
    Fault {
        name: "late-requests",
        what: "requests arrive late, even those that the client gave up and whose connection it \
            closed",
        lasts: 50..80,
        begin: late_requests,
        ..PLAIN
    },
    Fault {
        name: "jitter",
        what: "each reply is delayed by a random 20 to 100 ms",
        lasts: 80..120,
        begin: jitter,
        ..PLAIN
    },
    Fault {
        name: "slow-reader",
        what: "replies trickle: 16 bytes a millisecond",
        lasts: 80..120,
        begin: trickle,
        ..PLAIN
    },
    Fault {
        name: "no-messages",
        what: "subscribed connections receive no messages",
        begin: no_messages,
        ..PLAIN
    },
    Fault {
        name: "lonely-client",
        what: "one client cannot reach any server, for longer than the lease; the others can",
        lasts: 110..150,
        begin: one_alone,
        ..PLAIN
    },
];

/// Applies `switch` to the connections of all clients. Healing lets new connections pass again.
fn switched(world: &mut World, detail: &str, switch: fn(&Line)) -> Injected {
    world.lines().for_each(switch);
    Injected::new(detail, |world| world.lines().for_each(Line::pass))
}

fn cut(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "cut", Line::cut).repeatedly(|world| world.lines().for_each(Line::cut))
}

fn refuse(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "refused", |line| {
        line.refuse();
        line.cut();
    })
}

fn half_open(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "half open", Line::half_open)
}

fn no_replies(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "no replies", Line::swallow_replies)
}

fn no_requests(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "no requests", Line::swallow_requests)
}

fn lost_replies(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "lost replies", Line::swallow_replies).repeatedly(|world| {
        world.lines().for_each(|line| {
            line.pass();
            line.swallow_replies();
        });
    })
}

fn late_requests(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    world.lines().for_each(Line::hold_requests);
    // Healing delivers the held requests. No connection is cut.
    Injected::new("requests are held", |world| {
        world.lines().for_each(Line::flow);
    })
}

fn jitter(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    world.lines().for_each(|line| {
        line.delay_replies(Duration::from_millis(20));
        line.jitter(Duration::from_millis(80));
    });
    Injected::new("20 to 100 ms", |world| world.lines().for_each(Line::flow))
}

fn trickle(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    world.lines().for_each(|line| line.trickle(16));
    Injected::new("16 bytes a millisecond", |world| {
        world.lines().for_each(Line::flow);
    })
}

fn no_messages(world: &mut World, _: &mut fastrand::Rng) -> Injected {
    switched(world, "no messages", Line::swallow_messages)
}

fn one_alone(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let seat = random.usize(0..world.clients.seats().len());
    let number = world.clients.seats()[seat].number;
    world.clients.seats()[seat]
        .lines
        .iter()
        .for_each(Line::half_open);
    Injected::new(format!("client {number} reaches no server"), move |world| {
        world.clients.seats()[seat]
            .lines
            .iter()
            .for_each(Line::pass);
    })
    .of_process(number)
}
