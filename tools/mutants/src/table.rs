//! The table of all faults in the documentation.

use std::fmt::Write as _;
use std::path::Path;

use crate::patch::Patch;
use crate::{Result, read};

pub(crate) const PAGE: &str = "docs/dev/mutants.md";
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

fn table(patches: &[Patch]) -> String {
    let mut table = String::from("| fault | found by |\n| --- | --- |\n");
    let mut patches: Vec<_> = patches.iter().collect();
    patches.sort_by_key(|patch| (&patch.kind, &patch.name));
    for patch in patches {
        let Patch {
            name, fault, test, ..
        } = patch;
        let (place, title) = (test.place.name(), &test.name);
        let also = match (&patch.fault_run, &patch.step) {
            (Some(run), Some(_)) => format!(", fault run ({}), specification", run.class),
            (Some(run), None) => format!(", fault run ({})", run.class),
            (None, Some(_)) => ", specification".to_owned(),
            (None, None) => String::new(),
        };
        writeln!(table, "| `{name}`: {fault} | {place} `{title}`{also} |")
            .expect("a text takes everything");
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::patch::{Judged, Place, Step, Test};
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
        let row = "| `a-fault`: It opens. | simulation `seeds_hold`, fault run (lost wake), \
            specification |\n";
        assert!(
            filled.starts_with("a\n") && filled.ends_with(&format!("{row}\n{END}\nb\n")),
            "{filled}"
        );
        assert_eq!(super::filled(&filled, &[patch]).unwrap(), filled);
        assert!(super::filled("nothing", &[]).is_err());
    }
}
