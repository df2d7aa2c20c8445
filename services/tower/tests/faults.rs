//! The fault run's short form: routers of several processes, each behind a proxy, on a server that
//! freezes.

use std::convert::Infallible;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::StatusCode;
use futures::stream::{self, StreamExt as _};
use http_body_util::BodyExt as _;
use leasehold::{Client, Error, FencingToken, Lease};
use leasehold_testbed::{Proxy, Server, eventually_within, is_missing, ms};
use leasehold_tower::Locked;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep};

use crate::{ask, layer, router};

const LEASE: Duration = ms(600);
const LIMIT: Duration = Duration::from_secs(60);
const KEYS: [&str; 2] = ["a", "b"];

/// The steps of all handlers and bodies: when, for which key, under which token. They check nothing
/// before a step: a lost lock must stop them.
type Steps = Arc<Mutex<Vec<(Instant, String, FencingToken)>>>;

fn step(steps: &Steps, lock: &Locked) {
    let step = (
        Instant::now(),
        lock.name().to_owned(),
        lock.token().expect("fenced"),
    );
    steps.lock().expect("no panic").push(step);
}

/// Half of the steps are made by the handler, half by the body. Each third request takes longer
/// than its lease.
async fn work(lock: Locked, steps: Steps, ends: Arc<Ends>) -> Body {
    let is_long = lock.token().expect("fenced").value() % 3 == 0;
    let half = if is_long { 250 } else { 20 };
    if is_long {
        ends.long.fetch_add(1, Ordering::SeqCst);
    }
    for _ in 0..half {
        step(&steps, &lock);
        sleep(ms(2)).await;
    }
    let parts = stream::iter(0..half).then(move |_| {
        step(&steps, &lock);
        async {
            sleep(ms(2)).await;
            Ok::<_, Infallible>("part")
        }
    });
    Body::from_stream(parts)
}

/// How requests ended.
#[derive(Debug, Default)]
struct Ends {
    /// Begun, and longer than the lease.
    long: AtomicUsize,
    whole: AtomicUsize,
    /// Stopped in the handler.
    lost: AtomicUsize,
    /// Stopped in the body.
    broken: AtomicUsize,
}

async fn use_for_ever(router: Router, key: &str, ends: Arc<Ends>) {
    loop {
        let response = ask(&router, key).await;
        let status = response.status();
        let is_lost = matches!(response.extensions().get(), Some(Error::Lost { .. }));
        let body = response.into_body().collect().await;
        let end = match status {
            StatusCode::OK if body.is_ok() => &ends.whole,
            StatusCode::OK => &ends.broken,
            StatusCode::SERVICE_UNAVAILABLE if is_lost => &ends.lost,
            StatusCode::SERVICE_UNAVAILABLE | StatusCode::LOCKED => {
                sleep(ms(5)).await;
                continue;
            }
            other => unreachable!("{other}"),
        };
        end.fetch_add(1, Ordering::SeqCst);
    }
}

/// Several processes would have several clocks; here one clock orders the steps of all.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_two_requests_with_a_key_run_at_once_while_connections_break_and_the_server_freezes() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let (steps, ends) = (Steps::default(), Arc::new(Ends::default()));
    let (mut proxies, mut users) = (Vec::new(), JoinSet::new());
    for _ in 0..3 {
        let proxy = Proxy::start(server.address());
        let client = Client::connect(&proxy.url()).await.expect("connects");
        proxies.push(proxy);
        let layer = layer(&client)
            .with_wait(ms(300))
            .fenced()
            .with_lease(Lease::RenewedFor(LEASE));
        let (own, known) = (steps.clone(), ends.clone());
        let router = router(layer, move |lock: Locked| work(lock, own, known));
        for key in KEYS {
            users.spawn(use_for_ever(router.clone(), key, ends.clone()));
        }
    }
    let answers = || ends.whole.load(Ordering::SeqCst);
    let more = async || {
        let before = answers();
        eventually_within(LIMIT, "answers", async || answers() > before + 3).await;
    };
    more().await;
    for round in 0..6 {
        if round % 2 == 0 {
            let proxy = &proxies[round % proxies.len()];
            proxy.refuse();
            proxy.cut();
            more().await;
            // Longer than the lease: what ran behind this proxy has lost its lock.
            sleep(LEASE).await;
            proxy.pass();
        } else {
            // At the beginning of a long request, which cannot end in time.
            let begun = || ends.long.load(Ordering::SeqCst);
            let before = begun();
            eventually_within(LIMIT, "a long one", async || begun() > before).await;
            server.pause();
            sleep(LEASE + ms(200)).await;
            server.resume();
        }
        more().await;
    }
    users.shutdown().await;
    let mut steps = steps.lock().expect("no panic").clone();
    steps.sort_by_key(|step| step.0);
    for key in KEYS {
        let name = format!("orders:{key}");
        let of_key = steps.iter().filter(|step| step.1 == name);
        let tokens: Vec<_> = of_key.map(|step| step.2).collect();
        assert!(
            tokens.is_sorted(),
            "a former request took a step: {tokens:?}"
        );
        let mut distinct = tokens.clone();
        distinct.dedup();
        assert!(distinct.len() > 6, "{distinct:?}");
        println!(
            "{key}: {} steps of {} requests",
            tokens.len(),
            distinct.len()
        );
    }
    println!("{ends:?}");
    let stopped = ends.lost.load(Ordering::SeqCst) + ends.broken.load(Ordering::SeqCst);
    assert!(stopped > 0, "no lock was lost: the faults are too mild");
}
