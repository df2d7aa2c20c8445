//! The bytes that the kernel has not taken yet.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::AsyncWrite as _;

use crate::call_error::Fault;
use crate::stream::{Writer, lost};

pub(super) struct Outbox {
    pub(super) bytes: BytesMut,
    /// How many bytes the kernel has taken since the connection began.
    pub(super) taken: u64,
    /// Whether a layer above the socket may still hold bytes that it has taken.
    pub(super) to_flush: bool,
    /// `None` once nothing may be written any more.
    pub(super) writer: Option<Writer>,
}

impl Outbox {
    pub(super) fn new(writer: Writer) -> Self {
        Outbox {
            bytes: BytesMut::new(),
            taken: 0,
            to_flush: false,
            writer: Some(writer),
        }
    }

    /// Writes all bytes of the outbox.
    pub(super) fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let Some(writer) = &mut self.writer else {
            return Poll::Pending;
        };
        while self.bytes.has_remaining() {
            match ready!(Pin::new(&mut *writer).poll_write(cx, &self.bytes)) {
                Ok(0) => return Poll::Ready(Err(Fault("the server accepts no more bytes".into()))),
                Ok(taken) => {
                    self.bytes.advance(taken);
                    self.taken += taken as u64;
                    self.to_flush = true;
                }
                Err(error) => return Poll::Ready(Err(lost(&error))),
            }
        }
        if self.to_flush {
            ready!(Pin::new(writer).poll_flush(cx)).map_err(|error| lost(&error))?;
            self.to_flush = false;
        }
        Poll::Ready(Ok(()))
    }
}
