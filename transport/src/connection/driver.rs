//! The task of a connection, which writes and reads for all requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;

use super::Connection;
use crate::call_error::Fault;
use crate::codec::{Decoder, Malformed};
use crate::events::TransportEvents;
use crate::stream::{Reader, lost};
use crate::subscriptions::SubscriptionRegistry;

/// The size of one read, and how many reads the driver does before it yields to other tasks.
const READ: usize = 16 * 1024;
const READS: usize = 16;

/// Writes and reads until the connection ends, and returns why.
pub(crate) async fn drive(
    connection: Arc<Connection>,
    mut reader: Reader,
    mut inbox: BytesMut,
    registry: Arc<SubscriptionRegistry>,
    events: Arc<dyn TransportEvents>,
) -> Fault {
    let connection = &*connection;
    let mut decoder = Decoder::new(connection.pushes());
    let (mut gathers, mut broken) = (false, None);
    std::future::poll_fn(move |cx| {
        // Register before looking for requests: a request that is pushed in between must wake this
        // task.
        connection.driver.register(cx.waker());
        // If there are many callers, let other runnable tasks make their requests first, so that
        // one write serves all of them.
        gathers = !gathers && connection.crowd.load(Ordering::Relaxed) > 1;
        if gathers {
            // `yield_now` instead of waking this task directly, because a multi-threaded runtime
            // would wake another thread for that.
            let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
        } else if let Poll::Ready(Err(fault)) = connection.poll_write(cx) {
            // Handle the replies that have already arrived first, because they are valid.
            broken = Some(fault);
        }
        // Reading comes last, because it returns as soon as nothing more has arrived.
        for _ in 0..READS {
            // Decode before reading: the handshake may have left bytes, and what is left here must
            // be less than one reply (`codec.rs`).
            loop {
                let fault = match decoder.decode(&mut inbox) {
                    Ok(None) => break,
                    Ok(Some(incoming)) => match connection.receive(incoming, &registry, &*events) {
                        Ok(()) => continue,
                        Err(fault) => fault,
                    },
                    Err(Malformed(text)) => Fault(text),
                };
                return Poll::Ready(fault);
            }
            let read = poll_read(&mut reader, cx, &mut inbox);
            if let (Poll::Pending, Some(fault)) = (&read, broken.take()) {
                return Poll::Ready(fault);
            }
            match ready!(read) {
                Ok(0) => return Poll::Ready(Fault("the server closed the connection".into())),
                Ok(_) => {}
                Err(error) => return Poll::Ready(lost(&error)),
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await
}

fn poll_read(
    reader: &mut Reader,
    cx: &mut Context<'_>,
    inbox: &mut BytesMut,
) -> Poll<std::io::Result<usize>> {
    if inbox.is_empty() && inbox.capacity() > 64 * READ {
        // Free the buffer after a large reply.
        *inbox = BytesMut::new();
    }
    inbox.reserve(READ);
    std::pin::pin!(reader.read_buf(inbox)).poll(cx)
}
