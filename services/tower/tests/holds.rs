//! How long the lock is held, and what a lost lock ends.

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use axum::body::Body;
use axum::http::StatusCode;
use futures::stream::{self, StreamExt as _};
use http_body_util::BodyExt as _;
use leasehold::{Client, EmbeddedRedis, Error, Lease};
use leasehold_testbed::{ms, soon};
use leasehold_tower::{BoxError, Locked};
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::{ask, layer, router, status};

const NAME: &str = "orders:42";

async fn is_locked(client: &Client) -> bool {
    client.lock(NAME).is_locked().await.expect("asked")
}

/// Says that it was dropped.
struct Dropped(Arc<AtomicBool>);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::SeqCst);
    }
}

/// A body with a part each second, for ever.
async fn endless() -> Body {
    Body::from_stream(stream::repeat("part").then(|part| async move {
        sleep(ms(1000)).await;
        Ok::<_, Infallible>(part)
    }))
}

#[tokio::test(start_paused = true)]
async fn a_lost_lock_drops_the_handler_and_is_503() {
    let redis = EmbeddedRedis::new();
    let stopped = Arc::new(AtomicBool::new(false));
    let flag = stopped.clone();
    let router = router(layer(&redis.client()), move || async move {
        let _dropped = Dropped(flag);
        std::future::pending::<()>().await;
    });
    let lose = async {
        sleep(ms(100)).await;
        assert!(redis.lose(NAME));
    };
    let (response, ()) = tokio::join!(soon("refused", ask(&router, "42")), lose);
    assert_eq!(response.status(), StatusCode::SERVICE_UNAVAILABLE);
    let error = response.extensions().get::<Error>();
    assert!(matches!(error, Some(Error::Lost { .. })), "{error:?}");
    assert!(stopped.load(Ordering::SeqCst), "the handler does not go on");
}

#[tokio::test(start_paused = true)]
async fn a_request_that_is_dropped_releases_its_lock() {
    let redis = EmbeddedRedis::new();
    let router = router(layer(&redis.client()), std::future::pending::<()>);
    let dropped = tokio::time::timeout(ms(100), ask(&router, "42")).await;
    assert!(dropped.is_err(), "it never answers");
    let lock = redis.client().lock(NAME);
    let guard = lock.try_lock(ms(100), Lease::Renewed).await.expect("free");
    guard.unlock().await.expect("released");
}

#[tokio::test(start_paused = true)]
async fn a_streamed_body_keeps_the_lock_until_it_is_dropped() {
    let redis = EmbeddedRedis::new();
    let (router, other) = (router(layer(&redis.client()), endless), redis.client());
    let mut response = ask(&router, "42").await;
    assert_eq!(response.status(), StatusCode::OK);
    for _ in 0..60 {
        let frame = response.body_mut().frame().await;
        frame.expect("a part").expect("a part");
        assert!(is_locked(&other).await, "longer than the lease");
    }
    drop(response);
    sleep(ms(10)).await;
    assert!(!is_locked(&other).await, "the client hung up");
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_free_when_the_client_has_the_whole_body() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let whole = router(layer(&client), || async { "whole" });
    let mut response = ask(&whole, "42").await;
    assert!(is_locked(&client).await);
    let frame = response.body_mut().frame().await.expect("a frame");
    assert_eq!(frame.expect("data").into_data().expect("data"), "whole");
    assert!(
        !is_locked(&client).await,
        "although the body is not dropped"
    );
    let empty = router(layer(&client), || async {});
    let response = ask(&empty, "42").await;
    assert!(!is_locked(&client).await, "an empty body needs no poll");
    drop(response);
    let parts = ["a", "b"].map(Ok::<_, Infallible>);
    let streamed = router(layer(&client), move || async move {
        Body::from_stream(stream::iter(parts))
    });
    let mut response = ask(&streamed, "42").await;
    for _ in 0..2 {
        let frame = response.body_mut().frame().await.expect("a frame");
        frame.expect("data");
        assert!(is_locked(&client).await, "there may be more");
    }
    assert!(response.body_mut().frame().await.is_none());
    assert!(!is_locked(&client).await);
}

#[tokio::test(start_paused = true)]
async fn a_lock_that_is_lost_while_the_body_is_streamed_breaks_the_body() {
    let redis = EmbeddedRedis::new();
    // A body that is idle must be woken, and one that always has a part must be stopped.
    let idle = router(layer(&redis.client()), || async {
        Body::from_stream(stream::pending::<Result<&str, Infallible>>())
    });
    for router in [idle, router(layer(&redis.client()), endless)] {
        let response = ask(&router, "42").await;
        assert!(redis.lose(NAME));
        let broken = soon("broken", response.into_body().collect()).await;
        let error: BoxError = broken.expect_err("no whole answer").into_inner();
        assert!(
            matches!(error.downcast_ref(), Some(Error::Lost { .. })),
            "{error}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_task_with_a_clone_keeps_the_lock() {
    let client = Client::embedded();
    let (give, mut given) = mpsc::unbounded_channel();
    let router = router(layer(&client), move |lock: Locked| async move {
        give.send(lock).expect("a task");
    });
    assert_eq!(status(&router, "42").await, StatusCode::OK);
    let lock = given.recv().await.expect("a clone");
    assert!(is_locked(&client).await && lock.check().is_ok());
    drop(lock);
    assert!(!is_locked(&client).await);
}
