//! What clients get.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::http::header::RETRY_AFTER;
use axum::http::{Request, Response, StatusCode};
use axum::routing::get;
use axum::{Router, body::Body};
use futures::poll;
use leasehold::{Client, EmbeddedRedis, Error, FencingToken, Lease};
use leasehold_testbed::{ms, timed};
use leasehold_tower::{LockLayer, Locked, original_uri};
use tokio::time::sleep;
use tower::ServiceExt as _;

use crate::{KEY, ask, layer, request, router, status};

fn retry_after<B>(response: &Response<B>) -> Option<u64> {
    let seconds = response.headers().get(RETRY_AFTER)?;
    seconds.to_str().ok()?.parse().ok()
}

/// A router whose handler takes a second.
fn slow(layer: LockLayer) -> Router {
    router(layer, || sleep(ms(1000)))
}

#[tokio::test(start_paused = true)]
async fn a_second_request_with_the_key_gets_409_from_any_process() {
    let redis = EmbeddedRedis::new();
    let (here, there) = (slow(layer(&redis.client())), slow(layer(&redis.client())));
    let second = async {
        sleep(ms(100)).await;
        for router in [&here, &there] {
            let refused = ask(router, "42").await;
            assert_eq!(refused.status(), StatusCode::CONFLICT);
            assert_eq!(retry_after(&refused), Some(5));
            let error = refused.extensions().get::<Error>();
            assert!(error.is_some_and(Error::is_timeout), "{error:?}");
        }
        assert_eq!(status(&here, "43").await, StatusCode::OK, "another key");
    };
    let (first, ()) = tokio::join!(status(&here, "42"), second);
    assert_eq!(first, StatusCode::OK);
    assert_eq!(
        status(&there, "42").await,
        StatusCode::OK,
        "it is free again"
    );
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_its_turn_and_gets_423_after_the_wait() {
    let redis = EmbeddedRedis::new();
    let here = slow(layer(&redis.client()).with_wait(ms(1500)));
    let patient = slow(layer(&redis.client()).with_wait(ms(2500)));
    let (first, second, third) = tokio::join!(
        timed("first", status(&here, "42")),
        timed("second", status(&here, "42")),
        timed("third", async {
            sleep(ms(100)).await;
            let refused = ask(&here, "42").await;
            (refused.status(), retry_after(&refused))
        }),
    );
    assert_eq!((first.0, second.0), (StatusCode::OK, StatusCode::OK));
    assert!(
        first.1 < ms(1100) && second.1 >= ms(2000),
        "one after the other"
    );
    assert_eq!(third.0, (StatusCode::LOCKED, Some(5)));
    assert_eq!(status(&patient, "42").await, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn the_rest_of_a_known_lease_is_the_retry_after() {
    let client = EmbeddedRedis::new().client();
    let fixed = layer(&client).with_lease(Lease::Fixed(ms(2900)));
    let longest = fixed.clone().with_retry_after(Duration::from_secs(2));
    let brief = fixed.clone().with_retry_after(Duration::ZERO);
    let [fixed, longest, brief] = [fixed, longest, brief].map(slow);
    let others = async {
        sleep(ms(100)).await;
        for (router, seconds) in [(&fixed, 3), (&longest, 2), (&brief, 1)] {
            assert_eq!(retry_after(&ask(router, "42").await), Some(seconds));
        }
    };
    tokio::join!(status(&fixed, "42"), others);
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_is_refused_and_reaches_no_handler() {
    let calls = Arc::new(AtomicU32::new(0));
    let counted = calls.clone();
    let router = router(layer(&Client::embedded()), move || async move {
        counted.fetch_add(1, Ordering::Relaxed);
    });
    let long = "k".repeat(LockLayer::KEY_MAX + 1);
    let with = |keys: &[&str]| {
        let request = keys.iter().fold(Request::get("/"), |request, key| {
            request.header(KEY, key.as_bytes())
        });
        request.body(Body::empty()).expect("a request")
    };
    for keys in [
        &[][..],
        &[""],
        &[&long],
        &["a{b}"],
        &["ä"],
        &["a\tb"],
        &["a", "b"],
    ] {
        let refused = router.clone().oneshot(with(keys)).await.expect("answered");
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{keys:?}");
        assert_eq!(retry_after(&refused), None);
    }
    assert_eq!(calls.load(Ordering::Relaxed), 0);
    assert_eq!(status(&router, &long[1..]).await, StatusCode::OK);
    assert_eq!(calls.load(Ordering::Relaxed), 1);
}

#[tokio::test(start_paused = true)]
async fn a_key_comes_from_any_part_of_the_request() {
    let client = Client::embedded();
    let by_path = LockLayer::new(&client, "orders", |parts| {
        let path = original_uri(parts).path();
        let (shop, order) = path.strip_prefix("/shops/")?.split_once("/orders/")?;
        Some(format!("{shop}:{order}"))
    });
    let ship = async |lock: Locked| lock.name().to_owned();
    let orders = Router::new().route("/{order}", get(ship)).layer(by_path);
    let shops = Router::new().nest("/orders", orders);
    let router = Router::new().nest("/shops/{shop}", shops);
    for (path, key) in [
        ("/shops/1/orders/42", "1:42"),
        ("/shops/2/orders/42", "2:42"),
    ] {
        let request = Request::get(path).body(Body::empty());
        let shipped = router.clone().oneshot(request.expect("a request")).await;
        let body = shipped.expect("answered").into_body();
        let name = axum::body::to_bytes(body, 100).await.expect("a body");
        assert_eq!(name, format!("orders:{key}"));
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_process_is_503_and_not_another_request_with_the_key() {
    let client = Client::embedded();
    let router = router(layer(&client).with_wait(ms(100)), || async {});
    let mut kept = pin!(ask(&router, "42"));
    // It has asked for the lock, and is not polled when the answer comes.
    assert!(poll!(&mut kept).is_pending());
    sleep(ms(1000)).await;
    let refused = kept.await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(retry_after(&refused), Some(5));
    let error = refused.extensions().get::<Error>();
    let is_over = matches!(
        error,
        Some(Error::Timeout {
            cancelled_as_unpolled: 1..,
            ..
        })
    );
    assert!(is_over, "{error:?}");
}

#[tokio::test(start_paused = true)]
async fn without_redis_it_is_503_until_redis_is_back() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let router = router(layer(&client), || async {});
    assert_eq!(status(&router, "42").await, StatusCode::OK);
    redis.cut();
    let refused = ask(&router, "42").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(retry_after(&refused), Some(5));
    redis.heal();
    sleep(ms(5000)).await;
    assert_eq!(status(&router, "42").await, StatusCode::OK);
    client.shutdown(ms(1000)).await.expect("closed");
    let refused = ask(&router, "42").await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
}

#[tokio::test(start_paused = true)]
async fn what_no_retry_mends_is_500() {
    let client = Client::embedded();
    let never = layer(&client).with_lease(Lease::Fixed(ms(1)));
    let refused = ask(&router(never, || async {}), "42").await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(retry_after(&refused), None);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_needs_the_lock_does_not_run_without_the_layer() {
    let ship = async |lock: Locked| lock.token().map_or(0, FencingToken::value).to_string();
    let bare = Router::new().route("/", get(ship));
    let refused = bare.oneshot(request("42")).await.expect("answered");
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    let client = Client::embedded();
    let plain = router(layer(&client), ship);
    let fenced = router(layer(&client).fenced(), ship);
    for (router, token) in [(&plain, "0"), (&fenced, "1"), (&fenced, "2")] {
        let body = ask(router, "42").await.into_body();
        let body = axum::body::to_bytes(body, 100).await.expect("a body");
        assert_eq!(body, token, "each request has a higher one, on demand");
    }
}
