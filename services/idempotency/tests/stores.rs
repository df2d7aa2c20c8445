//! Stores compare tokens, and what the layer makes of their errors.

use std::sync::Arc;

use axum::http::StatusCode;
use leasehold::{Client, EmbeddedRedis, FencingToken};
use leasehold_idempotency::{MemoryStore, RedisStore, Store, StoreError};
use leasehold_testbed::ms;
use tokio::time::sleep;

use crate::{ask, layer, layer_with, request, router, send};

fn token(number: i64) -> FencingToken {
    FencingToken::from_value(number)
}

async fn a_former_holder_is_shut_out(store: impl Store) {
    let get = async |number| store.get("name", token(number)).await;
    let put = async |number, text| store.put("name", token(number), text).await;
    assert_eq!(get(1).await.expect("read"), None);
    assert_eq!(get(2).await.expect("read"), None);
    // The former holder comes back, while the later one is at work.
    assert!(matches!(put(1, "former").await, Err(StoreError::Stale)));
    assert!(matches!(get(1).await, Err(StoreError::Stale)));
    put(2, "text").await.expect("kept");
    assert_eq!(get(3).await.expect("read").as_deref(), Some("text"));
    assert!(matches!(put(2, "late").await, Err(StoreError::Stale)));
    assert_eq!(get(3).await.expect("read").as_deref(), Some("text"));
    let other = store.get("other", token(1)).await;
    assert_eq!(other.expect("read"), None);
}

#[tokio::test(start_paused = true)]
async fn stores_shut_former_holders_out() {
    a_former_holder_is_shut_out(MemoryStore::default()).await;
    a_former_holder_is_shut_out(RedisStore::new(&Client::embedded())).await;
}

/// A store that another holder gets to while the handler runs.
struct Overtaken(RedisStore);

impl Store for Overtaken {
    async fn get(&self, name: &str, token: FencingToken) -> Result<Option<String>, StoreError> {
        self.0.get(name, token).await
    }

    async fn put(&self, name: &str, own: FencingToken, text: &str) -> Result<(), StoreError> {
        self.0.get(name, token(own.value() + 1)).await?;
        self.0.put(name, own, text).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_former_holder_gives_no_reply() {
    let client = Client::embedded();
    let overtaken = Overtaken(RedisStore::new(&client));
    let router = router(layer_with(&client, overtaken), || async { "former" });
    let refused = send(&router, request("k", "")).await;
    assert_eq!(refused.status(), StatusCode::CONFLICT);
    let cause = refused.extensions().get::<Arc<StoreError>>();
    assert!(matches!(
        cause.map(|cause| &**cause),
        Some(StoreError::Stale)
    ));
}

/// A store that fails.
struct Broken;

impl Store for Broken {
    async fn get(&self, _: &str, _: FencingToken) -> Result<Option<String>, StoreError> {
        Err(StoreError::Failed("no database".into()))
    }

    async fn put(&self, _: &str, _: FencingToken, _: &str) -> Result<(), StoreError> {
        unreachable!("there is no reply to keep")
    }
}

#[tokio::test(start_paused = true)]
async fn a_store_that_fails_is_503_and_the_handler_does_not_run() {
    let router = router(layer_with(&Client::embedded(), Broken), || async { "run" });
    assert_eq!(
        ask(&router, "k", "").await.0,
        StatusCode::SERVICE_UNAVAILABLE
    );
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
