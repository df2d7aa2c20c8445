//! The task of a connection, which writes and reads for all requests.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, ready};

use bytes::BytesMut;
use tokio::io::AsyncReadExt as _;
use tokio::time::{Duration, Instant};

use super::{Connection, Outbox};
use crate::call::Value;
use crate::call_error::{CallError, Fault};
use crate::codec::{Decoder, Incoming, Malformed};
use crate::events::{Missed, TransportEvents};
use crate::request::{ConnectionRequest, Notification};
use crate::stream::{Reader, lost};
use crate::subscriptions::SubscriptionRegistry;

/// The size of one read, and how many reads the driver does before it yields to other tasks.
const READ: usize = 16 * 1024;
const READS: usize = 16;
/// The space of so many answers is kept for the next read.
const KEPT: usize = 256;

/// Writes and reads until the connection ends, and returns why.
pub(crate) async fn drive(
    connection: Arc<Connection>,
    mut reader: Reader,
    read: BytesMut,
    registry: Arc<SubscriptionRegistry>,
    events: Arc<dyn TransportEvents>,
) -> Fault {
    let connection = &*connection;
    let mut inbox = Inbox {
        bytes: read,
        decoder: Decoder::new(connection.pushes()),
        answered: Vec::new(),
    };
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
            if let Err(fault) = connection.receive_all(&mut inbox, &registry, &*events) {
                return Poll::Ready(fault);
            }
            let read = poll_read(&mut reader, cx, &mut inbox.bytes);
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

/// What was read and is not handled yet.
struct Inbox {
    bytes: BytesMut,
    decoder: Decoder,
    /// Replies of one read whose callers are not woken yet. At most as many as fit in a read, and
    /// empty between two polls.
    answered: Vec<Notification>,
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

// The outcomes of requests: which frame, time limit or end of the connection leads to them, and
// who is told.

impl Notification {
    /// Delivers all of them.
    pub(crate) fn deliver(all: impl IntoIterator<Item = Self>, registry: &SubscriptionRegistry) {
        for notification in all {
            notification.deliver_one(registry);
        }
    }

    /// Returns the channel if it was not restored and is forgotten.
    fn deliver_one(self, registry: &SubscriptionRegistry) -> Option<Arc<str>> {
        // The receiver may have been dropped.
        match self {
            Notification::Called(answer, outcome) => drop(answer.send(outcome)),
            Notification::Subscribed(request, outcome) => {
                return registry.answered(request, outcome);
            }
            Notification::Interrupted(request) => registry.interrupted(request),
            Notification::Pong(pong) => drop(pong.send(())),
        }
        None
    }
}

/// Delivers the outcomes of requests, while nothing is locked.
fn wake_callers(
    all: impl Iterator<Item = Notification>,
    registry: &SubscriptionRegistry,
    events: &dyn TransportEvents,
) {
    for notification in all {
        if let Some(channel) = notification.deliver_one(registry) {
            events.refused(&channel);
        }
    }
}

impl Connection {
    /// Handles all frames that were read. The callers are woken once all replies of the read are
    /// noted, so that their next calls leave in fewer writes. None of them can hold up another one:
    /// a wake only makes a task runnable.
    fn receive_all(
        &self,
        inbox: &mut Inbox,
        registry: &SubscriptionRegistry,
        events: &dyn TransportEvents,
    ) -> Result<(), Fault> {
        let ended = loop {
            let noted = match inbox.decoder.decode(&mut inbox.bytes) {
                Ok(None) => break Ok(()),
                Ok(Some(Incoming::Reply(reply))) => self.replied(reply),
                Ok(Some(Incoming::Push(push))) => {
                    // The replies before it come first.
                    wake_callers(inbox.answered.drain(..), registry, events);
                    Ok(self.pushed(&push, registry, events))
                }
                Err(Malformed(text)) => Err(Fault(text)),
            };
            match noted {
                Ok(notification) => inbox.answered.extend(notification),
                Err(fault) => break Err(fault),
            }
            self.received.fetch_add(1, Ordering::Relaxed);
        };
        wake_callers(inbox.answered.drain(..), registry, events);
        inbox.answered.shrink_to(KEPT);
        ended
    }

    fn replied(&self, reply: Result<Value, String>) -> Result<Option<Notification>, Fault> {
        let refuses = |text: &String| text.contains("READONLY") || text.starts_with("NOAUTH ");
        if reply.as_ref().is_err_and(refuses) {
            self.refused.notify_waiters();
        }
        // A writing task holds this lock until it knows how many bytes were taken. So a
        // reply that arrives very fast cannot be mistaken for one to a request that was not
        // sent yet.
        let taken = self.outbox.lock().taken;
        let mut ledger = self.ledger.lock();
        let notification = ledger.replied(reply, taken)?;
        if ledger.waiting() > 0 {
            // The request may be this call, which must be sent again with its text.
            self.driver.wake();
        }
        self.notify_if_drained(&ledger);
        // Before the subscriber hears of the refusal, because it then asks whether the server has
        // messages at all.
        if let Some(Notification::Subscribed(_, Err(error))) = &notification {
            self.known.subscription_refused(error);
        }
        Ok(notification)
    }

    fn pushed(
        &self,
        push: &[Value],
        registry: &SubscriptionRegistry,
        events: &dyn TransportEvents,
    ) -> Option<Notification> {
        match push {
            [
                Value::Text(kind),
                Value::Text(channel),
                Value::Text(payload),
            ] if kind == "message" || kind == "smessage" => {
                events.message(channel, payload.as_bytes());
                None
            }
            [Value::Text(kind), Value::Text(channel), Value::Int(_)] if kind == "sunsubscribe" => {
                self.ledger.lock().unsubscribed(channel);
                if registry.revoked(channel) {
                    events.missed(Missed::Channel(channel));
                }
                None
            }
            [Value::Text(kind), _, Value::Int(_), ..]
                if ["subscribe", "ssubscribe", "unsubscribe"].contains(&kind.as_str()) =>
            {
                let mut ledger = self.ledger.lock();
                let notification = ledger.confirmed_one_of(kind, push);
                self.notify_if_drained(&ledger);
                notification
            }
            // Invalidations, and pushes of future servers. No request caused them.
            _ => None,
        }
    }

    /// Ends the calls that are older than `limit`.
    pub(crate) fn expire(&self, limit: Duration, why: &str, registry: &SubscriptionRegistry) {
        let Some(oldest) = Instant::now().checked_sub(limit) else {
            return;
        };
        let fault = Fault(format!("no answer within {} ms{why}", limit.as_millis()));
        let mut notifications = Vec::new();
        {
            // LOCKS: outbox, then ledger. Both are held, so that no byte is taken while calls are
            // withdrawn.
            let Outbox { bytes, taken, .. } = &mut *self.outbox.lock();
            let mut ledger = self.ledger.lock();
            if ledger.expire(oldest, &fault, bytes, *taken, &mut notifications) {
                // INVARIANT LEDGER-6: the reply to this PING shows whether replies still belong to
                // their requests.
                drop(ledger.push(ConnectionRequest::Ping(None), Instant::now()));
                self.driver.wake();
            }
        }
        Notification::deliver(notifications, registry);
    }

    /// Refuses new requests. Requests in flight may still be answered.
    pub(crate) fn close(&self, registry: &SubscriptionRegistry) {
        let mut notifications = Vec::new();
        self.ledger
            .lock()
            .close(&CallError::Closed, &mut notifications);
        Notification::deliver(notifications, registry);
        self.driver.wake();
    }

    /// Ends the connection. Each request gets the outcome that is known.
    pub(crate) fn end(&self, fault: &Fault, registry: &SubscriptionRegistry) {
        let mut notifications = Vec::new();
        {
            let mut outbox = self.outbox.lock();
            // INVARIANT CONNECTION-2: without a writer, nothing is written after this. The outbox
            // stays locked until the ledger has used `taken`, so that no byte is taken in between.
            // The socket closes once the driver has dropped its half, too.
            drop(outbox.writer.take());
            self.ledger
                .lock()
                .end(fault, outbox.taken, &mut notifications);
        }
        Notification::deliver(notifications, registry);
    }
}
