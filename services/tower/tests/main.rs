//! Routers of axum behind the layer: on the embedded engine under paused time, over HTTP, and on a
//! real server that fails.
#![expect(
    clippy::print_stdout,
    reason = "how much a run under faults has done is worth a line"
)]

mod faults;
mod holds;
mod http;
mod limits;
mod statuses;

use axum::Router;
use axum::body::Body;
use axum::http::{HeaderName, Request, Response, StatusCode};
use axum::routing::get;
use http_body_util::BodyExt as _;
use leasehold::Client;
use leasehold_tower::LockLayer;
use tower::ServiceExt as _;

const KEY: HeaderName = HeaderName::from_static("x-order");

fn layer(client: &Client) -> LockLayer {
    LockLayer::by_header(client, "orders", KEY)
}

/// A router with one route, `/`.
fn router<H, T>(layer: LockLayer, handler: H) -> Router
where
    H: axum::handler::Handler<T, ()>,
    T: 'static,
{
    Router::new().route("/", get(handler)).layer(layer)
}

fn request(key: &str) -> Request<Body> {
    let request = Request::get("/").header(KEY, key);
    request.body(Body::empty()).expect("a request")
}

async fn ask(router: &Router, key: &str) -> Response<Body> {
    let answered = router.clone().oneshot(request(key)).await;
    answered.expect("a router answers")
}

/// The status, when the whole body is there: until then the lock is held.
async fn status(router: &Router, key: &str) -> StatusCode {
    let (head, body) = ask(router, key).await.into_parts();
    body.collect().await.expect("a body");
    head.status
}
