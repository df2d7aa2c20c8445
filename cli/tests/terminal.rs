//! On a terminal: the foreground, keys, suspension, questions, colours.

use leasehold_testbed::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::pty::Pty;
use crate::testbed::{LATE, PROGRAM, Testbed, await_line, runs, text};

const CTRL_C: &str = "\u{3}";
const CTRL_D: &str = "\u{4}";
const CTRL_Z: &str = "\u{1a}";

/// On a terminal that is no shell's.
fn leasehold(bed: &Testbed, arguments: &[&str]) -> Pty {
    let words = [&[PROGRAM], arguments].concat();
    Pty::start(24, 100, &words, &[("LEASEHOLD_URL", &bed.server.url())])
}

/// A shell with job control.
fn shell(bed: &Testbed) -> Pty {
    let environment = [
        ("LEASEHOLD_URL", &*bed.server.url()),
        ("PS1", "$ "),
        ("L", PROGRAM),
    ];
    let mut shell = Pty::start(24, 100, &["sh", "-i"], &environment);
    // What is typed is not what is written.
    shell.send("echo is\"\"ready\r");
    shell.await_text("isready");
    shell
}

#[test]
fn the_command_reads_the_terminal() {
    let Some(bed) = Testbed::start() else { return };
    let script = "echo is ready; read line; echo got $line";
    let mut run = leasehold(&bed, &["run", "job", "--", "sh", "-c", script]);
    run.await_text("is ready");
    run.send("words\r");
    run.await_text("got words");
    assert_eq!(run.end(), 0);
}

#[test]
fn keys_that_interrupt_reach_the_command() {
    let Some(bed) = Testbed::start() else { return };
    let script = "trap 'echo interrupted; exit 9' INT; echo is ready; while :; do sleep 0.01; done";
    let mut run = leasehold(&bed, &["run", "job", "--", "sh", "-c", script]);
    run.await_text("is ready");
    run.send(CTRL_C);
    run.await_text("interrupted");
    assert_eq!(run.end(), 9);
    assert!(!bed.is_held("job"));
}

#[test]
fn the_shell_has_the_terminal_again() {
    let Some(bed) = Testbed::start() else { return };
    let mut shell = shell(&bed);
    shell.send("\"$L\" run job -- sh -c 'read a; exit 7'; echo code $?.\r");
    wait_until("running", LATE, || bed.is_held("job"));
    shell.send("line\r");
    shell.await_text("code 7.");
    shell.send("\"$L\" run job -- sh -c 'kill -9 $$'; echo code $?.\r");
    shell.await_text("code 137.");
    shell.send("read b; echo \"read $b\".\r");
    shell.send("more\r");
    shell.await_text("read more.");
}

#[test]
fn a_pager_behind_it_reads_the_terminal() {
    let Some(bed) = Testbed::start() else { return };
    let mut shell = shell(&bed);
    // As a pager does: keys come from the terminal, not from its input.
    shell.send(
        "\"$L\" run job -- echo in \"\"the pipe | sh -c 'cat; read key </dev/tty; echo key \
         $key.'\r",
    );
    shell.await_text("in the pipe");
    shell.send("q\r");
    shell.await_text("key q.");
}

#[test]
fn a_command_in_a_pipe_gets_the_terminal_when_it_asks() {
    let Some(bed) = Testbed::start() else { return };
    let mut shell = shell(&bed);
    shell.send(
        "echo in\"\"put | \"$L\" run job -- sh -c 'cat; read key </dev/tty; echo key $key.' | \
         cat\r",
    );
    shell.await_text("input");
    shell.send("x\r");
    shell.await_text("key x.");
}

#[test]
fn a_job_is_suspended_and_continued_as_a_whole() {
    let Some(bed) = Testbed::start() else { return };
    let mut shell = shell(&bed);
    shell.send("\"$L\" run job -- sh -c 'echo is \"\"on; read a; echo a $a.; exit 5'\r");
    shell.await_text("is on");
    shell.send(CTRL_Z);
    shell.await_text("Stopped");
    shell.send("echo in the \"\"shell\r");
    shell.await_text("in the shell");
    assert!(bed.is_held("job"));
    shell.send("fg\r");
    shell.send("line\r");
    shell.await_text("a line.");
    shell.send("echo code $?.\r");
    shell.await_text("code 5.");
    assert!(!bed.is_held("job"));
}

#[test]
fn a_job_that_is_suspended_for_longer_than_the_lease_is_ended() {
    let Some(bed) = Testbed::start() else { return };
    let [pid, code, job] = ["pid", "code", "job.sh"].map(|name| bed.file(name));
    let script = format!(
        "\"$L\" run job --lease 2s -- sh -c 'echo $$ >{}; read a'; echo $? >{}",
        pid.display(),
        code.display()
    );
    std::fs::write(&job, script).expect("a file");
    let mut shell = shell(&bed);
    shell.send(&format!("sh {}\r", job.display()));
    let command = await_line(&pid);
    shell.send(CTRL_Z);
    shell.await_text("Stopped");
    wait_until("the command ends", LATE, || {
        let is_held = bed.is_held("job");
        let still_runs = runs(&command);
        assert!(is_held || !still_runs, "it ran for longer than the lease");
        !still_runs
    });
    wait_until("the lock is free", LATE, || !bed.is_held("job"));
    // The shell script around it was suspended as well.
    assert_eq!(text(&code), "");
    shell.send("fg\r");
    assert_eq!(await_line(&code), "121");
}

#[test]
fn in_the_background_it_leaves_the_terminal_alone() {
    let Some(bed) = Testbed::start() else { return };
    let (ready, done) = (bed.file("ready"), bed.file("done"));
    let mut shell = shell(&bed);
    let script = format!(
        "echo >{}; until [ -e {} ]; do sleep 0.01; done",
        ready.display(),
        done.display()
    );
    shell.send(&format!("\"$L\" run job -- sh -c '{script}' &\r"));
    await_line(&ready);
    shell.send("read b; echo \"read $b\".\r");
    shell.send("more\r");
    shell.await_text("read more.");
    std::fs::write(&done, "").expect("a file");
    shell.send("wait; echo code $?.\r");
    shell.await_text("code 0.");
}

#[test]
fn the_end_of_the_terminal_ends_the_command() {
    let Some(bed) = Testbed::start() else { return };
    let file = bed.file("pid");
    let script = format!("echo $$ >{}; while :; do sleep 0.01; done", file.display());
    let run = leasehold(&bed, &["run", "job", "--", "sh", "-c", &script]);
    let command = await_line(&file);
    drop(run);
    wait_until("the command ends", LATE, || !runs(&command));
}

#[test]
fn colours_are_for_terminals_and_can_be_refused() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    let mut list = leasehold(&bed, &["ls"]);
    assert_eq!(list.end(), 0);
    list.await_text("job");
    assert!(list.written().contains("\u{1b}["), "{:?}", list.written());
    let environment = [("LEASEHOLD_URL", &*bed.server.url()), ("NO_COLOR", "1")];
    let mut list = Pty::start(24, 100, &[PROGRAM, "ls"], &environment);
    assert_eq!(list.end(), 0);
    list.await_text("job");
    assert!(!list.written().contains("\u{1b}["), "{:?}", list.written());
}

#[test]
fn break_asks_first() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    for (answer, code) in [("\r", 64), ("n\r", 64), ("y\r", 0)] {
        assert!(bed.is_held("job"), "before {answer:?}");
        let mut asked = leasehold(&bed, &["break", "job", "--reason", "its pod is gone"]);
        asked.await_text("[y/N]");
        asked.send(answer);
        assert_eq!(asked.end(), code, "{answer:?}: {}", asked.text());
    }
    assert!(!bed.is_held("job"));
}

#[test]
fn break_spares_a_new_holder() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("job");
    let mut asked = leasehold(&bed, &["break", "job", "--reason", "its pod is gone"]);
    asked.await_text("[y/N]");
    bed.server.command(&["DEL", "job"]);
    bed.server
        .command(&["HSET", "job", "11111111-2222-4333-8444-555555555555:7", "1"]);
    asked.send("y\r");
    assert_eq!(asked.end(), 64);
    asked.await_text("another holder");
    assert!(bed.is_held("job"));
}

#[test]
fn watch_shows_changes_and_leaves_the_terminal_as_it_was() {
    let Some(bed) = Testbed::start() else { return };
    bed.hold_by_another("java:job");
    let mut watch = leasehold(&bed, &["watch", "--interval", "100ms"]);
    watch.await_text("9f2d47a8");
    watch.await_text("1 held");
    bed.server.command(&["DEL", "java:job"]);
    watch.await_text("free");
    watch.await_text("0 held");
    bed.server.pause();
    watch.await_text("redis is not available");
    bed.server.resume();
    watch.await_text("0 held");
    assert!(watch.screen().alternate_screen());
    watch.send("q");
    assert_eq!(watch.end(), 0);
    wait_until("the screen is as it was", LATE, || {
        !watch.screen().alternate_screen()
    });
}

#[test]
fn watch_shows_whole_names_on_eighty_columns() {
    let Some(bed) = Testbed::start() else { return };
    let name = "orders:europe:4711";
    let runner = bed.run(&[name, "--as", "worker@pod-7"], "read x");
    wait_until("it is held", LATE, || bed.is_held(name));
    let environment = [("LEASEHOLD_URL", &*bed.server.url())];
    let mut watch = Pty::start(24, 80, &[PROGRAM, "watch"], &environment);
    watch.await_text("1 held");
    let shown = watch.text();
    for part in [name, "worker@pod-7 (sh)", "WAITERS", "CHANGES/s"] {
        assert!(shown.contains(part), "no {part} in:\n{shown}");
    }
    watch.send("q");
    assert_eq!(watch.end(), 0);
    runner.end();
    // A holder that is too long for the rest of the line leaves half of it to the name.
    bed.hold_by_another("orders:eu:4711");
    let mut watch = Pty::start(24, 80, &[PROGRAM, "watch"], &environment);
    watch.await_text("1 held");
    let shown = watch.text();
    for part in ["orders:eu:4711 ", "9f2d47a8-5b6c-4e21"] {
        assert!(shown.contains(part), "no {part} in:\n{shown}");
    }
    watch.send("q");
    assert_eq!(watch.end(), 0);
}

#[test]
fn a_signal_leaves_the_terminal_of_watch_as_it_was() {
    let Some(bed) = Testbed::start() else { return };
    for signal in [Signal::SIGTERM, Signal::SIGINT, Signal::SIGQUIT] {
        let mut watch = leasehold(&bed, &["watch"]);
        watch.await_text("0 held");
        assert!(watch.screen().alternate_screen());
        let pid = i32::try_from(watch.pid()).expect("a pid");
        kill(Pid::from_raw(pid), signal).expect("running");
        assert_eq!(watch.end(), 0, "{signal}");
        wait_until("the screen is as it was", LATE, || {
            !watch.screen().alternate_screen()
        });
    }
}

#[test]
fn the_end_of_input_is_a_key_too() {
    let Some(bed) = Testbed::start() else { return };
    let copy = bed.file("copy");
    let script = format!("echo is ready; cat >{}", copy.display());
    let mut run = leasehold(&bed, &["run", "job", "--", "sh", "-c", &script]);
    run.await_text("is ready");
    run.send("words\r");
    run.send(CTRL_D);
    assert_eq!(run.end(), 0);
    assert_eq!(text(&copy), "words\n");
}
