//! Events of this process, on their way to whoever started it.

use std::io::{BufWriter, Write as _};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use crate::clock;
use crate::history::{self, Event, What};

/// A process that is killed loses what it did in this time; what it was granted counts on until it is seen again.
const FLUSHED_EVERY: Duration = Duration::from_millis(5);

#[derive(Clone, Debug)]
pub(crate) struct Log {
    process: u32,
    /// One at a time writes: an event stands before all that happen later.
    events: Arc<Mutex<Option<Sender<Event>>>>,
    writing: Arc<Mutex<Option<JoinHandle<()>>>>,
}

impl Log {
    /// To the standard output.
    pub(crate) fn start(process: u32) -> Self {
        let (sender, events) = channel();
        let writing = thread::spawn(move || write_all(&events));
        Log {
            process,
            events: Arc::new(Mutex::new(Some(sender))),
            writing: Arc::new(Mutex::new(Some(writing))),
        }
    }

    pub(crate) fn write(&self, worker: u32, name: &str, what: What) {
        self.write_as_of(clock::monotonic(), worker, name, what);
    }

    pub(crate) fn write_as_of(&self, at: u64, worker: u32, name: &str, what: What) {
        let name = name.to_owned();
        let event = Event { at, wall: clock::wall(), process: self.process, worker, name, what };
        if let Some(events) = &*self.events.lock().unwrap_or_else(PoisonError::into_inner) {
            drop(events.send(event));
        }
    }

    /// All that was written has arrived.
    pub(crate) fn finish(self) {
        drop(self.events.lock().unwrap_or_else(PoisonError::into_inner).take());
        if let Some(writing) = self.writing.lock().unwrap_or_else(PoisonError::into_inner).take() {
            drop(writing.join());
        }
    }
}

fn write_all(events: &Receiver<Event>) {
    let mut out = BufWriter::new(std::io::stdout().lock());
    loop {
        match events.recv_timeout(FLUSHED_EVERY) {
            // Whoever reads is gone: so will this process be.
            Ok(event) if history::write(&mut out, &event).is_err() => return,
            Ok(_) => {}
            Err(RecvTimeoutError::Timeout) => drop(out.flush()),
            Err(RecvTimeoutError::Disconnected) => return drop(out.flush()),
        }
    }
}
