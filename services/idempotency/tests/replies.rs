//! What clients get, and what is kept.

use std::convert::Infallible;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::Extension;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, SET_COOKIE};
use axum::http::{HeaderName, Request, StatusCode};
use axum::routing::{MethodRouter, post};
use futures::FutureExt as _;
use leasehold::{Client, EmbeddedRedis, Error};
use leasehold_admin::Admin;
use leasehold_idempotency::{KEY_MAX, RedisStore};
use leasehold_testbed::ms;
use leasehold_tower::{LockLayer, Locked};
use tokio::time::{advance, sleep};

use crate::{NAME_OF_K, ask, layer, layer_with, request, router, send};

/// Counts what a handler did.
#[derive(Clone, Default)]
pub(crate) struct Effects(Arc<AtomicU32>);

impl Effects {
    pub(crate) fn next(&self) -> u32 {
        self.0.fetch_add(1, Ordering::SeqCst) + 1
    }

    pub(crate) fn all(&self) -> u32 {
        self.0.load(Ordering::SeqCst)
    }
}

#[tokio::test(start_paused = true)]
async fn a_second_request_gets_the_reply_of_the_first_from_any_process() {
    let redis = EmbeddedRedis::new();
    let effects = Effects::default();
    let routers = [(), ()].map(|()| {
        let effects = effects.clone();
        let pay = move || async move {
            let number = format!("payment {}", effects.next());
            let cookies = [(SET_COOKIE, "a=1"), (SET_COOKIE, "b=ä")];
            let cookies = axum::response::AppendHeaders(cookies);
            (StatusCode::CREATED, cookies, number)
        };
        let client = redis.client();
        router(layer(&client), pay)
    });
    for router in [&routers[0], &routers[1], &routers[0]] {
        let reply = send(router, request("k", "10 EUR")).await;
        assert_eq!(reply.status(), StatusCode::CREATED);
        let cookies: Vec<_> = reply.headers().get_all(SET_COOKIE).iter().collect();
        assert_eq!(cookies, ["a=1".as_bytes(), "b=ä".as_bytes()]);
        assert_eq!(reply.headers()[CONTENT_TYPE], "text/plain; charset=utf-8");
        let body = to_bytes(reply.into_body(), 100).await;
        assert_eq!(body.expect("a body"), "payment 1");
    }
    assert_eq!(ask(&routers[1], "other", "10 EUR").await.1, "payment 2");
    assert_eq!(effects.all(), 2);
}

#[tokio::test(start_paused = true)]
async fn the_key_belongs_to_one_request_of_one_caller() {
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&Client::embedded()), move || async move {
        counted.next().to_string()
    });
    assert_eq!(ask(&router, "k", "a").await, (StatusCode::OK, "1".into()));
    let same = Request::post("/").header("x-account", "7");
    let same = same
        .header("idempotency-key", "\"k\"")
        .body(Body::from("a"));
    let replayed = send(&router, same.expect("a request")).await;
    assert_eq!(
        replayed.status(),
        StatusCode::OK,
        "quotes are no part of a key"
    );
    drop(replayed);
    let status = async |request: Request<Body>| {
        let reply = send(&router, request).await;
        let (head, body) = reply.into_parts();
        drop(body);
        head.status
    };
    let with = |target: &str, account: &str, kind: &str| {
        let request = Request::post(target).header("x-account", account);
        let request = request.header("idempotency-key", "k");
        let request = request.header(CONTENT_TYPE, kind);
        request.body(Body::from("a")).expect("a request")
    };
    assert_eq!(
        ask(&router, "k", "b").await.0,
        StatusCode::UNPROCESSABLE_ENTITY
    );
    let other_query = status(with("/?b", "7", "")).await;
    assert_eq!(other_query, StatusCode::UNPROCESSABLE_ENTITY);
    let other_type = status(with("/", "7", "text/plain")).await;
    assert_eq!(other_type, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(effects.all(), 1);
    assert_eq!(status(with("/", "8", "")).await, StatusCode::OK);
    assert_eq!(effects.all(), 2, "another caller has other keys");
}

#[tokio::test(start_paused = true)]
async fn a_request_without_a_key_or_a_caller_is_refused() {
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&Client::embedded()), move || async move {
        counted.next();
    });
    let long = "k".repeat(KEY_MAX + 1);
    let keys = ["", "\"\"", "a b", "a\"b", "ä", &long];
    let mut requests: Vec<_> = keys.iter().map(|key| request(key, "")).collect();
    for (header, value) in [("x-account", "7"), ("idempotency-key", "k")] {
        let one = Request::post("/").header(header, value).body(Body::empty());
        requests.push(one.expect("a request"));
    }
    let mut twice = request("k", "");
    twice
        .headers_mut()
        .append("idempotency-key", "l".parse().expect("a value"));
    requests.push(twice);
    for request in requests {
        let told = format!("{:?}", request.headers());
        let refused = send(&router, request).await;
        assert_eq!(refused.status(), StatusCode::BAD_REQUEST, "{told}");
    }
    assert_eq!(effects.all(), 0);
    assert_eq!(ask(&router, &long[1..], "").await.0, StatusCode::OK);
}

#[tokio::test(start_paused = true)]
async fn while_the_first_is_under_way_others_get_409() {
    let redis = EmbeddedRedis::new();
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&redis.client()), move || async move {
        sleep(ms(60_000)).await;
        counted.next().to_string()
    });
    let others = async {
        sleep(ms(50_000)).await;
        for body in ["a", "b"] {
            let refused = send(&router, request("k", body)).await;
            assert_eq!(refused.status(), StatusCode::CONFLICT);
            assert_eq!(refused.headers()[RETRY_AFTER], "5");
        }
    };
    let (first, ()) = tokio::join!(ask(&router, "k", "a"), others);
    assert_eq!(first, (StatusCode::OK, "1".into()));
    assert_eq!(ask(&router, "k", "a").await, first);
    assert_eq!(effects.all(), 1);
}

#[tokio::test(start_paused = true)]
async fn only_final_replies_are_kept() {
    let cases = [
        (200, 1),
        (303, 1),
        (400, 1),
        (404, 1),
        (422, 1),
        (408, 2),
        (409, 2),
        (423, 2),
        (425, 2),
        (429, 2),
        (500, 2),
        (503, 2),
    ];
    for (status, runs) in cases {
        let effects = Effects::default();
        let counted = effects.clone();
        let status = StatusCode::from_u16(status).expect("a status");
        let router = router(layer(&Client::embedded()), move || async move {
            counted.next();
            status
        });
        for _ in 0..2 {
            assert_eq!(ask(&router, "k", "").await.0, status);
        }
        assert_eq!(effects.all(), runs, "{status}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_reply_is_forgotten_after_its_time() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let store = RedisStore::new(&client);
    let store = store.with_keep(Duration::from_secs(3600)).expect("allowed");
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer_with(&client, store), move || async move {
        counted.next().to_string()
    });
    for (after, reply) in [(0, "1"), (3500, "1"), (200, "2")] {
        advance(Duration::from_secs(after)).await;
        assert_eq!(ask(&router, "k", "").await.1, reply);
    }
    advance(Duration::from_secs(4000)).await;
    let left = Admin::new(&client).locks("*").await.expect("asked");
    assert!(left.is_empty(), "{left:?}");
}

#[tokio::test(start_paused = true)]
async fn what_is_too_long_runs_no_more_than_once() {
    let effects = Effects::default();
    let counted = effects.clone();
    let limited = layer(&Client::embedded()).with_limit(10);
    let router = router(limited, move |body: String| async move {
        counted.next();
        body.repeat(2)
    });
    let long = ask(&router, "long", "12345678901").await;
    assert_eq!(long.0, StatusCode::PAYLOAD_TOO_LARGE);
    assert_eq!(effects.all(), 0);
    assert_eq!(ask(&router, "fits", "12345").await.1, "1234512345");
    for _ in 0..2 {
        let long = ask(&router, "reply", "123456").await;
        assert_eq!(long, (StatusCode::INTERNAL_SERVER_ERROR, String::new()));
    }
    assert_eq!(effects.all(), 2);
}

#[tokio::test(start_paused = true)]
async fn a_reply_as_long_as_the_limit_is_kept() {
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&Client::embedded()), move || async move {
        // Any bytes: they are no text.
        vec![0xE4 + u8::try_from(counted.next()).expect("a few"); 1 << 20]
    });
    for _ in 0..2 {
        let body = send(&router, request("k", "")).await.into_body();
        let body = to_bytes(body, usize::MAX).await.expect("a body");
        assert_eq!(body, vec![0xE5; 1 << 20]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_request_whose_lock_is_lost_keeps_nothing() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&client), move || async move {
        let number = counted.next();
        if number == 1 {
            sleep(ms(60_000)).await;
        }
        number.to_string()
    });
    let taking = async {
        sleep(ms(100)).await;
        let held = Admin::new(&client)
            .locks("payments:*")
            .await
            .expect("asked");
        let name = held.iter().map(|lock| lock.key.clone()).next();
        assert!(redis.lose(&name.expect("it is held")));
    };
    let (lost, ()) = tokio::join!(send(&router, request("k", "")), taking);
    assert_eq!(lost.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(matches!(lost.extensions().get(), Some(Error::Lost { .. })));
    assert_eq!(ask(&router, "k", "").await.1, "2");
    assert_eq!(ask(&router, "k", "").await.1, "2");
}

#[tokio::test(start_paused = true)]
async fn the_handler_has_its_hold_and_a_token_from_a_layer_inside() {
    let client = Client::embedded();
    let fenced = LockLayer::by_header(&client, "fenced", HeaderName::from_static("x-account"));
    let pay = async |Extension(hold): Extension<Locked>| {
        let token = hold.token().expect("fenced");
        (StatusCode::SERVICE_UNAVAILABLE, token.to_string())
    };
    let inside: MethodRouter<(), Infallible> = post(pay).layer(fenced.fenced());
    let fenced = Router::new().route("/", inside.layer(layer(&client)));
    for token in ["1", "2", "3"] {
        assert_eq!(ask(&fenced, "k", "").await.1, token);
    }
    let router = router(layer(&client), async |hold: Locked| {
        hold.check().expect("held");
        hold.name().to_owned()
    });
    assert_eq!(ask(&router, "k", "").await.1, NAME_OF_K);
}

#[tokio::test(start_paused = true)]
async fn a_panic_reaches_the_caller_and_frees_the_key() {
    let effects = Effects::default();
    let counted = effects.clone();
    let router = router(layer(&Client::embedded()), move || async move {
        assert!(counted.next() > 1, "the first one fails");
        "paid"
    });
    let first = AssertUnwindSafe(ask(&router, "k", "")).catch_unwind();
    assert!(first.await.is_err());
    assert_eq!(ask(&router, "k", "").await.1, "paid");
}

#[tokio::test(start_paused = true)]
async fn the_key_belongs_to_one_path_under_nested_routers() {
    let effects = Effects::default();
    let counted = effects.clone();
    let pay = move || async move { counted.next().to_string() };
    let inner = router(layer(&Client::embedded()), pay);
    let deep = Router::new().nest("/orders/{order}", inner);
    let router = Router::new().nest("/shops/{shop}", deep);
    let to = async |path: &str| {
        let mut request = request("k", "a");
        *request.uri_mut() = path.parse().expect("a path");
        send(&router, request).await.status()
    };
    assert_eq!(to("/shops/1/orders/7").await, StatusCode::OK);
    for other in [
        "/shops/2/orders/7",
        "/shops/1/orders/8",
        "/shops/1/orders/7?b",
    ] {
        assert_eq!(to(other).await, StatusCode::UNPROCESSABLE_ENTITY, "{other}");
    }
    assert_eq!(to("/shops/1/orders/7").await, StatusCode::OK);
    assert_eq!(effects.all(), 1);
}
