//! When the inner service is asked for readiness.

use std::convert::Infallible;
use std::future::{Ready, ready};
use std::task::{Context, Poll};

use axum::body::Body;
use axum::http::{HeaderName, Request, Response, StatusCode};
use leasehold::Client;
use leasehold_testbed::{ms, soon};
use leasehold_tower::LockLayer;
use tokio::time::sleep;
use tower::limit::ConcurrencyLimitLayer;
use tower::load_shed::LoadShedLayer;
use tower::{BoxError, Layer as _, Service, ServiceBuilder, ServiceExt as _, service_fn};

use crate::request;

fn layer(client: &Client) -> LockLayer {
    LockLayer::by_header(client, "orders", HeaderName::from_static("x-order"))
}

async fn ship(_: Request<Body>) -> Result<Response<Body>, Infallible> {
    sleep(ms(1000)).await;
    Ok(Response::new(Body::empty()))
}

#[tokio::test(start_paused = true)]
async fn a_request_that_waits_for_its_key_takes_no_place_of_a_limit_inside() {
    let client = Client::embedded();
    let inside = ServiceBuilder::new()
        .layer(LoadShedLayer::new())
        .layer(ConcurrencyLimitLayer::new(2))
        .service(service_fn(ship));
    let service = layer(&client).with_wait(ms(5000)).layer(inside);
    let status = async |key: &str, after| {
        sleep(ms(after)).await;
        let response = service.clone().oneshot(request(key)).await;
        response
            .map(|response| response.status())
            .map_err(|error: BoxError| error.to_string())
    };
    // The second one waits for its key. There is a place for the third one, and none for the
    // fourth.
    let (first, second, third, fourth) = tokio::join!(
        status("a", 0),
        status("a", 100),
        status("b", 200),
        status("c", 300)
    );
    assert_eq!([first, second, third], [const { Ok(StatusCode::OK) }; 3]);
    assert_eq!(fourth, Err("service overloaded".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn the_lock_is_released_if_the_inner_service_fails_before_it_is_ready() {
    /// A service whose backend is gone.
    #[derive(Clone)]
    struct Gone;

    impl Service<Request<Body>> for Gone {
        type Response = Response<Body>;
        type Error = &'static str;
        type Future = Ready<Result<Response<Body>, &'static str>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), &'static str>> {
            Poll::Ready(Err("gone"))
        }

        fn call(&mut self, _: Request<Body>) -> Self::Future {
            unreachable!("it is never ready")
        }
    }

    let client = Client::embedded();
    let service = layer(&client).layer(Gone);
    for _ in 0..2 {
        let failed = service.clone().oneshot(request("42")).await;
        assert_eq!(failed.err(), Some("gone"));
    }
    let lock = client.lock("orders:42");
    let taken = soon("it is free", lock.lock()).await;
    taken.expect("taken").unlock().await.expect("released");
}

/// A service that may be called once for each time that it was ready, as tower demands.
#[derive(Default)]
struct Strict {
    is_ready: bool,
}

impl Clone for Strict {
    fn clone(&self) -> Self {
        Strict::default()
    }
}

impl Service<Request<Body>> for Strict {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Self::Response, Self::Error>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.is_ready = true;
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<Body>) -> Self::Future {
        assert!(
            std::mem::take(&mut self.is_ready),
            "called before it was ready"
        );
        ready(Ok(Response::new(Body::empty())))
    }
}

#[tokio::test(start_paused = true)]
async fn the_inner_service_is_called_when_it_was_ready() {
    let mut service = layer(&Client::embedded()).layer(Strict::default());
    for _ in 0..3 {
        let ready = service.ready().await;
        let served = ready.expect("ready").call(request("42")).await;
        assert_eq!(served.expect("served").status(), StatusCode::OK);
    }
}
