//! Tests of reading the results, and of listing what is missing.

use std::fs;

use clap::ValueEnum as _;

use super::super::facts::ManyNames;
use super::super::missing::{Plan, Repository, left_out, missing};
use super::super::runs::Runs;
use super::super::sample::cell;
use super::super::{Facts, Report};
use super::{COMMIT, Folder, matrix, pages, report};
use crate::fault;
use crate::result::Cell;
use crate::world::Kind;

#[test]
fn every_missing_part_is_listed() {
    let mut report = report();
    report.matrix.clear();
    for kind in Kind::value_variants() {
        for fault in fault::all().filter(|fault| fault.on.contains(kind)) {
            for seed in 1..=2 {
                report.matrix.push(Cell {
                    seed,
                    ..cell(&kind.name(), fault.name, "plain")
                });
            }
        }
    }
    let plan = Plan {
        commit: COMMIT.to_owned(),
        clean: true,
        seeds: 2,
        peer_seeds: 10,
        peers: "leasehold".to_owned(),
        peer_runs: "single:freeze-client,partition".to_owned(),
        fuzz: "url".to_owned(),
        ..Plan::default()
    };
    let repository = Repository {
        commit: COMMIT.to_owned(),
        is_clean: true,
    };
    let missing_parts = |plan: &Plan, repository: &Repository, report: &Report| {
        missing(Some(plan), repository, report, |_| true)
    };
    assert_eq!(
        missing_parts(&plan, &repository, &report),
        Vec::<String>::new()
    );

    let (mut seeds, mut peers) = (report.clone(), report.clone());
    seeds.matrix.remove(0);
    assert_eq!(
        missing_parts(&plan, &repository, &seeds),
        ["leasehold under freeze-client, one server: 1 of 2 seeds"]
    );
    peers.compared.retain(|cell| cell.seed < 10);
    assert_eq!(
        missing_parts(&plan, &repository, &peers),
        ["leasehold under freeze-client, one server: 9 of 10 seeds"]
    );

    let dirty = Plan {
        clean: false,
        ..plan.clone()
    };
    assert_eq!(
        missing_parts(&dirty, &repository, &report),
        ["a clean work tree at the beginning"]
    );
    let changed = Repository {
        is_clean: false,
        ..repository.clone()
    };
    assert_eq!(
        missing_parts(&plan, &changed, &report),
        ["a clean work tree at the end"]
    );
    let other = Repository {
        commit: "other".to_owned(),
        ..repository.clone()
    };
    assert!(missing_parts(&plan, &other, &report)[0].starts_with("one commit for all"));
    assert!(missing(None, &repository, &report, |_| true)[0].starts_with("a record of the commit"));
    let more = Plan {
        fuzz: "url,names".to_owned(),
        ..plan.clone()
    };
    assert_eq!(
        missing_parts(&more, &repository, &report),
        ["bad input: names"]
    );

    report.facts = Facts::default();
    let all = missing_parts(&plan, &repository, &report).join("; ");
    for part in [
        "the long run on Cluster",
        "the run of many names",
        "bad input",
        "the bugs that the run detects",
    ] {
        assert!(all.contains(part), "{part}: {all}");
    }
}

#[test]
fn cells_whose_fault_met_no_holder_are_left_out() {
    let mut report = report();
    for cell in report
        .matrix
        .iter_mut()
        .filter(|cell| cell.workload == "fair" && cell.deployment == "single")
    {
        cell.met.holders = u64::from(cell.fault == "partition" && cell.seed == 3);
    }
    let left_out = left_out(&report, &["leasehold-five-cut-1".to_owned()], |_| true).join("\n");
    assert!(
        left_out.contains("leasehold, fair under freeze-client, one server: no injection met"),
        "{left_out}"
    );
    assert!(!left_out.contains("fair under partition"), "{left_out}");
    assert!(
        left_out.contains("leasehold-five-cut-1: the run left no result"),
        "{left_out}"
    );
}

#[test]
fn runs_are_read_from_their_folders_in_the_order_of_the_report() {
    let folder = Folder::new("runs");
    for (name, cells) in [("b", &matrix()[3..6]), ("a", &matrix()[..3])] {
        fs::create_dir_all(folder.0.join(name)).unwrap();
        fs::write(
            folder.0.join(name).join("cells.json"),
            serde_json::to_string(cells).unwrap(),
        )
        .unwrap();
    }
    fs::create_dir_all(folder.0.join("without")).unwrap();
    fs::write(folder.0.join("without/log-1"), "").unwrap();
    let runs = Runs::read(&folder.0).unwrap();
    let found: Vec<_> = runs
        .cells
        .iter()
        .map(|cell| (cell.seed, cell.workload.as_str()))
        .collect();
    assert_eq!(
        found,
        [
            (1, "plain"),
            (1, "fair"),
            (1, "fenced"),
            (2, "plain"),
            (2, "fair"),
            (2, "fenced")
        ]
    );
    assert_eq!(runs.without_result, ["without"]);
    assert_eq!(
        runs.timeline(&runs.cells[3]),
        Some(folder.0.join("b/plain.svg"))
    );
    assert_eq!(runs.timeline(&matrix()[7]), None);
}

#[test]
fn the_json_has_a_line_for_each_cell() {
    let report = report();
    let json = report.to_json().unwrap();
    assert_eq!(serde_json::from_str::<Report>(&json).unwrap(), report);
    assert!(
        json.lines()
            .filter(|line| line.starts_with("{\"library\""))
            .count()
            == 57
    );
}

#[test]
fn results_of_the_names_and_fuzzing_runs_are_read() {
    let names = r#"{"violations": [], "seed": 5, "server": "Redis 7.0.15", "seconds": 1.5,
        "names": 2, "contended": 1, "faults": {"cut": 3},
        "left": {"channels": 0, "others": []}, "rest_seconds": 0.1,
        "at_rest": {"names_done": 2, "ms": 9, "rss_kib": 12, "descriptors": 3, "threads": 4,
            "holds": 1, "waiting": 2},
        "series": [{"names_done": 1, "rss_kib": 11, "server_keys": 3}]}"#;
    let names: ManyNames = serde_json::from_str(names).unwrap();
    assert_eq!(
        (
            names.at_rest.rss_kib,
            names.at_rest.entries(),
            names.series.len()
        ),
        (12, 3, 1)
    );
    let fuzz = r#"{"seed": 1, "engine": "random", "overflow_checks": true, "targets": [
        {"name": "url", "inputs": 7, "seconds": 0.5, "panics": 0, "hangs": 0,
            "corpus": 2, "peak_bytes": 4096},
        {"name": "bytes", "inputs": 9, "seconds": 0.0, "panics": 0, "hangs": 1,
            "corpus": 2, "peak_bytes": 0}]}"#;
    let facts = Facts {
        fuzz: serde_json::from_str(fuzz).unwrap(),
        names: Some(names),
        ..Facts::default()
    };
    let page = &pages(&Report {
        facts,
        ..Report::default()
    })["README.md"];
    assert!(page.contains("| url | 7 | 0 s | 0 | 0 | 4 KiB |"), "{page}");
    assert!(page.contains("| bytes | 9 | – | 0 | **1** | – |"), "{page}");
    assert!(page.contains("under 3 × cut (seed 5)"), "{page}");
}
