//! The table of S9 in `docs/benchmarks.md`.

use std::fmt::Write as _;

use super::Measured;
use super::model::Setting;
use crate::Failure;

const BEGIN: &str = "<!-- Written by `bench --scenario S9 --docs docs`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

/// The page with the table of these measurements.
pub(super) fn filled(
    page: &str,
    caption: &str,
    measured: &[Measured],
    setting: Setting,
) -> Result<String, Failure> {
    let missing = "the page has no place for the table of S9";
    let (before, rest) = page.split_once(BEGIN).ok_or(missing)?;
    let (_, after) = rest.split_once(END).ok_or(missing)?;
    Ok(format!(
        "{before}{BEGIN}\n{caption}\n\n{}\n{END}{after}",
        table(measured, setting)
    ))
}

fn table(measured: &[Measured], setting: Setting) -> String {
    let mut table = String::new();
    let mut row = |what: &str, cell: &dyn Fn(&Measured) -> String| {
        let cells: Vec<_> = measured.iter().map(cell).collect();
        writeln!(table, "| {what} | {} |", cells.join(" | ")).expect("a text takes everything");
    };
    let bounds = |one: &Measured| setting.bounds(one.masters, one.costs());
    let thousand = |rate: f64| format!("{:.0}", rate / 1e3);
    row("masters", &|one| one.masters.to_string());
    row("---", &|_| "---".to_owned());
    row("measured: thousand pairs/s", &|one| {
        format!("**{:.0}**", one.pairs_per_s.map(|rate| rate / 1e3))
    });
    row("client CPU, µs a pair: c", &|one| {
        format!("{:.1}", one.client_us)
    });
    row("CPU of all servers, µs a pair: s", &|one| {
        format!("{:.1}", one.server_us)
    });
    row("bound of the client: threads ÷ c", &|one| {
        thousand(bounds(one).client)
    });
    row("bound of the servers: masters ÷ s", &|one| {
        thousand(bounds(one).servers)
    });
    row("bound of the machine: cores ÷ (c + s)", &|one| {
        thousand(bounds(one).cores)
    });
    row("model: the least of them", &|one| {
        format!(
            "**{}** ({})",
            thousand(bounds(one).rate()),
            bounds(one).least()
        )
    });
    row("measured ÷ model, of each round", &|one| {
        format!("{:.2}", one.of_model)
    });
    row("model with cores enough", &|one| {
        thousand(bounds(one).with_enough_cores())
    });
    row("client threads that would keep all servers busy", &|one| {
        format!(
            "{:.1}",
            setting.threads * bounds(one).servers / bounds(one).client
        )
    });
    row("cores that nobody used", &|one| format!("{:.2}", one.idle));
    table
}
