//! A run inside a run.

use leasehold_testbed::wait_until;
use nix::sys::signal::Signal;

use crate::testbed::{
    LATE, PROGRAM, Testbed, assert_output, await_line, runs, stderr, stdout, text,
};

#[test]
fn an_inner_run_of_the_same_name_runs_at_once() {
    let Some(bed) = Testbed::start() else { return };
    for kind in ["lock", "fair", "fenced", "spin", "string", "write"] {
        let script = format!(
            "\"$L\" run job --kind {kind} --wait 0 -- sh -c 'echo inner $LEASEHOLD_OWNER'; \
             echo outer $LEASEHOLD_OWNER $?"
        );
        let output = bed.output(&["run", "job", "--kind", kind, "--", "sh", "-c", &script]);
        let told = (stdout(&output), stderr(&output));
        let lines: Vec<_> = told.0.lines().collect();
        let owner = lines[0]
            .strip_prefix("inner ")
            .unwrap_or_else(|| panic!("{kind}: {told:?}"));
        assert_eq!(lines[1], format!("outer {owner} 0"), "{kind}: {told:?}");
        bed.server.command(&["DEL", "job"]);
    }
}

#[test]
fn an_inner_run_releases_nothing() {
    let Some(bed) = Testbed::start() else { return };
    let file = bed.file("done");
    let script = format!("\"$L\" run job -- true && echo >{}; read x", file.display());
    let runner = bed.run(&["job"], &script);
    await_line(&file);
    assert!(bed.is_held("job"));
    assert_eq!(
        bed.output(&["run", "job", "--wait", "0", "--", "true"])
            .status
            .code(),
        Some(120)
    );
    drop(runner.end());
    assert!(!bed.is_held("job"));
}

#[test]
fn a_run_of_another_name_in_between_changes_nothing() {
    let Some(bed) = Testbed::start() else { return };
    let script = r#""$L" run b -- "$L" run a --fenced --wait 0 -- sh -c 'echo $LEASEHOLD_TOKEN'"#;
    let output = bed.output(&["run", "a", "--fenced", "--", "sh", "-c", script]);
    assert_output(&output, 0, "1\n");
}

#[test]
fn a_run_in_another_database_or_on_another_server_takes_its_own_lock() {
    let (Some(bed), Some(other)) = (Testbed::start(), Testbed::start()) else {
        return;
    };
    for url in [format!("{}/1", bed.server.url()), other.server.url()] {
        let inner = [
            "--url", &url, "run", "job", "--wait", "0", "--", "echo", "ran",
        ];
        let output = bed.output(&[&["run", "job", "--", PROGRAM][..], &inner].concat());
        assert_output(&output, 0, "ran\n");
        assert!(!other.is_held("job") && !bed.is_held("job"));
    }
}

#[test]
fn an_inner_run_may_call_the_server_by_another_address() {
    let Some(bed) = Testbed::start() else { return };
    for url in [
        format!("{}/0", bed.server.url()),
        bed.server.url().replace("127.0.0.1", "localhost"),
    ] {
        assert_ne!(url, bed.server.url());
        let inner = [
            "--url", &url, "run", "job", "--wait", "0", "--", "echo", "ran",
        ];
        let output = bed.output(&[&["run", "job", "--", PROGRAM][..], &inner].concat());
        assert_output(&output, 0, "ran\n");
    }
}

#[test]
fn a_daemon_that_outlives_its_run_takes_the_lock_itself() {
    let Some(bed) = Testbed::start() else { return };
    let [go, out] = ["go", "out"].map(|name| bed.file(name).display().to_string());
    let daemon = format!(
        "until [ -e {go} ]; do sleep 0.01; done; \"$L\" run job --wait 0 -- sh -c \"exit 5\"; echo \
         $? >{out}"
    );
    let script = format!("setsid sh -c '{daemon}' >/dev/null 2>&1 &");
    assert_output(
        &bed.output(&["run", "job", "--", "sh", "-c", &script]),
        0,
        "",
    );
    assert!(!bed.is_held("job"));
    std::fs::write(&go, "").expect("a file");
    assert_eq!(await_line(&bed.file("out")), "5");
    assert!(!bed.is_held("job"));
}

#[test]
fn without_the_hold_of_the_outer_run_no_command_runs() {
    let Some(bed) = Testbed::start() else { return };
    for is_held in [false, true] {
        let [ready, go, out] = ["ready", "go", "out"].map(|name| {
            let file = bed.file(&format!("{name}-{is_held}"));
            file.display().to_string()
        });
        let script = format!(
            "trap '' TERM; echo >{ready}; until [ -e {go} ]; do sleep 0.01; done; \
             \"$L\" run job --wait 0 -- echo ran >{out} 2>&1; echo code $? >>{out}"
        );
        let runner = bed.run(&["job"], &script);
        await_line(ready.as_ref());
        bed.server.command(&["DEL", "job"]);
        if is_held {
            bed.hold_by_another("job");
        }
        std::fs::write(&go, "").expect("a file");
        wait_until("the inner run ends", LATE, || {
            text(out.as_ref()).contains("code")
        });
        let told = text(out.as_ref());
        assert!(
            told.contains("code 121") && told.contains("LEASEHOLD_HELD"),
            "{told}"
        );
        assert!(!told.contains("ran"), "{told}");
        assert_eq!(runner.end().0, 121);
    }
}

#[test]
fn a_mark_that_is_not_from_a_run_is_refused() {
    let Some(bed) = Testbed::start() else { return };
    let mut odd = bed.leasehold(&["run", "job", "--", "echo", "ran"]);
    let output = odd.env("LEASEHOLD_HELD", "{").output().expect("started");
    assert_output(&output, 64, "");
}

#[test]
fn an_outer_run_without_tokens_gives_the_inner_none() {
    let Some(bed) = Testbed::start() else { return };
    let output = bed.output(&[
        "run", "job", "--", PROGRAM, "run", "job", "--fenced", "--", "echo", "ran",
    ]);
    assert_output(&output, 64, "");
}

#[test]
fn the_inner_command_ends_with_the_outer_runner() {
    let Some(bed) = Testbed::start() else { return };
    let pid = bed.file("pid");
    let inner = format!(
        "trap \"\" TERM; echo $$ >{}; while :; do sleep 0.01; done",
        pid.display()
    );
    let runner = bed.run(
        &["job"],
        &format!("\"$L\" run job -- sh -c '{inner}'; exit 0"),
    );
    let command = await_line(&pid);
    assert!(runs(&command));
    runner.signal(Signal::SIGKILL);
    wait_until("the inner command ends", LATE, || !runs(&command));
}

#[test]
fn the_inner_command_stops_when_the_lock_is_gone_although_it_left_the_group() {
    let Some(bed) = Testbed::start() else { return };
    let [pid, code] = ["pid", "code"].map(|name| bed.file(name));
    // In a session of its own the inner run is not in the group that the outer runner ends.
    let inner = format!(
        "trap \"\" TERM; echo $$ >{}; while :; do sleep 0.01; done",
        pid.display()
    );
    let script = format!(
        "setsid sh -c '\"$L\" run job -- sh -c \"$0\"; echo $? >{}' \"$INNER\" >/dev/null 2>&1",
        code.display()
    );
    let mut outer = bed.leasehold(&["run", "job", "--lease", "3s", "--", "sh", "-c", &script]);
    let runner = crate::testbed::Runner::start(outer.env("INNER", inner));
    let command = await_line(&pid);
    bed.server.command(&["DEL", "job"]);
    wait_until("the inner command ends", LATE, || !runs(&command));
    assert_eq!(await_line(&code), "121");
    assert_eq!(runner.end().0, 121);
    assert_eq!(text(&pid).lines().count(), 1);
}
