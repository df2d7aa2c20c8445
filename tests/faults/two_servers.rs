//! One address that leads to two servers: a balancer, a name or a service that moves.

use leasehold::{Client, HoldState, Lease};
use leasehold_testbed::{Proxy, Server, eventually_within, ms};

use crate::testbed::{LATE, beside, connect};

const LIMIT: std::time::Duration = ms(60_000);

/// Which connection is cut. The first of a client carries renewals, and the others follow it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Cut {
    Renewals,
    Others,
}

/// The ids of the client's connections, oldest first.
fn connections(server: &Server) -> Vec<u64> {
    let id = |line: &String| line.split_once("id=")?.1.split(' ').next()?.parse().ok();
    let mut ids: Vec<_> = server
        .clients("name=leasehold")
        .iter()
        .filter_map(id)
        .collect();
    ids.sort_unstable();
    ids
}

fn cut(server: &Server, which: Cut) {
    let all = connections(server);
    let cut = match which {
        Cut::Renewals => &all[..1],
        Cut::Others => &all[1..],
    };
    for id in cut {
        server.command(&["CLIENT", "KILL", "ID", &id.to_string()]);
    }
}

async fn two_servers(lead: impl Fn(&Proxy, [&Server; 2])) -> (Server, Server, Proxy, Client) {
    let (a, b) = (Server::start(), Server::start());
    let proxy = Proxy::start(a.address());
    lead(&proxy, [&a, &b]);
    let client = connect(&proxy.url()).await;
    eventually_within(LATE, "all connections are there", async || {
        connections(&a).len() == 3
    })
    .await;
    (a, b, proxy, client)
}

/// Otherwise the other server could grant the lock to the same client again, while its first guard
/// still says `Held`.
#[test]
fn a_moved_address_leaves_no_two_valid_guards() {
    for which in [Cut::Renewals, Cut::Others] {
        beside(LIMIT, async {
            let (a, b, proxy, client) = two_servers(|_, _| {}).await;
            let lock = client.lock("n");
            let guard = lock.try_lock(LATE, Lease::Renewed).await.expect("free");
            proxy.lead_to(&[&b]);
            cut(&a, which);
            // As soon as the other server grants the lock to anybody, the first holder knows.
            let second = loop {
                let state = guard.state();
                if let Ok(second) = lock.try_lock(ms(0), Lease::Renewed).await {
                    assert_ne!(
                        guard.state(),
                        HoldState::Held,
                        "{which:?}: two holds, after {state:?}"
                    );
                    break second;
                }
                tokio::time::sleep(ms(1)).await;
            };
            eventually_within(LATE, "lost", async || guard.state() == HoldState::Lost).await;
            eventually_within(LATE, "nobody is left behind", async || {
                connections(&a).is_empty()
            })
            .await;
            eventually_within(LATE, "all lead to the other server", async || {
                connections(&b).len() == 3
            })
            .await;
            second.unlock().await.expect("held");
        });
    }
}

#[test]
fn behind_a_balancer_a_lost_connection_costs_no_hold() {
    for which in [Cut::Renewals, Cut::Others] {
        beside(LIMIT, async {
            let (a, b, _proxy, client) = two_servers(|proxy, [a, b]| proxy.lead_to(&[a, b])).await;
            let lease = Lease::RenewedFor(ms(3_000));
            let guard = client.lock("n").try_lock(LATE, lease).await.expect("free");
            for round in 0..3 {
                let (before, renewed) = (connections(&a), client.stats().renewed);
                cut(&a, which);
                eventually_within(LATE, "it is made again", async || {
                    let now = connections(&a);
                    now.len() == 3 && now != before
                })
                .await;
                eventually_within(LATE, "renewed", async || client.stats().renewed > renewed).await;
                let what = format!("certain: {which:?}, round {round}");
                let is_certain = async || guard.state() == HoldState::Held;
                eventually_within(LATE, &what, is_certain).await;
            }
            assert!(connections(&b).is_empty(), "{which:?}");
            guard.unlock().await.expect("held all the time");
        });
    }
}
