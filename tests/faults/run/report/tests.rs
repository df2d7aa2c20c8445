//! The report of made-up cells: nothing is lost on the way to the pages, and no name breaks them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::facts::{Fuzz, Library, Machine, ManyNames, Point, Target};
use super::sample::{self, cell};
use super::*;
use crate::result::Overlaps;

/// A folder of its own, gone at the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path =
            std::env::temp_dir().join(format!("leasehold-report-{}-{name}", std::process::id()));
        Self(path)
    }

    fn with_pictures(self, cells: &[Cell], facts: &Facts) -> Self {
        for cell in cells.iter().chain(&facts.long) {
            let path = self.0.join(picture_of(cell));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            let history = sample::two_holders();
            fs::write(path, timeline::draw(&history, cell, timeline::window(&history))).unwrap();
        }
        self
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        if self.0.exists() {
            fs::remove_dir_all(&self.0).expect("it is ours");
        }
    }
}

const ODD: &str = "<&>|`]_*\n(x";

fn cells() -> Vec<Cell> {
    let mut cells = Vec::new();
    for deployment in ["single", "sentinel"] {
        for fault in ["stop-client", "failover"] {
            for workload in ["plain", "fair", "read_write"] {
                cells.push(Cell {
                    operations: 1000 + cells.len() as u64,
                    ..cell(deployment, fault, workload)
                });
            }
        }
    }
    cells[3].overlaps =
        Overlaps { excused: 2, invalid: 5, longest_told_ms: 87, ..Overlaps::default() };
    cells[3].explained = vec!["plain:0 was lost by the failover at 12.3 s".to_owned()];
    cells[4].violations = vec!["a sentence of what must not be".to_owned()];
    cells[4].overlaps.valid = 1;
    for fault in ["stop-client", "failover"] {
        let peer = cell("single", fault, "plain");
        let operations = 2000 + cells.len() as u64;
        cells.push(Cell {
            library: "bsm/redislock".to_owned(),
            version: "9".to_owned(),
            operations,
            ..peer
        });
    }
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
    let target =
        Target { name: "url".to_owned(), inputs: 123_456, seconds: 60.5, ..Target::default() };
    Facts {
        date: "2026-01-02".to_owned(),
        command: "cargo run --release -p leasehold-faults -- all".to_owned(),
        machine: Machine::read(),
        long: vec![Cell { seconds: 3600, ..cell("single", "mixed-hour", "all") }],
        names: Some(names),
        fuzz: Some(Fuzz { targets: vec![target], ..Fuzz::default() }),
        libraries: BTreeMap::from([(
            "bsm/redislock".to_owned(),
            Library { promises: ODD.to_owned(), ..Library::default() },
        )]),
        ..Facts::default()
    }
}

#[test]
fn the_report_is_made_again_from_its_json() {
    let (cells, facts) = (cells(), facts());
    let folder = Folder::new("again").with_pictures(&cells, &facts);
    write(&cells, &facts, &folder.0).unwrap();
    let read = read(&folder.0.join(RESULTS)).unwrap();
    assert_eq!((&read.cells, &read.facts), (&cells, &facts));
    let before = files(&folder.0);
    for name in before.keys().filter(|name| is_page(name) || *name == "recovery.svg") {
        fs::remove_file(folder.0.join(name)).unwrap();
    }
    from_json(&folder.0).unwrap();
    assert_eq!(files(&folder.0), before);
}

#[test]
fn every_cell_is_on_a_page() {
    let (cells, facts) = (cells(), facts());
    let pages: String = pages::all(&cells, &facts).into_iter().map(|(_, text)| text).collect();
    for cell in cells.iter().chain(&facts.long) {
        let shown = markdown::link(&markdown::number(cell.operations), &picture_of(cell));
        assert!(pages.contains(&shown), "{shown} is nowhere");
        for sentence in cell.violations.iter().chain(&cell.explained) {
            assert!(pages.contains(sentence), "{sentence} is nowhere");
        }
    }
}

#[test]
fn links_lead_to_files() {
    let (cells, facts) = (cells(), facts());
    let folder = Folder::new("links").with_pictures(&cells, &facts);
    write(&cells, &facts, &folder.0).unwrap();
    let mut followed = 0;
    for (page, text) in files(&folder.0).iter().filter(|(name, _)| is_page(name)) {
        for link in text.split("](").skip(1).map(|rest| rest.split(')').next().unwrap()) {
            let outside = link == "../guarantees.md";
            assert!(outside || folder.0.join(link).is_file(), "{page} leads nowhere: {link}");
            followed += 1;
        }
    }
    assert!(followed > cells.len());
}

#[test]
fn a_picture_that_is_missing_is_told() {
    let (cells, facts) = (cells(), facts());
    let folder = Folder::new("missing").with_pictures(&cells, &facts);
    fs::remove_file(folder.0.join("single/failover/fair.svg")).unwrap();
    let told = write(&cells, &facts, &folder.0).unwrap_err().to_string();
    assert!(told.ends_with("single/failover/fair.svg"), "{told}");
}

#[test]
fn no_two_cells_share_a_picture() {
    let twice = [cell("single", "failover", "a/b"), cell("single", "failover", "a_b")];
    let folder = Folder::new("twice");
    assert!(write(&twice, &Facts::default(), &folder.0).is_err());
    assert!(!folder.0.exists());
}

#[test]
fn pictures_of_peers_have_a_folder_for_each() {
    let ours = cell("single", "failover", "plain");
    assert_eq!(picture_of(&ours), Path::new("single/failover/plain.svg"));
    let peer = Cell { library: "bsm/redislock".to_owned(), ..ours };
    assert_eq!(picture_of(&peer), Path::new("peers/bsm_redislock/failover.svg"));
    let elsewhere = Cell { deployment: "five".to_owned(), workload: "..".to_owned(), ..peer };
    assert_eq!(picture_of(&elsewhere), Path::new("peers/bsm_redislock/failover-_-five.svg"));
}

#[test]
fn numbers_are_easy_to_read() {
    let numbers = [0, 999, 1_000, 1_234_567].map(markdown::number);
    assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    let times = [7, 1_000, 3_250, 100_000, 3_600_000, 9_000_000].map(markdown::duration);
    assert_eq!(times, ["7 ms", "1 s", "3.2 s", "1 min", "60 min", "2.5 h"]);
}

/// Of this library a comparison counts only what the others did as well.
#[test]
fn libraries_are_compared_by_the_same_runs() {
    let (cells, facts) = (cells(), facts());
    let pages = BTreeMap::from_iter(pages::all(&cells, &facts));
    for page in ["README.md", "peers.md"] {
        let line =
            |of: &str| pages[page].lines().find(|line| line.starts_with(of)).unwrap().to_owned();
        assert!(
            line("| leasehold 0.1.0 |")
                .starts_with("| leasehold 0.1.0 | 2 | 2,003 | 2 | 2 | within 87 ms |")
        );
        assert!(
            line("| bsm/redislock 9 |").starts_with("| bsm/redislock 9 | 2 | 4,025 | 0 | 0 | – |")
        );
    }
}

#[test]
fn what_the_other_runs_wrote_is_read() {
    let names = r#"{"violations": [], "seed": 5, "server": "Redis 7.0.15", "seconds": 1.5, "names": 2, "contended": 1,
        "faults": {"cut": 3}, "left": {"channels": 0, "others": []}, "rest_seconds": 0.1,
        "at_rest": {"names_done": 2, "ms": 9, "rss_kib": 12, "descriptors": 3, "threads": 4, "holds": 1, "waiting": 2},
        "series": [{"names_done": 1, "rss_kib": 11, "server_keys": 3}]}"#;
    let names: ManyNames = serde_json::from_str(names).unwrap();
    assert_eq!((names.at_rest.rss_kib, names.at_rest.entries(), names.series.len()), (12, 3, 1));
    let fuzz = r#"{"seed": 1, "engine": "random", "overflow_checks": true, "targets": [
        {"name": "url", "inputs": 7, "seconds": 0.5, "panics": 0, "hangs": 1, "corpus": 2, "peak_bytes": 4096}]}"#;
    let facts =
        Facts { fuzz: serde_json::from_str(fuzz).unwrap(), names: Some(names), ..Facts::default() };
    let page = &pages::all(&[], &facts)[0].1;
    assert!(page.contains("| url | 7 | 0 s | 0 | 1 | 4 KiB |"), "{page}");
    assert!(page.contains("under 3 × cut (seed 5)"), "{page}");
}

#[test]
fn no_name_breaks_pages_or_pictures() {
    let mut odd = cell(ODD, ODD, ODD);
    (odd.library, odd.version, odd.server) = (ODD.to_owned(), ODD.to_owned(), ODD.to_owned());
    odd.violations.push(ODD.to_owned());
    let ours = Cell { library: OURS.to_owned(), ..odd.clone() };
    let cells = [odd.clone(), ours];
    let facts = Facts {
        date: ODD.to_owned(),
        faults: BTreeMap::from([(ODD.to_owned(), ODD.to_owned())]),
        ..facts()
    };
    for (page, text) in pages::all(&cells, &facts) {
        let of_names = text.replace("<br>", "").replace("<!--", "");
        assert!(!of_names.contains('<'), "{page}: {text}");
        for table in text.split("\n\n").filter(|block| block.starts_with("| ")) {
            let columns = |line: &str| line.replace("\\|", "").matches('|').count();
            let first = columns(table.lines().next().unwrap());
            assert!(table.lines().all(|line| columns(line) == first), "{page}: {table}");
        }
    }
    let mut history = sample::two_holders();
    history.push(sample::begins(3000, ODD));
    for event in &mut history {
        event.name = event.name.replace("plain", ODD);
    }
    let pictures =
        [timeline::draw(&history, &odd, timeline::window(&history)), plots::recovery(&cells)];
    for picture in pictures {
        assert!(picture.contains("&lt;&amp;&gt;|"), "{picture}");
        assert!(!picture.contains("<&>"), "{picture}");
    }
}

fn is_page(name: &str) -> bool {
    Path::new(name).extension().is_some_and(|extension| extension == "md")
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
