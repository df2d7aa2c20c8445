//! The service that runs a request or replays its reply, while the lock of its key is held.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::header::RETRY_AFTER;
use http::{HeaderValue, Request, Response, StatusCode};
use http_body::Body;
use http_body_util::{BodyExt as _, Full, LengthLimitError, Limited};
use leasehold::Error;
use leasehold_tower::{BoxError, Locked};
use tower_service::Service;

use crate::reply::Reply;
use crate::store::{Store, StoreError};
use crate::{Keeper, key};

/// A service behind an [`IdempotencyLayer`](crate::IdempotencyLayer), inside of the lock.
pub struct Idempotent<I, S> {
    inner: I,
    keeper: Arc<Keeper<S>>,
}

impl<I, S> Idempotent<I, S> {
    pub(crate) fn new(inner: I, keeper: Arc<Keeper<S>>) -> Self {
        Idempotent { inner, keeper }
    }
}

impl<I, S, B, C> Service<Request<B>> for Idempotent<I, S>
where
    I: Service<Request<B>, Response = Response<C>> + Clone + Send + 'static,
    I::Future: Send,
    I::Error: Send,
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

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), I::Error>> {
        self.inner.poll_ready(context)
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        // The clone is for the next request: this service is the one that said it was ready.
        let next = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, next);
        let keeper = self.keeper.clone();
        Box::pin(async move {
            match serve(&keeper, &mut inner, request).await {
                Ok(reply) => Ok(reply.into_response()),
                Err(Ended::Refused(response)) => Ok(*response),
                Err(Ended::Failed(error)) => Err(error),
            }
        })
    }
}

/// Why a request has no reply of the service.
enum Ended<E> {
    Refused(Box<Response<Full<Bytes>>>),
    /// The error of the service.
    Failed(E),
}

/// The kept reply, or else that of the service, which is kept then.
///
/// CANCEL: the client hung up, or the lock is lost. Nothing is kept then, but the service may have done its work.
async fn serve<I, S, B, C>(
    keeper: &Keeper<S>,
    inner: &mut I,
    request: Request<B>,
) -> Result<Reply, Ended<I::Error>>
where
    I: Service<Request<B>, Response = Response<C>>,
    S: Store,
    B: Body + From<Bytes>,
    B::Error: Into<BoxError>,
    C: Body,
    C::Error: Into<BoxError>,
{
    let (mut parts, body) = request.into_parts();
    let body = whole(body, keeper.limit).await.map_err(|broken| {
        refused(match broken {
            Broken::TooLong => StatusCode::PAYLOAD_TOO_LARGE,
            Broken::Failed => StatusCode::BAD_REQUEST,
        })
    })?;
    let fingerprint = key::fingerprint(&parts, &body);
    let lock = parts.extensions.get::<Locked>().cloned();
    let lock = lock.ok_or_else(|| refused(StatusCode::INTERNAL_SERVER_ERROR))?;
    let token = keeper.next_token(lock.name()).await.map_err(unavailable)?;
    // If the lock is lost by now, a later holder may have its token already.
    lock.check().map_err(unavailable)?;
    let kept = keeper.store.get(lock.name(), token).await;
    if let Some(text) = kept.map_err(not_stored)? {
        return replay(&text, &fingerprint);
    }
    parts.extensions.insert(token);
    let request = Request::from_parts(parts, body.into());
    let response = inner.call(request).await.map_err(Ended::Failed)?;
    let (head, body) = response.into_parts();
    let (status, headers) = (head.status, head.headers);
    let (reply, is_final) = match whole(body, keeper.limit).await {
        Ok(body) => {
            let reply = Reply {
                fingerprint,
                status,
                headers,
                body,
            };
            (reply, Reply::is_final(status))
        }
        // The work is done, and must not be done again for a reply that cannot be kept.
        Err(Broken::TooLong) => (Reply::too_long(fingerprint), true),
        // The service failed in the middle of its reply.
        Err(Broken::Failed) => return Err(refused(StatusCode::INTERNAL_SERVER_ERROR)),
    };
    if is_final {
        let text = reply.to_text();
        let put = keeper.store.put(lock.name(), token, &text);
        put.await.map_err(not_stored)?;
    }
    Ok(reply)
}

fn replay<E>(text: &str, fingerprint: &str) -> Result<Reply, Ended<E>> {
    match Reply::parse(text) {
        Some(reply) if reply.fingerprint == fingerprint => Ok(reply),
        Some(_) => Err(refused(StatusCode::UNPROCESSABLE_ENTITY)),
        // Not by this crate.
        None => Err(refused(StatusCode::INTERNAL_SERVER_ERROR)),
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
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    Ended::Refused(Box::new(response))
}

/// For a while. The cause is an extension of the response.
fn refused_for_now<E>(status: StatusCode, cause: impl Clone + Send + Sync + 'static) -> Ended<E> {
    let mut ended = refused(status);
    if let Ended::Refused(response) = &mut ended {
        let second = HeaderValue::from_static("1");
        response.headers_mut().insert(RETRY_AFTER, second);
        response.extensions_mut().insert(cause);
    }
    ended
}

fn unavailable<E>(error: Error) -> Ended<E> {
    refused_for_now(StatusCode::SERVICE_UNAVAILABLE, error)
}

fn not_stored<E>(error: StoreError) -> Ended<E> {
    let status = match error {
        StoreError::Stale => StatusCode::CONFLICT,
        StoreError::Failed(_) => StatusCode::SERVICE_UNAVAILABLE,
    };
    refused_for_now(status, Arc::new(error))
}

impl<I: Clone, S> Clone for Idempotent<I, S> {
    fn clone(&self) -> Self {
        Idempotent::new(self.inner.clone(), self.keeper.clone())
    }
}

impl<I: fmt::Debug, S> fmt::Debug for Idempotent<I, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Idempotent")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
