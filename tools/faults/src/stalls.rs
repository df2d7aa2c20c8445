//! Detects times in which the machine did not schedule a process. Delays at such times are not
//! faults of a library.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crate::history::What;

const EVERY: Duration = Duration::from_millis(50);
/// Shorter delays are not recorded.
const LATE: Duration = Duration::from_millis(100);

/// Measures delays until it is dropped. It uses its own thread, so that a blocked runtime does not
/// count as a stall.
#[derive(Debug)]
pub(crate) struct Stalls {
    is_over: Arc<AtomicBool>,
    watching: Option<JoinHandle<()>>,
}

impl Stalls {
    /// Passes on each delay that is long enough to be recorded.
    pub(crate) fn record(record: impl Fn(What) + Send + 'static) -> Self {
        Stalls::watch(move |late| {
            if late > LATE {
                let millis = u64::try_from(late.as_millis()).unwrap_or(u64::MAX);
                record(What::Stalled { millis });
            }
        })
    }

    /// Passes on every delay, many times a second.
    pub(crate) fn watch(mut look: impl FnMut(Duration) + Send + 'static) -> Self {
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = is_over.clone();
        let watching = thread::spawn(move || {
            while !ends.load(Relaxed) {
                let before = Instant::now();
                thread::sleep(EVERY);
                look(before.elapsed().saturating_sub(EVERY));
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
        // A panic of the thread was already printed.
        drop(self.watching.take().map(JoinHandle::join));
    }
}
