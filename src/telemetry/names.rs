//! Every name that this crate gives to a span, an event, a metric, a field or a label.
//!
//! Labels are bounded: kinds, outcomes and reasons are words of this crate. The name of a lock becomes a
//! label only through the function that the user sets. `docs/telemetry.md` has the same names in tables, and
//! a test compares them.

/// The target of all spans and events.
#[cfg(feature = "tracing")]
pub(super) const TARGET: &str = "leasehold";

#[cfg(feature = "metrics")]
pub(super) use metric::ALL as METRICS;

#[cfg(feature = "metrics")]
pub(super) mod metric {
    use metrics::Unit;

    /// A metric as exporters describe it.
    pub(in crate::telemetry) struct Metric {
        pub(in crate::telemetry) name: &'static str,
        pub(in crate::telemetry) shape: Shape,
        pub(in crate::telemetry) unit: Unit,
        pub(in crate::telemetry) labels: &'static [&'static str],
        pub(in crate::telemetry) help: &'static str,
    }

    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub(in crate::telemetry) enum Shape {
        Counter,
        Gauge,
        Histogram,
    }

    pub(in crate::telemetry) const WAIT: &str = "leasehold.acquire.duration";
    pub(in crate::telemetry) const CALLS: &str = "leasehold.acquire.calls";
    pub(in crate::telemetry) const WAITING: &str = "leasehold.acquire.active";
    pub(in crate::telemetry) const HELD: &str = "leasehold.hold.active";
    pub(in crate::telemetry) const HOLD: &str = "leasehold.hold.duration";
    pub(in crate::telemetry) const LAG: &str = "leasehold.renewal.lag";
    pub(in crate::telemetry) const LOSSES: &str = "leasehold.losses";
    pub(in crate::telemetry) const RELEASE: &str = "leasehold.release.duration";
    pub(in crate::telemetry) const RECONNECTS: &str = "leasehold.reconnects";
    pub(in crate::telemetry) const FAILOVERS: &str = "leasehold.failovers";

    const fn metric(
        shape: Shape,
        name: &'static str,
        unit: Unit,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Metric {
        Metric {
            name,
            shape,
            unit,
            labels,
            help,
        }
    }

    /// In addition, each counter of `Stats` is a metric named `leasehold.` and its name.
    pub(in crate::telemetry) const ALL: &[Metric] = &[
        metric(
            Shape::Histogram,
            WAIT,
            Unit::Seconds,
            &["kind", "outcome", "name"],
            "How long acquisitions took, whichever way they ended",
        ),
        metric(
            Shape::Histogram,
            CALLS,
            Unit::Count,
            &["kind", "name"],
            "Script calls of one acquisition; none if it was handed over",
        ),
        metric(
            Shape::Gauge,
            WAITING,
            Unit::Count,
            &["kind", "name"],
            "Acquisitions under way: nearly all of them wait",
        ),
        metric(
            Shape::Gauge,
            HELD,
            Unit::Count,
            &["kind", "name"],
            "Holds of this process",
        ),
        metric(
            Shape::Histogram,
            HOLD,
            Unit::Seconds,
            &["kind", "end", "name"],
            "How long holds lasted, by how they ended",
        ),
        metric(
            Shape::Histogram,
            LAG,
            Unit::Seconds,
            &["kind", "name"],
            "How late renewals were sent, against a third of the lease",
        ),
        metric(
            Shape::Counter,
            LOSSES,
            Unit::Count,
            &["kind", "reason", "name"],
            "Holds lost before they were released",
        ),
        metric(
            Shape::Histogram,
            RELEASE,
            Unit::Seconds,
            &["kind", "outcome", "name"],
            "How long it took until Redis had confirmed a release",
        ),
        metric(
            Shape::Counter,
            RECONNECTS,
            Unit::Count,
            &[],
            "Connections that were made again",
        ),
        metric(
            Shape::Counter,
            FAILOVERS,
            Unit::Count,
            &[],
            "Times that another server, or the same after a restart, was found to serve some of the keys",
        ),
    ];
}

#[cfg(all(test, feature = "metrics"))]
mod tests {
    use std::fmt::Write as _;

    use super::metric::{ALL, Metric, Shape};
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
    fn the_documentation_has_them_all() {
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
