//! The name, type, unit and help of every metric.
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

        /// The counters of `Stats` are metrics too, named `leasehold.` and the name of the field.
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
    WAIT = "leasehold.acquire.duration": Histogram, Seconds, ["kind", "outcome", "name"];
    /// Script calls of one acquisition; none if it was handed over
    CALLS = "leasehold.acquire.calls": Histogram, Count, ["kind", "name"];
    /// Acquisitions under way: nearly all of them wait
    WAITING = "leasehold.acquire.active": Gauge, Count, ["kind", "name"];
    /// Holds of this process
    HELD = "leasehold.hold.active": Gauge, Count, ["kind", "name"];
    /// How long holds lasted, by how they ended
    HOLD = "leasehold.hold.duration": Histogram, Seconds, ["kind", "end", "name"];
    /// How late renewals were sent, against a third of the lease
    LAG = "leasehold.renewal.lag": Histogram, Seconds, ["kind", "name"];
    /// Holds lost before they were released
    LOSSES = "leasehold.losses": Counter, Count, ["kind", "reason", "name"];
    /// How long it took until Redis had confirmed a release
    RELEASE = "leasehold.release.duration": Histogram, Seconds, ["kind", "outcome", "name"];
    /// Connections that were made again
    RECONNECTS = "leasehold.reconnects": Counter, Count, [];
    /// Times that another server, or the same after a restart, was found to serve some of the keys
    FAILOVERS = "leasehold.failovers": Counter, Count, [];
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
