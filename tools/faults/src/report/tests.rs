//! Tests of a report that is made from made-up cells.

mod input;
mod numbers;
mod shown;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use clap::ValueEnum as _;

use super::facts::{
    Fuzz, Library, Machine, ManyNames, Origin, Part, PlantedBug, Point, Promise, Target,
};
use super::sample::cell;
use super::{Facts, OURS, Report};
use crate::result::{Cell, Losses, Met, Overlaps, Renewals};
use crate::world::Kind;

/// A temporary folder, removed on drop.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("leasehold-report-{}-{name}", std::process::id()));
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).expect("the folder can be removed");
    }
}

const SPECIAL_CHARACTERS: &str = "<&>|`]_*\n(x";
const COMMIT: &str = "0123456789abcdef0123456789abcdef01234567";

/// Two deployments, two faults, three seeds and three workloads: 12 runs with 36 cells. Each run
/// has two injections.
fn matrix() -> Vec<Cell> {
    let mut cells = Vec::new();
    for deployment in ["single", "sentinel"] {
        for fault in ["freeze-client", "partition"] {
            for seed in 1..=3 {
                for workload in ["plain", "fair", "fenced"] {
                    cells.push(Cell {
                        seed,
                        operations: 1000,
                        met: Met {
                            injections: 2,
                            holders: 1,
                            waiters: 2,
                            renewals: 0,
                        },
                        ..cell(deployment, fault, workload)
                    });
                }
            }
        }
    }
    let (last, first) = (cells.len() - 1, 0);
    cells[first].violations = vec!["a sentence about a violation".to_owned()];
    cells[first].overlaps.valid = 1;
    cells[last].overlaps = Overlaps {
        excused: 2,
        invalid: 5,
        ..Overlaps::default()
    };
    cells[last].explained = vec!["plain:0 was lost by the failover at 12.3 s".to_owned()];
    cells[last].losses = Losses {
        with_cause: 3,
        longest_notice_ms: 87,
        reported_held: 4,
        longest_reported_held_ms: 65,
        ..Losses::default()
    };
    cells[last].renewals = Renewals {
        done: 9,
        failed: 2,
        lost: 1,
    };
    cells
}

/// This library and another one, with ten seeds. The other one has two holders with three of the
/// seeds.
fn compared() -> Vec<Cell> {
    let mut cells = Vec::new();
    for library in ["leasehold", "bsm/redislock"] {
        for seed in 1..=10 {
            let excused = u64::from(library != OURS && seed <= 3);
            cells.push(Cell {
                library: library.to_owned(),
                seed,
                met: Met {
                    injections: 3,
                    holders: 2,
                    ..Met::default()
                },
                overlaps: Overlaps {
                    excused,
                    ..Overlaps::default()
                },
                longest_wait_ms: 1000 * seed,
                ..cell("single", "freeze-client", "plain")
            });
        }
    }
    // Only this library has this cell, so it is not compared.
    cells.push(cell("single", "freeze-client", "fair"));
    cells
}

fn facts() -> Facts {
    let point = |names_done: u64| Point {
        names_done,
        rss_kib: 20_000 + names_done / 100,
        descriptors: 12,
        ..Point::default()
    };
    let names = ManyNames {
        names: 1_000_000,
        contended: 500_000,
        seconds: 100.5,
        series: (0..=100).map(|part| point(part * 10_000)).collect(),
        ..ManyNames::default()
    };
    let target = Target {
        name: "url".to_owned(),
        inputs: 123_456,
        seconds: 60.5,
        ..Target::default()
    };
    let found = |class: &str, found: bool| PlantedBug {
        name: format!("{class}-{found}"),
        class: class.to_owned(),
        found,
        ..PlantedBug::default()
    };
    Facts {
        origin: Origin {
            commit: COMMIT.to_owned(),
            is_clean: true,
            began: 1_763_949_840,
            ended: 1_763_957_040,
            parts: vec![Part {
                command: "the command".to_owned(),
                ..Part::default()
            }],
        },
        machine: Machine::read(),
        long: Kind::value_variants()
            .iter()
            .map(|kind| Cell {
                seconds: 3600,
                ..cell(&kind.name(), "mixed", "plain")
            })
            .collect(),
        names: Some(names),
        fuzz: Some(Fuzz {
            targets: vec![target],
            ..Fuzz::default()
        }),
        power: Some(vec![
            found("loss", true),
            found("loss", false),
            found("queue", true),
        ]),
        libraries: vec![Library {
            name: "bsm/redislock".to_owned(),
            promises: vec![Promise {
                says: SPECIAL_CHARACTERS.to_owned(),
                source: SPECIAL_CHARACTERS.to_owned(),
            }],
            ..Library::default()
        }],
        ..Facts::default()
    }
}

fn report() -> Report {
    Report {
        facts: facts(),
        matrix: matrix(),
        compared: compared(),
    }
}

fn pages(report: &Report) -> BTreeMap<String, String> {
    super::pages::all(report, &report.examples())
        .into_iter()
        .collect()
}

fn line<'a>(page: &'a str, prefix: &str) -> &'a str {
    let mut lines = page.lines();
    lines
        .find(|line| line.starts_with(prefix))
        .unwrap_or_else(|| panic!("no line begins with {prefix}: {page}"))
}
