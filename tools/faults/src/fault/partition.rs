//! A partition: one master and one client on one side, all other servers and clients on the other
//! side.
//!
//! The program runs in its own network namespace, in which each server runs as its own user. A
//! firewall in the namespace silently drops packets between servers of different sides. Proxies
//! separate clients from servers.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use leasehold_testbed::{Line, Server};

use super::Injected;
use crate::world::{Node, World};

/// The last slot of a cluster.
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
        format!("master {port} and client {number} are cut off from all others"),
        |world| {
            firewall("delete table inet leasehold\n");
            world.lines().for_each(Line::pass);
        },
    );
    // Without shards, the master owns all slots, so the fault affects every client. Only the client
    // on the side of the old master cannot learn about the new master before the fault ends.
    let slots = if slots.is_empty() {
        vec![(0, LAST_SLOT)]
    } else {
        slots
    };
    injected.of_process(number).of_slots(slots)
}

/// Firewall rules that drop each packet between servers of different sides.
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

/// Makes the proxies block connections between the sides: the isolated client reaches only the
/// isolated master, and the other clients reach only the other servers.
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
        .expect("nft reads its input");
    assert!(
        nft.wait().is_ok_and(|status| status.success()),
        "nft refuses: {rules}"
    );
}
