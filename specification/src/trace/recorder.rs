//! Passes on what one client sends and trusts.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::future::BoxFuture;
use leasehold::harness::{Call, CallError, Field, Harness, Value};

use super::Entry;
use super::reader::Reader;

/// The harness of one client of one server.
pub struct Recorder {
    reader: Mutex<Reader>,
    next_call: AtomicU64,
    write: Box<dyn Fn(Entry) + Send + Sync>,
    wrap: Option<Box<Wrap>>,
}

type Wrap = dyn Fn(BoxFuture<'static, ()>) -> BoxFuture<'static, ()> + Send + Sync;

impl Recorder {
    /// Passes each entry to `write`, which must not block. All clients count the time from `zero`.
    pub fn new(
        (client, server): (u32, u32),
        zero: Instant,
        write: impl Fn(Entry) + Send + Sync + 'static,
    ) -> Self {
        Recorder {
            reader: Mutex::new(Reader::new(client, server, zero)),
            next_call: AtomicU64::new(1),
            write: Box::new(write),
            wrap: None,
        }
    }

    /// Wraps the background task of the client.
    #[must_use]
    pub fn wrapping(
        mut self,
        wrap: impl Fn(BoxFuture<'static, ()>) -> BoxFuture<'static, ()> + Send + Sync + 'static,
    ) -> Self {
        self.wrap = Some(Box::new(wrap));
        self
    }

    fn write(&self, read: impl FnOnce(&mut Reader) -> Vec<Entry>) {
        let mut reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner);
        let entries = read(&mut reader);
        drop(reader);
        entries.into_iter().for_each(&self.write);
    }

    fn number(&self) -> u64 {
        self.next_call.fetch_add(1, Relaxed)
    }
}

impl Harness for Recorder {
    fn on_sent(&self, call: &Call) -> u64 {
        let number = self.number();
        self.write(|reader| reader.on_sent(now(), number, call));
        number
    }

    fn on_reply(&self, call: u64, reply: &Result<Value, CallError>) {
        self.write(|reader| reader.on_reply(now(), call, reply));
    }

    fn on_handover_by_message(&self, lock: Field<'_>, since: Instant, lease: Duration) {
        let call = self.number();
        self.write(|reader| reader.on_handover_by_message(now(), call, lock, (since, lease)));
    }

    fn on_local_deadline(&self, lock: Field<'_>, hold: u64, at: Instant, until: Instant) {
        self.write(|reader| reader.on_local_deadline(lock, hold, at, until));
    }

    fn on_hand_on(&self, lock: Field<'_>) {
        self.write(|reader| reader.on_hand_on(now(), lock));
    }

    fn wrap(&self, background: BoxFuture<'static, ()>) -> BoxFuture<'static, ()> {
        match &self.wrap {
            Some(wrap) => wrap(background),
            None => background,
        }
    }
}

fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}
