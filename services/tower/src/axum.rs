//! The hold of a request as an argument of an axum handler, and the path outside of nested routers.

use axum::extract::{FromRequestParts, OriginalUri};
use http::request::Parts;
use http::{StatusCode, Uri};

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

/// The target as it came to the outermost router.
pub(crate) fn original_uri(parts: &Parts) -> Option<&Uri> {
    let OriginalUri(uri) = parts.extensions.get()?;
    Some(uri)
}
