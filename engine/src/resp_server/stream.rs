//! The two halves of a byte stream, for each end.

use std::fmt;
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

use super::duplex::{Duplex, Read};
use crate::faults::Direction;

/// A connection, shared by its two ends and by the test that disturbs it.
pub(super) struct Stream(Mutex<Duplex>);

impl Stream {
    pub(super) fn new(duplex: Duplex) -> Arc<Self> {
        Arc::new(Stream(Mutex::new(duplex)))
    }

    /// Changes the duplex and afterwards wakes the affected tasks.
    pub(super) fn with<R>(&self, job: impl FnOnce(&mut Duplex, Instant) -> R) -> R {
        let mut duplex = self.0.lock();
        let result = job(&mut duplex, Instant::now());
        let woken = std::mem::take(&mut duplex.woken);
        drop(duplex);
        woken.into_iter().for_each(std::task::Waker::wake);
        result
    }

    pub(super) fn reader(self: &Arc<Self>, direction: Direction) -> ReadHalf {
        ReadHalf {
            stream: self.clone(),
            direction,
            timer: None,
        }
    }

    pub(super) fn writer(self: &Arc<Self>, direction: Direction) -> WriteHalf {
        WriteHalf {
            stream: self.clone(),
            direction,
        }
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").finish_non_exhaustive()
    }
}

/// The reading half of an end of a connection. After its drop, bytes written to it vanish.
#[derive(Debug)]
pub struct ReadHalf {
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
            let read = self
                .stream
                .with(|duplex, now| duplex.read(self.direction, now, into, context));
            match read {
                Read::Some | Read::End => return Poll::Ready(Ok(())),
                Read::Lost(error) => return Poll::Ready(Err(error)),
                Read::Yield => {
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
        self.stream
            .with(|duplex, _| duplex.stop_reading(self.direction));
    }
}

/// The writing half of an end of a connection. Its drop closes its direction.
#[derive(Debug)]
pub struct WriteHalf {
    stream: Arc<Stream>,
    direction: Direction,
}

impl AsyncWrite for WriteHalf {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let taken = self
            .stream
            .with(|duplex, now| duplex.write(self.direction, now, bytes, context));
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
        self.stream
            .with(|duplex, now| duplex.close(self.direction, now));
        Poll::Ready(Ok(()))
    }
}

impl Drop for WriteHalf {
    fn drop(&mut self) {
        self.stream
            .with(|duplex, now| duplex.close(self.direction, now));
    }
}
