//! The orders from standard input: `stop`, `freeze-before-write UNTIL` and `block MS`. The end of
//! the input means `stop`.

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
    /// A time of the monotonic clock.
    freeze_until: Arc<AtomicU64>,
}

impl Orders {
    /// Reads orders from standard input. Without a `stop`, the client stops after this time.
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

    /// Stops the process if that was ordered and no other worker has done it yet. Returns when the
    /// process continues.
    pub(crate) fn freeze(&self) -> io::Result<()> {
        if clock::monotonic() < self.freeze_until.swap(0, SeqCst) {
            // Signal this thread, so that the signal is delivered before the call returns. A signal
            // to the process may be delivered later.
            raise(Signal::SIGSTOP)?;
        }
        Ok(())
    }

    /// Sleeps. Returns early if the worker must stop.
    pub(crate) async fn pause(&mut self, length: Duration) {
        // A timeout is the usual end of the pause.
        drop(timeout(length, self.stop.wait_for(|&stop| stop)).await);
    }
}

/// Blocks every thread of the runtime. This blocks the library too, because it has no threads of
/// its own.
fn block(runtime: &Handle, length: Duration) {
    let until = Instant::now() + length;
    for _ in 0..runtime.metrics().num_workers() {
        runtime
            .spawn(async move { thread::sleep(until.saturating_duration_since(Instant::now())) });
    }
}
