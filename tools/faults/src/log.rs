//! Events of this process, on their way to whoever started it.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use crate::clock;
use crate::history::{self, Event, What};

/// To the standard output, each event at once: what was written is not lost with a process that is killed. So what it
/// asked for is known.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    process: u32,
    /// One at a time writes: an event stands before all that happen later.
    turn: Arc<Mutex<()>>,
}

impl Log {
    pub(crate) fn of(process: u32) -> Self {
        Log {
            process,
            turn: Arc::default(),
        }
    }

    pub(crate) fn write(&self, worker: u32, name: &str, what: What) {
        self.write_as_of(clock::monotonic(), worker, name, what);
    }

    pub(crate) fn write_as_of(&self, at: u64, worker: u32, name: &str, what: What) {
        let name = name.to_owned();
        let event = Event {
            at,
            wall: clock::wall(),
            process: self.process,
            worker,
            name,
            what,
        };
        let mut line = Vec::new();
        history::write(&mut line, &event).expect("it takes everything");
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever reads is gone: so will this process be.
        drop(std::io::stdout().write_all(&line));
    }
}
