//! The responses to requests that are not served.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderValue, Response, StatusCode};
use leasehold::Error;

/// The response to a request whose lock was not acquired, or was lost. For layers of your own.
///
/// The status is `busy` if another owner [is known to have held the lock](Error::is_busy), 503 if a
/// later try may succeed, and 500 if an operator or a programmer must help. Only 500 has no
/// `Retry-After`: at most `longest`, in whole seconds. The error is an extension of the response.
pub fn refusal(error: Error, busy: StatusCode, longest: Duration) -> Response<()> {
    let (status, after) = match &error {
        Error::Timeout { in_the_way, .. } if error.is_busy() => {
            let lease = in_the_way.as_ref().and_then(|holder| holder.lease);
            (busy, Some(lease.unwrap_or(longest).min(longest)))
        }
        Error::Lost { .. } | Error::Closed => (StatusCode::SERVICE_UNAVAILABLE, Some(longest)),
        error if error.is_retryable() => (StatusCode::SERVICE_UNAVAILABLE, Some(longest)),
        _ => (StatusCode::INTERNAL_SERVER_ERROR, None),
    };
    let mut response = Response::new(());
    *response.status_mut() = status;
    if let Some(after) = after {
        // Whole seconds, rounded up: never zero, which would mean at once.
        let seconds = after.as_millis().div_ceil(1000).max(1);
        let seconds = HeaderValue::from(u64::try_from(seconds).unwrap_or(u64::MAX));
        response.headers_mut().insert(RETRY_AFTER, seconds);
    }
    response.extensions_mut().insert(error);
    response
}
