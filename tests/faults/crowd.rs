//! Many clients that come back to a server at once, after it has restarted.

use std::time::{Duration, Instant};

use futures::future::join_all;
use leasehold::settings::TlsOptions;
use leasehold::{Client, HoldState};
use leasehold_testbed::{Certificate, Server, eventually_within, info_line, is_missing};

use crate::testbed::{alone, note, size};

const LIMIT: Duration = Duration::from_secs(180);

/// What the server says about itself in INFO.
fn figure(server: &Server, section: &str, name: &str) -> f64 {
    let info = server.command(&["INFO", section]).text();
    let value = info_line(&info, name).and_then(|value| value.parse().ok());
    value.expect("a number")
}

/// The pilot of each client comes back first, so the server makes few handshakes that nobody waits for any more.
#[test]
fn a_crowd_comes_back_after_a_restart() {
    if is_missing() {
        return;
    }
    let number = size("LEASEHOLD_CROWD", 40);
    for is_secured in [false, true] {
        alone(LIMIT, async {
            let certificate = Certificate::new("crowd");
            let arguments = certificate.arguments();
            let arguments: Vec<_> = arguments.iter().map(String::as_str).collect();
            let mut server = Server::start_with(&arguments);
            let builder = || {
                if is_secured {
                    let tls = TlsOptions::new().ca_file(certificate.folder.join("ca.pem"));
                    let url = format!("rediss://127.0.0.1:{}", server.tls_port());
                    Client::builder(&url).tls(tls)
                } else {
                    Client::builder(&server.url())
                }
            };
            let mut clients = Vec::new();
            for _ in 0..number {
                let client = builder().connect_in_background().await;
                clients.push(client.expect("it tries until it succeeds"));
            }
            let connections = |server: &Server| server.clients("name=leasehold:").len();
            eventually_within(LIMIT, "connected", async || {
                connections(&server) == 3 * number
            })
            .await;

            server.restart();
            let since = Instant::now();
            eventually_within(LIMIT, "all are back", async || {
                connections(&server) == 3 * number
            })
            .await;
            let took = since.elapsed();
            let accepted = figure(&server, "stats", "total_connections_received");
            let busy =
                figure(&server, "cpu", "used_cpu_user") + figure(&server, "cpu", "used_cpu_sys");
            note(&format!(
                "{number} clients, TLS {is_secured}: back after {took:?}; the server accepted {accepted} \
                 connections and worked {busy:.1} s"
            ));
            let take = async |(number, client): (usize, &Client)| {
                let guard = client
                    .lock(format!("n{number}"))
                    .lock()
                    .await
                    .expect("free");
                assert_eq!(guard.state(), HoldState::Held);
                guard.unlock().await.expect("held");
            };
            join_all(clients.iter().enumerate().map(take)).await;
        });
    }
}
