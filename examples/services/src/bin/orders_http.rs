//! A web service that charges an order once, however often it is sent: axum behind `LockByKey`.
//!
//! ```text
//! REDIS_URL=redis://127.0.0.1:6379 cargo run -p leasehold-examples --bin orders_http -- \
//!   --database orders.db
//! ```
//!
//! `POST /orders` with a header `idempotency-key`. The middleware keeps two requests with one key
//! from running at once, in whatever processes they are. The database remembers what was answered:
//! the lock is gone when the request is, and a lock alone promises nothing beyond that.
#![expect(clippy::print_stdout, reason = "the tests read what happens")]

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderMap, HeaderName, StatusCode};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use leasehold_examples::{Failure, LockByKey, Refusal, Terminated, client, millis, required};
use rusqlite::{Connection, OptionalExtension as _, params};
use tokio::net::TcpListener;
use tokio::sync::Mutex;
use tokio::time::sleep;

const KEY: HeaderName = HeaderName::from_static("idempotency-key");

#[derive(Clone)]
struct Orders {
    database: Arc<Mutex<Connection>>,
    work: Duration,
}

#[tokio::main]
async fn main() -> Result<(), Failure> {
    let mut terminated = Terminated::listen()?;
    let database = Connection::open(required::<String>("--database")?)?;
    database.busy_timeout(Duration::from_secs(10))?;
    database.execute_batch(
        "CREATE TABLE IF NOT EXISTS answer (key TEXT PRIMARY KEY, text TEXT NOT NULL);
         CREATE TABLE IF NOT EXISTS charge (key TEXT NOT NULL);",
    )?;
    let orders = Orders {
        database: Arc::new(Mutex::new(database)),
        work: millis("--work", 300)?,
    };
    let client = client()?.connect().await?;
    let one_at_a_time = LockByKey::new(client.clone(), KEY, millis("--wait", 10_000)?, refuse);
    let service = Router::new()
        .route("/orders", post(order))
        .with_state(orders);
    let service = service.layer(one_at_a_time);
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    println!("listening on {}", listener.local_addr()?);
    let until = async move { terminated.wait().await };
    axum::serve(listener, service)
        .with_graceful_shutdown(until)
        .await?;
    Ok(client.shutdown(Duration::from_secs(5)).await?)
}

/// Charges, and remembers the answer. Without the lock, two requests would both find no answer.
async fn order(State(orders): State<Orders>, headers: HeaderMap) -> Result<String, Refused> {
    let key = headers
        .get(KEY)
        .and_then(|key| key.to_str().ok())
        .expect("the layer has seen it");
    let known = "SELECT text FROM answer WHERE key = ?1";
    let told: Option<String> = {
        let database = orders.database.lock().await;
        database
            .query_row(known, [key], |row| row.get(0))
            .optional()?
    };
    if let Some(text) = told {
        return Ok(text);
    }
    println!("charging {key}");
    orders
        .database
        .lock()
        .await
        .execute("INSERT INTO charge VALUES (?1)", [key])?;
    sleep(orders.work).await; // as the payment does
    let text = format!("charged by {}\n", std::process::id());
    let remember = "INSERT INTO answer VALUES (?1, ?2)";
    orders
        .database
        .lock()
        .await
        .execute(remember, params![key, text])?;
    Ok(text)
}

struct Refused(rusqlite::Error);

impl From<rusqlite::Error> for Refused {
    fn from(error: rusqlite::Error) -> Self {
        Refused(error)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (StatusCode::INTERNAL_SERVER_ERROR, self.0.to_string()).into_response()
    }
}

fn refuse(refusal: Refusal) -> Response<Body> {
    let (status, text) = match refusal {
        Refusal::NoKey(header) => (
            StatusCode::BAD_REQUEST,
            format!("{header}: letters, digits and dashes"),
        ),
        Refusal::Lock(error) if error.is_busy() => (
            StatusCode::LOCKED,
            "a request with this key is running".to_owned(),
        ),
        Refusal::Lock(error) => (StatusCode::SERVICE_UNAVAILABLE, error.to_string()),
    };
    (status, text).into_response()
}
