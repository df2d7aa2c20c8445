//! Stores keep the first text, and what the layer makes of their errors.

use std::time::Duration;

use axum::http::StatusCode;
use axum::http::header::RETRY_AFTER;
use leasehold::{Client, ConfigError, EmbeddedRedis, Error};
use leasehold_idempotency::{RedisStore, Store, StoreError};
use leasehold_testbed::{Server, is_missing, ms};
use tokio::time::{advance, sleep};

use crate::{ask, layer, layer_with, request, router, send};

const HOUR: Duration = Duration::from_secs(60 * 60);

#[tokio::test(start_paused = true)]
async fn the_first_text_stays_for_a_day() {
    let store = RedisStore::new(&Client::embedded());
    assert_eq!(store.get("name").await.expect("read"), None);
    for text in ["first", "second"] {
        let there = store.put("name", text).await.expect("kept");
        assert_eq!(there, "first");
        let read = store.get("name").await.expect("read");
        assert_eq!(read.as_deref(), Some("first"));
    }
    assert_eq!(store.get("other").await.expect("read"), None);
    advance(23 * HOUR).await;
    assert_eq!(store.put("name", "third").await.expect("kept"), "first");
    advance(HOUR + ms(1)).await;
    assert_eq!(store.get("name").await.expect("read"), None);
    assert_eq!(store.put("name", "fourth").await.expect("kept"), "fourth");
}

#[tokio::test(start_paused = true)]
async fn a_keep_time_that_cannot_be_is_refused_when_it_is_set() {
    let client = Client::embedded();
    for keep in [Duration::ZERO, ms(999), 2 * 365 * 24 * HOUR, Duration::MAX] {
        let refused = RedisStore::new(&client).with_keep(keep);
        let refused = refused.expect_err("refused");
        assert!(
            matches!(refused, ConfigError::OutOfRange { what: "keep", .. }),
            "{refused}"
        );
    }
    for keep in [Duration::from_secs(1), 365 * 24 * HOUR] {
        let store = RedisStore::new(&client).with_keep(keep).expect("allowed");
        assert_eq!(store.put("name", "text").await.expect("kept"), "text");
        advance(keep).await;
    }
}

/// A store that another task gets to while the handler runs.
#[derive(Clone)]
struct Overtaken(RedisStore);

impl Store for Overtaken {
    async fn get(&self, name: &str) -> Result<Option<String>, StoreError> {
        self.0.get(name).await
    }

    async fn put(&self, name: &str, text: &str) -> Result<String, StoreError> {
        let other = text.replace("200", "201");
        self.0.put(name, &other).await?;
        self.0.put(name, text).await
    }
}

#[tokio::test(start_paused = true)]
async fn the_first_reply_that_is_kept_is_the_reply_to_all() {
    let client = Client::embedded();
    let store = Overtaken(RedisStore::new(&client));
    let router = router(layer_with(&client, store), || async { "paid" });
    for _ in 0..2 {
        let reply = ask(&router, "k", "").await;
        assert_eq!(reply, (StatusCode::CREATED, "paid".into()));
    }
}

/// A store that fails.
#[derive(Clone)]
struct Broken(fn() -> StoreError);

impl Store for Broken {
    async fn get(&self, _: &str) -> Result<Option<String>, StoreError> {
        Err((self.0)())
    }

    async fn put(&self, _: &str, _: &str) -> Result<String, StoreError> {
        unreachable!("there is no reply to keep")
    }
}

#[tokio::test(start_paused = true)]
async fn when_a_store_fails_the_handler_does_not_run() {
    let down = Broken(|| StoreError::Unavailable("no connection".into()));
    let refusing = Broken(|| StoreError::Refused("no table".into()));
    let cases = [
        (down, StatusCode::SERVICE_UNAVAILABLE, true),
        (refusing, StatusCode::INTERNAL_SERVER_ERROR, false),
    ];
    for (store, status, again) in cases {
        let router = router(
            layer_with(&Client::embedded(), store),
            async || -> &'static str { unreachable!("there may be a reply") },
        );
        let refused = send(&router, request("k", "")).await;
        assert_eq!(refused.status(), status);
        assert_eq!(refused.headers().contains_key(RETRY_AFTER), again);
    }
}

#[tokio::test(start_paused = true)]
async fn what_never_works_is_500() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let router = router(layer(&client), || async { "paid" });
    assert_eq!(ask(&router, "k", "").await.0, StatusCode::OK);
    let reply = format!("{}:reply", crate::NAME_OF_K);
    assert!(redis.lose(&reply));
    // Other data under the name of the reply.
    let _other = client.lock(&reply).lock().await.expect("taken");
    let refused = send(&router, request("k", "")).await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!refused.headers().contains_key(RETRY_AFTER));
}

#[tokio::test]
async fn a_missing_right_is_500() {
    if is_missing() {
        return;
    }
    let server = Server::start();
    let words = "ACL SETUSER api on >secret ~* &* +@all -get";
    server.command(&words.split(' ').collect::<Vec<_>>());
    let url = server.url().replace("redis://", "redis://api:secret@");
    let client = Client::connect(&url).await.expect("connects");
    let router = router(layer(&client), async || -> &'static str {
        unreachable!("there may be a reply")
    });
    let refused = send(&router, request("k", "")).await;
    assert_eq!(refused.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!refused.headers().contains_key(RETRY_AFTER));
}

#[tokio::test(start_paused = true)]
async fn a_short_outage_after_the_work_delays_the_reply() {
    let redis = EmbeddedRedis::new();
    let outage = redis.clone();
    let router = router(layer(&redis.client()), move || {
        outage.cut();
        async { "paid" }
    });
    let heal = async {
        sleep(ms(5000)).await;
        redis.heal();
    };
    let (reply, ()) = tokio::join!(ask(&router, "k", ""), heal);
    assert_eq!(reply, (StatusCode::OK, "paid".into()));
    assert_eq!(ask(&router, "k", "").await, reply, "it was kept");
}

#[tokio::test(start_paused = true)]
async fn without_redis_it_is_503_until_redis_is_back() {
    let redis = EmbeddedRedis::new();
    let client = redis.client();
    let router = router(layer(&client), || async { "paid" });
    redis.cut();
    let refused = send(&router, request("k", "")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert!(refused.headers().contains_key(RETRY_AFTER));
    redis.heal();
    sleep(ms(5000)).await;
    assert_eq!(ask(&router, "k", "").await.0, StatusCode::OK);
    client.shutdown(ms(1000)).await.expect("closed");
    let refused = send(&router, request("l", "")).await;
    assert_eq!(refused.status(), StatusCode::SERVICE_UNAVAILABLE);
    let cause = refused.extensions().get::<std::sync::Arc<StoreError>>();
    let source = cause.and_then(|cause| std::error::Error::source(&**cause));
    let source = source.and_then(|source| source.downcast_ref::<Error>());
    assert!(matches!(source, Some(Error::Closed)), "{source:?}");
}
