//! When the machine has no time for a process: what waits then, waits for no fault of a library.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::history::What;

const EVERY: Duration = Duration::from_millis(50);
/// What is later than this is written down.
const LATE: Duration = Duration::from_millis(100);

/// Watches on a thread of its own, until it is dropped: what blocks a runtime does not stop it.
#[derive(Debug)]
pub(crate) struct Stalls {
    is_over: Arc<AtomicBool>,
    watching: Option<JoinHandle<()>>,
}

impl Stalls {
    pub(crate) fn watch(tell: impl Fn(What) + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let watching = thread::spawn(move || {
            while !ends.load(Relaxed) {
                let before = Instant::now();
                thread::sleep(EVERY);
                let late = before.elapsed().saturating_sub(EVERY);
                if late > LATE {
                    let millis = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                    tell(What::Stalled { millis });
                }
            }
        });
        Self {
            is_over,
            watching: Some(watching),
        }
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.is_over.store(true, Relaxed);
        // One that failed has said so on the terminal.
        drop(self.watching.take().map(JoinHandle::join));
    }
}
