//! The body of a response, which keeps the lock until it is produced.

use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use http_body::{Body, Frame, SizeHint};
use leasehold::{Ended, Error, LockGuard};

/// The error of a [`LockedBody`]: that of the inner body, or [`Error::Lost`].
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a response behind a [`LockLayer`](crate::LockLayer). It keeps the lock until its
/// last frame is produced, and ends with an error if the lock is lost before.
pub struct LockedBody<B> {
    /// `None`: empty, or ended by an error.
    inner: Option<Pin<Box<B>>>,
    hold: Option<Hold>,
}

/// A lock while the body is produced.
struct Hold {
    guard: Arc<LockGuard>,
    /// Wakes the body when the hold ends, although the inner body is idle.
    ended: Pin<Box<dyn Future<Output = Ended> + Send>>,
}

impl<B> LockedBody<B> {
    pub(crate) fn empty() -> Self {
        LockedBody {
            inner: None,
            hold: None,
        }
    }

    pub(crate) fn new(inner: B, guard: Arc<LockGuard>) -> Self
    where
        B: Body,
    {
        let hold = (!inner.is_end_stream()).then(|| Hold {
            ended: Box::pin(guard.ended()),
            guard,
        });
        let inner = Some(Box::pin(inner));
        LockedBody { inner, hold }
    }

    /// Drops the inner body if the lock is lost.
    fn check(&mut self, context: &mut Context<'_>) -> Result<(), Error> {
        let Some(hold) = &mut self.hold else {
            return Ok(());
        };
        let wakes = hold.ended.as_mut().poll(context);
        // The clock of the guard is accurate at any moment; a wake comes when the runtime gets to
        // it.
        let lost = hold.guard.check();
        if wakes.is_ready() || lost.is_err() {
            *self = Self::empty();
        }
        lost
    }
}

impl<B: Body> Body for LockedBody<B>
where
    B::Error: Into<BoxError>,
{
    type Data = B::Data;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, BoxError>>> {
        let this = self.get_mut();
        if let Err(lost) = this.check(context) {
            return Poll::Ready(Some(Err(lost.into())));
        }
        let Some(inner) = &mut this.inner else {
            return Poll::Ready(None);
        };
        let frame = ready!(inner.as_mut().poll_frame(context));
        let is_last = !matches!(frame, Some(Ok(_))) || inner.is_end_stream();
        // It may have taken longer than the lease to make the frame.
        if let Err(lost) = this.check(context) {
            return Poll::Ready(Some(Err(lost.into())));
        }
        if is_last {
            // Released before the client has the whole answer, so that its next request finds the
            // key free.
            this.hold = None;
        }
        Poll::Ready(frame.map(|frame| frame.map_err(Into::into)))
    }

    fn is_end_stream(&self) -> bool {
        self.inner.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match &self.inner {
            Some(inner) => inner.size_hint(),
            None => SizeHint::with_exact(0),
        }
    }
}

impl<B> fmt::Debug for LockedBody<B> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LockedBody")
            .field("is_held", &self.hold.is_some())
            .finish_non_exhaustive()
    }
}
