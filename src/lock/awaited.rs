//! A lock can be awaited: `client.lock("orders:42").await?` takes it.

use std::future::{Future, IntoFuture};
use std::pin::Pin;

use super::{Guard, Lock};
use crate::error::Error;

/// Awaiting a lock takes it: [`Lock::lock`].
impl<G: Guard + 'static> IntoFuture for Lock<G> {
    type Output = Result<G, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(async move { self.lock().await })
    }
}

/// Awaiting a lock takes it: [`Lock::lock`].
impl<'a, G: Guard> IntoFuture for &'a Lock<G> {
    type Output = Result<G, Error>;
    type IntoFuture = Pin<Box<dyn Future<Output = Self::Output> + Send + 'a>>;

    fn into_future(self) -> Self::IntoFuture {
        Box::pin(self.lock())
    }
}
