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
//! A key that is running becomes kept, when the reply is final. It is abandoned, and somebody pays
//! for it:
//!
//! | What ends | Who pays |
//! |-----------|----------|
//! | the client, or a layer outside that drops the call | nobody: the task goes on, and keeps the reply |
//! | the service, with an error, a panic or a reply that is not final | the client, who must try again |
//! | the lease, because Redis is cut off or the process stands still | the client: the service is dropped, and the work may be done |
//! | the process, or its runtime | the client: as above, after the rest of the lease |
//!
//! A task that stood still may keep its reply although a later one ran: the first reply that is
//! kept is the reply to both.

use std::future::poll_fn;
use std::panic::resume_unwind;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::request::Parts;
use http::{HeaderValue, Request, Response, StatusCode};
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

const TRY_AFTER: Duration = Duration::from_secs(5);

/// A service behind an [`IdempotencyLayer`].
#[derive(Clone, Debug)]
pub struct Idempotent<I, S> {
    pub(crate) inner: I,
    pub(crate) layer: IdempotencyLayer<S>,
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

    /// Always ready: the inner service is asked when the lock is there. A kept reply does not need
    /// it.
    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let (mut inner, limit) = (self.inner.clone(), self.layer.limit);
        let serve = move |parts, body: Bytes| async move {
            poll_fn(|context| inner.poll_ready(context)).await?;
            let response = inner.call(Request::from_parts(parts, body.into())).await?;
            let (head, body) = response.into_parts();
            Ok(Response::from_parts(head, whole(body, limit).await))
        };
        let answer = answer(self.layer.clone(), request, serve);
        Box::pin(async {
            match answer.await {
                Ok(reply) => Ok(reply.response.map(Full::new)),
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

/// The response of the service, with its body or why that is not whole.
type Served<E> = Result<Response<Result<Bytes, StatusCode>>, E>;

/// The kept reply, or else that of the service.
///
/// CANCEL: the client hung up. Before the lock is there, nothing has happened; after that, a task
/// goes on.
async fn answer<S: Store, B, E: Send + 'static, F>(
    layer: IdempotencyLayer<S>,
    request: Request<B>,
    serve: impl FnOnce(Parts, Bytes) -> F + Send + 'static,
) -> Result<Reply, Ended<E>>
where
    B: Body,
    B::Error: Into<BoxError>,
    F: Future<Output = Served<E>> + Send + 'static,
{
    let asked = arrived(&layer, request).await?;
    if let Some(reply) = kept(&layer, &asked).await? {
        return Ok(reply);
    }
    let lock = layer.client.lock(&asked.name);
    let held = match lock.try_lock(layer.wait, layer.lease).await {
        Ok(guard) => Locked::from(guard),
        // The other one may have ended in the meantime.
        Err(error) => return kept(&layer, &asked).await?.ok_or_else(|| error.into()),
    };
    // Nothing is awaited between the lock and the task: from here on, the client may go.
    let running = layer.running.clone();
    let task = run(layer, held, asked, serve).in_current_span();
    match running.spawn(task).await {
        Ok(outcome) => outcome,
        Err(ended) if ended.is_panic() => resume_unwind(ended.into_panic()),
        // The runtime shuts down.
        Err(_) => Err(StatusCode::SERVICE_UNAVAILABLE.into()),
    }
}

/// Reads the whole request, before the lock: a body that never arrives holds nothing up.
async fn arrived<S: Store, B: Body>(
    layer: &IdempotencyLayer<S>,
    request: Request<B>,
) -> Result<Asked, StatusCode>
where
    B::Error: Into<BoxError>,
{
    let (parts, body) = request.into_parts();
    let name = layer.name(&parts).ok_or(StatusCode::BAD_REQUEST)?;
    let body = timeout(layer.body_timeout, whole(body, layer.limit)).await;
    let body = body.map_err(|_| StatusCode::REQUEST_TIMEOUT)??;
    Ok(Asked {
        name,
        fingerprint: key::fingerprint(&parts, &body),
        parts,
        body,
    })
}

/// Runs the service while the lock is held, unless a reply came before the lock.
async fn run<S: Store, E, F: Future<Output = Served<E>>>(
    layer: IdempotencyLayer<S>,
    held: Locked,
    asked: Asked,
    serve: impl FnOnce(Parts, Bytes) -> F,
) -> Result<Reply, Ended<E>> {
    let lock = held.clone();
    let work = async {
        if let Some(reply) = kept(&layer, &asked).await? {
            return Ok(reply);
        }
        let mut parts = asked.parts;
        parts.extensions.insert(held);
        let served = serve(parts, asked.body).await.map_err(Ended::Failed)?;
        let (reply, is_final) = Reply::of(served, asked.fingerprint);
        if !is_final {
            return Ok(reply);
        }
        // If a task that stood still came first, its reply is that of all.
        let there = layer.store.put(&asked.name, &reply.to_text()).await?;
        Ok(Reply::replay(&there, &reply.fingerprint)?)
    };
    lock.run(work).await?
}

/// The reply that is kept, if it is one to this request.
async fn kept<S: Store, E>(
    layer: &IdempotencyLayer<S>,
    asked: &Asked,
) -> Result<Option<Reply>, Ended<E>> {
    let text = layer.store.get(&asked.name).await?;
    let reply = text.map(|text| Reply::replay(&text, &asked.fingerprint));
    Ok(reply.transpose()?)
}

/// The whole body, or 413 if it is longer than the limit, and 400 if it breaks off.
async fn whole<B: Body>(body: B, limit: usize) -> Result<Bytes, StatusCode>
where
    B::Error: Into<BoxError>,
{
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(StatusCode::PAYLOAD_TOO_LARGE),
        Err(_) => Err(StatusCode::BAD_REQUEST),
    }
}

impl<E> From<StatusCode> for Ended<E> {
    fn from(status: StatusCode) -> Self {
        let mut response = Response::new(());
        *response.status_mut() = status;
        Ended::Refused(Box::new(response))
    }
}

impl<E> From<Error> for Ended<E> {
    fn from(error: Error) -> Self {
        let response = refusal(error, StatusCode::CONFLICT, TRY_AFTER);
        Ended::Refused(Box::new(response))
    }
}

/// The cause is an extension of the response.
impl<E> From<StoreError> for Ended<E> {
    fn from(error: StoreError) -> Self {
        let mut response = Response::new(());
        *response.status_mut() = StatusCode::INTERNAL_SERVER_ERROR;
        if let StoreError::Unavailable(_) = error {
            *response.status_mut() = StatusCode::SERVICE_UNAVAILABLE;
            let after = HeaderValue::from(TRY_AFTER.as_secs());
            response.headers_mut().insert(RETRY_AFTER, after);
        }
        response.extensions_mut().insert(Arc::new(error));
        Ended::Refused(Box::new(response))
    }
}
