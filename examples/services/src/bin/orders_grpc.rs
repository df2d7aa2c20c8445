//! A gRPC service that ships an order once at a time: tonic behind the same `LockByKey` as axum.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin orders_grpc -- \
//!   --resource 127.0.0.1:7000
//! ```
//!
//! The key is the metadata `order-id`, which is a header on the wire.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::net::TcpListener;
use std::time::Duration;

use http::HeaderName;
use leasehold_examples::shop::{Order, OrdersServer, Shipped};
use leasehold_examples::{
    Failure, LockByKey, Refusal, Terminated, client, millis, required, visit,
};
use tonic::Status;
use tonic::body::Body;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

const KEY: HeaderName = HeaderName::from_static("order-id");

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let resource: String = required("--resource")?;
    let client = client()?.connect().await?;
    let one_at_a_time = LockByKey::new(client.clone(), KEY, millis("--wait", 10_000)?, refuse);
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    println!("listening on {}", listener.local_addr()?);
    let incoming = TcpIncoming::from(tokio::net::TcpListener::from_std(listener)?);
    let orders = OrdersServer::new(move |order| ship(order, resource.clone()));
    Server::builder()
        .layer(one_at_a_time)
        .add_service(orders)
        .serve_with_incoming_shutdown(incoming, async move { terminated.wait().await })
        .await?;
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

async fn ship(order: Order, resource: String) -> Result<Shipped, Status> {
    let visited = visit(&resource, &order.number.to_string()).await;
    visited.map_err(|error| Status::internal(error.to_string()))?;
    println!("shipped {}", order.number);
    Ok(Shipped {
        by: std::process::id(),
    })
}

fn refuse(refusal: Refusal) -> http::Response<Body> {
    let status = match refusal {
        Refusal::NoKey(header) => {
            Status::invalid_argument(format!("{header}: letters, digits and dashes"))
        }
        Refusal::Lock(error) if error.is_busy() => Status::aborted("this order is being shipped"),
        Refusal::Lock(error) => Status::unavailable(error.to_string()),
    };
    status.into_http()
}
