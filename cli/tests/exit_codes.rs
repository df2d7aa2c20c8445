//! What a runner ends with.

use crate::testbed::{Testbed, assert_output, bare, exit_code, stderr, stdout};

#[test]
fn the_commands_own_code_is_passed_on() {
    let Some(bed) = Testbed::start() else { return };
    for code in [0, 1, 42, 119, 255] {
        let output = bed.output(&["run", "job", "--", "sh", "-c", &format!("exit {code}")]);
        assert_eq!(exit_code(&output), code, "{}", stderr(&output));
    }
    let killed = bed.output(&["run", "job", "--", "sh", "-c", "kill -KILL $$"]);
    assert_eq!(exit_code(&killed), 128 + 9);
    assert!(!bed.is_held("job"), "it is released");
}

#[test]
fn a_lock_that_another_holds_is_not_acquired_in_time() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    for wait in ["0", "200ms"] {
        let output = bed.output(&["run", "job", "--wait", wait, "--", "echo", "ran"]);
        assert_output(&output, 120, "");
        assert!(
            stderr(&output).contains("not acquired in time") && !stderr(&output).contains('µ'),
            "{}",
            stderr(&output)
        );
    }
    let output = bed.output(&["run", "job", "-w", "0", "-E", "7", "--", "echo", "ran"]);
    assert_eq!((exit_code(&output), &*stdout(&output)), (7, ""));
}

#[test]
fn without_a_server_no_command_runs() {
    let Some(mut bed) = Testbed::start() else {
        return;
    };
    bed.server.kill();
    let output = bed.output(&["run", "job", "--", "echo", "ran"]);
    assert_output(&output, 122, "");
}

#[test]
fn a_refusal_of_the_server_has_a_code_of_its_own() {
    let Some(bed) = Testbed::start() else { return };
    bed.server.command(&["SET", "job", "data"]);
    let output = bed.output(&["run", "job", "--", "echo", "ran"]);
    assert_output(&output, 123, "");
    let told = stderr(&output);
    let what = "leasehold: `job` is a lock of another kind, or other data: ";
    assert!(
        told.starts_with(what) && told.contains("WRONGTYPE"),
        "{told}"
    );
}

#[test]
fn a_refused_login_says_where_the_password_goes() {
    let Some(bed) = Testbed::start() else { return };
    bed.server
        .command(&["CONFIG", "SET", "requirepass", "right"]);
    let address = bed.server.address().to_string();
    for (login, what) in [("", "wants a password"), (":wrong@", "does not accept")] {
        let url = format!("redis://{login}{address}");
        let output = bed.output(&["ls", "--url", &url]);
        assert_output(&output, 123, "");
        let told = stderr(&output);
        let where_to = ["the URL", "LEASEHOLD_PASSWORD", "--password-file"];
        assert!(
            told.contains(what) && where_to.iter().all(|one| told.contains(one)),
            "{told}"
        );
        assert!(
            told.matches(&address).count() == 1 && !told.contains("wrong"),
            "{told}"
        );
    }
}

#[test]
fn a_server_that_cannot_be_reached_is_named_once() {
    let Some(mut bed) = Testbed::start() else {
        return;
    };
    bed.server.kill();
    let told = stderr(&bed.output(&["ls"]));
    assert_eq!(told.matches(&bed.server.url()).count(), 1, "{told}");
}

#[test]
fn bad_usage_is_reported_before_anything_is_sent() {
    let cases: [(&[&str], &str); 9] = [
        (&["run", "job"], "COMMAND"),
        (&["run", "job", "--wait", "soon", "--", "true"], "--wait"),
        (
            &["run", "job", "--lease", "9s", "--grace", "5s", "--", "true"],
            "--grace",
        ),
        (&["run", "job", "--permits", "0", "--", "true"], "--permits"),
        (
            &["run", "job", "--permits", "2", "--fenced", "--", "true"],
            "--fenced",
        ),
        (&["run", "job", "--kind", "odd", "--", "true"], "--kind"),
        (
            &["run", "job", "--tls-cert", "x", "--", "true"],
            "--tls-key",
        ),
        (&["run", "job", "--", "true"], "which server"),
        (&["sing"], "sing"),
    ];
    for (arguments, part) in cases {
        let output = bare(arguments).output().expect("started");
        assert_eq!(exit_code(&output), 64, "{arguments:?}: {}", stderr(&output));
        assert!(
            stderr(&output).contains(part),
            "{arguments:?}: {}",
            stderr(&output)
        );
    }
    // A server that nobody asks: the name and the lease are looked at before.
    let listener = leasehold_testbed::listen();
    listener.set_nonblocking(true).expect("it can");
    let url = format!("redis://{}", listener.local_addr().expect("bound"));
    for arguments in [
        &["--lease", "1ms"][..],
        &["--user", "ann"],
        &["--password-file", "/none"],
    ] {
        let words = [&["run", "job"], arguments, &["--url", &url, "--", "true"]].concat();
        let output = bare(&words).output().expect("started");
        assert_eq!(exit_code(&output), 64, "{words:?}: {}", stderr(&output));
        assert!(listener.accept().is_err(), "{words:?}: somebody connected");
    }
}

#[test]
fn a_command_that_cannot_be_started_exits_like_in_a_shell() {
    let Some(bed) = Testbed::start() else { return };
    let output = bed.output(&["run", "job", "--", "/nowhere/at-all"]);
    assert_eq!(exit_code(&output), 127, "{}", stderr(&output));
    let output = bed.output(&["run", "job", "--", "/dev/null"]);
    assert_eq!(exit_code(&output), 126, "{}", stderr(&output));
    assert!(!bed.is_held("job"), "it is released");
}

#[test]
fn help_and_version_are_no_errors() {
    for arguments in [&["--help"][..], &["--version"], &["run", "--help"]] {
        let output = bare(arguments).output().expect("started");
        assert_eq!(exit_code(&output), 0);
        assert!(stdout(&output).contains("leasehold"), "{}", stdout(&output));
    }
}
