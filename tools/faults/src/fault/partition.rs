//! A master with one client on one side, all other servers and clients on the other.
//!
//! The program has a network of its own (a namespace), in which each server runs as a user of its own: a firewall
//! there drops what the sides send each other, without a word. Between clients and servers stand proxies.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use leasehold_testbed::{Line, Server};

use super::Injected;
use crate::world::{Node, World};

/// Of a cluster.
const LAST_SLOT: u16 = 16_383;

pub(super) fn begin(world: &mut World, random: &mut fastrand::Rng) -> Injected {
    let master = world.victims(random)[0];
    let seat = random.usize(0..world.clients.seats().len());
    let (port, number) = (
        world.server(master).port(),
        world.clients.seats()[seat].number,
    );
    let slots = world.slots_of(&[master]);
    firewall(&rules(world, master));
    sides(world, master, seat);
    let injected = Injected::new(
        format!("master {port} and client {number} are by themselves"),
        |world| {
            firewall("delete table inet leasehold\n");
            world.lines().for_each(Line::pass);
        },
    );
    // Without shards the master has all slots: everybody is cut off from somebody. Only the client beside the former
    // master cannot learn of the new one before the end.
    let slots = if slots.is_empty() {
        vec![(0, LAST_SLOT)]
    } else {
        slots
    };
    injected.of_process(number).of_slots(slots)
}

/// Each packet that opens or feeds a connection between the sides.
fn rules(world: &World, master: Node) -> String {
    let alone = world.server(master);
    let others: Vec<_> = world.deployments[0]
        .processes()
        .filter(|server| server.port() != alone.port())
        .collect();
    let ports = |server: &Server| {
        [Some(server.port()), server.bus_port()]
            .into_iter()
            .flatten()
    };
    let list = |numbers: BTreeSet<u16>| {
        let numbers: Vec<_> = numbers.iter().map(u16::to_string).collect();
        format!("{{ {} }}", numbers.join(", "))
    };
    let users = list(others.iter().map(|server| server.port()).collect());
    let far = list(others.iter().flat_map(|server| ports(server)).collect());
    let near = list(ports(alone).collect());
    format!(
        "table inet leasehold {{\n chain sides {{\n  type filter hook output priority 0;\n  \
         meta skuid {users} tcp dport {near} drop\n  meta skuid {} tcp dport {far} drop\n }}\n}}\n",
        alone.port()
    )
}

/// The lonely client reaches the lonely master only; the others, all but it.
fn sides(world: &World, master: Node, seat: usize) {
    let Node(_, alone) = master;
    for (of, one) in world.clients.seats().iter().enumerate() {
        for proxies in one.lines.iter().map(Line::proxies) {
            for (at, proxy) in proxies.iter().enumerate() {
                if (of == seat) != (at == alone) {
                    proxy.half_open();
                }
            }
        }
    }
}

fn firewall(rules: &str) {
    let mut nft = Command::new("nft")
        .args(["-f", "-"])
        .stdin(Stdio::piped())
        .spawn()
        .expect("nft (package nftables)");
    nft.stdin
        .take()
        .expect("piped")
        .write_all(rules.as_bytes())
        .expect("it reads");
    assert!(
        nft.wait().is_ok_and(|status| status.success()),
        "nft refuses: {rules}"
    );
}
