//! The responses to requests that are not served.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use leasehold::Error;

use crate::LockedBody;

pub(crate) fn without_key<B>() -> Response<LockedBody<B>> {
    empty(StatusCode::BAD_REQUEST)
}

/// The response to a request whose lock was not acquired, or was lost. `busy` is for a lock that others hold.
pub(crate) fn respond<B>(
    error: Error,
    busy: StatusCode,
    longest: Duration,
) -> Response<LockedBody<B>> {
    let (status, after) = match &error {
        Error::Timeout { holder, .. } => {
            let lease = holder.as_ref().and_then(|holder| holder.lease);
            (busy, Some(lease.unwrap_or(longest).min(longest)))
        }
        Error::Lost { .. } | Error::Closed => (StatusCode::SERVICE_UNAVAILABLE, Some(longest)),
        error if error.is_retryable() => (StatusCode::SERVICE_UNAVAILABLE, Some(longest)),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, None),
    };
    let mut response = empty(status);
    if let Some(after) = after {
        // Whole seconds, rounded up: never zero, which would mean at once.
        let seconds = after.as_millis().div_ceil(1000).max(1);
        let seconds = HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX));
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response.extensions_mut().insert(error);
    response
}

fn empty<B>(status: StatusCode) -> Response<LockedBody<B>> {
    let mut response = Response::new(LockedBody::empty());
    *response.status_mut() = status;
    response
}
