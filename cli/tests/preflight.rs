//! `preflight`, for users with more and fewer rights.

use std::process::Output;

use serde_json::Value;

use crate::testbed::{Testbed, exit_code, stderr, stdout};

#[test]
fn preflight_reports_the_guarantee_of_the_server() {
    let Some(bed) = Testbed::start() else { return };
    let output = bed.output(&["preflight"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    assert!(
        stdout(&output).contains("Exclusion can be broken by"),
        "{}",
        stdout(&output)
    );
    let report = stdout(&bed.output(&["preflight", "--json"]));
    let report: Value = serde_json::from_str(&report).expect("JSON");
    assert!(report["servers"][0]["version"].is_string(), "{report}");
    assert!(
        report["findings"]
            .as_array()
            .is_some_and(|found| !found.is_empty()),
        "{report}"
    );
    bed.server.command(&["CONFIG", "SET", "maxmemory", "100mb"]);
    bed.server
        .command(&["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let output = bed.output(&["preflight"]);
    assert_eq!(exit_code(&output), 1, "{}", stdout(&output));
}

/// As a user whom a page of the documentation recommends.
fn preflight_of(bed: &Testbed, user: &str, options: &[&str]) -> Output {
    let page = include_str!("../../docs/operations.md");
    let begin = format!("ACL SETUSER {user} ");
    let rule = page.lines().find(|line| line.starts_with(&begin));
    let words: Vec<_> = rule.expect("on the page").split(' ').collect();
    bed.server.command(&words);
    let arguments = ["preflight", "--user", user, "--name", "orders:1"];
    let mut preflight = bed.leasehold(&[&arguments, options].concat());
    let preflight = preflight.env("LEASEHOLD_PASSWORD", "secret");
    preflight.output().expect("started")
}

/// The rest of the line that begins so.
fn line<'a>(report: &'a str, begin: &str) -> Option<&'a str> {
    let mut lines = report.lines();
    lines.find_map(|line| line.trim().strip_prefix(begin))
}

#[test]
fn what_works_is_what_the_user_may_do() {
    let Some(bed) = Testbed::start() else { return };
    let output = preflight_of(&bed, "locks", &[]);
    let report = stdout(&output);
    assert_eq!(exit_code(&output), 1, "{report}");
    // A string lock needs `get` and `set`.
    assert_eq!(line(&report, "works: "), Some("lock"), "{report}");
    let refused = line(&report, "this user may not use: ").expect("such a line");
    for kind in ["fair lock", "string lock", "semaphore", "list of locks"] {
        assert!(refused.contains(kind), "{kind}: {report}");
    }
    assert!(report.contains("no right to"), "{report}");
}

#[test]
fn a_user_is_checked_for_the_kinds_in_use() {
    let Some(bed) = Testbed::start() else { return };
    for kinds in [
        &["--kind", "lock"][..],
        &["--kind", "spin", "--kind", "lock"],
    ] {
        let output = preflight_of(&bed, "locks", kinds);
        let report = stdout(&output);
        assert_eq!(exit_code(&output), 0, "{report}{}", stderr(&output));
        assert_eq!(line(&report, "works: "), Some("lock"), "{report}");
        assert!(!report.contains("right to"), "{report}");
    }
    let output = preflight_of(&bed, "locks", &["--kind", "lock,fair"]);
    let report = stdout(&output);
    assert_eq!(exit_code(&output), 1, "{report}");
    assert_eq!(line(&report, "works: "), Some("lock"), "{report}");
    assert_eq!(
        line(&report, "this user may not use: "),
        Some("fair lock"),
        "{report}"
    );
    let output = preflight_of(&bed, "kinds", &[]);
    assert_eq!(exit_code(&output), 0, "{}", stdout(&output));
}
