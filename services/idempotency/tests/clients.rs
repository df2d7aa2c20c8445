//! Clients that hang up, try again and stall, over real connections of HTTP.

use std::future::{Future, IntoFuture as _};
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::extract::Request;
use axum::http::StatusCode;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::Response;
use futures::future::join_all;
use futures::poll;
use leasehold::{EmbeddedRedis, Error};
use leasehold_testbed::{eventually, ms, soon};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Semaphore, oneshot};
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};

use crate::replies::Effects;
use crate::{NAME_OF_K, ask, layer, router};

/// Work that has its effect, and answers when it is let through.
#[derive(Clone)]
struct Work {
    effects: Effects,
    gate: Arc<Semaphore>,
    /// Calls of the service around the layer that were dropped.
    dropped: Arc<AtomicUsize>,
}

impl Work {
    fn new() -> Self {
        Work {
            effects: Effects::default(),
            gate: Arc::new(Semaphore::new(0)),
            dropped: Arc::default(),
        }
    }

    async fn pay(self) -> String {
        let number = self.effects.next();
        let _through = self.gate.acquire().await.expect("not closed");
        format!("payment {number}")
    }

    fn finish(&self) {
        self.gate.add_permits(Semaphore::MAX_PERMITS / 2);
    }

    async fn begun(&self) {
        eventually("it has begun", async || self.effects.all() > 0).await;
    }

    async fn dropped(&self, times: usize) {
        let seen = async || self.dropped.load(Ordering::SeqCst) == times;
        eventually("the server has dropped the call", seen).await;
    }
}

/// Says whether the server dropped the call.
async fn tell_drops(
    axum::extract::State(dropped): axum::extract::State<Arc<AtomicUsize>>,
    request: Request,
    next: Next,
) -> Response {
    struct Told(Option<Arc<AtomicUsize>>);
    impl Drop for Told {
        fn drop(&mut self) {
            if let Some(dropped) = self.0.take() {
                dropped.fetch_add(1, Ordering::SeqCst);
            }
        }
    }
    let mut told = Told(Some(dropped));
    let response = next.run(request).await;
    told.0 = None;
    response
}

fn watched(router: Router, work: &Work) -> Router {
    router.layer(from_fn_with_state(work.dropped.clone(), tell_drops))
}

async fn serve(servers: &mut JoinSet<()>, router: Router) -> SocketAddr {
    serve_until(servers, router, std::future::pending()).await
}

async fn serve_until(
    servers: &mut JoinSet<()>,
    router: Router,
    stop: impl Future<Output = ()> + Send + 'static,
) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let server = axum::serve(listener, router).with_graceful_shutdown(stop);
    servers.spawn(async { server.into_future().await.expect("served") });
    address
}

/// Sends a request with the key `k`, with as much of its body as is given.
async fn send(address: SocketAddr, length: usize, body: &str) -> TcpStream {
    let mut client = TcpStream::connect(address).await.expect("connects");
    let request = format!(
        "POST / HTTP/1.1\r\nhost: x\r\nx-account: 7\r\nidempotency-key: k\r\n\
         content-length: {length}\r\nconnection: close\r\n\r\n{body}",
    );
    client.write_all(request.as_bytes()).await.expect("sent");
    client
}

async fn reply(mut client: TcpStream) -> String {
    let mut text = String::new();
    client.read_to_string(&mut text).await.expect("a reply");
    text
}

/// The reply to a whole request.
async fn pay(address: SocketAddr) -> String {
    soon("a reply", reply(send(address, 2, "10").await)).await
}

#[track_caller]
fn is(reply: &str, status: u16, body: &str) {
    let line = format!("HTTP/1.1 {status} ");
    assert!(reply.starts_with(&line) && reply.ends_with(body), "{reply}");
}

#[tokio::test]
async fn a_client_that_gives_up_and_tries_again_is_charged_once() {
    let redis = EmbeddedRedis::new();
    let work = Work::new();
    let own = work.clone();
    let once = router(layer(&redis.client()), move || own.pay());
    let mut servers = JoinSet::new();
    let address = serve(&mut servers, watched(once, &work)).await;

    let first = send(address, 2, "10").await;
    work.begun().await;
    drop(first);
    work.dropped(1).await;
    for _ in 0..2 {
        is(&pay(address).await, 409, "");
    }
    work.finish();
    eventually("a reply", async || {
        pay(address).await.starts_with("HTTP/1.1 200 ")
    })
    .await;
    is(&pay(address).await, 200, "payment 1");
    assert_eq!(work.effects.all(), 1);
}

#[tokio::test]
async fn the_end_of_a_process_waits_for_requests_whose_client_has_gone() {
    let redis = EmbeddedRedis::new();
    let work = Work::new();
    let (own, client) = (work.clone(), redis.client());
    let layer = layer(&client);
    let once = router(layer.clone(), move || own.pay());
    let (stop, stopped) = oneshot::channel::<()>();
    let mut servers = JoinSet::new();
    let stops = async { drop(stopped.await) };
    let address = serve_until(&mut servers, watched(once, &work), stops).await;

    drop(send(address, 2, "10").await);
    work.begun().await;
    work.dropped(1).await;
    stop.send(()).expect("it runs");
    let ended = soon("the server has no connections", servers.join_next()).await;
    ended.expect("one server").expect("no panic");
    let mut drained = pin!(layer.drained());
    assert!(poll!(&mut drained).is_pending());
    assert!(client.lock(NAME_OF_K).is_locked().await.expect("asked"));
    work.finish();
    soon("it is done", drained).await;
    client.shutdown(ms(5000)).await.expect("released");

    let own = work.clone();
    let again = router(crate::layer(&redis.client()), move || own.pay());
    assert_eq!(ask(&again, "k", "10").await.1, "payment 1");
    assert_eq!(work.effects.all(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_a_layer_outside_drops_goes_on() {
    let redis = EmbeddedRedis::new();
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&redis.client()), move || async move {
        let number = counted.next();
        sleep(ms(500)).await;
        number.to_string()
    });
    assert!(timeout(ms(100), ask(&router, "k", "")).await.is_err());
    assert_eq!(ask(&router, "k", "").await.0, StatusCode::CONFLICT);
    sleep(ms(500)).await;
    for _ in 0..2 {
        assert_eq!(ask(&router, "k", "").await, (StatusCode::OK, "1".into()));
    }
    assert_eq!(effects.all(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_that_is_dropped_before_it_has_the_lock_runs_nothing() {
    let redis = EmbeddedRedis::new();
    let effects = Effects::default();
    let counted = effects.clone();
    let waits = layer(&redis.client()).with_wait(ms(5000));
    let router = router(waits, move || async move {
        counted.next();
    });
    let other = redis.client();
    let guard = other.lock(NAME_OF_K).lock().await.expect("taken");
    assert!(timeout(ms(100), ask(&router, "k", "")).await.is_err());
    guard.unlock().await.expect("released");
    sleep(ms(1000)).await;
    assert_eq!(effects.all(), 0);
    assert!(!other.lock(NAME_OF_K).is_locked().await.expect("asked"));
}

#[tokio::test]
async fn a_kept_reply_is_there_for_all_at_once() {
    let redis = EmbeddedRedis::new();
    let work = Work::new();
    work.finish();
    let own = work.clone();
    let once = router(layer(&redis.client()), move || own.pay());
    let mut servers = JoinSet::new();
    let address = serve(&mut servers, once).await;
    is(&pay(address).await, 200, "payment 1");
    for _ in 0..50 {
        for reply in join_all((0..8).map(|_| pay(address))).await {
            is(&reply, 200, "payment 1");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_retry_waits_for_the_reply_of_the_first() {
    let redis = EmbeddedRedis::new();
    let work = Work::new();
    let routers = [ms(2000), ms(500)].map(|wait| {
        let own = work.clone();
        router(layer(&redis.client()).with_wait(wait), move || own.pay())
    });
    let [first, retry, hasty] = [&routers[0], &routers[0], &routers[1]];
    let ends = async {
        sleep(ms(1000)).await;
        work.finish();
    };
    let later = async |router, body| {
        sleep(ms(100)).await;
        ask(router, "k", body).await
    };
    let (first, retry, hasty, other, ()) = tokio::join!(
        ask(first, "k", "10"),
        later(retry, "10"),
        later(hasty, "10"),
        later(retry, "20"),
        ends
    );
    let paid = (StatusCode::OK, "payment 1".to_owned());
    assert_eq!((first, retry), (paid.clone(), paid));
    assert_eq!(hasty.0, StatusCode::CONFLICT);
    assert_eq!(other.0, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(work.effects.all(), 1);
}

#[tokio::test(start_paused = true)]
async fn nobody_seen_at_work_is_503_and_not_409() {
    let client = EmbeddedRedis::new().client();
    let waits = layer(&client).with_wait(ms(100));
    let router = router(waits, || async { "paid" });
    let mut kept = pin!(crate::send(&router, crate::request("k", "")));
    // Polled until it has looked for a reply and asked for the lock, and then no more.
    for _ in 0..2 {
        assert!(poll!(&mut kept).is_pending());
        sleep(ms(1)).await;
    }
    sleep(ms(1000)).await;
    let refused = kept.await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let error = refused.extensions().get();
    assert!(
        matches!(
            error,
            Some(Error::Timeout {
                cancelled_as_unpolled: 1..,
                ..
            })
        ),
        "{error:?}"
    );
}

#[tokio::test]
async fn a_body_that_never_arrives_keeps_nobody_waiting() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let work = Work::new();
    work.finish();
    let own = work.clone();
    let patient = router(layer(&client), move || own.pay());
    let own = work.clone();
    let hasty = layer(&client).with_body_timeout(ms(50));
    let hasty = router(hasty, move || own.pay());
    let mut servers = JoinSet::new();
    let patient = serve(&mut servers, patient).await;
    let hasty = serve(&mut servers, hasty).await;

    let stalled = send(patient, 2, "1").await;
    let late = soon("refused", reply(send(hasty, 2, "1").await)).await;
    is(&late, 408, "");
    assert_eq!(work.effects.all(), 0);
    is(&pay(patient).await, 200, "payment 1");
    is(&pay(hasty).await, 200, "payment 1");
    drop(stalled);
    assert_eq!(work.effects.all(), 1);
}
