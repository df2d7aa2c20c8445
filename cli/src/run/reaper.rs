//! A second process that ends the command if its runner cannot: killed, or stopped for longer than the lease.
//!
//! The runner tells it on its standard input which group runs, and until when the lock is certainly held: `group
//! until`, in a line for each renewal. `done` is the last line. If the input ends without it, the runner is gone.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Child, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{self, Pid};

use super::REAP;
use super::command::own_program;
use super::plan::Plan;
use crate::clock::Moment;
use crate::exit;
use crate::output::complain;

const DONE: &str = "done";
/// A timer may stand still while the machine is suspended: then it is noticed after this time.
const LOOK: Duration = Duration::from_millis(200);

/// The process, as its runner sees it.
#[derive(Debug)]
pub(super) struct Reaper {
    plan: Plan,
    process: Child,
    told: Option<Moment>,
}

impl Reaper {
    pub(super) fn start(plan: Plan) -> io::Result<Reaper> {
        Ok(Reaper {
            plan,
            process: launch(plan, "")?,
            told: None,
        })
    }

    /// Tells it how long the group may run. A reaper that was killed is replaced.
    pub(super) fn watch(&mut self, group: Pid, until: Moment) -> io::Result<()> {
        if self.told == Some(until) {
            return Ok(());
        }
        let line = format!("{group} {}\n", until.to_text());
        if self.tell(&line).is_err() {
            // It knows from its first moment what it is to end.
            self.process = launch(self.plan, &line)?;
        }
        self.told = Some(until);
        Ok(())
    }

    /// The command has ended. The process ends as well, and is waited for; true if it has stopped the command.
    pub(super) fn done(mut self) -> bool {
        // If it was killed it has stopped nothing.
        drop(self.tell(&format!("{DONE}\n")));
        drop(self.process.stdin.take());
        self.process
            .wait()
            .is_ok_and(|status| status.code() == Some(exit::LOST.into()))
    }

    fn tell(&mut self, line: &str) -> io::Result<()> {
        let Some(input) = &mut self.process.stdin else {
            return Ok(());
        };
        input.write_all(line.as_bytes())
    }
}

/// A reaper that was told a line before it begins.
fn launch(plan: Plan, line: &str) -> io::Result<Child> {
    let text = |span: Duration| span.as_nanos().to_string();
    process::Command::new(own_program()?)
        .args([
            REAP,
            &process::id().to_string(),
            &text(plan.grace),
            &text(plan.margin),
            line,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // What ends a job by the terminal is not to end it.
        .process_group(0)
        .spawn()
}

/// What the runner has told.
#[derive(Clone, Copy, Debug)]
struct Told {
    group: Pid,
    until: Moment,
}

/// How far the command of a runner that stands still was brought to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Watch,
    Stopped,
    Killed,
}

/// In the second process.
pub(super) fn reap(runner: Pid, plan: Plan, first_line: &str) -> u8 {
    // It leaves the runner its turn: half of the margin.
    let plan = Plan {
        margin: plan.margin / 2,
        ..plan
    };
    if SigSet::all().thread_block().is_err() {
        return exit::INTERNAL;
    }
    let (mut text, mut told, mut step) = (String::new(), parse(first_line.trim_end()), Step::Watch);
    loop {
        let next = told.and_then(|told| match step {
            Step::Watch => Some(plan.stop_at(told.until)),
            Step::Stopped => Some(plan.kill_at(told.until)),
            Step::Killed => None,
        });
        if !read(&mut text, next).unwrap_or(false) {
            if let Some(Told { group, .. }) = told {
                complain("the runner was killed, and so is its command");
                let _ = killpg(group, Signal::SIGKILL);
            }
            return 0;
        }
        while let Some((line, rest)) = text.split_once('\n') {
            if line == DONE {
                return if step == Step::Watch { 0 } else { exit::LOST };
            }
            told = parse(line).or(told);
            text = rest.to_owned();
        }
        let Some(told) = told else { continue };
        step = advance(step, told, plan);
        if step == Step::Killed {
            // If it is stopped it can now see what happened.
            let _ = kill(runner, Signal::SIGCONT);
        }
    }
}

fn advance(step: Step, told: Told, plan: Plan) -> Step {
    let signal = |signal| killpg(told.group, signal).unwrap_or_default();
    if step != Step::Killed && plan.kill_at(told.until).has_come() {
        signal(Signal::SIGKILL);
        return Step::Killed;
    }
    if step == Step::Watch && plan.stop_at(told.until).has_come() {
        complain("the runner stands still: its command is stopped before the lock can end");
        signal(Signal::SIGTERM);
        signal(Signal::SIGCONT);
        return Step::Stopped;
    }
    step
}

fn parse(line: &str) -> Option<Told> {
    let (group, until) = line.split_once(' ')?;
    Some(Told {
        group: Pid::from_raw(group.parse().ok()?),
        until: Moment::of_text(until)?,
    })
}

/// Waits for the runner's words, for the next step, or for a moment; false if the runner is gone.
fn read(text: &mut String, next: Option<Moment>) -> nix::Result<bool> {
    let stdin = io::stdin();
    let wait = next.map_or(LOOK, |next| next.left().min(LOOK));
    // A part of a millisecond would be none.
    let wait = PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
    let mut input = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let mut bytes = [0; 4096];
    match poll(&mut input, wait) {
        // It was stopped itself, and continued.
        Ok(0) | Err(Errno::EINTR) => return Ok(true),
        ready => ready?,
    };
    let count = unistd::read(stdin.as_fd(), &mut bytes)?;
    text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    Ok(count > 0)
}
