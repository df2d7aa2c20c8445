//! The table of all faults in the documentation.

use std::fmt::Write as _;
use std::path::Path;

use crate::patch::{Judged, Patch, Step};
use crate::{Result, read};

pub(crate) const PAGE: &str = "docs/mutants.md";
const BEGIN: &str = "<!-- Written by `cargo run -p leasehold-mutants -- table`. -->\n";
const END: &str = "<!-- The end of what is written. -->";

/// Writes the table.
pub(crate) fn write(root: &Path, patches: &[Patch]) -> Result<()> {
    let path = root.join(PAGE);
    crate::write(&path, &filled(&read(&path)?, patches)?)
}

/// Whether the table agrees with the patches.
pub(crate) fn is_current(root: &Path, patches: &[Patch]) -> Result<bool> {
    let page = read(&root.join(PAGE))?;
    Ok(filled(&page, patches)? == page)
}

/// The page with the present table.
fn filled(page: &str, patches: &[Patch]) -> Result<String> {
    let missing = || format!("{PAGE} has no place for the table");
    let (before, rest) = page.split_once(BEGIN).ok_or_else(missing)?;
    let (_, after) = rest.split_once(END).ok_or_else(missing)?;
    Ok(format!("{before}{BEGIN}\n{}\n{END}{after}", table(patches)))
}

fn shown(step: &Step) -> String {
    let says = &step.says;
    match &step.judged {
        Judged::Own => says.clone(),
        Judged::Test(name) => format!("{says} (`{name}`)"),
        Judged::Worlds => format!("{says} (simulated worlds)"),
    }
}

fn table(patches: &[Patch]) -> String {
    let mut table = String::from(
        "| fault | of | found by | before | fault run | the specification |\n| --- | --- | --- | --- | --- | --- |\n",
    );
    let mut patches: Vec<_> = patches.iter().collect();
    patches.sort_by_key(|patch| (&patch.kind, &patch.name));
    for Patch {
        name,
        fault,
        kind,
        test,
        was,
        fault_run,
        step,
        ..
    } in patches
    {
        let env = test
            .env
            .iter()
            .map(|(name, value)| format!(", `{name}={value}`"));
        let env = env.collect::<Vec<_>>().concat();
        let (place, title) = (test.place.name(), &test.name);
        let was = was.as_deref().unwrap_or("");
        let seen = fault_run.as_ref().map(|fault_run| {
            let runs = fault_run.runs.iter().map(|run| format!("`{run}`"));
            let (shows, runs) = (fault_run.shows.join("” or “"), runs.collect::<Vec<_>>());
            format!("{}: “{shows}”: {}", fault_run.class, runs.join(" or "))
        });
        let seen = seen.unwrap_or_default();
        let step = step.as_ref().map_or_else(String::new, shown);
        let row = format!(
            "`{name}`: {fault} | {kind} | {place}, `{title}`{env} | {was} | {seen} | {step}"
        );
        writeln!(table, "| {row} |").expect("a text takes everything");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{Place, Test};
    use crate::published::FaultRun;

    const RUNS: &str =
        "--fault none --deployment single --seed 1 | --fault none --deployment five --seed 1";

    #[test]
    fn the_text_between_the_marks_is_replaced() {
        let patch = Patch {
            name: "a-fault".into(),
            path: "x".into(),
            fault: "It opens.".into(),
            kind: "plain".into(),
            was: Some("survived".into()),
            test: Test {
                place: Place::Tests("simulation".into()),
                name: "seeds_hold".into(),
                env: vec![("A".into(), "1".into())],
            },
            limit: std::time::Duration::ZERO,
            hangs: false,
            fault_run: Some(
                FaultRun::parse(RUNS, "lost wake".into(), "was held by").expect("right"),
            ),
            step: Some(Step {
                says: "granted to two".into(),
                judged: Judged::Worlds,
            }),
            files: Vec::new(),
        };
        let page = format!("a\n{BEGIN}old\n{END}\nb\n");
        let filled = filled(&page, std::slice::from_ref(&patch)).unwrap();
        let row = "| `a-fault`: It opens. | plain | simulation, `seeds_hold`, `A=1` | survived \
                   | lost wake: “was held by”: `--fault none --deployment single --seed 1` or \
                   `--fault none --deployment five --seed 1` | granted to two (simulated worlds) |\n";
        assert!(
            filled.starts_with("a\n") && filled.ends_with(&format!("{row}\n{END}\nb\n")),
            "{filled}"
        );
        assert_eq!(super::filled(&filled, &[patch]).unwrap(), filled);
        assert!(super::filled("nothing", &[]).is_err());
    }
}
