//! What comes on standard input: `stop`, or its end; `freeze-before-write UNTIL`; `block MS`.

use std::io::{self, stdin};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, raise};
use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

use crate::clock;

#[derive(Clone, Debug)]
pub(crate) struct Orders {
    stop: watch::Receiver<bool>,
    /// Of the monotonic clock.
    freeze_until: Arc<AtomicU64>,
}

impl Orders {
    /// It stops after this time anyway.
    pub(crate) fn listen(length: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let freeze_until = Arc::<AtomicU64>::default();
        let ordered = freeze_until.clone();
        let (runtime, by_time) = (Handle::current(), stop.clone());
        tokio::spawn(async move {
            sleep(length).await;
            by_time.send_replace(true);
        });
        thread::spawn(move || {
            for line in stdin().lines().map_while(Result::ok) {
                match line.split_whitespace().collect::<Vec<_>>()[..] {
                    ["stop"] => break,
                    ["freeze-before-write", until] => {
                        ordered.store(until.parse().expect("a time"), SeqCst);
                    }
                    ["block", millis] => {
                        let millis = millis.parse().expect("a number of milliseconds");
                        block(&runtime, Duration::from_millis(millis));
                    }
                    _ => {}
                }
            }
            stop.send_replace(true);
        });
        Orders { stop: stopped, freeze_until }
    }

    pub(crate) fn stopping(&self) -> bool {
        *self.stop.borrow()
    }

    /// Stops the process, if that was ordered and nobody has done it yet; returns when the process goes on.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        if clock::monotonic() < self.freeze_until.swap(0, SeqCst) {
            // To this thread, so that it is delivered before the call returns. One to the process may come later.
            raise(Signal::SIGSTOP)?;
        }
        Ok(())
    }

    /// Ends early if the worker is to stop.
    pub(crate) async fn pause(&mut self, length: Duration) {
        // A time-out is the usual end.
        drop(timeout(length, self.stop.wait_for(|&stop| stop)).await);
    }
}

/// Every thread of the runtime stands still, and with it the library, which has no other.
fn block(runtime: &Handle, length: Duration) {
    let until = Instant::now() + length;
    for _ in 0..runtime.metrics().num_workers() {
        runtime
            .spawn(async move { thread::sleep(until.saturating_duration_since(Instant::now())) });
    }
}
