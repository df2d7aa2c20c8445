//! Run once, keep the answer: the header `Idempotency-Key` for tower services, by locks on Redis or
//! Valkey.
//!
//! [`IdempotencyLayer`] runs the first request with a key and keeps its reply. Each later request
//! with the key gets the same reply, and does not reach the service. It follows the IETF draft *The
//! Idempotency-Key HTTP Header Field*.
//!
//! # What a client gets
//!
//! | Status | When |
//! |--------|------|
//! | that of the service | the first request with a key, and each later one: the same status, headers and body |
//! | 400 | no key, no caller, a key that is not allowed, or a body that breaks off |
//! | 408 | the body did not arrive in [time](IdempotencyLayer::with_body_timeout) |
//! | 409, with `Retry-After` | the first request with the key is being served, by whichever process, and did not end within [`with_wait`](IdempotencyLayer::with_wait) |
//! | 413 | the request is longer than [`with_limit`](IdempotencyLayer::with_limit) |
//! | 422 | the key was used for another request: the method, path, query, content type or body differ |
//! | 503, with `Retry-After` | Redis or the store is not available, or the lock was lost. **The work may have been done** |
//! | 500 | Redis or the store refuses the call; or the reply is longer than the limit, see below |
//!
//! The body of these statuses is empty. All requests that reach the layer need a key, so put it
//! around the methods that need it only, such as `post(pay).layer(…)`. The path is the whole one
//! also in a nested router of axum. A layer of another kind outside that takes something out of the
//! path must hand it to the caller function.
//!
//! # A client that gives up
//!
//! **A request that has begun goes on without its client**, in a task of its own, and its reply is
//! kept for the next try. The same holds for everything outside that drops the call, such as a
//! time-out. So a time-out of the *work* belongs inside of the layer; without one, a handler that
//! never ends holds its key for ever. The handler has the span of its request, but not its
//! task-local values.
//!
//! # Shutdown
//!
//! A server that stops gracefully waits for its connections, and not for requests whose client has
//! hung up. So wait for these too, and only then shut the client down:
//! `axum::serve(…).with_graceful_shutdown(…).await`, then
//! [`layer.drained().await`](IdempotencyLayer::drained), then `client.shutdown(…).await`. If the
//! runtime ends first, such work breaks off anywhere, its reply is not kept, and the next request
//! runs it again.
//!
//! # What is kept
//!
//! - **Final replies** are kept: 2xx, 3xx and most of 4xx. A reply that asks the client to try
//!   again is not: 5xx, 408, 409, 423, 425 and 429. If it were kept, the client would have to
//!   invent a new key to try again, and a new key is no protection. So the work of such a reply
//!   must have no effect, or do no harm when it is repeated.
//! - A kept reply is forgotten after [`with_keep`](RedisStore::with_keep), a day by default. A
//!   request that comes later runs again.
//! - A reply is its status, headers and body. Trailers and extensions of the response are lost, the
//!   first time as well.
//! - A reply that is longer than the limit is replaced by an empty 500, which is kept: the work is
//!   done, and is not done again. Raise the limit, or answer with a link.
//!
//! # What may happen at worst
//!
//! **The work runs twice, if the process dies, stands still or is cut off from Redis after the work
//! and before the reply is kept.** Its client has got no reply by then, or 503. The next request
//! with the key runs the work again. No layer can exclude that; only the database that the work
//! changes can: write the key in the same transaction, and look for it first.
//!
//! But no two requests with one key run at the same time, unless a process stands still for longer
//! than the lease. And all replies of a key are the same one: the first that is kept. The handler
//! finds its hold, [`Locked`](leasehold_tower::Locked), in the extensions of its request: it can
//! check it before a step that cannot be undone. For a [fencing token](leasehold::FencingToken),
//! put a fenced [`LockLayer`](leasehold_tower::LockLayer::fenced) inside.
//!
//! # Redis cost
//!
//! With a [`RedisStore`]: 1 round trip for a kept reply; otherwise that of a lock, and 3.
//!
//! # Examples
//!
//! ```
//! use axum::{Router, routing::post};
//! use leasehold::Client;
//! use leasehold_idempotency::{IdempotencyLayer, RedisStore};
//!
//! # async fn pay() {}
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() {
//! let client = Client::embedded(); // or Client::connect("redis://127.0.0.1:6379").await?
//! let idempotency = IdempotencyLayer::new(&client, "payments", RedisStore::new(&client), |parts| {
//!     // Who calls: set by the layer that authenticates. Two callers never share a key.
//!     parts.headers.get("x-account").map(|account| account.as_bytes().to_vec())
//! });
//! let router: Router = Router::new().route("/payments", post(pay).layer(idempotency));
//! # }
//! ```

mod key;
mod reply;
mod service;
mod store;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use leasehold::{Client, Lease};
use tokio_util::task::TaskTracker;
use tower_layer::Layer;

pub use service::Idempotent;
pub use store::{RedisStore, Store, StoreError};

/// The longest key, in bytes.
///
/// A key has at least one byte, and visible ASCII letters other than quotes and backslashes. Quotes
/// around it, as in the draft, are no part of it.
pub const KEY_MAX: usize = 255;

/// Finds who calls.
type Caller = dyn Fn(&Parts) -> Option<Vec<u8>> + Send + Sync;

/// A layer that runs requests with an `Idempotency-Key` once, and keeps their replies. The [crate]
/// says what clients get.
///
/// The layer takes the lock `{scope}:{digest}`, where the digest is of the caller and the key. A
/// clone is the same layer.
#[derive(Clone)]
pub struct IdempotencyLayer<S> {
    client: Client,
    scope: Arc<str>,
    caller: Arc<Caller>,
    store: S,
    /// Requests that have begun.
    running: TaskTracker,
    wait: Duration,
    lease: Lease,
    limit: usize,
    body_timeout: Duration,
}

impl<S: Store> IdempotencyLayer<S> {
    /// Makes a layer. Does no I/O.
    ///
    /// `caller` says who calls, for example the account that an outer layer has found. Two callers
    /// with one key have nothing to do with each other: otherwise one could read the reply of the
    /// other. What tells tenants apart and is not in the path, such as the host, belongs to the
    /// caller. A request without a caller is refused with 400.
    pub fn new(
        client: &Client,
        scope: impl Into<Arc<str>>,
        store: S,
        caller: impl Fn(&Parts) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        IdempotencyLayer {
            client: client.clone(),
            scope: scope.into(),
            caller: Arc::new(caller),
            store,
            running: TaskTracker::new(),
            wait: Duration::ZERO,
            lease: Lease::Renewed,
            limit: 1 << 20,
            body_timeout: Duration::from_secs(10),
        }
    }

    /// Sets how long a request waits for the one before it, to get its reply. Default: zero, which
    /// refuses it at once with 409.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the lease of the lock. Default: [`Lease::Renewed`], with the client's lease (30 s).
    ///
    /// A request that runs for longer than a [fixed](Lease::Fixed) lease is dropped, and its client
    /// gets 503.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the longest body of a request, and of a reply, in bytes. Default: 1 MiB. Both are held
    /// in memory.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.limit = limit;
        self
    }

    /// Sets how long the body of a request may take to arrive. Default: 10 s.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_body_timeout(mut self, timeout: Duration) -> Self {
        self.body_timeout = timeout;
        self
    }

    /// Waits until no request of this layer runs, also none whose client has hung up. For the end
    /// of a process: see [shutdown](crate#shutdown).
    ///
    /// Requests that come meanwhile are served, so stop the server first.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. Requests go on.
    pub async fn drained(&self) {
        self.running.close();
        self.running.wait().await;
    }

    /// The name of the lock and of the reply. `None` without a caller, or without a key that is
    /// allowed.
    fn name(&self, parts: &Parts) -> Option<String> {
        let digest = key::digest(&(self.caller)(parts)?, key::of(parts)?);
        Some(format!("{}:{digest}", self.scope))
    }
}

impl<S: Clone, I> Layer<I> for IdempotencyLayer<S> {
    type Service = Idempotent<I, S>;

    fn layer(&self, inner: I) -> Self::Service {
        let layer = self.clone();
        Idempotent { inner, layer }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("scope", &self.scope)
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .field("limit", &self.limit)
            .field("body_timeout", &self.body_timeout)
            .finish_non_exhaustive()
    }
}
