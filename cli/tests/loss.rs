//! The command is never there when its lock is not.

use std::time::Duration;

use leasehold_testbed::wait_until;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::testbed::{
    LATE, Runner, Testbed, await_line, exit_code, runs, stderr, text, wall_nanos,
};

const LEASE: Duration = Duration::from_secs(4);

/// Between SIGTERM and SIGKILL, a shell on a busy machine has time to start a program.
const TIME_FOR_A_SHELL: [&str; 5] = ["job", "--lease", "9s", "--grace", "4s"];

/// Writes down when it runs, with SIGTERM ignored, and the ids of two of its processes.
fn stubborn(bed: &Testbed) -> Runner {
    let [times, pids] = ["times", "pids"].map(|name| bed.file(name).display().to_string());
    let script = format!(
        "trap '' TERM; sleep 600 & echo $$ $! >{pids}; \
         while :; do date +%s%N >>{times}; sleep 0.002; done"
    );
    let runner = bed.run(&["job", "--lease", "4s"], &script);
    await_line(&bed.file("pids"));
    runner
}

/// When the lease ends by the server's count, at the earliest. A renewal was just before.
fn end_of_lease(bed: &Testbed) -> u128 {
    let mut last = bed.left("job");
    let mut end = 0;
    wait_until("a renewal", LATE, || {
        let asked = wall_nanos();
        let left = bed.left("job");
        let renewed = left > last;
        last = left;
        end = asked + left.expect("held").as_nanos();
        renewed
    });
    end
}

fn last_time(bed: &Testbed) -> u128 {
    // Its last line may be cut.
    let times = text(&bed.file("times"));
    times
        .lines()
        .filter_map(|line| line.parse().ok())
        .max()
        .expect("it has written")
}

fn all_have_ended(bed: &Testbed) -> bool {
    text(&bed.file("pids"))
        .split_whitespace()
        .all(|pid| !runs(pid))
}

/// In milliseconds.
fn margin(bed: &Testbed, end: u128) -> u128 {
    let last = last_time(bed);
    assert!(
        last < end,
        "the command ran {} ms beyond the lease",
        (last - end) / 1_000_000
    );
    (end - last) / 1_000_000
}

#[test]
fn the_command_is_killed_before_the_lease_ends_while_redis_is_frozen() {
    let Some(bed) = Testbed::start() else { return };
    let runner = stubborn(&bed);
    let end = end_of_lease(&bed);
    bed.server.pause();
    let (code, told) = runner.end();
    assert!(all_have_ended(&bed), "{told}");
    let margin = margin(&bed, end);
    println!("frozen redis, lease of {LEASE:?}: last sign of life {margin} ms before its end");
    assert_eq!(code, 121, "{told}");
    assert!(
        told.contains("no renewal succeeds") && told.contains("killed"),
        "{told}"
    );
    bed.server.resume();
}

#[test]
fn sigterm_comes_first_and_leaves_time_to_end_in_order() {
    let Some(bed) = Testbed::start() else { return };
    let [ready, done] = ["ready", "done"].map(|name| bed.file(name).display().to_string());
    let script = format!(
        "trap 'date +%s%N >{done}; exit 0' TERM; echo >{ready}; while :; do sleep 0.01; done"
    );
    let runner = bed.run(&TIME_FOR_A_SHELL, &script);
    await_line(&bed.file("ready"));
    let end = end_of_lease(&bed);
    bed.server.pause();
    let (code, told) = runner.end();
    assert_eq!(code, 121, "{told}");
    let done: u128 = text(&bed.file("done"))
        .trim()
        .parse()
        .expect("it got SIGTERM");
    assert!(done < end);
    assert!(!told.contains("killed"), "{told}");
    bed.server.resume();
}

#[test]
fn sigterm_comes_once_and_the_runner_ends_with_its_command() {
    let Some(bed) = Testbed::start() else { return };
    let [ready, terms] = ["ready", "terms"].map(|name| bed.file(name).display().to_string());
    let script =
        format!("trap 'date +%s%N >>{terms}' TERM; echo >{ready}; while :; do sleep 0.002; done");
    let runner = bed.run(&TIME_FOR_A_SHELL, &script);
    await_line(&bed.file("ready"));
    let end = end_of_lease(&bed);
    bed.server.pause();
    let (code, told) = runner.end();
    let ended = wall_nanos();
    bed.server.resume();
    assert_eq!(code, 121, "{told}");
    assert_eq!(text(&bed.file("terms")).lines().count(), 1, "{told}");
    assert!(!told.contains("stands still"), "{told}");
    let late = ended.saturating_sub(end) / 1_000_000;
    println!("frozen redis: the runner ended {late} ms after the lease");
    assert!(late < 1_000, "the runner ended {late} ms after the lease");
}

#[test]
fn a_short_outage_stops_nothing() {
    let Some(bed) = Testbed::start() else { return };
    let runner = stubborn(&bed);
    end_of_lease(&bed);
    bed.server.pause();
    // A renewal is due, and has no answer; SIGTERM would come after 3.2 s.
    wait_until("a third of the lease and more", LATE, {
        let since = wall_nanos();
        move || wall_nanos() - since > 2_000_000_000
    });
    bed.server.resume();
    end_of_lease(&bed);
    let times = text(&bed.file("times")).lines().count();
    wait_until("it goes on", LATE, || {
        text(&bed.file("times")).lines().count() > times
    });
    runner.signal(Signal::SIGKILL);
    wait_until("the command ends with its runner", LATE, || {
        all_have_ended(&bed)
    });
}

#[test]
fn the_command_is_killed_in_time_if_its_runner_is_stopped() {
    let Some(bed) = Testbed::start() else { return };
    let runner = stubborn(&bed);
    let end = end_of_lease(&bed);
    runner.signal(Signal::SIGSTOP);
    // The reaper continues it when the command is dead.
    let (code, told) = runner.end();
    assert!(all_have_ended(&bed), "{told}");
    let margin = margin(&bed, end);
    println!("stopped runner, lease of {LEASE:?}: last sign of life {margin} ms before its end");
    assert_eq!(code, 121, "{told}");
    assert!(told.contains("stands still"), "{told}");
}

#[test]
fn the_command_ends_with_its_runner_and_the_lock_with_its_lease() {
    let Some(bed) = Testbed::start() else { return };
    let runner = stubborn(&bed);
    let killed = wall_nanos();
    runner.signal(Signal::SIGKILL);
    wait_until("all processes of the command end", LATE, || {
        all_have_ended(&bed)
    });
    let ended = wall_nanos();
    wait_until("the lock is free", LATE, || !bed.is_held("job"));
    let [ended, free] = [ended, wall_nanos()]
        .map(|then| Duration::from_nanos(u64::try_from(then - killed).expect("seconds")));
    println!(
        "killed runner, lease of {LEASE:?}: the command ended after {ended:?}, the lock was free \
         after {free:?}"
    );
    assert!(ended < LEASE / 3 && free < LEASE + Duration::from_millis(200));
}

#[test]
fn the_command_ends_with_its_runner_although_the_reaper_is_killed_too() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let Some(bed) = Testbed::start() else { return };
    let pids = bed.file("pids");
    let runner = bed.run(
        &["job"],
        &format!("trap '' TERM; echo $$ >{}; exec sleep 600", pids.display()),
    );
    let command = await_line(&pids);
    let reaper = reaper_of(&runner, &command);
    // The runner is stopped first, so that it does not replace the reaper.
    runner.signal(Signal::SIGSTOP);
    kill(reaper, Signal::SIGKILL).expect("running");
    runner.signal(Signal::SIGKILL);
    wait_until("the command ends", LATE, || !runs(&command));
}

#[test]
fn a_reaper_that_was_killed_is_replaced() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let Some(bed) = Testbed::start() else { return };
    let runner = stubborn(&bed);
    let command = text(&bed.file("pids"))
        .split_whitespace()
        .next()
        .expect("two")
        .to_owned();
    let first = reaper_of(&runner, &command);
    kill(first, Signal::SIGKILL).expect("running");
    wait_until("there is another", LATE, || {
        children(&runner)
            .iter()
            .any(|pid| *pid != command && *pid != first.to_string() && runs(pid))
    });
    runner.signal(Signal::SIGKILL);
    wait_until("the command ends with its runner", LATE, || {
        all_have_ended(&bed)
    });
}

#[test]
fn the_reaper_has_a_name_in_the_list_of_processes() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let Some(bed) = Testbed::start() else { return };
    let pid = bed.file("pid");
    let runner = bed.run(&["job"], &format!("echo $$ >{}; read x", pid.display()));
    let reaper = reaper_of(&runner, &await_line(&pid));
    let of_reaper = |file: &str| text(format!("/proc/{reaper}/{file}").as_ref());
    let begin = format!("leasehold-reaper\0{}\0", runner.pid());
    wait_until("it has its name", LATE, || {
        of_reaper("comm").trim() == "leasehold-reap"
    });
    let words = of_reaper("cmdline");
    assert!(words.starts_with(&begin), "{words:?}");
    assert_eq!(runner.end().0, 1, "the end of its input");
}

fn children(runner: &Runner) -> Vec<String> {
    let pid = runner.pid();
    let list = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    list.expect("Linux tells them")
        .split_whitespace()
        .map(str::to_owned)
        .collect()
}

fn reaper_of(runner: &Runner, command: &str) -> Pid {
    let others: Vec<_> = children(runner)
        .into_iter()
        .filter(|pid| pid != command)
        .collect();
    assert_eq!(others.len(), 1, "{others:?}");
    Pid::from_raw(others[0].parse().expect("a pid"))
}

#[test]
fn a_lock_that_is_freed_by_force_stops_the_command() {
    let Some(bed) = Testbed::start() else { return };
    let runner = stubborn(&bed);
    bed.server.command(&["DEL", "job"]);
    bed.hold_by_another("job");
    let (code, told) = runner.end();
    assert_eq!(code, 121, "{told}");
    assert!(told.contains("redis no longer has it"), "{told}");
    assert!(all_have_ended(&bed));
    assert_eq!(
        bed.server.command(&["HLEN", "job"]).int(),
        1,
        "the other's hold is as it was"
    );
}

#[test]
fn break_stops_the_command_at_once() {
    let Some(bed) = Testbed::start() else { return };
    let file = bed.file("started");
    let script = format!("echo started >{}; exec sleep 1000", file.display());
    // The next renewal is far away.
    let runner = bed.run(&["job", "--lease", "10h", "--grace", "1s"], &script);
    await_line(&file);
    let listens = || {
        bed.server
            .command(&["PUBSUB", "CHANNELS", "leasehold_client:*"])
    };
    wait_until("it listens", LATE, || !listens().array().is_empty());
    let broken = bed.output(&["break", "job", "--yes", "--reason", "it is stuck"]);
    assert_eq!(exit_code(&broken), 0, "{}", stderr(&broken));
    let (code, told) = runner.end();
    assert_eq!(code, 121, "{told}");
    assert!(told.contains("forced open by "), "{told}");
    assert!(told.contains(": it is stuck; "), "{told}");
}

#[test]
fn the_lock_is_kept_until_the_last_process_of_the_group_ends() {
    let Some(bed) = Testbed::start() else { return };
    let [pid, go] = ["pid", "go"].map(|name| bed.file(name).display().to_string());
    let script = format!(
        "(until [ -e {go} ]; do sleep 0.01; done) >/dev/null 2>&1 & echo $! >{pid}; exit 3"
    );
    let runner = bed.run(&["job", "--lease", "1s"], &script);
    let background = await_line(&bed.file("pid"));
    let mut last = bed.left("job");
    wait_until("renewed", LATE, || {
        let left = bed.left("job");
        std::mem::replace(&mut last, left) < left
    });
    assert!(runs(&background));
    std::fs::write(bed.file("go"), "").expect("a file");
    assert_eq!(runner.end().0, 3, "the code of the command itself");
    assert!(!bed.is_held("job"));
}

/// A process that has ended stays in its group until its parent waits for it, which this daemon
/// never does.
#[test]
fn a_daemon_that_waits_for_no_child_does_not_keep_the_lock() {
    if !cfg!(target_os = "linux") {
        return;
    }
    let Some(bed) = Testbed::start() else { return };
    let pid = bed.file("pid").display().to_string();
    let daemon = format!("true & echo $$ >{pid}; exec setsid sleep 30");
    let script = format!(
        "sh -c '{daemon}' >/dev/null 2>&1 & until [ -s {pid} ]; do sleep 0.01; done; exit 3"
    );
    let runner = bed.run(&["job"], &script);
    let daemon = await_line(&bed.file("pid"));
    assert_eq!(runner.end().0, 3);
    assert!(runs(&daemon), "the runner has waited for the daemon");
    assert!(!bed.is_held("job"));
    let daemon = Pid::from_raw(daemon.parse().expect("a pid"));
    kill(daemon, Signal::SIGKILL).expect("running");
}

#[test]
fn at_least_leaves_the_lock_to_its_lease() {
    let Some(bed) = Testbed::start() else { return };
    // Shorter and longer than the lease of 30 s: the runner need not stay.
    for (name, at_least, seconds) in [("hour", "1h", 3600), ("moment", "10s", 10)] {
        let (most, passed) = (Duration::from_secs(seconds), Duration::from_secs(9));
        for kind in ["lock", "fair", "fenced", "spin", "string", "write"] {
            let name = format!("{name}-{kind}");
            let job = ["run", &name, "--kind", kind, "--at-least", at_least];
            let output = bed.output(&[&job[..], &["--", "sh", "-c", "exit 4"]].concat());
            assert_eq!(output.status.code(), Some(4));
            let left = bed.left(&name).expect("it is kept");
            assert!(left + passed > most && left <= most, "{name}: {left:?}");
            // Another machine's cron has nothing to do.
            let output = bed.output(&[&job[..], &["--wait", "0", "--", "true"]].concat());
            assert_eq!(output.status.code(), Some(120));
        }
    }
}

#[test]
fn at_least_outlives_a_runner_that_is_killed() {
    let Some(bed) = Testbed::start() else { return };
    let ready = bed.file("ready");
    let script = format!("echo >{}; read x", ready.display());
    let runner = bed.run(&["job", "--lease", "1s", "--at-least", "1h"], &script);
    wait_until("ready", LATE, || ready.exists());
    runner.signal(Signal::SIGKILL);
    runner.end();
    let left = bed.left("job").expect("it is kept");
    assert!(left > Duration::from_secs(3_590), "{left:?}");
}

#[test]
fn at_least_stays_where_redis_cannot_keep_it() {
    let Some(bed) = Testbed::start() else { return };
    for options in [
        &["readers", "--kind", "read"][..],
        &["job", "--permits", "1"],
    ] {
        let began = wall_nanos();
        let arguments = [&["run"], options, &["--at-least", "1s", "--", "true"]].concat();
        assert_eq!(bed.output(&arguments).status.code(), Some(0));
        assert!(wall_nanos() - began >= 1_000_000_000);
    }
    assert!(
        !bed.is_held("readers"),
        "it is released, and not left for 30 s"
    );
    assert_eq!(bed.server.command(&["GET", "job"]).text(), "1");
}
