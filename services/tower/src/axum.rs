//! The hold of a request as an argument of an axum handler.

use axum_core::extract::FromRequestParts;
use http::StatusCode;
use http::request::Parts;

use crate::Locked;

/// A handler that takes [`Locked`] cannot run without the lock: on a route without a
/// [`LockLayer`](crate::LockLayer), the client gets 500.
impl<S: Sync> FromRequestParts<S> for Locked {
    type Rejection = (StatusCode, &'static str);

    async fn from_request_parts(parts: &mut Parts, _state: &S) -> Result<Self, Self::Rejection> {
        let held = parts.extensions.get().cloned();
        held.ok_or((
            StatusCode::INTERNAL_SERVER_ERROR,
            "this route has no LockLayer",
        ))
    }
}
