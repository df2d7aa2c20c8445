//! One connection in use: who asks, and the task that writes and reads for all.
//!
//! A call is pushed and its caller waits for the answer. The driver, one task, writes all that waits
//! with one system call and hands out all replies of one read. While the server has nothing to do,
//! whoever asks writes himself: at once if calls come one at a time, which saves a switch of tasks,
//! and in crowds when half of them wait, so that the server serves one half while the other asks.
//!
//! # Invariants
//!
//! - **C1** Bytes enter the outbox in the order of the ledger, under both locks; they leave it in
//!   that order, under its lock.
//! - **C2** After [`Connection::end`] nothing is written any more: what was not taken by the kernel
//!   by then never is. So the ledger knows what was not sent, even if the driver's runtime stands
//!   still in the middle of a write.
//!
//! # Locking
//!
//! `outbox`, then `ledger`; neither across an await; nobody is told anything under either. The outbox is
//! locked during a system call that does not block.
//!
//! # Bounds
//!
//! The outbox holds [`CHUNK`] and one request; the ledger a request for each future inside `call`, and
//! one for each whose reply is still to come. One task, no timer: see `supervisor.rs`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker, ready};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWrite as _};
use tokio::sync::{Notify, oneshot};
use tokio::time::{Duration, Instant};

use super::codec::{Decoder, Incoming, Malformed};
use super::dial::{Reader, Writer};
use super::hub::Hub;
use super::ledger::{Change, Form, Ledger, Listen, Outcome, Request, Run};
use crate::protocol::{Call, Value};
use crate::sync::{AtomicU64, AtomicUsize, AtomicWaker, Mutex};
use crate::transport::{CallError, Fault, Sink};

/// How many bytes are gathered for one write.
const CHUNK: usize = 64 * 1024;

/// How much is read at once, and how often before other tasks get their turn.
const READ: usize = 16 * 1024;
const READS: usize = 16;

pub(super) struct Connection {
    ledger: Mutex<Ledger>,
    outbox: Mutex<Outbox>,
    driver: AtomicWaker,
    /// How many requests were on their way when something was sent last.
    crowd: AtomicUsize,
    /// Bytes that came: signs of life.
    heard: AtomicU64,
    /// Rung when a call was answered READONLY.
    read_only: Notify,
    /// Rung when nothing is on its way any more, after [`Connection::close`].
    quiet: Notify,
}

/// Bytes on their way to the kernel.
struct Outbox {
    bytes: BytesMut,
    /// How many bytes the kernel has taken since the connection began.
    taken: u64,
    /// Something was taken that a layer above the socket may still hold.
    to_flush: bool,
    /// `None`: nothing is written any more.
    writer: Option<Writer>,
}

impl Connection {
    pub(super) fn new(writer: Writer) -> Self {
        let bytes = BytesMut::new();
        let outbox = Outbox { bytes, taken: 0, to_flush: false, writer: Some(writer) };
        Connection {
            ledger: Mutex::default(),
            outbox: Mutex::new(outbox),
            driver: AtomicWaker::new(),
            crowd: AtomicUsize::new(0),
            heard: AtomicU64::new(0),
            read_only: Notify::new(),
            quiet: Notify::new(),
        }
    }

    /// Asks, or says why nothing is sent here any more.
    pub(super) fn run(&self, call: Call) -> Result<oneshot::Receiver<Outcome>, CallError> {
        let (answer, receiver) = oneshot::channel();
        self.push(Request::Run(Run { call, answer, form: Form::Hash }))?;
        Ok(receiver)
    }

    pub(super) fn listen(&self, listen: Listen) -> Result<(), CallError> {
        self.push(Request::Listen(listen))
    }

    pub(super) fn unlisten(&self, channel: &Arc<str>) -> Result<(), CallError> {
        self.push(Request::Unlisten(channel.clone()))
    }

    /// The receiver is told when everything that was asked before is answered.
    pub(super) fn ping(&self) -> Result<oneshot::Receiver<()>, CallError> {
        let (pong, receiver) = oneshot::channel();
        self.push(Request::Ping(Some(pong)))?;
        Ok(receiver)
    }

    fn push(&self, request: Request) -> Result<(), CallError> {
        let since = Instant::now();
        let (waiting, due) = {
            let mut ledger = self.ledger.lock();
            ledger.push(request, since)?;
            let (waiting, crowd) = (ledger.waiting(), self.crowd.load(Ordering::Relaxed));
            // While the server has nothing to do, half a crowd does not wait for the other.
            (waiting, ledger.on_the_way() == 0 && 2 * waiting >= crowd)
        };
        // Of several that wait, the first has woken it.
        if (!due || !self.write_now()) && waiting == 1 {
            self.driver.wake();
        }
        Ok(())
    }

    /// Writes what waits in the caller's place; `false` if another one writes.
    fn write_now(&self) -> bool {
        let Some(mut outbox) = self.outbox.try_lock() else { return false };
        if !outbox.bytes.is_empty() {
            return false;
        }
        let rest = self.encode(&mut outbox);
        // No waker of the driver is replaced: it waits for the kernel only if bytes are left.
        let written = outbox.write(&mut Context::from_waker(Waker::noop()));
        drop(outbox);
        if rest || !matches!(written, Poll::Ready(Ok(()))) {
            self.driver.wake();
        }
        true
    }

    /// Gives what waits to the outbox; says whether more is waiting.
    fn encode(&self, outbox: &mut Outbox) -> bool {
        // LOCKS: outbox, then ledger.
        let mut ledger = self.ledger.lock();
        ledger.encode(&mut outbox.bytes, CHUNK);
        self.crowd.store(ledger.on_the_way(), Ordering::Relaxed);
        // All that waited may have been abandoned.
        self.ring(&ledger);
        ledger.waiting() > 0
    }

    pub(super) fn heard(&self) -> u64 {
        self.heard.load(Ordering::Relaxed)
    }

    /// Waits for a call that is answered READONLY from now on.
    pub(super) async fn read_only(&self) {
        self.read_only.notified().await;
    }

    /// Answers calls that are older than `limit`. Returns how long the oldest of the others may still
    /// wait.
    pub(super) fn expire(&self, limit: Duration, hub: &Hub) -> Duration {
        let now = Instant::now();
        let Some(oldest) = now.checked_sub(limit) else { return limit };
        let fault = Fault(format!("no answer within {} ms", limit.as_millis()));
        let mut told = Vec::new();
        let rest = {
            let Outbox { bytes, taken, .. } = &mut *self.outbox.lock();
            self.ledger.lock().expire(oldest, &fault, bytes, *taken, &mut told)
        };
        for told in told {
            told.say(hub);
        }
        // A clock that was paused may have gone back.
        rest.map_or(limit, |since| (since + limit).saturating_duration_since(now)).min(limit)
    }

    /// Takes nothing more. What was sent may still be answered.
    pub(super) fn close(&self, hub: &Hub) {
        let mut told = Vec::new();
        self.ledger.lock().close(&CallError::Closed, &mut told);
        for told in told {
            told.say(hub);
        }
        self.driver.wake();
    }

    /// Waits until everything that was sent is answered.
    pub(super) async fn quiet(&self) {
        loop {
            let quiet = self.quiet.notified();
            if self.ledger.lock().is_quiet() {
                return;
            }
            quiet.await;
        }
    }

    /// Tells whoever waits for it that nothing is on its way. Owed after each step that takes something
    /// out of the ledger.
    fn ring(&self, ledger: &Ledger) {
        if ledger.is_quiet() {
            self.quiet.notify_waiters();
        }
    }

    /// The connection is of no use any more: everybody is told what is known.
    pub(super) fn end(&self, fault: &Fault, hub: &Hub) {
        let mut told = Vec::new();
        {
            let mut outbox = self.outbox.lock();
            // INVARIANT C2. The socket closes when the driver's half is gone, too.
            drop(outbox.writer.take());
            self.ledger.lock().end(fault, outbox.taken, &mut told);
        }
        for told in told {
            told.say(hub);
        }
    }

    /// Writes what waits; pending when the kernel takes no more or nothing waits.
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

    /// Takes one frame in.
    fn receive(&self, incoming: Incoming, hub: &Hub, sink: &dyn Sink) -> Result<(), Fault> {
        let told = match incoming {
            Incoming::Reply(reply) => {
                if reply.as_ref().is_err_and(|text| text.contains("READONLY")) {
                    self.read_only.notify_waiters();
                }
                // Whoever writes at this moment has the lock until it knows what was taken.
                let taken = self.outbox.lock().taken;
                let mut ledger = self.ledger.lock();
                let told = ledger.replied(reply, taken)?;
                if ledger.waiting() > 0 {
                    // It may be this call, which is sent again with its text.
                    self.driver.wake();
                }
                self.ring(&ledger);
                told
            }
            Incoming::Push(push) => match push.as_slice() {
                [Value::Text(kind), Value::Text(channel), Value::Text(payload)]
                    if kind == "message" =>
                {
                    sink.message(channel, payload.as_bytes());
                    None
                }
                [Value::Text(kind), Value::Text(channel), Value::Int(_)]
                    if kind == "subscribe" || kind == "unsubscribe" =>
                {
                    let subscribed = kind == "subscribe";
                    let change = if subscribed { Change::Subscribed } else { Change::Unsubscribed };
                    let mut ledger = self.ledger.lock();
                    let told = ledger.confirmed(change, channel);
                    self.ring(&ledger);
                    told
                }
                // Invalidations and whatever servers may say in future: nobody asked.
                _ => None,
            },
        };
        if let Some(told) = told {
            told.say(hub);
        }
        Ok(())
    }
}

/// For a driver that takes requests as they are, see `fred.rs`.
#[cfg(feature = "fred")]
impl Connection {
    /// Nothing is ever put into the outbox; what the driver took counts as taken by the kernel.
    pub(super) fn without_bytes() -> Self {
        let mut connection = Connection::new(Box::new(tokio::io::sink()));
        connection.outbox.get_mut().taken = u64::MAX;
        // No caller writes.
        *connection.crowd.get_mut() = usize::MAX;
        connection
    }

    /// The next request; pending if none waits.
    pub(super) fn poll_take<T>(
        &self,
        cx: &mut Context<'_>,
        take: impl FnOnce(&Request) -> T,
    ) -> Poll<T> {
        self.driver.register(cx.waker());
        let mut ledger = self.ledger.lock();
        let taken = ledger.take(take);
        self.ring(&ledger);
        taken.map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes in what the driver was told.
    pub(super) fn hear(&self, incoming: Incoming, hub: &Hub, sink: &dyn Sink) -> Result<(), Fault> {
        self.heard.fetch_add(1, Ordering::Relaxed);
        self.receive(incoming, hub, sink)
    }
}

impl Outbox {
    /// Writes everything that is here.
    fn write(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Fault>> {
        let Some(writer) = &mut self.writer else { return Poll::Pending };
        while self.bytes.has_remaining() {
            match ready!(Pin::new(&mut *writer).poll_write(cx, &self.bytes)) {
                Ok(0) => return Poll::Ready(Err(Fault("the server takes nothing more".into()))),
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

/// Writes and reads until the connection is of no use, and says why.
pub(super) async fn drive(
    connection: Arc<Connection>,
    mut reader: Reader,
    mut inbox: BytesMut,
    hub: Arc<Hub>,
    sink: Arc<dyn Sink>,
) -> Fault {
    let mut decoder = Decoder::default();
    let connection = &*connection;
    let mut gathers = false;
    std::future::poll_fn(move |cx| {
        connection.driver.register(cx.waker());
        // In a crowd, whoever else can run asks first: one write for all.
        gathers = !gathers && connection.crowd.load(Ordering::Relaxed) > 1;
        if gathers {
            // Not by waking itself: a runtime of several threads wakes another one for that.
            let _ = std::pin::pin!(tokio::task::yield_now()).poll(cx);
        } else if let Poll::Ready(Err(fault)) = connection.poll_write(cx) {
            return Poll::Ready(fault);
        }
        for _ in 0..READS {
            loop {
                let fault = match decoder.decode(&mut inbox) {
                    Ok(None) => break,
                    Ok(Some(incoming)) => match connection.receive(incoming, &hub, &*sink) {
                        Ok(()) => continue,
                        Err(fault) => fault,
                    },
                    Err(Malformed(text)) => Fault(text),
                };
                return Poll::Ready(fault);
            }
            match ready!(poll_read(&mut reader, cx, &mut inbox)) {
                Ok(0) => return Poll::Ready(Fault("the server closed the connection".into())),
                Ok(read) => drop(connection.heard.fetch_add(read as u64, Ordering::Relaxed)),
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
        // One great reply is no reason to keep so much.
        *inbox = BytesMut::new();
    }
    inbox.reserve(READ);
    std::pin::pin!(reader.read_buf(inbox)).poll(cx)
}

fn lost(error: &std::io::Error) -> Fault {
    Fault(format!("the connection was lost: {error}"))
}

/// What is on its way, for tests.
#[cfg(test)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Left {
    pub(super) waiting: usize,
    pub(super) sent: usize,
    /// Bytes that the kernel has not taken.
    pub(super) bytes: usize,
}

#[cfg(test)]
impl Left {
    pub(super) fn unsent(self) -> usize {
        self.waiting + self.bytes
    }
}

#[cfg(test)]
impl Connection {
    pub(super) fn left(&self) -> Left {
        let outbox = self.outbox.lock();
        let ledger = self.ledger.lock();
        let bytes = outbox.bytes.len();
        Left { waiting: ledger.waiting(), sent: ledger.on_the_way(), bytes }
    }
}
