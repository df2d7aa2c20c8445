//! Tests of what the pages show: incomplete reports, examples, links and names with special
//! characters.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use super::super::sample::{self, cell};
use super::super::{Facts, OURS, Report, lessons, plots, timeline};
use super::{Folder, SPECIAL_CHARACTERS, facts, matrix, pages, report};
use crate::result::Cell;

#[test]
fn an_incomplete_report_says_so_first() {
    let mut report = report();
    report.facts.missing = ["one", "two", "three", "four"].map(str::to_owned).into();
    let page = &pages(&report)["README.md"];
    let first = page.lines().filter(|line| !line.is_empty()).nth(2);
    assert_eq!(
        first,
        Some(
            "**This report is incomplete. It lacks: one; two; three; [and \
             more](#what-is-missing).**"
        )
    );
    assert!(page.contains(
        "## What is missing\n\nThis report is incomplete.\n\n- one\n- two\n- three\n- four\n"
    ));
}

#[test]
fn a_lesson_uses_the_matching_cell_with_the_lowest_seed() {
    let mut cells = matrix();
    assert!(lessons::choose(&cells.iter().collect::<Vec<_>>()).is_empty());
    for cell in cells
        .iter_mut()
        .filter(|cell| cell.seed > 1 && cell.workload == "fenced")
    {
        cell.refused_writes = 1;
    }
    cells.reverse();
    let examples = lessons::choose(&cells.iter().collect::<Vec<_>>());
    let found = examples
        .iter()
        .map(|one| (one.lesson.name, one.cell.seed, one.cell.deployment.as_str()));
    assert_eq!(
        found.collect::<Vec<_>>(),
        [("stale-write-refused", 2, "single")]
    );
}

#[test]
fn written_links_lead_to_files_and_headings() {
    let mut report = report();
    for cell in &mut report.matrix {
        cell.refused_writes = 1;
    }
    let (from, to) = (Folder::new("from"), Folder::new("to"));
    let history = sample::two_holders();
    let picture = from.0.join("fenced.svg");
    fs::write(
        &picture,
        timeline::draw(&history, &report.matrix[0], timeline::window(&history)),
    )
    .unwrap();
    // A page of an earlier report, which must be removed.
    fs::write(to.0.join("gone.md"), "[gone](gone.svg)").unwrap();
    report.write(|_| Some(picture.clone()), &to.0).unwrap();
    let files = files(&to.0);
    let names: Vec<_> = files.keys().map(String::as_str).collect();
    assert_eq!(
        names,
        [
            "README.md",
            "peers.md",
            "power.md",
            "sentinel.md",
            "sentinel.svg",
            "single.md",
            "single.svg",
            "timelines/stale-write-refused.svg"
        ]
    );
    let mut followed = 0;
    for (page, text) in files.iter().filter(|(name, _)| is_page(name)) {
        for link in text
            .split("](")
            .skip(1)
            .map(|rest| rest.split(')').next().unwrap())
        {
            let outside = link == "../../guarantees.md";
            let (file, heading) = link.split_once('#').unwrap_or((link, ""));
            assert!(
                outside || to.0.join(file).is_file(),
                "{page} has a dead link: {link}"
            );
            let heading = format!("## {}\n", heading.replace('-', " "));
            let target = files.get(file).map_or("", |text| text);
            let is_there = target.to_lowercase().contains(&heading);
            assert!(
                !link.contains('#') || is_there,
                "{page} has a dead link: {link}"
            );
            followed += 1;
        }
    }
    assert!(followed > 8);
    assert!(
        report
            .write(|_| None, &to.0)
            .unwrap_err()
            .to_string()
            .contains("the timeline of leasehold, fenced")
    );
}

#[test]
fn special_characters_in_names_are_escaped() {
    let mut special = cell(SPECIAL_CHARACTERS, SPECIAL_CHARACTERS, SPECIAL_CHARACTERS);
    (special.library, special.version, special.server) = (
        SPECIAL_CHARACTERS.to_owned(),
        SPECIAL_CHARACTERS.to_owned(),
        SPECIAL_CHARACTERS.to_owned(),
    );
    special.violations.push(SPECIAL_CHARACTERS.to_owned());
    let ours = Cell {
        library: OURS.to_owned(),
        ..special.clone()
    };
    let report = Report {
        facts: Facts {
            faults: BTreeMap::from([(
                SPECIAL_CHARACTERS.to_owned(),
                SPECIAL_CHARACTERS.to_owned(),
            )]),
            missing: vec![SPECIAL_CHARACTERS.to_owned()],
            ..facts()
        },
        matrix: vec![ours.clone()],
        compared: vec![ours.clone(), special.clone()],
    };
    for (page, text) in pages(&report) {
        // Code spans need no escaping, so they are removed.
        let outside: String = text.replace("\\`", "").split('`').step_by(2).collect();
        let without_our_tags = outside.replace("<br>", "").replace("<!--", "");
        assert!(!without_our_tags.contains('<'), "{page}: {text}");
        for table in text.split("\n\n").filter(|block| block.starts_with("| ")) {
            let columns = |line: &str| line.replace("\\|", "").matches('|').count();
            let first = columns(table.lines().next().unwrap());
            assert!(
                table.lines().all(|line| columns(line) == first),
                "{page}: {table}"
            );
        }
    }
    let mut history = sample::two_holders();
    history.push(sample::fault_begins(3000, SPECIAL_CHARACTERS));
    for event in &mut history {
        event.name = event.name.replace("plain", SPECIAL_CHARACTERS);
    }
    let pictures = [
        timeline::draw(&history, &special, timeline::window(&history)),
        plots::recovery(SPECIAL_CHARACTERS, &[&ours]),
    ];
    for picture in pictures {
        assert!(picture.contains("&lt;&amp;&gt;|"), "{picture}");
        assert!(!picture.contains("<&>"), "{picture}");
    }
}

fn is_page(name: &str) -> bool {
    Path::new(name)
        .extension()
        .is_some_and(|extension| extension == "md")
}

fn files(folder: &Path) -> BTreeMap<String, String> {
    let mut found = BTreeMap::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(next) = folders.pop() {
        for entry in fs::read_dir(next).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let name = path.strip_prefix(folder).unwrap().display().to_string();
                found.insert(name, fs::read_to_string(path).unwrap());
            }
        }
    }
    found
}
