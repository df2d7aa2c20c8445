//! What reaches the command: standard input, signals, the environment.

use std::io::Write as _;
use std::process::Stdio;

use leasehold_testbed::{command, is_missing, wait_until};
use nix::sys::signal::Signal;

use crate::testbed::{
    LATE, PROGRAM, Runner, Testbed, await_line, bare, exit_code, stderr, stdout, text,
};

#[test]
fn standard_input_and_output_are_those_of_the_runner() {
    let Some(bed) = Testbed::start() else { return };
    let mut runner = bed
        .leasehold(&["run", "job", "--", "sh", "-c", "cat; echo error >&2"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    let mut input = runner.stdin.take().expect("piped");
    input.write_all(b"line\nwithout end").expect("it reads");
    drop(input);
    let output = runner.wait_with_output().expect("it ends");
    assert_eq!(
        (&*stdout(&output), &*stderr(&output)),
        ("line\nwithout end", "error\n")
    );
}

#[test]
fn the_command_finds_name_owner_and_token() {
    let Some(bed) = Testbed::start() else { return };
    let script = "echo $LEASEHOLD_NAME ${LEASEHOLD_TOKEN-none}; echo $LEASEHOLD_OWNER";
    let lines = |options: &[&str]| {
        let arguments = [&["run", "job"], options, &["--", "sh", "-c", script]].concat();
        let output = bed.output(&arguments);
        assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
        stdout(&output)
            .lines()
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    assert_eq!(lines(&[])[0], "job none");
    assert_eq!(lines(&["--fenced"])[0], "job 1");
    assert_eq!(lines(&["--kind", "fenced"])[0], "job 2");
    for kind in ["lock", "fair", "spin", "string", "read", "write"] {
        let lines = lines(&["--kind", kind]);
        assert!(
            lines[0] == "job none" && lines[1].len() > 20,
            "{kind}: {lines:?}"
        );
    }
    bed.server.command(&["DEL", "job"]);
    assert_eq!(lines(&["--permits", "2"])[0], "job none");
}

#[test]
fn credentials_can_be_kept_from_the_command() {
    let Some(bed) = Testbed::start() else { return };
    let script = "env | grep -c -e ^LEASEHOLD_URL= -e ^LEASEHOLD_PASSWORD= -e ^LEASEHOLD_USER=";
    let seen = |options: &[&str]| {
        let arguments = [&["run", "job"], options, &["--", "sh", "-c", script]].concat();
        let output = bed.output(&arguments);
        stdout(&output).trim().to_owned()
    };
    assert_eq!(seen(&[]), "1");
    assert_eq!(seen(&["--no-credentials"]), "0");
}

#[test]
fn a_password_in_redis_url_can_be_kept_from_the_command() {
    if is_missing() {
        return;
    }
    let bed = Testbed {
        server: leasehold_testbed::Server::start_with(&["--requirepass", "s3cret"]),
    };
    let host = format!("127.0.0.1:{}", bed.server.port());
    let plain = format!("redis://{host}");
    let secret = format!("redis://:s3cret@{host}");
    let seen = |variables: &[(&str, &str)], option: &[&str]| {
        let script = ["--", "sh", "-c", "echo ${REDIS_URL:-none}"];
        let mut run = bare(&[&["run", "job"], option, &script].concat());
        let output = run
            .envs(variables.iter().copied())
            .output()
            .expect("started");
        assert_eq!(exit_code(&output), 0, "{}", stderr(&output));
        stdout(&output).trim().to_owned()
    };
    let kept = ["--no-credentials"];
    let its_own = [("REDIS_URL", &*secret)];
    assert_eq!(seen(&its_own, &[]), secret);
    assert_eq!(seen(&its_own, &kept), "none");
    // Without a password there is no secret in it, and beside LEASEHOLD_URL it is not the server of
    // the run.
    let apart = [("REDIS_URL", &*plain), ("LEASEHOLD_PASSWORD", "s3cret")];
    assert_eq!(seen(&apart, &kept), plain);
    let of_others = "redis://:other@127.0.0.1:1";
    let both = [("REDIS_URL", of_others), ("LEASEHOLD_URL", &*secret)];
    assert_eq!(seen(&both, &kept), of_others);
}

#[test]
fn the_owner_is_that_of_the_lock() {
    let Some(bed) = Testbed::start() else { return };
    let file = bed.file("owner");
    let runner = bed.run(
        &["job"],
        &format!("echo $LEASEHOLD_OWNER >{}; cat", file.display()),
    );
    let owner = await_line(&file);
    assert_eq!(bed.server.command(&["HGET", "job", &owner]).text(), "1;0;");
    assert_eq!(runner.end().0, 0);
}

#[test]
fn signals_reach_the_command() {
    let Some(bed) = Testbed::start() else { return };
    for (number, signal) in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGHUP,
        Signal::SIGQUIT,
        Signal::SIGUSR1,
        Signal::SIGUSR2,
        Signal::SIGWINCH,
    ]
    .into_iter()
    .enumerate()
    {
        let (ready, name) = (bed.file(&format!("ready{number}")), &signal.as_str()[3..]);
        let trap = format!(
            "trap 'exit {}' {name}; echo >{}; ",
            number + 20,
            ready.display()
        );
        let runner = bed.run(&["job"], &format!("{trap} while :; do sleep 0.01; done"));
        wait_until("ready", LATE, || ready.exists());
        runner.signal(signal);
        let (code, told) = runner.end();
        assert_eq!(
            code,
            i32::try_from(number).expect("small") + 20,
            "{signal}: {told}"
        );
    }
    let ready = bed.file("ready");
    let runner = bed.run(
        &["job"],
        &format!("echo >{}; while :; do sleep 9; done", ready.display()),
    );
    wait_until("ready", LATE, || ready.exists());
    runner.signal(Signal::SIGTERM);
    assert_eq!(runner.end().0, 128 + 15, "a signal ended the command");
    assert!(!bed.is_held("job"), "it is released");
}

/// As by `nohup` in the background of a script. The command cannot take such a signal: a shell may
/// not trap one that was ignored when it started.
#[test]
fn ignored_signals_stay_ignored() {
    let Some(bed) = Testbed::start() else { return };
    let ready = bed.file("ready");
    let command = format!(
        "trap 'exit 9' HUP INT; kill -HUP $$; kill -INT $$; echo >{}; read x; exit 5",
        ready.display()
    );
    let runner = ignoring(&bed, &command);
    wait_until("ready", LATE, || ready.exists());
    runner.signal(Signal::SIGHUP);
    runner.signal(Signal::SIGINT);
    assert_eq!(runner.end().0, 5);
}

#[test]
fn ignored_signals_do_not_end_the_wait() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    let runner = ignoring(&bed, "exit 5");
    until_listening(&bed);
    runner.signal(Signal::SIGHUP);
    runner.signal(Signal::SIGINT);
    bed.server.command(&["DEL", "job"]);
    bed.server
        .command(&["PUBLISH", "redisson_lock__channel:{job}", "0"]);
    assert_eq!(runner.end().0, 5);
}

/// A runner for which SIGHUP and SIGINT were ignored when it started.
fn ignoring(bed: &Testbed, script: &str) -> Runner {
    let mut shell = command("sh");
    let start = "trap '' HUP INT; exec \"$0\" run job -- sh -c \"$1\"";
    shell.args(["-c", start, PROGRAM, script]);
    Runner::start(shell.env("LEASEHOLD_URL", bed.server.url()))
}

fn until_listening(bed: &Testbed) {
    wait_until("listening", LATE, || {
        let channel = "redisson_lock__channel:{job}";
        let count = bed.server.command(&["PUBSUB", "NUMSUB", channel]);
        count.array()[1].int() == 1
    });
}

#[test]
fn a_signal_ends_the_wait_and_leaves_nothing() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    let ran = bed.file("ran");
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let runner = bed.run(&["job"], &format!("echo >{}", ran.display()));
        until_listening(&bed);
        runner.signal(signal);
        let (code, told) = runner.end();
        assert_eq!(code, 128 + signal as i32, "{told}");
    }
    assert_eq!(bed.server.command(&["HLEN", "job"]).int(), 1);
    assert_eq!(text(&ran), "");
}

#[test]
fn a_suspended_command_continues_with_its_lock() {
    let Some(bed) = Testbed::start() else { return };
    let file = bed.file("pid");
    let runner = bed.run(
        &["job", "--lease", "3s"],
        &format!("echo $$ >{}; read x; exit 6", file.display()),
    );
    let pid = await_line(&file);
    let child = nix::unistd::Pid::from_raw(pid.parse().expect("a pid"));
    nix::sys::signal::kill(child, Signal::SIGSTOP).expect("running");
    // Its runner is not suspended: it goes on to renew the lock, for longer than a lease.
    let mut renewals = 0;
    let mut last = bed.left("job");
    wait_until("the lock is renewed", LATE, || {
        let left = bed.left("job");
        assert!(left.is_some(), "it was lost");
        renewals += u32::from(left > last);
        last = left;
        renewals >= 3
    });
    nix::sys::signal::kill(child, Signal::SIGCONT).expect("it is there");
    assert_eq!(runner.end().0, 6);
}
