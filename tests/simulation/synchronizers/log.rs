//! What happened in one run, and the first thing that must not be.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::time::Instant;

#[derive(Clone)]
pub(crate) struct Log {
    start: Instant,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    trace: Vec<String>,
    violation: Option<String>,
}

impl Log {
    pub(crate) fn new() -> Self {
        Log { start: Instant::now(), state: Arc::default() }
    }

    pub(crate) fn note(&self, text: &str) {
        let at = self.start.elapsed();
        self.state.lock().trace.push(format!("{:>12.6} {text}", at.as_secs_f64()));
    }

    pub(crate) fn violation(&self, text: String) {
        self.note(&format!("VIOLATION {text}"));
        self.state.lock().violation.get_or_insert(text);
    }

    pub(crate) fn verdict(&self) -> Option<String> {
        self.state.lock().violation.clone()
    }

    pub(crate) fn trace(&self) -> Vec<String> {
        self.state.lock().trace.clone()
    }
}
