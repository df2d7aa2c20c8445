//! What a run reports while its command runs.
//!
//! On a terminal, the command may draw on the whole screen, or may have put the terminal into raw
//! mode. There, notices wait until the command has ended, and appear below its screen. The wait is
//! bounded: a command whose lock is lost has at most its grace. Elsewhere they are written at once,
//! so that a log has them at their time, and before the last words of the command.

use std::io::{self, IsTerminal as _};

use crate::output::complain;

#[derive(Debug)]
pub(super) struct Notices {
    is_terminal: bool,
    waiting: Vec<String>,
}

impl Notices {
    pub(super) fn new() -> Notices {
        Notices {
            is_terminal: io::stderr().is_terminal(),
            waiting: Vec::new(),
        }
    }

    pub(super) fn add(&mut self, text: impl Into<String>) {
        self.waiting.push(text.into());
        if !self.is_terminal {
            self.write();
        }
    }

    /// Writes what has waited. The command has ended.
    pub(super) fn write(&mut self) {
        for text in self.waiting.drain(..) {
            complain(&text);
        }
    }

    /// The same after a command that had no time to finish its last line.
    pub(super) fn write_on_a_new_line(&mut self) {
        if !self.waiting.is_empty() {
            // If writing fails, there is nowhere left to report that.
            drop(io::Write::write_all(&mut io::stderr(), b"\n"));
        }
        self.write();
    }
}
