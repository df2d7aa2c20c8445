//! Whether the facade `metrics` has a recorder.

use metrics::{NoopRecorder, Recorder};

/// Whether there is a recorder. If that is uncertain, the answer is yes.
pub(super) fn is_listened() -> bool {
    metrics::with_recorder(|recorder| !is_none(recorder))
}

/// True if this is the facade's no-op recorder. Building a key with its labels costs more than this
/// check.
fn is_none(recorder: &dyn Recorder) -> bool {
    let recorder: *const (dyn Recorder + '_) = recorder;
    let none: *const dyn Recorder = recorder.cast::<NoopRecorder>();
    // Equal method tables call the same code, which does nothing. A debug build may have the table
    // more than once. Then this reports a recorder, which only costs time. `benches/telemetry`
    // measures an optimised build.
    std::ptr::eq(recorder, none)
}

#[cfg(test)]
mod tests {
    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder};
    use metrics::{SharedString, Unit, with_local_recorder};

    use super::is_listened;

    /// A recorder without size, like the no-op recorder of the facade.
    struct Forgetful;

    impl Recorder for Forgetful {
        fn describe_counter(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_gauge(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn describe_histogram(&self, _: KeyName, _: Option<Unit>, _: SharedString) {}

        fn register_counter(&self, _: &Key, _: &Metadata<'_>) -> Counter {
            Counter::noop()
        }

        fn register_gauge(&self, _: &Key, _: &Metadata<'_>) -> Gauge {
            Gauge::noop()
        }

        fn register_histogram(&self, _: &Key, _: &Metadata<'_>) -> Histogram {
            Histogram::noop()
        }
    }

    #[test]
    fn a_recorder_without_size_listens() {
        with_local_recorder(&Forgetful, || assert!(is_listened()));
    }

    #[cfg(not(debug_assertions))]
    #[test]
    fn without_a_recorder_nobody_listens() {
        assert!(!is_listened());
    }
}
