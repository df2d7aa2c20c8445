//! A tower layer that serves requests with the same key one at a time, in a whole fleet.
//!
//! [`LockLayer`] takes a lock of [leasehold](https://docs.rs/leasehold) before it calls the inner
//! service. The name of the lock is a *scope* and the *key* of the request: its header, a part of
//! its path, the tenant that an outer layer has found. Two requests with one key never run at once,
//! in whichever process.
//!
//! # What a client gets
//!
//! | Status | When | `Retry-After` |
//! |--------|------|---------------|
//! | 400 | the request has no key, or a key that is not allowed | – |
//! | 409 | another request with the key is being served, and the layer does not wait | the rest of the holder's lease, at most [`with_retry_after`](LockLayer::with_retry_after) |
//! | 423 | another request still had the key after the [wait](LockLayer::with_wait) | the same |
//! | 503 | Redis is not available, the lock was lost before the handler had answered, or the process is so busy that nobody knows who has the key | [`with_retry_after`](LockLayer::with_retry_after) |
//! | 500 | Redis refuses the call, or a setting cannot be used: an operator must help | – |
//!
//! The body is empty. The [`Error`] is an extension of the response, for a layer around this one
//! that writes a log or a text.
//!
//! # How long the lock is held
//!
//! **Until the last frame of the response body is produced**, or until the body is dropped. So a
//! handler that streams its answer keeps the key while it streams. A slow reader keeps it as long
//! as the server keeps the connection: set a time-out there if clients are not yours.
//!
//! - If the client hangs up, the server drops the handler or the body. That releases the lock.
//! - If the lock is lost, the handler is dropped at its next await, and the client gets 503. If the
//!   head of the response was already sent, the body ends with an error, which breaks the
//!   connection: the client sees that the answer is not whole.
//! - Code in the handler that takes the same lock by its name is inside the section and re-enters.
//!   The code of a streamed body is not.
//! - A task that the handler spawns is not covered. Give it a clone of [`Locked`]: the lock stays
//!   held until the last clone is dropped.
//!
//! The layer keeps requests from running *at the same time*. The second one runs after the first. A
//! lock with a lease cannot stop a handler whose process stands still: see [`LockLayer::fenced`]
//! and [`FencingToken`](leasehold::FencingToken).
//!
//! # Limits
//!
//! The inner service is asked for readiness when the lock is there, so a request that waits for its
//! key takes no place of a limit **inside** of the layer, and other keys go on. Put limits of
//! concurrency there, with the load shedder around them; outside of the layer they count requests
//! that only wait.
//!
//! ```
//! # use axum::{Router, routing::post};
//! # use leasehold_tower::LockLayer;
//! # async fn ship() {}
//! # fn router(lock: LockLayer) -> Router {
//! // The last layer is the outermost one.
//! Router::new()
//!     .route("/ship", post(ship))
//!     .layer(tower::limit::GlobalConcurrencyLimitLayer::new(100))
//!     .layer(lock)
//! # }
//! ```
//!
//! # Examples
//!
//! ```
//! use std::convert::Infallible;
//! use std::time::Duration;
//!
//! use http::{HeaderName, Request, Response};
//! use leasehold::Client;
//! use leasehold_tower::LockLayer;
//! use tower::{Layer as _, ServiceExt as _, service_fn};
//!
//! async fn ship(_request: Request<String>) -> Result<Response<String>, Infallible> {
//!     Ok(Response::new("shipped".to_owned()))
//! }
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Infallible> {
//! let client = Client::embedded(); // or Client::connect("redis://127.0.0.1:6379").await?
//! let lock = LockLayer::by_header(&client, "orders", HeaderName::from_static("x-order"))
//!     .with_wait(Duration::from_millis(500));
//! let service = lock.layer(service_fn(ship)); // or Router::layer, ServiceBuilder::layer
//!
//! let request = Request::builder().header("x-order", "42");
//! let request = request.body(String::new()).expect("a request");
//! let response = service.oneshot(request).await?;
//! assert_eq!(response.status(), 200);
//! # Ok(())
//! # }
//! ```

#[cfg(feature = "axum")]
mod axum;
mod body;
mod refusal;

use std::fmt;
use std::future::poll_fn;
use std::ops::Deref;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::request::Parts;
use http::{HeaderName, Request, Response, StatusCode, Uri};
use http_body::Body;
use leasehold::{Client, Error, Lease, Lock, LockGuard};
use tower_layer::Layer;
use tower_service::Service;

pub use body::{BoxError, LockedBody};
pub use refusal::refusal;

/// Finds the key of a request.
type Key = dyn Fn(&Parts) -> Option<String> + Send + Sync;

/// A layer that serves requests with the same key one at a time. The [crate] says what clients get.
///
/// A clone is the same layer. Two layers with one scope share their locks.
#[derive(Clone)]
pub struct LockLayer {
    client: Client,
    scope: Arc<str>,
    key: Arc<Key>,
    wait: Duration,
    lease: Lease,
    retry_after: Duration,
    kind: Kind,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Fenced,
}

impl LockLayer {
    /// The longest key, in bytes.
    ///
    /// A key has at least one byte, no braces, which have a meaning in Redis Cluster, and no
    /// control characters.
    pub const KEY_MAX: usize = 128;

    /// Makes a layer that finds the key of a request with `key`. Does no I/O.
    ///
    /// The lock is named `{scope}:{key}`. A request without a key (`None`) is refused with 400, so
    /// put the layer around the routes that need it only. The same thing must have the same key:
    /// decode and parse what has several spellings, such as a path, and take it from
    /// [`original_uri`].
    pub fn new(
        client: &Client,
        scope: impl Into<Arc<str>>,
        key: impl Fn(&Parts) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        LockLayer {
            client: client.clone(),
            scope: scope.into(),
            key: Arc::new(key),
            wait: Duration::ZERO,
            lease: Lease::Renewed,
            retry_after: Duration::from_secs(5),
            kind: Kind::Plain,
        }
    }

    /// Makes a layer whose key is the value of a header. A request must have exactly one such
    /// header.
    pub fn by_header(client: &Client, scope: impl Into<Arc<str>>, header: HeaderName) -> Self {
        Self::new(client, scope, move |parts| {
            let mut values = parts.headers.get_all(&header).iter();
            match (values.next(), values.next()) {
                (Some(value), None) => Some(value.to_str().ok()?.to_owned()),
                _ => None,
            }
        })
    }

    /// Sets how long a request waits for the one before it. Default: zero, which refuses it at once
    /// with 409.
    ///
    /// After a longer wait it is refused with 423.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_wait(mut self, wait: Duration) -> Self {
        self.wait = wait;
        self
    }

    /// Sets the lease. Default: [`Lease::Renewed`], with the client's lease (30 s).
    ///
    /// A request that runs for longer than a [fixed](Lease::Fixed) lease is dropped, and its client
    /// gets 503.
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_lease(mut self, lease: Lease) -> Self {
        self.lease = lease;
        self
    }

    /// Sets the longest `Retry-After`, in whole seconds. Default: 5 s.
    ///
    /// It also stands where the rest of the lease is not known without another call: that is so if
    /// another process serves the key, unless this client [describes its
    /// holds](leasehold::ClientBuilder::describe_holds).
    #[must_use = "the layer is moved into the returned value"]
    pub fn with_retry_after(mut self, longest: Duration) -> Self {
        self.retry_after = longest;
        self
    }

    /// Takes a [fenced lock](Client::fenced_lock), so that [`Locked`] has a
    /// [token](LockGuard::token).
    ///
    /// Redis keeps the counter of each key for ever, about 100 bytes. So use it for keys that name
    /// things, such as orders, and not for keys that clients make up.
    #[must_use = "the layer is moved into the returned value"]
    pub fn fenced(mut self) -> Self {
        self.kind = Kind::Fenced;
        self
    }

    fn lock_for(&self, parts: &Parts) -> Option<Lock> {
        let key = (self.key)(parts)?;
        let is_allowed = |letter: char| !letter.is_control() && !"{}".contains(letter);
        let fits = (1..=Self::KEY_MAX).contains(&key.len()) && key.chars().all(is_allowed);
        let name = fits.then(|| format!("{}:{key}", self.scope))?;
        Some(match self.kind {
            Kind::Plain => self.client.lock(name),
            Kind::Fenced => self.client.fenced_lock(name).into(),
        })
    }

    fn refuse<B>(&self, error: Error) -> Response<LockedBody<B>> {
        let busy = if self.wait.is_zero() {
            StatusCode::CONFLICT
        } else {
            StatusCode::LOCKED
        };
        refusal(error, busy, self.retry_after).map(|()| LockedBody::empty())
    }
}

impl<S> Layer<S> for LockLayer {
    type Service = LockService<S>;

    fn layer(&self, inner: S) -> LockService<S> {
        let layer = self.clone();
        LockService { inner, layer }
    }
}

/// A service behind a [`LockLayer`].
#[derive(Clone, Debug)]
pub struct LockService<S> {
    inner: S,
    layer: LockLayer,
}

impl<S, B, C> Service<Request<B>> for LockService<S>
where
    S: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    C: Body + Send + 'static,
    C::Error: Into<BoxError>,
{
    type Response = Response<LockedBody<C>>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, S::Error>> + Send>>;

    /// Always ready: the inner service is asked when the lock is there.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut inner, layer) = (self.inner.clone(), self.layer.clone());
        let (mut parts, body) = request.into_parts();
        Box::pin(async move {
            let Some(lock) = layer.lock_for(&parts) else {
                return Ok(empty(StatusCode::BAD_REQUEST));
            };
            // CANCEL: the client hung up. A drop of any of these futures releases the lock.
            let guard = match lock.try_lock(layer.wait, layer.lease).await {
                Ok(guard) => Arc::new(guard),
                Err(error) => return Ok(layer.refuse(error)),
            };
            parts.extensions.insert(Locked(guard.clone()));
            let request = Request::from_parts(parts, body);
            let served = async {
                // Not before the lock: a request that waits for its key would keep a place of a
                // limit.
                poll_fn(|context| inner.poll_ready(context)).await?;
                inner.call(request).await
            };
            match guard.run(served).await {
                Ok(Ok(response)) => Ok(response.map(|body| LockedBody::new(body, guard))),
                Ok(Err(error)) => Err(error),
                Err(lost) => Ok(layer.refuse(lost)),
            }
        })
    }
}

fn empty<B>(status: StatusCode) -> Response<LockedBody<B>> {
    let mut response = Response::new(LockedBody::empty());
    *response.status_mut() = status;
    response
}

/// The target of a request as the client sent it. For keys that come from the path.
///
/// A nested router of axum takes its prefix out of `parts.uri`: in `nest("/shops/{shop}", …)`,
/// order 7 of two shops has the path `/orders/7`. With the feature `axum` this is the whole one. A
/// layer of another kind that rewrites targets must stand inside of the lock, or keep what it takes
/// out where the key function finds it.
pub fn original_uri(parts: &Parts) -> &Uri {
    #[cfg(feature = "axum")]
    if let Some(original) = axum::original_uri(parts) {
        return original;
    }
    &parts.uri
}

/// The lock of a request, as an extension of the request. With the feature `axum` a handler takes
/// it as an argument.
///
/// [`check`](LockGuard::check) says before a step that cannot be undone whether the lock is still
/// held. The lock stays held while a clone lives.
#[derive(Clone, Debug)]
pub struct Locked(Arc<LockGuard>);

impl From<LockGuard> for Locked {
    /// For layers of your own.
    fn from(guard: LockGuard) -> Self {
        Locked(Arc::new(guard))
    }
}

impl Deref for Locked {
    type Target = LockGuard;

    fn deref(&self) -> &LockGuard {
        &self.0
    }
}

impl fmt::Debug for LockLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockLayer")
            .field("scope", &self.scope)
            .field("wait", &self.wait)
            .field("lease", &self.lease)
            .field("kind", &self.kind)
            .field("retry_after", &self.retry_after)
            .finish_non_exhaustive()
    }
}
