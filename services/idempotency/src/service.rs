//! The service that runs a request, or replays the reply to it.
//!
//! A key is in one of four states. The store and the lock say in which:
//!
//! | State | Reply | Lock | What a request does |
//! |-------|-------|------|---------------------|
//! | new | – | free | takes the lock, and the key is running |
//! | running | – | held by a task | waits for the lock, or gets 409 |
//! | kept | there | free, or about to be | gets the reply, without the lock |
//! | abandoned | – | free again | as if it was new: the work runs again |
//!
//! A key that is running becomes kept, when the reply is final. It is abandoned, and somebody pays for it:
//!
//! | What ends | Who pays |
//! |-----------|----------|
//! | the client, or a layer outside that drops the call | nobody: the task goes on, and keeps the reply |
//! | the service, with an error, a panic or a reply that is not final | the client, who must try again |
//! | the lease, because Redis is cut off or the process stands still | the client: the service is dropped, and the work may be done |
//! | the process, or its runtime | the client: as above, after the rest of the lease |
//!
//! A task that stood still may keep its reply although a later one ran: the first reply that is kept is the reply to
//! both.

use std::fmt;
use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use leasehold::Error;
use leasehold_tower::{BoxError, Locked, refusal};
use tokio::time::timeout;
use tower_service::Service;
use tracing::Instrument as _;

use crate::reply::Reply;
use crate::store::{Store, StoreError};
use crate::{IdempotencyLayer, key};

/// The longest `Retry-After`.
const RETRY_AFTER: Duration = Duration::from_secs(5);

/// A service behind an [`IdempotencyLayer`].
pub struct Idempotent<I, S> {
    inner: I,
    layer: IdempotencyLayer<S>,
}

impl<I, S> Idempotent<I, S> {
    pub(crate) fn new(inner: I, layer: IdempotencyLayer<S>) -> Self {
        Idempotent { inner, layer }
    }
}

impl<I, S, B, C> Service<Request<B>> for Idempotent<I, S>
where
    I: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    I::Future: Send,
    I::Error: Send + 'static,
    S: Store,
    B: Body + From<Bytes> + Send + 'static,
    B::Data: Send,
    B::Error: Into<BoxError>,
    C: Body + Send + 'static,
    C::Data: Send,
    C::Error: Into<BoxError>,
{
    type Response = Response<Full<Bytes>>;
    type Error = I::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, I::Error>> + Send>>;

    /// Always ready: the inner service is asked when the lock is there. A kept reply does not need it.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (inner, layer) = (self.inner.clone(), self.layer.clone());
        Box::pin(async move {
            match answer(&layer, inner, request).await {
                Ok(reply) => Ok(reply.into_response()),
                Err(Ended::Refused(response)) => Ok(response.map(|()| Full::default())),
                Err(Ended::Failed(error)) => Err(error),
            }
        })
    }
}

/// Why a request has no reply of the service.
enum Ended<E> {
    Refused(Box<Response<()>>),
    /// The error of the service.
    Failed(E),
}

/// A request whose body is here.
struct Asked {
    /// Of the lock and of the reply.
    name: String,
    fingerprint: String,
    parts: Parts,
    body: Bytes,
}

/// The kept reply, or else that of the service.
///
/// CANCEL: the client hung up. Before the lock is there, nothing has happened; after that, a task goes on.
async fn answer<I, S, B, C>(
    layer: &IdempotencyLayer<S>,
    inner: I,
    request: Request<B>,
) -> Result<Reply, Ended<I::Error>>
where
    I: Service<Request<B>, Response = Response<C>> + Send + 'static,
    I::Future: Send,
    I::Error: Send + 'static,
    S: Store,
    B: Body + From<Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
    C: Body + Send + 'static,
    C::Data: Send,
    C::Error: Into<BoxError>,
{
    let asked = arrived(layer, request).await?;
    if let Some(reply) = kept(layer, &asked).await? {
        return Ok(reply);
    }
    let lock = layer.client.lock(&asked.name);
    let guard = lock.try_lock(layer.settings.wait, layer.settings.lease);
    let held = match guard.await {
        Ok(guard) => Locked::from(guard),
        Err(error) if error.is_busy() => {
            // It may have ended in the meantime.
            let reply = kept(layer, &asked).await?;
            return reply.ok_or_else(|| not_locked(error));
        }
        Err(error) => return Err(not_locked(error)),
    };
    // Nothing is awaited between the lock and the task: from here on, the client may go.
    let task = run(layer.clone(), held, inner, asked).in_current_span();
    match layer.running.spawn(task).await {
        Ok(outcome) => outcome,
        Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
        // The runtime shuts down.
        Err(_) => Err(refused(StatusCode::SERVICE_UNAVAILABLE)),
    }
}

/// Reads the whole request, before the lock: a body that never arrives holds nothing up.
async fn arrived<S: Store, B, E>(
    layer: &IdempotencyLayer<S>,
    request: Request<B>,
) -> Result<Asked, Ended<E>>
where
    B: Body,
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let name = layer.name(&parts);
    let name = name.ok_or_else(|| refused(StatusCode::BAD_REQUEST))?;
    let whole = whole(body, layer.settings.limit);
    let body = match timeout(layer.settings.body_timeout, whole).await {
        Ok(Ok(body)) => body,
        Ok(Err(Broken::TooLong)) => return Err(refused(StatusCode::PAYLOAD_TOO_LARGE)),
        Ok(Err(Broken::Failed)) => return Err(refused(StatusCode::BAD_REQUEST)),
        Err(_) => return Err(refused(StatusCode::REQUEST_TIMEOUT)),
    };
    Ok(Asked {
        name,
        fingerprint: key::fingerprint(&parts, &body),
        parts,
        body,
    })
}

/// Runs the service while the lock is held, unless a reply came before the lock.
async fn run<I, S, B, C>(
    layer: IdempotencyLayer<S>,
    held: Locked,
    mut inner: I,
    asked: Asked,
) -> Result<Reply, Ended<I::Error>>
where
    I: Service<Request<B>, Response = Response<C>>,
    S: Store,
    B: From<Bytes>,
    C: Body,
    C::Error: Into<BoxError>,
{
    let lock = held.clone();
    let work = async move {
        if let Some(reply) = kept(&layer, &asked).await? {
            return Ok(reply);
        }
        let Asked {
            name,
            fingerprint,
            mut parts,
            body,
        } = asked;
        parts.extensions.insert(held);
        let ready = poll_fn(|context| inner.poll_ready(context));
        ready.await.map_err(Ended::Failed)?;
        let response = inner.call(Request::from_parts(parts, body.into()));
        let response = response.await.map_err(Ended::Failed)?;
        let (reply, is_final) = read(response, fingerprint, layer.settings.limit).await?;
        if !is_final {
            return Ok(reply);
        }
        let text = reply.to_text();
        let there = layer.store.put(&name, &text).await.map_err(not_stored)?;
        if there == text {
            return Ok(reply);
        }
        // A task that stood still came first.
        replay(&there, &reply.fingerprint)
    };
    lock.run(work).await.map_err(not_locked)?
}

/// The reply that is kept, if it is one to this request.
async fn kept<S: Store, E>(
    layer: &IdempotencyLayer<S>,
    asked: &Asked,
) -> Result<Option<Reply>, Ended<E>> {
    let text = layer.store.get(&asked.name).await.map_err(not_stored)?;
    text.map(|text| replay(&text, &asked.fingerprint))
        .transpose()
}

fn replay<E>(text: &str, fingerprint: &str) -> Result<Reply, Ended<E>> {
    match Reply::parse(text) {
        Some(reply) if reply.fingerprint == fingerprint => Ok(reply),
        Some(_) => Err(refused(StatusCode::UNPROCESSABLE_ENTITY)),
        // Not by this crate.
        None => Err(refused(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

/// The reply of the service, and whether it is final.
async fn read<C: Body, E>(
    response: Response<C>,
    fingerprint: String,
    limit: usize,
) -> Result<(Reply, bool), Ended<E>>
where
    C::Error: Into<BoxError>,
{
    let (head, body) = response.into_parts();
    match whole(body, limit).await {
        Ok(body) => {
            let reply = Reply {
                fingerprint,
                status: head.status,
                headers: head.headers,
                body,
            };
            Ok((reply, Reply::is_final(head.status)))
        }
        // The work is done, and must not be done again for a reply that cannot be kept.
        Err(Broken::TooLong) => Ok((Reply::too_long(fingerprint), true)),
        // The service failed in the middle of its reply.
        Err(Broken::Failed) => Err(refused(StatusCode::INTERNAL_SERVER_ERROR)),
    }
}

enum Broken {
    TooLong,
    Failed,
}

async fn whole<B: Body>(body: B, limit: usize) -> Result<Bytes, Broken>
where
    B::Error: Into<BoxError>,
{
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Broken::TooLong),
        Err(_) => Err(Broken::Failed),
    }
}

fn refused<E>(status: StatusCode) -> Ended<E> {
    let mut response = Response::new(());
    *response.status_mut() = status;
    Ended::Refused(Box::new(response))
}

fn not_locked<E>(error: Error) -> Ended<E> {
    let response = refusal(error, StatusCode::CONFLICT, RETRY_AFTER);
    Ended::Refused(Box::new(response))
}

/// The cause is an extension of the response.
fn not_stored<E>(error: StoreError) -> Ended<E> {
    let mut response = Response::new(());
    *response.status_mut() = match error {
        StoreError::Unavailable(_) => StatusCode::SERVICE_UNAVAILABLE,
        StoreError::Refused(_) => StatusCode::INTERNAL_SERVER_ERROR,
    };
    if matches!(error, StoreError::Unavailable(_)) {
        let after = RETRY_AFTER.as_secs().into();
        let headers = response.headers_mut();
        headers.insert(http::header::RETRY_AFTER, after);
    }
    response.extensions_mut().insert(Arc::new(error));
    Ended::Refused(Box::new(response))
}

impl<I: Clone, S> Clone for Idempotent<I, S> {
    fn clone(&self) -> Self {
        Idempotent::new(self.inner.clone(), self.layer.clone())
    }
}

impl<I: fmt::Debug, S> fmt::Debug for Idempotent<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
