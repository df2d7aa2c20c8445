//! The name, type, unit and help of every metric.
//!
//! Names are those of Prometheus, with the unit and `_total`, so that every exporter shows the same
//! ones.
//!
//! Labels have few values: kinds, outcomes and reasons are fixed words. The name of a lock becomes
//! a label only through the function that the user sets. `docs/telemetry.md` has a table of the
//! same names, and a test compares the two.

use metrics::Unit;

/// A metric as exporters describe it.
pub(super) struct Metric {
    pub(super) name: &'static str,
    pub(super) shape: Shape,
    pub(super) unit: Unit,
    pub(super) labels: &'static [&'static str],
    pub(super) help: &'static str,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Counter,
    Gauge,
    Histogram,
}

/// A constant for each metric, and a list of all. The doc comment is the help text that exporters
/// show.
macro_rules! metrics {
    ($(
        #[doc = $help:literal]
        $constant:ident = $name:literal: $shape:ident, $unit:ident, $labels:expr;
    )*) => {
        $(pub(super) const $constant: &str = $name;)*

        /// The counters of `Stats` are metrics too: `leasehold_lost_total` is the field `lost`.
        pub(super) const ALL: &[Metric] = &[$(Metric {
            name: $name,
            shape: Shape::$shape,
            unit: Unit::$unit,
            labels: &$labels,
            help: $help.trim_ascii_start(),
        },)*];
    };
}

metrics! {
    /// How long acquisitions took, whichever way they ended
    WAIT = "leasehold_acquire_duration_seconds": Histogram, Seconds, ["kind", "outcome", "name"];
    /// Script calls of one acquisition; none if it was handed over
    CALLS = "leasehold_acquire_calls": Histogram, Count, ["kind", "name"];
    /// Acquisitions under way: nearly all of them wait
    WAITING = "leasehold_acquire_active": Gauge, Count, ["kind", "name"];
    /// How long the oldest acquisition under way has taken so far
    OLDEST_WAIT = "leasehold_acquire_oldest_seconds": Gauge, Seconds, ["kind", "name"];
    /// Acquisitions that Redis refused or did not answer
    FAILURES = "leasehold_acquire_failures_total": Counter, Count, [];
    /// Holds of this process
    HELD = "leasehold_hold_active": Gauge, Count, ["kind", "name"];
    /// How long the oldest hold of this process has lasted so far
    OLDEST_HOLD = "leasehold_hold_oldest_seconds": Gauge, Seconds, ["kind", "name"];
    /// How long holds lasted, by how they ended
    HOLD = "leasehold_hold_duration_seconds": Histogram, Seconds, ["kind", "end", "name"];
    /// How late renewals were sent, against a third of the lease
    LAG = "leasehold_renewal_lag_seconds": Histogram, Seconds, ["kind", "name"];
    /// Holds lost before they were released
    LOSSES = "leasehold_losses_total": Counter, Count, ["kind", "reason", "name"];
    /// How long it took until Redis had confirmed a release
    RELEASE = "leasehold_release_duration_seconds": Histogram, Seconds, ["kind", "outcome", "name"];
    /// How long a client has lacked a connection to the server so far; zero if it has all
    DISCONNECTED = "leasehold_disconnected_seconds": Gauge, Seconds, ["server"];
    /// Connections that were made again
    RECONNECTS = "leasehold_reconnects_total": Counter, Count, [];
    /// Times that another server, or the same after a restart, was found to serve some of the keys
    FAILOVERS = "leasehold_failovers_total": Counter, Count, [];
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::{ALL, Metric, Shape};
    use crate::stats::METRICS as STATS;

    fn table() -> String {
        let mut table =
            String::from("| metric | shape | labels | what it is |\n| --- | --- | --- | --- |\n");
        for Metric {
            name,
            shape,
            labels,
            help,
            ..
        } in ALL
        {
            let shape = match shape {
                Shape::Counter => "counter",
                Shape::Gauge => "gauge",
                Shape::Histogram => "histogram",
            };
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            writeln!(
                table,
                "| `{name}` | {shape} | {} | {help} |",
                labels.join(", ")
            )
            .expect("text");
        }
        for (name, help) in STATS {
            let help = help.trim().trim_end_matches('.');
            writeln!(table, "| `{name}` | counter | | {help} |").expect("text");
        }
        table
    }

    #[test]
    fn the_page_lists_every_metric() {
        let page = include_str!("../../docs/telemetry.md");
        let (begin, end) = ("<!-- metrics: begin -->\n", "<!-- metrics: end -->");
        let documented = page
            .split(begin)
            .nth(1)
            .and_then(|rest| rest.split(end).next());
        assert!(
            documented == Some(&table()),
            "put this between the two marks:\n{}",
            table()
        );
    }
}
