//! Writes the events of a client process to standard output, where the program that started it
//! reads them.

use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use leasehold_specification::trace::Entry;

use crate::clock;
use crate::history::{self, Event, Line, What};

/// Writes each event immediately, without a buffer. So no event is lost when the process is killed,
/// and the history shows what the process had asked for.
#[derive(Clone, Debug)]
pub(crate) struct Log {
    process: u32,
    /// Held while an event is written, so that lines do not mix.
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
        self.write_line(&Line::Event(event));
    }

    /// A step of the protocol, for the specification.
    pub(crate) fn write_step(&self, step: Entry) {
        self.write_line(&Line::Step { step });
    }

    fn write_line(&self, written: &Line) {
        let mut line = Vec::new();
        history::write(&mut line, written).expect("writing to a vector succeeds");
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        // Writing fails only if the reader is gone. Then this process will be stopped soon.
        drop(std::io::stdout().write_all(&line));
    }
}
