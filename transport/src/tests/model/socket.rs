//! The kernel and the server of one connection. The kernel takes a random part of each write. The
//! server runs complete commands, and answers them later.
//!
//! Nothing here blocks, and no task is woken without a reason. So no other wake-up can hide a
//! missing one.

use std::collections::{BTreeSet, VecDeque};

use shuttle::future::JoinHandle;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::super::memory::{command, echo};
use super::*;

#[derive(Clone)]
pub(super) struct Socket(Arc<Mutex<State>>);

#[expect(clippy::struct_excessive_bools, reason = "each is another fact")]
#[derive(Default)]
struct State {
    /// True if a layer above the socket, such as TLS, buffers bytes until it is flushed.
    keeps: bool,
    kept: Vec<u8>,
    /// Commands that arrived and have not run.
    arrived: Vec<u8>,
    /// Bytes that were taken and are not a complete command yet.
    partial: Vec<u8>,
    outgoing: VecDeque<u8>,
    full: bool,
    dead: bool,
    /// True once `Connection::end` has returned.
    sealed: bool,
    finished: bool,
    reader: Option<Waker>,
    writer: Option<Waker>,
    server: Option<Waker>,
    facts: Facts,
}

/// The fate of the commands.
#[derive(Clone, Default)]
pub(super) struct Facts {
    /// Calls whose last byte the kernel has taken.
    pub(super) whole: BTreeSet<String>,
    /// Calls that the server ran, in order.
    pub(super) ran: Vec<String>,
    /// Calls that the server answered with NOSCRIPT.
    pub(super) without_script: BTreeSet<String>,
    pub(super) channels: BTreeSet<String>,
}

impl Socket {
    /// A socket, its two ends for a connection, and the task of its server.
    pub(super) fn new() -> (Socket, Reader, Writer, JoinHandle<()>) {
        let socket = Socket(Arc::default());
        socket.0.lock().keeps = draw(4) == 0;
        let server = shuttle::future::spawn(socket.clone().serve());
        (
            socket.clone(),
            Box::new(End(socket.clone())),
            Box::new(End(socket.clone())),
            server,
        )
    }

    pub(super) fn facts(&self) -> Facts {
        self.0.lock().facts.clone()
    }

    pub(super) fn is_subscribed(&self, channel: &str) -> bool {
        self.0.lock().facts.channels.contains(channel)
    }

    pub(super) fn is_dead(&self) -> bool {
        self.0.lock().dead
    }

    /// Ends the stream. Commands that have arrived are still run.
    pub(super) fn kill(&self) {
        self.change(|state| {
            state.dead = true;
            [state.reader.take(), state.writer.take(), None]
        });
    }

    /// INVARIANT CONNECTION-2 of `connection.rs`: nothing may be written from now on.
    pub(super) fn seal(&self) {
        self.0.lock().sealed = true;
    }

    /// Ends the server after it has run all commands that arrived.
    pub(super) fn finish(&self) {
        self.change(|state| {
            state.finished = true;
            [state.server.take(), None, None]
        });
    }

    fn change<T: IntoIterator<Item = Option<Waker>>>(&self, change: impl FnOnce(&mut State) -> T) {
        let wakers = change(&mut self.0.lock());
        wakers.into_iter().flatten().for_each(Waker::wake);
    }

    async fn serve(self) {
        while std::future::poll_fn(|cx| self.poll_serve(cx)).await {
            step();
        }
    }

    /// One step of the server. False after the last one.
    fn poll_serve(&self, cx: &Context<'_>) -> Poll<bool> {
        let state = &mut *self.0.lock();
        if std::mem::take(&mut state.full) {
            state.writer.take().inspect(Waker::wake_by_ref);
            return Poll::Ready(true);
        }
        let Some((words, length)) = command(&state.arrived) else {
            if state.finished {
                return Poll::Ready(false);
            }
            state.server = Some(cx.waker().clone());
            return Poll::Pending;
        };
        state.arrived.drain(..length);
        let answer = state.facts.answer(&words);
        state.outgoing.extend(answer);
        state.reader.take().inspect(Waker::wake_by_ref);
        Poll::Ready(true)
    }
}

impl Facts {
    fn answer(&mut self, words: &[String]) -> Vec<u8> {
        let last = words.last().unwrap().clone();
        match words[0].as_str() {
            "EVALSHA" if draw(4) == 0 => {
                self.without_script.insert(last);
                return b"-NOSCRIPT no such script\r\n".to_vec();
            }
            "EVALSHA" | "EVAL" => self.ran.push(last),
            "SUBSCRIBE" => drop(self.channels.insert(last)),
            "UNSUBSCRIBE" => drop(self.channels.remove(&last)),
            _ => {}
        }
        echo(words)
    }
}

impl State {
    fn take(&mut self, bytes: &[u8]) {
        if self.keeps {
            &mut self.kept
        } else {
            &mut self.arrived
        }
        .extend(bytes);
        self.partial.extend(bytes);
        while let Some((words, length)) = command(&self.partial) {
            self.partial.drain(..length);
            self.facts.whole.extend(words.last().cloned());
        }
    }

    /// True if the kernel takes no bytes at the moment.
    fn is_full(&mut self, cx: &Context<'_>) -> bool {
        self.full = self.full || draw(4) == 0;
        if self.full {
            self.writer = Some(cx.waker().clone());
            self.server.take().inspect(Waker::wake_by_ref);
        }
        self.full
    }
}

struct End(Socket);

impl AsyncRead for End {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        step();
        let state = &mut *self.0.0.lock();
        let length = buffer.remaining().min(state.outgoing.len());
        if length > 0 {
            let length = if draw(2) == 0 {
                length
            } else {
                1 + draw(length)
            };
            buffer.put_slice(&state.outgoing.drain(..length).collect::<Vec<_>>());
            return Poll::Ready(Ok(()));
        }
        if state.dead {
            return Poll::Ready(Ok(()));
        }
        state.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl AsyncWrite for End {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        step();
        let taken = {
            let state = &mut *self.0.0.lock();
            assert!(!state.sealed, "bytes were written after the end");
            if state.dead {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if state.is_full(cx) {
                return Poll::Pending;
            }
            let length = if draw(2) == 0 {
                bytes.len()
            } else {
                1 + draw(bytes.len())
            };
            state.take(&bytes[..length]);
            state.server.take().inspect(Waker::wake_by_ref);
            length
        };
        // The server may answer before the writer knows how many bytes were taken.
        step();
        Poll::Ready(Ok(taken))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        step();
        let state = &mut *self.0.0.lock();
        if state.kept.is_empty() {
            return Poll::Ready(Ok(()));
        }
        if state.is_full(cx) {
            return Poll::Pending;
        }
        state.arrived.append(&mut state.kept);
        state.server.take().inspect(Waker::wake_by_ref);
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}
