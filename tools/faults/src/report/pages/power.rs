//! The page of the bugs that were put into the library on purpose, and whether the run detected
//! them.

use super::super::facts::PlantedBug;
use super::super::markdown;
use super::{GENERATED, in_order, out_of, section};
use markdown::{code, escaped, heads, table};

pub(super) fn page(power: &[PlantedBug]) -> String {
    let columns = ["class", "bug", "detected", "violation", "time", "arguments"];
    let rows = power.iter().map(|one| {
        vec![
            escaped(&one.class),
            format!("{}: {}", code(&one.name), escaped(&one.fault)),
            (if one.found { "yes" } else { "**no**" }).to_owned(),
            escaped(&one.said),
            format!("{:.0} s", one.seconds),
            code(&one.arguments),
        ]
    });
    let parts = [
        format!(
            "# Faults: bugs that the run detects\n\n{GENERATED}A run without violations proves \
             little unless bugs cause violations. So bugs are put into the library on purpose, one \
             at a time, and the run must detect each of them. The same run without the bug has no \
             violation.\n\nEach bug is a patch in `tools/mutants`. `cargo run -p leasehold-mutants \
             -- fault-run` tries all of them.\n\n"
        ),
        section("By class", "", &by_class(power)),
        section("Each bug", "", &table(&heads(&columns), rows)),
    ];
    parts.concat().trim_end().to_owned() + "\n"
}

pub(super) fn by_class(power: &[PlantedBug]) -> String {
    let mut classes = in_order(power.iter().map(|one| one.class.as_str()));
    classes.sort_unstable();
    let row = |name: String, all: Vec<&PlantedBug>| {
        let found = all.iter().filter(|one| one.found).count() as u64;
        let missed = all
            .iter()
            .filter(|one| !one.found)
            .map(|one| code(&one.name));
        vec![
            name,
            out_of(found, all.len() as u64),
            missed.collect::<Vec<_>>().join(", "),
        ]
    };
    let mut rows: Vec<_> = classes
        .into_iter()
        .map(|class| {
            row(
                escaped(class),
                power.iter().filter(|one| one.class == class).collect(),
            )
        })
        .collect();
    rows.push(row("all".to_owned(), power.iter().collect()));
    table(&heads(&["class of bugs", "detected", "not detected"]), rows)
}
