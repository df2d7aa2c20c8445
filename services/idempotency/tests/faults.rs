//! The fault run's short form: routers of several processes, each behind a proxy, on a server that
//! is cut off, frozen and killed. The server keeps its data.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::http::{HeaderMap, StatusCode};
use leasehold::{Client, Lease};
use leasehold_testbed::{Proxy, Server, eventually_within, is_missing, ms};
use tokio::task::JoinSet;
use tokio::time::sleep;

use crate::{ask, layer, router};

const LEASE: Duration = ms(600);
const LIMIT: Duration = Duration::from_secs(60);
const PROCESSES: usize = 3;
const LANES: usize = 4;

/// What happened under a key, seen from outside of the crate.
#[derive(Clone, Debug, Default)]
struct Key {
    /// How many runs had their effect.
    effects: usize,
    replies: BTreeSet<String>,
    answered: usize,
    /// Requests whose client does not know whether the work is done.
    unknown: usize,
}

type Keys = Arc<Mutex<BTreeMap<String, Key>>>;

fn note(keys: &Keys, key: &str, note: impl FnOnce(&mut Key)) {
    note(
        keys.lock()
            .expect("no panic")
            .entry(key.to_owned())
            .or_default(),
    );
}

/// The work: it takes a while, and its effect is in the middle.
async fn pay(key: String, keys: Keys) -> String {
    sleep(ms(5)).await;
    let mut run = 0;
    note(&keys, &key, |key| {
        key.effects += 1;
        run = key.effects;
    });
    sleep(ms(5)).await;
    format!("paid in run {run}")
}

/// A client that sends its request until it has the reply.
async fn persist(router: &Router, key: &str, keys: &Keys) {
    loop {
        let (status, reply) = ask(router, key, "10 EUR").await;
        match status {
            StatusCode::OK => {
                note(keys, key, |key| {
                    key.replies.insert(reply);
                    key.answered += 1;
                });
                return;
            }
            StatusCode::CONFLICT => {}
            StatusCode::SERVICE_UNAVAILABLE => note(keys, key, |key| key.unknown += 1),
            other => unreachable!("{other}"),
        }
        sleep(ms(5)).await;
    }
}

/// Another request with the same key: it gets no reply.
async fn misuse(router: &Router, key: &str) {
    let (status, _) = ask(router, key, "20 EUR").await;
    assert_ne!(status, StatusCode::OK, "{key}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_key_has_one_reply_while_connections_break_and_the_server_fails() {
    if is_missing() {
        return;
    }
    let mut server = Server::start_with(&["--appendonly", "yes", "--appendfsync", "always"]);
    let (keys, mut clients) = (Keys::default(), JoinSet::new());
    let mut proxies = Vec::new();
    for process in 0..PROCESSES {
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&proxy.url()).await.expect("connects");
        proxies.push(proxy);
        let layer = layer(&client).with_lease(Lease::RenewedFor(LEASE));
        let own = keys.clone();
        let router = router(layer, move |headers: HeaderMap| {
            let key = headers["idempotency-key"].to_str().expect("a text");
            pay(key.to_owned(), own)
        });
        for lane in 0..LANES {
            let (router, keys) = (router.clone(), keys.clone());
            clients.spawn(async move {
                for number in 0.. {
                    let key = format!("{lane}-{number}");
                    persist(&router, &key, &keys).await;
                    if process == number % PROCESSES {
                        misuse(&router, &key).await;
                    }
                }
            });
        }
    }
    let whole = || {
        let keys = keys.lock().expect("no panic");
        keys.values()
            .filter(|key| key.answered == PROCESSES)
            .count()
    };
    let more = async || {
        let before = whole();
        eventually_within(LIMIT, "replies", async || whole() > before + 3).await;
    };
    for round in 0..9 {
        more().await;
        let proxy = &proxies[round % proxies.len()];
        match round % 3 {
            0 => {
                proxy.refuse();
                proxy.cut();
                sleep(LEASE + ms(200)).await;
                proxy.pass();
            }
            1 => {
                server.pause();
                sleep(LEASE + ms(200)).await;
                server.resume();
            }
            _ => {
                // Replies are lost first: what was kept, nobody knows of.
                proxies.iter().for_each(Proxy::swallow_replies);
                sleep(ms(100)).await;
                server.kill();
                proxies.iter().for_each(Proxy::pass);
                server.restart();
            }
        }
    }
    more().await;
    while let Some(ended) = clients.try_join_next() {
        ended.expect("no client fails");
    }
    clients.shutdown().await;
    check(&keys.lock().expect("no panic").clone());
}

fn check(keys: &BTreeMap<String, Key>) {
    let answered: Vec<_> = keys.iter().filter(|(_, key)| key.answered > 0).collect();
    let mut again = 0;
    for (name, key) in &answered {
        assert_eq!(key.replies.len(), 1, "{name}: {key:?}");
        assert!(key.effects > 0, "{name}: {key:?}");
        assert!(key.effects <= 1 + key.unknown, "{name}: {key:?}");
        let runs = (1..=key.effects).map(|run| format!("paid in run {run}"));
        assert!(key.replies.is_subset(&runs.collect()), "{name}: {key:?}");
        again += key.effects - 1;
    }
    let unknown = answered.iter().filter(|(_, key)| key.unknown > 0).count();
    assert!(
        unknown > 0,
        "no request was interrupted: the faults are too mild"
    );
    println!(
        "{} keys, {unknown} with interrupted requests, {again} effects again",
        answered.len()
    );
}
