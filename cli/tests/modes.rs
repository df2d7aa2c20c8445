//! The modes in which a command leaves the terminal: whether it echoes, waits for whole lines,
//! translates line breaks.

use leasehold_testbed::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::pty::Pty;
use crate::testbed::{LATE, PROGRAM, Testbed, await_line, runs, text};

const CTRL_Z: &str = "\u{1a}";

/// A shell with a terminal of its own. It outlives the run: the kernel resets the modes when the
/// first process ends.
fn shell(bed: &Testbed, words: &[&str]) -> Pty {
    let environment = [
        ("LEASEHOLD_URL", &*bed.server.url()),
        ("PS1", "$ "),
        ("L", PROGRAM),
    ];
    Pty::start(24, 100, &[&["sh"], words].concat(), &environment)
}

/// Runs a line of a script that is no job control's, and stays on the terminal.
fn script(bed: &Testbed, line: &str) -> (Pty, String) {
    let line =
        format!("echo at the start; read go; {line}; echo code $?.; read x; echo read $x.; read y");
    let mut shell = shell(bed, &["-c", &line]);
    shell.await_text("at the start");
    let modes = shell.modes();
    shell.send("\r");
    (shell, modes)
}

/// A shell with job control.
fn interactive(bed: &Testbed) -> (Pty, String) {
    let mut shell = shell(bed, &["-i"]);
    // What is typed is not what is written.
    shell.send("echo is\"\"ready\r");
    shell.await_text("isready\n$");
    let modes = shell.modes();
    (shell, modes)
}

fn lose(bed: &Testbed) {
    bed.server.command(&["DEL", "job"]);
    bed.hold_by_another("job");
}

#[test]
fn the_terminal_is_as_it_was_when_the_lock_is_lost() {
    let Some(bed) = Testbed::start() else { return };
    let command = concat!(
        r#"trap "printf \"last words\r\n\"; exit 0" TERM; stty raw -echo; printf is_raw; "#,
        "while :; do sleep 0.01; done"
    );
    let line = format!("\"$L\" run job --lease 3s -- sh -c '{command}'");
    let (shell, before) = script(&bed, &line);
    shell.await_text("is_raw");
    assert_ne!(shell.modes(), before);
    lose(&bed);
    shell.await_text("code 121.");
    assert_eq!(shell.modes(), before);
    let shown = shell.text();
    let lines: Vec<_> = shown
        .lines()
        .skip_while(|line| !line.contains("last words"))
        .collect();
    assert!(
        lines.len() > 1 && lines[1].starts_with("leasehold: the lock is lost"),
        "below what the command wrote: {shown}"
    );
}

#[test]
fn the_terminal_is_as_it_was_when_the_command_is_killed() {
    let Some(bed) = Testbed::start() else { return };
    let (shell, before) = script(&bed, "\"$L\" run job -- sh -c 'stty raw -echo; kill -9 $$'");
    shell.await_text("code 137.");
    assert_eq!(shell.modes(), before);
}

#[test]
fn a_command_that_ignores_sigterm_leaves_the_terminal_as_it_was() {
    let Some(bed) = Testbed::start() else { return };
    let command =
        r#"trap "" TERM; stty raw -echo; printf "a prompt> "; while :; do sleep 0.01; done"#;
    let line = format!("\"$L\" run job --lease 3s --grace 200ms -- sh -c '{command}'");
    let (shell, before) = script(&bed, &line);
    shell.await_text("a prompt>");
    lose(&bed);
    shell.await_text("code 121.");
    assert_eq!(shell.modes(), before);
    let shown = shell.text();
    for told in [
        "leasehold: the lock is lost",
        "leasehold: the command is killed",
    ] {
        assert!(shown.lines().any(|line| line.starts_with(told)), "{shown}");
    }
}

/// As under a shell: `stty` is a command like any other.
#[test]
fn a_command_that_ends_by_itself_may_change_the_terminal() {
    let Some(bed) = Testbed::start() else { return };
    let (shell, before) = script(&bed, "\"$L\" run job -- stty -echo");
    shell.await_text("code 0.");
    assert_ne!(shell.modes(), before);
}

#[test]
fn a_suspended_command_has_its_modes_when_it_goes_on() {
    let Some(bed) = Testbed::start() else { return };
    let (mut shell, before) = interactive(&bed);
    let command = r#"stty -echo -icanon; echo is "raw"; kill -STOP $$; echo goes "on"; read key"#;
    shell.send(&format!("\"$L\" run job -- sh -c '{command}'\r"));
    shell.await_text("is raw");
    shell.await_text("Stopped");
    wait_until("the shell has its modes", LATE, || shell.modes() == before);
    shell.send("fg\r");
    shell.await_text("goes on");
    assert!(shell.modes() != before, "those of the command");
    // This key still works in these modes.
    shell.send(CTRL_Z);
    wait_until("the shell has its modes", LATE, || shell.modes() == before);
}

#[test]
fn a_command_in_the_background_changes_no_modes() {
    let Some(bed) = Testbed::start() else { return };
    let (mut shell, before) = interactive(&bed);
    let (ready, go) = (bed.file("ready"), bed.file("go"));
    let command = format!(
        "echo >{}; until [ -e {} ]; do sleep 0.01; done; kill -9 $$",
        ready.display(),
        go.display()
    );
    shell.send(&format!("\"$L\" run job -- sh -c '{command}' &\r"));
    await_line(&ready);
    shell.send("stty -echo; echo is \"\"silent\r");
    shell.await_text("is silent");
    let silent = shell.modes();
    assert_ne!(silent, before);
    std::fs::write(&go, "").expect("a file");
    shell.send("wait $!; echo code $?.\r");
    shell.await_text("code 137.");
    assert_eq!(shell.modes(), silent);
}

/// The command is a shell with job control, so what it runs has a group of its own, and the
/// foreground.
#[test]
fn the_terminal_comes_back_from_a_job_of_the_command() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let Some(bed) = Testbed::start() else { return };
    let pid = bed.file("pid");
    // It ends with the folder of this test.
    let job = format!(
        "stty raw -echo; echo $$ >{0}; while [ -e {0} ]; do sleep 0.05; done",
        pid.display()
    );
    let line = format!("JOB='{job}' \"$L\" run job --lease 3s -- sh -mc 'sh -c \"$JOB\"; exit 1'");
    let (mut shell, before) = script(&bed, &line);
    let job = await_line(&pid);
    wait_until("it is raw", LATE, || shell.modes() != before);
    lose(&bed);
    shell.await_text("code 121.");
    assert_eq!(shell.modes(), before);
    assert!(runs(&job), "its group is not that of the command");
    shell.send("a line\r");
    shell.await_text("read a line.");
}

/// Nobody is left whom the system could name as the user of the terminal.
#[test]
fn the_terminal_comes_back_from_a_job_that_ended_with_the_command() {
    let Some(bed) = Testbed::start() else { return };
    let pids = bed.file("pids");
    let job = format!("stty raw -echo; echo $$ >>{}; read x", pids.display());
    let line = format!(
        "JOB='{job}' \"$L\" run job -- sh -mc 'echo $PPID $$ >{}; sh -c \"$JOB\"; exit 1'",
        pids.display()
    );
    let (mut shell, before) = script(&bed, &line);
    wait_until("the job runs", LATE, || text(&pids).lines().count() == 2);
    let written = text(&pids);
    let pids: Vec<_> = written.split_whitespace().collect();
    let send = |pid: &str, signal| {
        kill(Pid::from_raw(pid.parse().expect("a pid")), signal).expect("running");
    };
    // The runner learns of both at once.
    send(pids[0], Signal::SIGSTOP);
    for pid in &pids[1..] {
        send(pid, Signal::SIGKILL);
        wait_until("it has ended", LATE, || !runs(pid));
    }
    send(pids[0], Signal::SIGCONT);
    shell.await_text("code 137.");
    assert_eq!(shell.modes(), before);
    shell.send("a line\r");
    shell.await_text("read a line.");
}
