//! Run once, keep the answer: the header `Idempotency-Key` for tower services, by locks on Redis or Valkey.
//!
//! [`IdempotencyLayer`] runs the first request with a key and keeps its reply. Each later request with the key gets the
//! same reply, and does not reach the service. It follows the IETF draft *The Idempotency-Key HTTP Header Field*.
//!
//! # What a client gets
//!
//! | Status | When |
//! |--------|------|
//! | that of the service | the first request with a key, and each later one: the same status, headers and body |
//! | 400 | no key, a key that is not allowed, or a body that does not arrive |
//! | 409, with `Retry-After` | the first request with the key is still being served, by whichever process |
//! | 413 | the request is longer than [`with_limit`](IdempotencyLayer::with_limit) |
//! | 422 | the key was used for another request: the method, path, query, content type or body differ |
//! | 503, with `Retry-After` | Redis or the store is not available, or the lock was lost. **The work may have been done** |
//! | 500 | Redis refuses the call; or the reply is longer than the limit, see below |
//!
//! The body of these statuses is empty. All requests that reach the layer need a key, so put it around the methods that
//! need it only, such as `post(pay).layer(…)`.
//!
//! # What is kept
//!
//! - **Final replies** are kept: 2xx, 3xx and most of 4xx. A reply that asks the client to try again is not: 5xx, 408,
//!   409, 423, 425 and 429. If it were kept, the client would have to invent a new key to try again, and a new key is
//!   no protection. So the work of such a reply must have no effect, or do no harm when it is repeated.
//! - A kept reply is forgotten after [`with_keep`](RedisStore::with_keep), a day by default. A request that comes later
//!   runs again.
//! - A reply is its status, headers and body. Trailers and extensions of the response are lost, the first time as well.
//! - A reply that is longer than the limit is replaced by an empty 500, which is kept: the work is done, and is not done
//!   again. Raise the limit, or answer with a link.
//!
//! # What may happen at worst
//!
//! **The work runs twice, if the process dies, stands still or is cut off from Redis after the work and before the reply
//! is kept.** Its client has got no reply by then, or 503. The next request with the key runs the work again. No layer
//! can exclude that; only the database that the work changes can: write the key in the same transaction, and look for
//! it first.
//!
//! But no two requests with one key run at the same time, and all replies of a key are the same one. A former holder
//! whose process stood still cannot replace the reply of a later one: the store compares the [`FencingToken`] of each
//! request. The handler finds this token in the extensions of its request, for the resources that it changes.
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
//! let once = IdempotencyLayer::new(&client, "payments", RedisStore::new(&client), |parts| {
//!     // Who calls: set by the layer that authenticates. Two callers never share a key.
//!     parts.headers.get("x-account").map(|account| account.as_bytes().to_vec())
//! });
//! let router: Router = Router::new().route("/payments", post(pay).layer(once));
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
use leasehold::{Client, Error, FencedLock, FencingToken, Lease};
use leasehold_tower::{LockLayer, LockService};
use tower_layer::Layer;

pub use service::Idempotent;
pub use store::{MemoryStore, RedisStore, Store, StoreError};

/// The longest key, in bytes.
///
/// A key has at least one byte, and visible ASCII letters other than quotes and backslashes. Quotes around it, as in the
/// draft, are no part of it.
pub const KEY_MAX: usize = 255;

/// How long a request waits for its token. The lock of the tokens is held for a moment only.
const TOKEN_WAIT: Duration = Duration::from_secs(5);
const TOKEN_LEASE: Lease = Lease::Fixed(Duration::from_secs(1));

/// A layer that runs requests with an `Idempotency-Key` once, and keeps their replies. The [crate] says what clients get.
///
/// The layer takes the lock `{scope}:{digest}`, where the digest is of the caller and the key.
pub struct IdempotencyLayer<S> {
    lock: LockLayer,
    keeper: Arc<Keeper<S>>,
}

/// What the layer gives to its services.
pub(crate) struct Keeper<S> {
    client: Client,
    scope: Arc<str>,
    pub(crate) store: Arc<S>,
    pub(crate) limit: usize,
}

impl<S: Store> IdempotencyLayer<S> {
    /// Makes a layer. Does no I/O.
    ///
    /// `caller` says who calls, for example the account that an outer layer has found. Two callers with one key have
    /// nothing to do with each other: otherwise one could read the reply of the other. A request without a caller is
    /// refused with 400.
    pub fn new(
        client: &Client,
        scope: impl Into<Arc<str>>,
        store: S,
        caller: impl Fn(&Parts) -> Option<Vec<u8>> + Send + Sync + 'static,
    ) -> Self {
        let scope = scope.into();
        IdempotencyLayer {
            lock: LockLayer::new(client, scope.clone(), move |parts| {
                Some(key::digest(&caller(parts)?, key::of(parts)?))
            }),
            keeper: Arc::new(Keeper {
                client: client.clone(),
                scope,
                store: Arc::new(store),
                limit: 1 << 20,
            }),
        }
    }

    /// Sets the lease of the lock. Default: [`Lease::Renewed`], with the client's lease (30 s).
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lock = self.lock.with_lease(lease);
        self
    }

    /// Sets the longest body of a request, and of a reply, in bytes. Default: 1 MiB. Both are held in memory.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_limit(mut self, limit: usize) -> Self {
        let Keeper {
            client,
            scope,
            store,
            limit: _,
        } = &*self.keeper;
        self.keeper = Arc::new(Keeper {
            client: client.clone(),
            scope: scope.clone(),
            store: store.clone(),
            limit,
        });
        self
    }
}

impl<S: Store> Keeper<S> {
    /// The lock that gives the tokens of a name. There are 256 for a scope, not one for each key, because Redis keeps
    /// the counter of a fenced lock for ever.
    fn tokens(&self, name: &str) -> FencedLock {
        let shard = &name[name.len() - 2..];
        self.client
            .fenced_lock(format!("{}:tokens:{shard}", self.scope))
    }

    /// The next token for the holder of the lock with this name.
    ///
    /// It is higher than that of each earlier holder, if the lock is still held when this returns: then an earlier
    /// holder that was in time has got its token before.
    pub(crate) async fn next_token(&self, name: &str) -> Result<FencingToken, Error> {
        let tokens = self.tokens(name);
        let guard = tokens.try_lock(TOKEN_WAIT, TOKEN_LEASE).await?;
        Ok(guard.token())
    }
}

impl<S, I> Layer<I> for IdempotencyLayer<S> {
    type Service = LockService<Idempotent<I, S>>;

    fn layer(&self, inner: I) -> Self::Service {
        let keeper = self.keeper.clone();
        self.lock.layer(Idempotent::new(inner, keeper))
    }
}

impl<S> Clone for IdempotencyLayer<S> {
    fn clone(&self) -> Self {
        let (lock, keeper) = (self.lock.clone(), self.keeper.clone());
        IdempotencyLayer { lock, keeper }
    }
}

impl<S> fmt::Debug for IdempotencyLayer<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("IdempotencyLayer")
            .field("lock", &self.lock)
            .field("limit", &self.keeper.limit)
            .finish_non_exhaustive()
    }
}

/// Compiles the example of the README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
