//! One connection in use: its requests, and the task that writes and reads for all of them.
//!
//! A caller pushes a call and waits for the reply. A single task, the driver, writes all waiting
//! requests with one system call, and delivers all replies of one read.
//!
//! If no request is in flight, a caller writes its own request, which saves a task switch. If many
//! tasks call at once, a caller writes as soon as half of them wait, so that the server works for
//! one half while the other half makes its requests.
//!
//! # Invariants
//!
//! - **CONNECTION-1** Bytes enter the outbox in the order of the ledger, under both locks. They
//!   leave it in that order, under the lock of the outbox.
//! - **CONNECTION-2** After [`Connection::end`] nothing is written any more: bytes that the kernel
//!   has not taken by then are never sent. So the ledger knows what was not sent, even if the
//!   driver's runtime is blocked in the middle of a write.
//!
//! # Locking
//!
//! `outbox` is locked before `ledger`. Neither is held across an await, and no notification is
//! delivered under either. The outbox is locked during a non-blocking system call.
//!
//! # Bounds
//!
//! The outbox holds at most [`CHUNK`] bytes and one request. The ledger holds one request for each
//! future inside `call`, and one for each outstanding reply. One task and no timer: the supervisor
//! is the clock (`node/supervisor/watch.rs`).

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Duration, Instant};

use crate::abilities::Known;
use crate::call::{Call, Value};
use crate::call_error::{CallError, Fault};
use crate::codec::{Decoder, Incoming, Malformed, Pushes};
use crate::events::{Missed, TransportEvents};
use crate::ledger::Ledger;
use crate::process::Process;
use crate::protocol::Protocol;
use crate::pubsub::PubSub;
use crate::request::{
    CallOutcome, CallRequest, CommandRequest, ConnectionRequest, KeyForm, Notification, ScriptForm,
    SubscribeRequest, answer,
};
use crate::stream::{Reader, Writer, lost};
use crate::subscriptions::SubscriptionRegistry;
use crate::sync::{AtomicU64, AtomicUsize, AtomicWaker, Mutex};

/// How many bytes are gathered for one write.
const CHUNK: usize = 64 * 1024;

/// What a connection carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Carries {
    Calls,
    /// Subscriptions, or single commands without scripts.
    Subscriptions,
}

pub(super) struct Connection {
    pub(super) protocol: Protocol,
    /// What is known about the server.
    pub(super) known: Arc<Known>,
    carries: Carries,
    /// The process that made the connection.
    process: Process,
    ledger: Mutex<Ledger>,
    outbox: Mutex<Outbox>,
    driver: AtomicWaker,
    /// How many requests were in flight after the last write.
    crowd: AtomicUsize,
    received: AtomicU64,
    /// Notified when a call was answered READONLY or NOAUTH. Such a refusal concerns all calls of
    /// this connection.
    refused: Notify,
    /// Notified when no request is left, after [`Connection::close`].
    drained: Notify,
}

impl Connection {
    pub(super) fn new(
        writer: Writer,
        protocol: Protocol,
        known: &Arc<Known>,
        carries: Carries,
    ) -> Self {
        Connection {
            protocol,
            known: known.clone(),
            carries,
            process: Process::this(),
            ledger: Mutex::default(),
            outbox: Mutex::new(Outbox::new(writer)),
            driver: AtomicWaker::new(),
            crowd: AtomicUsize::new(0),
            received: AtomicU64::new(0),
            refused: Notify::new(),
            drained: Notify::new(),
        }
    }

    /// Whether the server takes no other commands than SUBSCRIBE, UNSUBSCRIBE and PING, because
    /// something may be subscribed.
    pub(super) fn takes_subscriptions_only(&self) -> bool {
        self.pushes() == Pushes::Named
    }

    fn pushes(&self) -> Pushes {
        match (self.protocol, self.carries) {
            (Protocol::Resp2, Carries::Subscriptions) => Pushes::Named,
            (Protocol::Resp2, Carries::Calls) | (Protocol::Resp3, _) => Pushes::Typed,
        }
    }

    /// Sends a call. The error says why this connection no longer accepts requests.
    pub(super) fn call(
        &self,
        call: Call,
        keys: KeyForm,
    ) -> Result<oneshot::Receiver<CallOutcome>, CallError> {
        self.known.check_call(&call)?;
        let (answer, receiver) = oneshot::channel();
        self.push(ConnectionRequest::Call(CallRequest {
            call,
            answer,
            form: ScriptForm::Hash,
            keys,
        }))?;
        Ok(receiver)
    }

    /// Sends a command other than a script, unless the server is known to refuse it.
    pub(super) async fn ask(&self, words: &[&[u8]]) -> CallOutcome {
        if let Some(refusal) = self.known.refusal(words) {
            return Err(refusal);
        }
        let outcome = answer(self.command(words)?).await;
        if let Err(CallError::Refused(fault)) = &outcome {
            self.known.refused(words, &fault.0);
        }
        outcome
    }

    /// Sends a command other than a script.
    pub(super) fn command(
        &self,
        words: &[&[u8]],
    ) -> Result<oneshot::Receiver<CallOutcome>, CallError> {
        let (answer, receiver) = oneshot::channel();
        let words = words.iter().map(|word| word.to_vec()).collect();
        self.push(ConnectionRequest::Command(CommandRequest { words, answer }))?;
        Ok(receiver)
    }

    pub(super) fn subscribe(&self, request: SubscribeRequest) -> Result<(), CallError> {
        self.push(ConnectionRequest::Subscribe(request))
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>, pubsub: PubSub) -> Result<(), CallError> {
        self.push(ConnectionRequest::Unsubscribe(channel.clone(), pubsub))
    }

    /// Sends PING. The receiver resolves once every earlier request is answered.
    pub(super) fn ping(&self) -> Result<oneshot::Receiver<()>, CallError> {
        let (pong, receiver) = oneshot::channel();
        self.push(ConnectionRequest::Ping(Some(pong)))?;
        Ok(receiver)
    }

    fn push(&self, request: ConnectionRequest) -> Result<(), CallError> {
        // In a forked process, the bytes would be mixed with those of the parent, or the request
        // would wait for a driver that only the parent has.
        if !self.process.is_this() {
            return Err(CallError::Forked);
        }
        let since = Instant::now();
        let (waiting, due) = {
            let mut ledger = self.ledger.lock();
            ledger.push(request, since)?;
            let (waiting, crowd) = (ledger.waiting(), self.crowd.load(Ordering::Relaxed));
            // If the server is idle, write as soon as half of the callers have made their requests.
            (waiting, ledger.in_flight() == 0 && 2 * waiting >= crowd)
        };
        // If several requests wait, the first one has already woken the driver.
        if (!due || !self.write_now()) && waiting == 1 {
            self.driver.wake();
        }
        Ok(())
    }

    /// Writes the waiting requests from the caller's task. `false` if another task is writing.
    fn write_now(&self) -> bool {
        let Some(mut outbox) = self.outbox.try_lock() else {
            return false;
        };
        if !outbox.bytes.is_empty() {
            // The driver waits until the kernel takes these bytes, and writes this request after
            // them (CONNECTION-1).
            return false;
        }
        let rest = self.encode(&mut outbox);
        // The no-op waker replaces no waker of the driver, which waits for the kernel only while
        // the outbox has bytes.
        let written = outbox.write(&mut Context::from_waker(Waker::noop()));
        // Before the driver wakes, because it locks the outbox at once.
        drop(outbox);
        if rest || !matches!(written, Poll::Ready(Ok(()))) {
            self.driver.wake();
        }
        true
    }

    /// Moves waiting requests to the outbox. True if more are waiting.
    fn encode(&self, outbox: &mut Outbox) -> bool {
        // LOCKS: outbox, then ledger.
        let mut ledger = self.ledger.lock();
        ledger.encode(&mut outbox.bytes, CHUNK);
        self.crowd.store(ledger.in_flight(), Ordering::Relaxed);
        // All waiting requests may have been abandoned, which leaves the ledger empty.
        self.notify_if_drained(&ledger);
        ledger.waiting() > 0
    }

    /// The number of replies and pushes so far. Incomplete ones do not count, so they do not hide
    /// silence.
    pub(super) fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }

    /// Waits until the next call is answered READONLY or NOAUTH.
    pub(super) async fn refused(&self) -> Fault {
        self.refused.notified().await;
        Fault("the server is read-only, or has forgotten the login".into())
    }

    /// How long the oldest call may still wait, or `limit` if there is none.
    pub(super) fn until_expiry(&self, limit: Duration) -> Duration {
        let oldest = self.ledger.lock().calls().min();
        let left = |since: Instant| (since + limit).saturating_duration_since(Instant::now());
        // tokio's clock may have jumped back when a test paused it.
        oldest.map_or(limit, left).min(limit)
    }

    /// Waits until every request is answered, after [`Connection::close`].
    pub(super) async fn drained(&self) {
        loop {
            // Before the look at the ledger, so that no notification in between is missed.
            let drained = self.drained.notified();
            if self.ledger.lock().is_drained() {
                return;
            }
            drained.await;
        }
    }

    /// Must be called after each step that removes a request from the ledger.
    fn notify_if_drained(&self, ledger: &Ledger) {
        if ledger.is_drained() {
            self.drained.notify_waiters();
        }
    }

    /// Writes the waiting requests. Pending if the kernel takes no more bytes, or no request waits.
    fn poll_write(&self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let mut outbox = self.outbox.lock();
        loop {
            if outbox.bytes.is_empty() {
                self.encode(&mut outbox);
            }
            if outbox.bytes.is_empty() && !outbox.to_flush {
                return Poll::Pending;
            }
            ready!(outbox.write(cx))?;
        }
    }
}

// The bytes that the kernel has not taken yet.

struct Outbox {
    pub(super) bytes: BytesMut,
    /// How many bytes the kernel has taken since the connection began.
    pub(super) taken: u64,
    /// Whether a layer above the socket may still hold bytes that it has taken.
    to_flush: bool,
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

// The task of a connection, which writes and reads for all requests.

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

// The outcomes of requests: which frame, time limit or end of the connection leads to them, and
// who is told.

impl Notification {
    /// Returns the channel that was not restored and is forgotten.
    pub(crate) fn deliver(
        all: impl IntoIterator<Item = Self>,
        registry: &SubscriptionRegistry,
    ) -> Option<Arc<str>> {
        let mut forgotten = None;
        // The receiver may have been dropped.
        all.into_iter().for_each(|notification| match notification {
            Notification::Called(answer, outcome) => drop(answer.send(outcome)),
            Notification::Subscribed(request, outcome) => {
                forgotten = registry.answered(request, outcome);
            }
            Notification::Interrupted(request) => registry.interrupted(request),
            Notification::Pong(pong) => drop(pong.send(())),
        });
        forgotten
    }
}

impl Connection {
    /// Handles one frame.
    pub(crate) fn receive(
        &self,
        incoming: Incoming,
        registry: &SubscriptionRegistry,
        events: &dyn TransportEvents,
    ) -> Result<(), Fault> {
        self.received.fetch_add(1, Ordering::Relaxed);
        let notification = match incoming {
            Incoming::Reply(reply) => self.replied(reply)?,
            Incoming::Push(push) => self.pushed(&push, registry, events),
        };
        if let Some(channel) = Notification::deliver(notification, registry) {
            events.refused(&channel);
        }
        Ok(())
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

#[cfg(test)]
mod tests;
