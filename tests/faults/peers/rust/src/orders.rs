//! What comes on standard input: `stop`, or its end; `block MS`.

use std::io::stdin;
use std::thread;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};

#[derive(Clone, Debug)]
pub(crate) struct Orders {
    stop: watch::Receiver<bool>,
}

impl Orders {
    /// It stops after this time anyway.
    pub(crate) fn listen(length: Duration) -> Self {
        let (stop, stopped) = watch::channel(false);
        let (runtime, by_time) = (Handle::current(), stop.clone());
        tokio::spawn(async move {
            sleep(length).await;
            by_time.send_replace(true);
        });
        thread::spawn(move || {
            for line in stdin().lines().map_while(Result::ok) {
                match line.split_whitespace().collect::<Vec<_>>()[..] {
                    ["stop"] => break,
                    ["block", millis] => {
                        let millis = millis.parse().expect("a number of milliseconds");
                        block(&runtime, Duration::from_millis(millis));
                    }
                    _ => {}
                }
            }
            stop.send_replace(true);
        });
        Orders { stop: stopped }
    }

    pub(crate) fn stopping(&self) -> bool {
        *self.stop.borrow()
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
