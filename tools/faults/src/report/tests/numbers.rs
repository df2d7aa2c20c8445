//! Tests that the pages show the numbers of the cells.

use super::super::facts::PlantedBug;
use super::super::{markdown, statistics};
use super::{COMMIT, line, pages, report};

#[test]
fn runs_cells_injections_and_grants_are_counted_separately() {
    let pages = pages(&report());
    let page = &pages["README.md"];
    // 12 runs with 36 cells in the matrix, and 4 long runs with 4 cells. An injection counts once
    // for a run.
    let head = line(page, "**leasehold 0.1.0: ");
    assert_eq!(
        head,
        "**leasehold 0.1.0: 16 program runs with 40 cells, 24 injections and 40,936 grants; 1 \
         violation.**"
    );
    assert_eq!(
        line(page, "| the matrix"),
        "| the matrix: each fault on each deployment | 12 | 36 | 3 | 24 | 36,000 |"
    );
    assert_eq!(
        line(page, "| the long runs"),
        "| the long runs, with mixed faults | 4 | 4 | 1 | 0 | 4,936 |"
    );
    assert_eq!(
        line(page, "| the comparison: the others"),
        "| the comparison: the others | 10 | 10 | 10 | 30 | 12,340 |"
    );
    assert_eq!(
        line(page, "| injections that met a holder"),
        "| injections that met a holder, counted per cell | 36 of 72 |"
    );
    assert!(
        line(page, "| servers ").contains("Redis 7.0.15: 36 program runs"),
        "{page}"
    );
    assert!(line(page, "| commit ").contains(&format!("`{COMMIT}`, the work tree was clean")));
    assert!(
        line(page, "| time |").contains("2025-11-24 02:04 UTC to 2025-11-24 04:04 UTC: 2.0 h"),
        "{page}"
    );
}

#[test]
fn the_row_of_a_fault_adds_up_all_seeds_and_workloads() {
    let pages = pages(&report());
    let page = &pages["sentinel.md"];
    assert!(
        page.contains("| partition | 3 | 3 | 6 | 9 of 18 | 18 of 18 | 0 of 18 | 9,000 |"),
        "{page}"
    );
    let outcome = "| partition | 9 / 2 / 1 | 3 / 0 | 0 / 2 / 5 | 87 ms | 4, 65 ms | 0.0 % | none |";
    assert!(page.contains(outcome), "{page}");
    assert!(
        page.contains("| partition | 3.2 s | 340 ms, 340 ms |"),
        "{page}"
    );
}

#[test]
fn a_violation_is_listed_with_the_command_that_repeats_its_run() {
    let pages = pages(&report());
    let page = &pages["single.md"];
    assert!(page.contains("a sentence about a violation"));
    assert!(page.contains(
        "`cargo run --release -p leasehold-faults -- --deployment single --fault freeze-client \
         --seconds 10 --seed 1`"
    ));
}

#[test]
fn a_shortened_list_of_violations_states_the_total() {
    let mut report = report();
    report.matrix[0].violations = (0..852)
        .map(|number| format!("sentence {number}"))
        .collect();
    let pages = pages(&report);
    assert!(pages["README.md"].contains("| violations | **852** |"));
    let page = &pages["single.md"];
    assert!(
        page.contains("3 of 852 are shown; `results.json`"),
        "{page}"
    );
}

#[test]
fn libraries_are_compared_on_the_same_cells() {
    let pages = pages(&report());
    let glance = line(&pages["README.md"], "| freeze-client | one server |");
    assert_eq!(
        glance,
        "| freeze-client | one server | 0 of 10 | **3 of 10** |"
    );
    let page = &pages["peers.md"];
    let row = |library: &str| {
        line(
            page,
            &format!("| one server | freeze-client | plain | {library} |"),
        )
        .to_owned()
    };
    assert!(
        row("leasehold")
            .ends_with("| 0 of 10 (0–28 %) | 0 | 20 of 30 | 0.00 | 0 | 6 s (1 s–10 s) | none |")
    );
    assert!(row("bsm/redislock").ends_with(
        "| 3 of 10 (11–60 %) | 3 excused | 20 of 30 | 0.15 | 0 | 6 s (1 s–10 s) | none |"
    ));
    assert!(!page.contains("| fair |"));
}

#[test]
fn wilson_intervals_and_medians_are_correct() {
    let assert_near = |(low, high): (f64, f64), expected: (f64, f64)| {
        assert!(
            (low - expected.0).abs() < 0.0005 && (high - expected.1).abs() < 0.0005,
            "{low} {high}"
        );
    };
    assert_near(statistics::wilson(0, 10), (0.0, 0.2775));
    assert_near(statistics::wilson(3, 10), (0.1078, 0.6032));
    assert_near(statistics::wilson(5, 10), (0.2366, 0.7634));
    assert_near(statistics::wilson(10, 10), (0.7225, 1.0));
    assert_near(statistics::wilson(0, 0), (0.0, 1.0));
    assert_eq!(statistics::median(&[5, 1, 9]), Some(5));
    assert_eq!(statistics::median(&[]), None);
}

#[test]
fn detected_bugs_are_counted_by_class() {
    let pages = pages(&report());
    for page in ["README.md", "power.md"] {
        assert_eq!(
            line(&pages[page], "| loss |"),
            "| loss | 1 of 2 | `loss-false` |"
        );
        assert_eq!(
            line(&pages[page], "| all |"),
            "| all | 2 of 3 | `loss-false` |"
        );
    }
    let json = r#"[{"name": "a", "class": "c", "fault": "b", "arguments": "--x 1",
        "found": true, "said": "d", "seconds": 2}]"#;
    let bugs: Vec<PlantedBug> = serde_json::from_str(json).unwrap();
    assert_eq!(
        (bugs[0].arguments.as_str(), bugs[0].said.as_str()),
        ("--x 1", "d")
    );
}

#[test]
fn numbers_and_times_are_formatted_for_reading() {
    let numbers = [0, 999, 1_000, 1_234_567].map(markdown::number);
    assert_eq!(numbers, ["0", "999", "1,000", "1,234,567"]);
    let times = [7, 1_000, 3_250, 100_000, 3_600_000, 9_000_000].map(markdown::duration);
    assert_eq!(times, ["7 ms", "1 s", "3.2 s", "1 min", "60 min", "2.5 h"]);
    let days = [0, 951_782_400, 1_763_949_840].map(markdown::time);
    assert_eq!(
        days,
        [
            "1970-01-01 00:00 UTC",
            "2000-02-29 00:00 UTC",
            "2025-11-24 02:04 UTC"
        ]
    );
    assert_eq!(
        [0, 7, 123].map(markdown::percent),
        ["0.0 %", "0.7 %", "12.3 %"]
    );
}
