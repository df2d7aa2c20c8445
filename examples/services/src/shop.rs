//! The gRPC service `shop.Orders`, as a compiler would make it of this:
//!
//! ```text
//! package shop;
//! service Orders { rpc Ship(Order) returns (Shipped); }
//! message Order { uint64 number = 1; }
//! message Shipped { uint32 by = 1; }
//! ```

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::server::{NamedService, UnaryService};
use tonic::transport::Channel;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower::Service;

/// What the calls have in common.
type Answer<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// An order to ship.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Order {
    /// Its number.
    #[prost(uint64, tag = "1")]
    pub number: u64,
}

/// A shipped order.
#[derive(Clone, PartialEq, prost::Message)]
pub struct Shipped {
    /// The process that shipped it.
    #[prost(uint32, tag = "1")]
    pub by: u32,
}

/// The path of the only call.
const SHIP: &str = "/shop.Orders/Ship";

/// Serves `shop.Orders` by a function that ships.
#[derive(Debug)]
pub struct OrdersServer<F>(Arc<F>);

impl<F> OrdersServer<F> {
    /// `ship` is called for each order.
    pub fn new(ship: F) -> Self {
        OrdersServer(Arc::new(ship))
    }
}

impl<F> Clone for OrdersServer<F> {
    fn clone(&self) -> Self {
        OrdersServer(self.0.clone())
    }
}

impl<F> NamedService for OrdersServer<F> {
    const NAME: &'static str = "shop.Orders";
}

impl<F, W> UnaryService<Order> for OrdersServer<F>
where
    F: Fn(Order) -> W,
    W: Future<Output = Result<Shipped, Status>> + Send + 'static,
{
    type Response = Shipped;
    type Future = Answer<Result<Response<Shipped>, Status>>;

    fn call(&mut self, request: Request<Order>) -> Self::Future {
        let shipped = (self.0)(request.into_inner());
        Box::pin(async move { shipped.await.map(Response::new) })
    }
}

impl<F, W> Service<http::Request<Body>> for OrdersServer<F>
where
    F: Fn(Order) -> W + Send + Sync + 'static,
    W: Future<Output = Result<Shipped, Status>> + Send + 'static,
{
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Answer<Result<http::Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let service = self.clone();
        Box::pin(async move {
            if request.uri().path() != SHIP {
                return Ok(Status::unimplemented("no such call").into_http());
            }
            let mut grpc = tonic::server::Grpc::new(ProstCodec::<Shipped, Order>::default());
            Ok(grpc.unary(service, request).await)
        })
    }
}

/// Asks for an order to be shipped.
///
/// # Errors
///
/// The status that the service gives, and those of the connection.
pub async fn ship(channel: Channel, order: Request<Order>) -> Result<Shipped, Status> {
    let mut grpc = tonic::client::Grpc::new(channel);
    grpc.ready()
        .await
        .map_err(|error| Status::unavailable(error.to_string()))?;
    let codec = ProstCodec::<Order, Shipped>::default();
    let path = PathAndQuery::from_static(SHIP);
    grpc.unary(order, path, codec)
        .await
        .map(Response::into_inner)
}
