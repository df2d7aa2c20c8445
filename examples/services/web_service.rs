//! One request, one lock: a web service that never ships an order twice at the same time.
//!
//! ```text
//! cargo run -p leasehold-examples --example web_service
//! cargo run -p leasehold-examples --example web_service -- --serve 127.0.0.1:8080
//! ```
//!
//! Runs on the embedded engine, or on the server of `REDIS_URL` if that is set; several processes
//! on one server exclude each other. Without arguments it asks itself and prints the answers: watch
//! the 423 of the impatient request, and who holds what on the page. With `--serve` it goes on:
//!
//! - `POST /orders/3/ship` answers 423 if somebody is shipping that order;
//! - `POST /orders/3/ship?wait=2000` waits up to two seconds for it;
//! - `GET /` shows the orders 1 to 5, who holds each, for how long, and the counters of this
//!   process.
#![expect(clippy::print_stdout, reason = "the example shows what happens")]

use std::collections::HashMap;
use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::{Path, Query, State};
use axum::http::StatusCode;
use axum::response::Html;
use axum::routing::{get, post};
use leasehold::{Client, Error, Lease, Lock};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::time::sleep;

type Failure = Box<dyn std::error::Error + Send + Sync>;
type Refusal = (StatusCode, String);

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let client = match std::env::var("REDIS_URL") {
        Ok(url) => Client::connect(&url).await?,
        Err(_) => Client::embedded(),
    };
    let service = Router::new()
        .route("/", get(page))
        .route("/orders/{order}/ship", post(ship))
        .with_state(client.clone());
    let mut arguments = std::env::args().skip(1);
    let serve = arguments
        .next()
        .is_some_and(|argument| argument == "--serve");
    let address = arguments.next().unwrap_or_else(|| "127.0.0.1:0".into());
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    println!("listening on http://{address}/");
    tokio::select! {
        ended = axum::serve(listener, service) => ended?,
        asked = ask_yourself(address), if !serve => asked?,
    }
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

/// The lock is held until the answer is ready. If the asker hangs up, this future is dropped, and
/// with it the wait or the guard.
async fn ship(
    State(client): State<Client>,
    Path(order): Path<u8>,
    Query(query): Query<HashMap<String, u64>>,
) -> Result<String, Refusal> {
    let wait = Duration::from_millis(query.get("wait").copied().unwrap_or(0));
    let work = async |_guard| sleep(Duration::from_millis(300)).await;
    lock(&client, order)
        .run(wait, Lease::Renewed, work)
        .await
        .map_err(refuse)?;
    Ok(format!("order {order} is shipped\n"))
}

/// Who holds what as Redis sees it: holds of other processes are shown as well.
async fn page(State(client): State<Client>) -> Result<Html<String>, Refusal> {
    let mut rows = String::new();
    for order in 1..=5 {
        let holder = lock(&client, order).holder().await.map_err(refuse)?;
        let shown = holder.map(|holder| {
            let left = holder.lease.unwrap_or(Duration::MAX);
            format!("<td>{}<td>{left:.1?}", holder.owner.replace('<', "&lt;"))
        });
        rows = format!("{rows}<tr><td>{order}{}\n", shown.unwrap_or_default());
    }
    let stats = client.stats();
    Ok(Html(format!(
        "<!doctype html><title>Orders</title>\n<table>\n\
         <tr><th>order<th>being shipped by<th>lease\n{rows}</table>\n<pre>{stats:#?}</pre>\n",
    )))
}

fn lock(client: &Client, order: u8) -> Lock {
    client.lock(format!("example:shipping:{order}"))
}

fn refuse(error: Error) -> Refusal {
    let text = format!("{error}\n");
    match error {
        error if error.is_busy() => (StatusCode::LOCKED, text),
        error if error.is_retryable() => (StatusCode::SERVICE_UNAVAILABLE, text),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, text),
    }
}

async fn ask_yourself(address: SocketAddr) -> Result<(), Failure> {
    let others = async {
        sleep(Duration::from_millis(100)).await;
        ask(address, "POST /orders/3/ship").await?;
        ask(address, "GET /").await?;
        ask(address, "POST /orders/3/ship?wait=2000").await
    };
    tokio::try_join!(ask(address, "POST /orders/3/ship"), others)?;
    Ok(())
}

/// A request in a few lines: enough for this service.
async fn ask(address: SocketAddr, what: &str) -> Result<(), Failure> {
    let mut stream = TcpStream::connect(address).await?;
    let request = format!("{what} HTTP/1.1\r\nHost: example\r\nConnection: close\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no answer")?;
    println!(
        "-> {what}\n<- {}\n{body}",
        head.lines().next().unwrap_or_default()
    );
    Ok(())
}
