//! What S9 writes into the pages: the table of its measurements, how many nodes a rate takes, and
//! the picture.

use super::Measured;
use super::model::{Bounds, Setting};
use crate::plot::{Look, Plot, Scale, Series};
use crate::spread::Spread;
use crate::table::{Table, grouped};

/// Locks per second that a reader may need.
const WANTED: [u32; 4] = [100_000, 200_000, 500_000, 1_000_000];
/// How busy a node should be at most, when the nodes for a rate are counted.
const BUSY: f64 = 0.7;

/// A line of the model: what it is called, how it is drawn, and its rate.
type Line = (&'static str, &'static str, fn(Bounds) -> f64);

const LINES: [Line; 5] = [
    (
        "servers: masters ÷ s",
        "stroke=\"#1a8f3c\" stroke-width=\"2\" stroke-dasharray=\"2 4\"",
        |of| of.servers,
    ),
    (
        "client: threads ÷ c",
        "stroke=\"#1f5fd0\" stroke-width=\"2\" stroke-dasharray=\"2 4\"",
        |of| of.client,
    ),
    (
        "machine: cores ÷ (c + s)",
        "stroke=\"#d08a10\" stroke-width=\"2\" stroke-dasharray=\"2 4\"",
        |of| of.cores,
    ),
    (
        "model, cores enough",
        "stroke=\"#888\" stroke-width=\"4\" stroke-dasharray=\"8 4\"",
        |of| of.with_enough_cores(),
    ),
    (
        "model: the least of them",
        "stroke=\"#000\" stroke-width=\"2\"",
        Bounds::rate,
    ),
];

pub(super) fn table(measured: &[Measured], setting: Setting) -> String {
    let mut table = Table::new("masters", measured, |one| one.masters.to_string());
    let bounds = |one: &Measured| setting.bounds(one.masters, one.costs());
    let thousand = |rate: f64| format!("{:.0}", rate / 1e3);
    table.row("measured: thousand pairs/s", |one| {
        format!("**{:.0}**", one.pairs_per_s.map(|rate| rate / 1e3))
    });
    table.row("client CPU, µs a pair: c", |one| {
        format!("{:.1}", one.client_us)
    });
    table.row("CPU of all servers, µs a pair: s", |one| {
        format!("{:.1}", one.server_us)
    });
    table.row("model: the least of them", |one| {
        let bounds = bounds(one);
        format!("**{}** ({})", thousand(bounds.rate()), bounds.least())
    });
    table.row("measured ÷ model, of each round", |one| {
        format!("{:.2}", one.of_model)
    });
    table.row("model with cores enough", |one| {
        thousand(bounds(one).with_enough_cores())
    });
    table.into_text()
}

/// How many nodes and client threads a rate takes, by the costs that were measured with the most
/// masters.
pub(super) fn nodes(measured: &[Measured]) -> String {
    let Some(most) = measured.iter().max_by_key(|one| one.masters) else {
        return String::new();
    };
    let costs = most.costs();
    let mut table = Table::new("locks per second: N", &WANTED, |rate| {
        grouped(u64::from(*rate))
    });
    let cores = |rate: &u32, us: f64, busy: f64| (f64::from(*rate) * us / 1e6 / busy).ceil();
    table.row("nodes, each busy all the time: N × s", |rate| {
        format!("{:.0}", cores(rate, costs.server_us, 1.0))
    });
    table.row(&format!("nodes, each {:.0} % busy", BUSY * 100.0), |rate| {
        format!("**{:.0}**", cores(rate, costs.server_us, BUSY))
    });
    table.row("client threads: N × c", |rate| {
        format!("{:.0}", cores(rate, costs.client_us, 1.0))
    });
    let rate = grouped_thousand(1e6 / costs.server_us);
    format!(
        "With the costs of {} masters, a node serves at most 1 ÷ s = **{rate} locks per \
         second**.\n\n{}",
        most.masters,
        table.into_text()
    )
}

/// Rounded down to thousands.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a rate is not negative, and far below 2^64"
)]
fn grouped_thousand(rate: f64) -> String {
    grouped((rate / 1e3) as u64 * 1_000)
}

pub(super) fn svg(measured: &[Measured], setting: Setting) -> String {
    let thousands = |spread: Spread| Some(spread.map(|rate| rate / 1e3));
    let bounds: Vec<_> = measured
        .iter()
        .map(|one| setting.bounds(one.masters, one.costs()))
        .collect();
    let seen = measured.iter().map(|one| one.pairs_per_s.greatest);
    let said = bounds.iter().map(|of| of.with_enough_cores().max(of.cores));
    let one_server = bounds.first().map(|of| of.servers);
    let all = seen.chain(said).chain(one_server);
    let mut series = vec![Series {
        name: "measured, with its spread",
        look: Look::Points("#c22"),
        values: measured
            .iter()
            .map(|one| thousands(one.pairs_per_s))
            .collect(),
    }];
    series.extend(LINES.iter().map(|(name, style, rate)| {
        Series {
            name,
            look: Look::Line(style),
            values: bounds
                .iter()
                .map(|of| thousands(Spread::of(vec![rate(*of)])))
                .collect(),
        }
    }));
    Plot {
        title: "Pairs per second against the number of masters",
        across: "masters",
        columns: measured.iter().map(|one| one.masters.to_string()).collect(),
        upwards: "thousand pairs per second",
        scale: Scale::linear(all.map(|rate| rate / 1e3)),
        series,
    }
    .svg()
}

#[cfg(test)]
mod tests {
    use super::{nodes, svg, table};
    use crate::scaling::Measured;
    use crate::scaling::model::Setting;
    use crate::spread::Spread;

    fn measured() -> Vec<Measured> {
        let same = |figure: f64| Spread::of(vec![figure]);
        let one = |masters| Measured {
            masters,
            pairs_per_s: same(80_000.0),
            client_us: same(10.0),
            server_us: same(8.0),
            of_model: same(1.0),
            idle: same(0.0),
        };
        vec![one(1), one(3)]
    }

    const SETTING: Setting = Setting {
        threads: 1.0,
        cores: 2.0,
    };

    #[test]
    fn the_nodes_for_a_rate_follow_from_the_cost_of_a_pair() {
        let text = nodes(&measured());
        assert!(text.contains("costs of 3 masters"), "{text}");
        assert!(text.contains("**125,000 locks per second**"), "{text}");
        assert!(text.contains("| nodes, each busy all the time: N × s | 1 | 2 | 4 | 8 |"));
        assert!(text.contains("| nodes, each 70 % busy | **2** | **3** | **6** | **12** |"));
        assert!(text.contains("| client threads: N × c | 1 | 2 | 5 | 10 |"));
    }

    #[test]
    fn the_table_has_the_least_bound_of_the_model() {
        let text = table(&measured(), SETTING);
        assert!(
            text.contains("| model: the least of them | **100** (client) | **100** (client) |")
        );
        assert_eq!(svg(&measured(), SETTING).matches("<polyline").count(), 5);
    }
}
