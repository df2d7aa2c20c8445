//! A middleware: of all requests with one key, one at a time, over all processes.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use http::{HeaderName, Request, Response};
use leasehold::{Client, Error, Lease};
use tower::{Layer, Service};

/// A layer for every tower service that speaks HTTP: axum and tonic are among them.
///
/// The key is a header: an idempotency key, the id of an order. A request waits at most `wait` for
/// the one before it. Its lock is released when the head of the response is ready, or when the
/// request is dropped because its caller hung up. If the lock is lost, the request is dropped, and
/// refused.
#[derive(Debug)]
pub struct LockByKey<Body> {
    client: Client,
    header: HeaderName,
    wait: Duration,
    refuse: fn(Refusal) -> Response<Body>,
}

/// Why a request is not served.
#[derive(Debug)]
pub enum Refusal {
    /// No key, or none that can be part of a name.
    NoKey(HeaderName),
    /// The lock was not acquired, or it was lost. If it is [busy](Error::is_busy), another request
    /// with this key runs.
    Lock(Error),
}

/// Longer keys are refused: they would be part of every call about their lock.
const KEY_MAX: usize = 128;

impl<Body> LockByKey<Body> {
    /// `refuse` makes the response to a request that is not served.
    pub fn new(
        client: Client,
        header: HeaderName,
        wait: Duration,
        refuse: fn(Refusal) -> Response<Body>,
    ) -> Self {
        LockByKey {
            client,
            header,
            wait,
            refuse,
        }
    }

    /// Letters, digits and dashes of a header: nothing else becomes part of a key in Redis.
    fn key<'a, B>(&self, request: &'a Request<B>) -> Option<&'a str> {
        let key = request.headers().get(&self.header)?.to_str().ok()?;
        let fits = |letter: u8| letter.is_ascii_alphanumeric() || letter == b'-';
        ((1..=KEY_MAX).contains(&key.len()) && key.bytes().all(fits)).then_some(key)
    }
}

impl<Body> Clone for LockByKey<Body> {
    fn clone(&self) -> Self {
        LockByKey {
            client: self.client.clone(),
            header: self.header.clone(),
            wait: self.wait,
            refuse: self.refuse,
        }
    }
}

impl<S, Body> Layer<S> for LockByKey<Body> {
    type Service = Locked<S, Body>;

    fn layer(&self, inner: S) -> Self::Service {
        Locked {
            inner,
            lock: self.clone(),
        }
    }
}

/// A service behind a [`LockByKey`].
#[derive(Debug)]
pub struct Locked<S, Body> {
    inner: S,
    lock: LockByKey<Body>,
}

impl<S: Clone, Body> Clone for Locked<S, Body> {
    fn clone(&self) -> Self {
        Locked {
            inner: self.inner.clone(),
            lock: self.lock.clone(),
        }
    }
}

impl<S, B, Body> Service<Request<B>> for Locked<S, Body>
where
    S: Service<Request<B>, Response = Response<Body>> + Clone + Send + 'static,
    S::Future: Send,
    S::Error: Send,
    B: Send + 'static,
    Body: Send + 'static,
{
    type Response = Response<Body>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<Body>, S::Error>> + Send>>;

    /// Always ready: the inner service is asked when the lock is there, so that a waiting request
    /// keeps no place in it.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut inner = self.inner.clone();
        let (wait, refuse) = (self.lock.wait, self.lock.refuse);
        let Some(key) = self.lock.key(&request) else {
            let refusal = Refusal::NoKey(self.lock.header.clone());
            return Box::pin(async move { Ok(refuse(refusal)) });
        };
        let lock = self.lock.client.lock(format!("request:{key}"));
        Box::pin(async move {
            let served = async move |_guard| {
                poll_fn(|context| inner.poll_ready(context)).await?;
                inner.call(request).await
            };
            let served = lock.run(wait, Lease::Renewed, served).await;
            served.unwrap_or_else(|error| Ok(refuse(Refusal::Lock(error))))
        })
    }
}
