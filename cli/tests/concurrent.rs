//! Many runners at once.

use std::env;

use crate::testbed::{Runner, Testbed, text};

/// So many processes that start at once may be late to connect. These tests are about the lock.
const PATIENTLY: &str = "--connect-timeout=60s";

/// `LEASEHOLD_RUNNERS` says how many runners there are.
fn runners() -> usize {
    env::var("LEASEHOLD_RUNNERS")
        .ok()
        .and_then(|count| count.parse().ok())
        .unwrap_or(100)
}

fn all_run_one_at_a_time(options: &[&str]) {
    let Some(bed) = Testbed::start() else { return };
    let (inside, overlaps, log) = (bed.file("inside"), bed.file("overlaps"), bed.file("log"));
    let (inside, overlaps_path, log_path) = (inside.display(), overlaps.display(), log.display());
    let script = format!(
        "mkdir {inside} || echo overlap >>{overlaps_path}; echo >>{log_path}; rmdir {inside}"
    );
    let started: Vec<Runner> = (0..runners()).map(|_| bed.run(options, &script)).collect();
    for runner in started {
        let (code, told) = runner.end();
        assert_eq!(code, 0, "{told}");
    }
    assert_eq!(text(&overlaps), "");
    assert_eq!(text(&log).lines().count(), runners());
    assert!(!bed.is_held("job"));
}

#[test]
fn a_hundred_runners_run_one_at_a_time() {
    all_run_one_at_a_time(&["job", PATIENTLY]);
}

#[test]
fn permits_bound_how_many_run() {
    let Some(bed) = Testbed::start() else { return };
    // Each waits until a second one is inside: two are, and never three.
    let folder = bed.file("inside");
    std::fs::create_dir(&folder).expect("a folder");
    let inside = folder.display();
    let script = format!(
        "echo >{inside}/$$; until [ -e {inside}/../met ]; do [ $(ls {inside} | wc -l) -ge 2 ] && \
         echo >{inside}/../met; done; [ $(ls {inside} | wc -l) -le 2 ] || echo overlap \
         >>{inside}/../overlaps; rm {inside}/$$"
    );
    let started: Vec<_> = (0..8)
        .map(|_| bed.run(&["job", PATIENTLY, "--permits", "2"], &script))
        .collect();
    for runner in started {
        let (code, told) = runner.end();
        assert_eq!(code, 0, "{told}");
    }
    assert!(bed.file("met").exists());
    assert_eq!(text(&bed.file("overlaps")), "");
    assert_eq!(
        bed.server.command(&["GET", "job"]).text(),
        "2",
        "all permits are back"
    );
}
