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

pub(super) mod driver;

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::AsyncWrite as _;
use tokio::sync::{Notify, oneshot};
use tokio::time::{Duration, Instant};

use crate::abilities::Known;
use crate::call::Call;
use crate::call_error::{CallError, Fault};
use crate::codec::Pushes;
use crate::ledger::Ledger;
use crate::process::Process;
use crate::protocol::Protocol;
use crate::pubsub::PubSub;
use crate::request::{
    CallOutcome, CallRequest, CommandRequest, ConnectionRequest, KeyForm, ScriptForm,
    SubscribeRequest, answer,
};
use crate::stream::{Writer, lost};
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

#[cfg(test)]
mod tests;
