//! Routers of axum behind the layer: on the embedded engine under paused time, and on a real server
//! that fails.
#![expect(
    clippy::print_stdout,
    reason = "how much a run under faults has done is worth a line"
)]

mod clients;
mod faults;
mod replies;
mod stores;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::request::Parts;
use axum::http::{Request, Response, StatusCode};
use axum::routing::post;
use leasehold::Client;
use leasehold_idempotency::{IdempotencyLayer, RedisStore, Store};
use tower::ServiceExt as _;

/// The lock of the key `k` of the caller `7`: two texts with their lengths, hashed.
const NAME_OF_K: &str = "payments:431fed916c2b8448754c404f4c8ba3b38d8799b3a8c202dfaee421160a40cd94";

fn caller(parts: &Parts) -> Option<Vec<u8>> {
    let account = parts.headers.get("x-account")?;
    Some(account.as_bytes().to_vec())
}

fn layer_with<S: Store>(client: &Client, store: S) -> IdempotencyLayer<S> {
    IdempotencyLayer::new(client, "payments", store, caller)
}

fn layer(client: &Client) -> IdempotencyLayer<RedisStore> {
    layer_with(client, RedisStore::new(client))
}

/// A router with one route, `/`.
fn router<S, H, T>(layer: IdempotencyLayer<S>, handler: H) -> Router
where
    S: Store,
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Router::new().route("/", post(handler).layer(layer))
}

fn request(key: &str, body: &'static str) -> Request<Body> {
    let request = Request::post("/").header("x-account", "7");
    let request = request.header("idempotency-key", key);
    request.body(Body::from(body)).expect("a request")
}

async fn send(router: &Router, request: Request<Body>) -> Response<Body> {
    let answered = router.clone().oneshot(request).await;
    answered.expect("a router answers")
}

/// The status and the body.
async fn ask(router: &Router, key: &str, body: &'static str) -> (StatusCode, String) {
    let (head, body) = send(router, request(key, body)).await.into_parts();
    let body = to_bytes(body, usize::MAX).await.expect("a body");
    let body = String::from_utf8(body.to_vec()).expect("a text");
    (head.status, body)
}
