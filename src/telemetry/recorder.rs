//! Whether the facade `metrics` has a recorder.

use metrics::{NoopRecorder, Recorder};

/// Whether there is a recorder. If in doubt there is.
pub(super) fn is_listened() -> bool {
    metrics::with_recorder(|recorder| !is_none(recorder))
}

/// Whether it is the one that the facade has while there is none. A key with its labels costs more than that.
fn is_none(recorder: &dyn Recorder) -> bool {
    let recorder: *const (dyn Recorder + '_) = recorder;
    let none: *const dyn Recorder = recorder.cast::<NoopRecorder>();
    // Tables of methods that are equal call the same code, which does nothing. A debug build has this table more than
    // once; then it seems that somebody listens, which only costs. `benches/telemetry` shows an optimised build.
    std::ptr::eq(recorder, none)
}

#[cfg(test)]
mod tests {
    use metrics::{Counter, Gauge, Histogram, Key, KeyName, Metadata, Recorder};
    use metrics::{SharedString, Unit, with_local_recorder};

    use super::is_listened;

    /// Without size, as the one of the facade.
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
