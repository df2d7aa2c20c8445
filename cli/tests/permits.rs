//! Semaphores and latches: how they are shown, and that nothing destroys their numbers.

use std::io::{BufRead as _, BufReader};
use std::thread;
use std::time::Duration;

use leasehold::{Client, Ended, Lease, LossReason, blocking};
use leasehold_testbed::wait_until;
use serde_json::{Value, json};

use crate::testbed::{LATE, Runner, Testbed, exit_code, stderr, stdout};

fn json(bed: &Testbed, arguments: &[&str]) -> Value {
    let output = bed.output(&[arguments, &["--json"]].concat());
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    serde_json::from_str(&stdout(&output)).expect("JSON")
}

/// A run that holds a permit until its input ends.
fn hold_permit(bed: &Testbed, ready: &str, permits: &str) -> Runner {
    let file = bed.file(ready);
    let options = ["job", "--permits", permits, "--purpose", ready];
    let runner = bed.run(&options, &format!("echo >{}; cat", file.display()));
    wait_until("the command runs", LATE, || file.exists());
    runner
}

/// Waits until the holders of the only semaphore have these purposes, which are written in the
/// background.
fn until_described(bed: &Testbed, wanted: &[&str]) {
    wait_until("all are described", LATE, || {
        let listed = json(bed, &["ls"]);
        let holders = listed[0]["holders"].as_array().into_iter().flatten();
        let mut purposes: Vec<_> = holders
            .filter_map(|holder| holder["purpose"].as_str())
            .collect();
        purposes.sort_unstable();
        purposes == wanted
    });
}

#[test]
fn permits_of_runs_are_listed_with_their_purposes() {
    let Some(bed) = Testbed::start() else { return };
    let runners = ["first", "second"].map(|name| hold_permit(&bed, name, "3"));
    until_described(&bed, &["first", "second"]);
    let found = &json(&bed, &["ls"])[0];
    assert_eq!(
        (&found["name"], &found["kind"], &found["available"]),
        (&json!("job"), &json!("semaphore"), &json!(1))
    );
    let left = found["lease_ms"]
        .as_u64()
        .expect("the holders have a lease");
    assert!((10_000..=30_000).contains(&left), "{left}");
    let shown = stdout(&bed.output(&["show", "job"]));
    assert!(
        shown.contains("job (semaphore) is held: 2 of 3 permits") && shown.contains("first"),
        "{shown}"
    );
    let listed = stdout(&bed.output(&["ls"]));
    assert!(listed.contains("2 of 3"), "{listed}");
    for runner in runners {
        assert_eq!(runner.end().0, 0);
    }
    let idle = &json(&bed, &["ls"])[0];
    assert_eq!((&idle["holders"], &idle["limit"]), (&json!([]), &json!(3)));
    assert_eq!(json(&bed, &["show", "job"])["held"], json!(false));
}

#[test]
fn break_leaves_the_number_of_a_semaphore_alone() {
    let Some(bed) = Testbed::start() else { return };
    let runner = hold_permit(&bed, "ready", "2");
    for options in [&["--yes"][..], &["--yes", "--string"]] {
        for name in ["job", "latch"] {
            bed.server.command(&["SET", "latch", "3"]);
            let output = bed.output(&[&["break", name, "--reason", "x"], options].concat());
            assert_eq!(exit_code(&output), 64, "{}", stderr(&output));
            assert!(!stderr(&output).contains("--string"), "{}", stderr(&output));
        }
    }
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "1");
    assert_eq!(bed.server.command(&["GET", "latch"]).text(), "3");
    assert_eq!(runner.end().0, 0);
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "2");
}

#[test]
fn break_gives_the_permits_of_one_holder_back() {
    let Some(bed) = Testbed::start() else { return };
    let [one, other] = ["one", "other"].map(|name| hold_permit(&bed, name, "2"));
    let owners = || -> Vec<String> {
        let shown = json(&bed, &["show", "job"]);
        let holders = shown["holders"].as_array().cloned().unwrap_or_default();
        let owner = |holder: &Value| holder["owner"].as_str().map(str::to_owned);
        holders.iter().filter_map(owner).collect()
    };
    let held = owners();
    assert_eq!(held.len(), 2);
    let broken = |owner: &str| {
        let words = ["break", "job", "--yes", "--reason", "x", "--owner", owner];
        bed.output(&words)
    };
    let output = broken(&held[0]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    assert_eq!(owners(), held[1..]);
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "1");
    let again = broken(&held[0]);
    assert_eq!(exit_code(&again), 64, "{}", stderr(&again));
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "1");
    // The command of one of them was stopped.
    let mut codes = [one.end().0, other.end().0];
    codes.sort_unstable();
    assert_eq!(codes, [0, 121]);
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "2");
}

/// The lease is fixed and long, so only a message ends the hold in time.
#[tokio::test]
async fn break_of_a_permit_with_an_id_tells_its_holder() {
    let Some(bed) = Testbed::start() else { return };
    let client = Client::connect(&bed.server.url()).await.expect("connects");
    let jobs = client.permit_expirable_semaphore("job").with_limit(2);
    let lease = Lease::Fixed(Duration::from_secs(3600));
    let permit = jobs.acquire(1, lease).await.expect("granted");
    let channel = format!("leasehold_client:{{{}}}", client.id());
    wait_until("it listens", LATE, || {
        let listed = bed.server.command(&["PUBSUB", "CHANNELS", &channel]);
        !listed.array().is_empty()
    });
    let words = [
        "break",
        "job",
        "--yes",
        "--reason",
        "it hangs",
        "--owner",
        permit.id(),
    ];
    let output = bed.output(&words);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    let ended = tokio::time::timeout(LATE, permit.ended()).await;
    match ended.expect("told") {
        Ended::Lost(LossReason::Forced(release)) => assert_eq!(release.reason, "it hangs"),
        other => panic!("{other:?}"),
    }
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "2");
}

#[test]
fn another_number_of_permits_is_applied() {
    let Some(bed) = Testbed::start() else { return };
    let first = hold_permit(&bed, "first", "1");
    let run = |permits| {
        [
            "run",
            "job",
            "--permits",
            permits,
            "--wait",
            "0",
            "--",
            "true",
        ]
    };
    let output = bed.output(&run("1"));
    assert_eq!(exit_code(&output), 120, "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("has 1 now"),
        "{}",
        stderr(&output)
    );
    let second = hold_permit(&bed, "second", "2");
    let shown = json(&bed, &["ls"])[0]["available"].clone();
    assert_eq!(shown, json!(0));
    // A lower number stops nobody, and lets nobody in.
    let output = bed.output(&run("1"));
    assert_eq!(exit_code(&output), 120, "{}", stderr(&output));
    let lowered = "leasehold: `job` had 2 permits, has 1 now\n";
    assert!(stderr(&output).starts_with(lowered), "{}", stderr(&output));
    assert_eq!(json(&bed, &["ls"])[0]["available"], json!(-1));
    assert_eq!(first.end(), (0, String::new()));
    let raised = "leasehold: `job` had 1 permit, has 2 now\n";
    assert_eq!(second.end(), (0, raised.to_owned()));
    let output = bed.output(&run("1"));
    assert_eq!((exit_code(&output), &*stderr(&output)), (0, ""));
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "1");
    let output = bed.output(&run("4"));
    let raised = "leasehold: `job` had 1 permit, has 4 now\n";
    assert_eq!((exit_code(&output), &*stderr(&output)), (0, raised));
}

#[test]
fn a_run_that_waits_says_that_it_lowered_the_number() {
    let Some(bed) = Testbed::start() else { return };
    bed.server.command(&["SET", "job", "5"]);
    let first = hold_permit(&bed, "first", "2");
    let second = hold_permit(&bed, "second", "2");
    until_described(&bed, &["first", "second"]);
    let mut waiter = bed.run(&["job", "--permits", "1"], "true");
    let mut lines = BufReader::new(waiter.take_stderr()).lines();
    let mut next = || lines.next().expect("a line").expect("text");
    // The waiter cannot have ended: both permits are out.
    assert_eq!(next(), "leasehold: `job` had 2 permits, has 1 now");
    let waits = next();
    let available = "waiting for `job`: -1 of 1 permits are available, held by ";
    assert!(waits.contains(available), "{waits}");
    assert!(
        waits.contains("(first) +1") || waits.contains("(second) +1"),
        "{waits}"
    );
    let replaced = "leasehold: `job` had 5 permits, has 2 now\n";
    assert_eq!(first.end(), (0, replaced.to_owned()));
    assert_eq!(second.end(), (0, String::new()));
    assert_eq!(waiter.end().0, 0);
}

#[test]
fn a_latch_that_is_waited_for_is_watched() {
    let Some(bed) = Testbed::start() else { return };
    let client = blocking::Client::connect(Client::connect(&bed.server.url())).expect("connects");
    let latch = client.count_down_latch("latch");
    assert!(client.block_on(latch.try_set_count(1)).expect("set"));
    let watched = || stdout(&bed.output(&["watch", "--count", "1", "--lines"]));
    assert_eq!(watched(), "");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| client.block_on(latch.wait(LATE)));
        wait_until("watched", LATE, || {
            watched().contains("held    latch (latch) at count 1")
        });
        client.block_on(latch.count_down()).expect("counted");
        waiter.join().expect("no panic").expect("it is open");
    });
}

#[test]
fn an_idle_semaphore_is_known_by_its_number() {
    let Some(bed) = Testbed::start() else { return };
    let used = ["run", "used", "--permits", "3", "--", "true"];
    assert_eq!(exit_code(&bed.output(&used)), 0);
    let output = bed.output(&["permits", "set", "2"]);
    assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
    bed.server.command(&["SET", "data", "7"]);
    for (name, part) in [("used", "3 of 3"), ("set", "2 of 2")] {
        let shown = stdout(&bed.output(&["show", name]));
        assert_eq!(
            shown,
            format!("{name} (semaphore) has {part} permits free\n")
        );
        assert_eq!(json(&bed, &["show", name])["held"], json!(false));
        let listed = stdout(&bed.output(&["ls", name]));
        assert!(listed.contains(&format!("{part} free")), "{listed}");
        // Freeing it would destroy its number.
        let words = ["break", name, "--yes", "--string", "--reason", "x"];
        let output = bed.output(&words);
        assert_eq!(exit_code(&output), 64, "{}", stderr(&output));
        assert!(bed.is_held(name), "{name} is as it was");
    }
    let shown = stdout(&bed.output(&["show", "data"]));
    assert!(shown.contains("any data"), "{shown}");
    assert_eq!(json(&bed, &["ls"]).as_array().map(Vec::len), Some(2));
    // Nothing changes while nobody uses them.
    let watched = bed.output(&["watch", "--count", "1", "--lines"]);
    assert_eq!(stdout(&watched), "");
    // Its number was replaced by other means, so some of its permits may be out.
    bed.server.command(&["SET", "used", "1"]);
    let shown = stdout(&bed.output(&["show", "used"]));
    assert_eq!(shown, "used (semaphore) has 1 of 3 permits free\n");
    assert_eq!(json(&bed, &["show", "used"])["held"], json!(true));
}

#[test]
fn the_number_of_a_semaphore_can_be_set() {
    let Some(bed) = Testbed::start() else { return };
    let set = json(&bed, &["permits", "job", "3"]);
    assert_eq!(set, json!({"name": "job", "permits": 3, "available": 3}));
    // Held permits count, so fewer permits than are held leave a negative number.
    let runners = ["a", "b"].map(|name| hold_permit(&bed, name, "2"));
    let set = json(&bed, &["permits", "job", "1"]);
    assert_eq!(set["available"], json!(-1));
    for runner in runners {
        assert_eq!(runner.end().0, 0);
    }
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "1");
    bed.hold_by_another("lock");
    let output = bed.output(&["permits", "lock", "2"]);
    assert_eq!(exit_code(&output), 123, "{}", stderr(&output));
}
