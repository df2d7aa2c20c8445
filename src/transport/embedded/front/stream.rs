//! The halves of a byte stream, as both ends have them.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::faults::Direction;
use super::wire::{Read, Wire};

/// A connection, shared by its two ends and whoever disturbs it.
pub(super) struct Stream(Mutex<Wire>);

impl Stream {
    pub(super) fn new(wire: Wire) -> Arc<Self> {
        Arc::new(Stream(Mutex::new(wire)))
    }

    /// Does something to the wire; whom it concerns is woken afterwards.
    pub(super) fn with<R>(&self, job: impl FnOnce(&mut Wire, Instant) -> R) -> R {
        let mut wire = self.0.lock();
        let result = job(&mut wire, Instant::now());
        let woken = std::mem::take(&mut wire.woken);
        drop(wire);
        woken.into_iter().for_each(std::task::Waker::wake);
        result
    }

    pub(super) fn reader(self: &Arc<Self>, direction: Direction) -> ReadHalf {
        ReadHalf { stream: self.clone(), direction, timer: None }
    }

    pub(super) fn writer(self: &Arc<Self>, direction: Direction) -> WriteHalf {
        WriteHalf { stream: self.clone(), direction }
    }
}

/// Where the bytes of one direction come out.
pub(super) struct ReadHalf {
    stream: Arc<Stream>,
    direction: Direction,
    timer: Option<Pin<Box<Sleep>>>,
}

impl AsyncRead for ReadHalf {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        loop {
            let read = self.stream.with(|wire, now| wire.read(self.direction, now, into, context));
            match read {
                Read::Some | Read::End => return Poll::Ready(Ok(())),
                Read::Lost(error) => return Poll::Ready(Err(error)),
                Read::Next => {
                    context.waker().wake_by_ref();
                    return Poll::Pending;
                }
                Read::Later(None) => return Poll::Pending,
                Read::Later(Some(due)) => {
                    let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(due)));
                    timer.as_mut().reset(due);
                    ready!(timer.as_mut().poll(context));
                }
            }
        }
    }
}

impl Drop for ReadHalf {
    fn drop(&mut self) {
        self.stream.with(|wire, _| wire.leave_unread(self.direction));
    }
}

/// Where the bytes of one direction go in.
pub(super) struct WriteHalf {
    stream: Arc<Stream>,
    direction: Direction,
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = self.stream.with(|wire, now| wire.write(self.direction, now, bytes, context));
        match taken {
            Ok(Some(taken)) => Poll::Ready(Ok(taken)),
            Ok(None) => Poll::Pending,
            Err(error) => Poll::Ready(Err(error)),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.with(|wire, now| wire.close(self.direction, now));
        Poll::Ready(Ok(()))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.stream.with(|wire, now| wire.close(self.direction, now));
    }
}
