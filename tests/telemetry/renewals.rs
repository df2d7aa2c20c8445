//! A recorder that looks at the guard when a renewal is counted.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold::{EmbeddedRedis, LockGuard};
use leasehold_testbed::{connected, eventually};
use metrics::{Counter, CounterFn, Gauge, Histogram, Key, KeyName, Metadata, Recorder};
use metrics::{SharedString, Unit};

const LEASE: Duration = Duration::from_secs(30);

/// Notes what is left of the guard's lease whenever a renewal is counted.
#[derive(Default)]
struct Looks {
    guard: Mutex<Option<LockGuard>>,
    left: Mutex<Vec<Duration>>,
}

impl CounterFn for Looks {
    fn increment(&self, _: u64) {
        // Without a guard, the client only shows the counter.
        if let Some(guard) = &*self.guard.lock().unwrap() {
            self.left.lock().unwrap().push(guard.remaining());
        }
    }

    fn absolute(&self, _: u64) {}
}

struct OfRenewals(Arc<Looks>);

impl Recorder for OfRenewals {
    fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

    fn register_counter(&self, key: &Key, _: &Metadata<'_>) -> Counter {
        if key.name() == "leasehold_renewed_total" {
            Counter::from_arc(self.0.clone())
        } else {
            Counter::noop()
        }
    }

    fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
        Gauge::noop()
    }

    fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
        Histogram::noop()
    }
}

/// Otherwise the lease could end although its renewal was counted.
#[tokio::test(start_paused = true)]
async fn a_renewal_is_counted_when_the_guard_has_the_longer_lease() {
    let looks = Arc::new(Looks::default());
    let recorder = OfRenewals(looks.clone());
    let _recorder = metrics::set_default_local_recorder(&recorder);
    let client = connected(EmbeddedRedis::new().builder().lease(LEASE)).await;
    let guard = client.lock("x").lock().await.unwrap();
    *looks.guard.lock().unwrap() = Some(guard);
    eventually("renewed twice", async || client.stats().renewed == 2).await;
    let left = looks.left.lock().unwrap().clone();
    assert_eq!(left.len(), 2);
    assert!(left.iter().all(|left| *left > LEASE / 3 * 2), "{left:?}");
}
