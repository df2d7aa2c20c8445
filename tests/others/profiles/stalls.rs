//! Whether the machine stood still: then leases end and connections too, and nothing is learned
//! about a server.

use std::cell::Cell;
use std::time::Duration;

use tokio::time::{Instant, sleep};

/// A shorter time ends neither a lease nor a connection.
const STALL: Duration = Duration::from_secs(1);

/// Knows when the machine stood still the last time.
pub(crate) struct Stalls {
    looked_at: Cell<Instant>,
    last_end: Cell<Option<Instant>>,
}

impl Stalls {
    pub(crate) fn none() -> Self {
        Stalls {
            looked_at: Cell::new(Instant::now()),
            last_end: Cell::new(None),
        }
    }

    #[expect(clippy::future_not_send, reason = "it runs on one thread")]
    pub(crate) async fn watch<T>(&self, run: impl Future<Output = T>) -> T {
        let watch = async {
            loop {
                self.look();
                sleep(STALL / 20).await;
            }
        };
        tokio::select! {
            ended = run => ended,
            () = watch => unreachable!("it never ends"),
        }
    }

    fn look(&self) {
        let now = Instant::now();
        if now - self.looked_at.replace(now) > STALL {
            self.last_end.set(Some(now));
        }
    }

    /// Also if the watch has not seen it yet.
    pub(crate) fn any_since(&self, began: Instant) -> bool {
        self.look();
        self.last_end.get().is_some_and(|ended| ended >= began)
    }
}
