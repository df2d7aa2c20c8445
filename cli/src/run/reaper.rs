//! A second process that ends the command if the runner cannot do it: the runner was killed, or it
//! was stopped for longer than the lease.
//!
//! After each renewal, the runner writes a line `group until watch` to the reaper's standard input:
//! the command's process group, and the time at which the command must have ended unless another
//! line arrives. After it has sent SIGTERM, it writes `group until stopping`, and the reaper only
//! sends SIGKILL. The runner's last line is `done`. If the input ends without `done`, the runner is
//! dead.

use std::io::{self, Write as _};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::process::{self, Child, Stdio};
use std::time::Duration;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, kill, killpg};
use nix::unistd::{self, Pid};

use super::REAPER;
use super::command::own_program;
use super::notices::Notices;
use super::plan::Plan;
use crate::clock::Moment;
use crate::exit;

const DONE: &str = "done";
/// The longest sleep. A timer may pause while the machine is suspended, so the clock is checked
/// this often.
const LOOK: Duration = Duration::from_millis(200);

/// The reaper process, as seen by the runner.
#[derive(Debug)]
pub(super) struct Reaper {
    plan: Plan,
    process: Child,
    /// The last thing that was written to it.
    written: Option<Watched>,
}

impl Reaper {
    pub(super) fn start(plan: Plan) -> io::Result<Reaper> {
        Ok(Reaper {
            plan,
            process: launch(plan, "")?,
            written: None,
        })
    }

    /// Tells the reaper how long the group may run. Replaces a reaper that was killed.
    pub(super) fn watch(&mut self, group: Pid, until: Moment) -> io::Result<()> {
        self.write(Watched {
            group,
            until,
            is_stopping: false,
        })
    }

    /// Tells the reaper that the group has got SIGTERM, and gets SIGKILL at `kill_at`.
    pub(super) fn stopping(&mut self, group: Pid, kill_at: Moment) -> io::Result<()> {
        self.write(Watched {
            group,
            until: kill_at.after(self.plan.margin),
            is_stopping: true,
        })
    }

    fn write(&mut self, watched: Watched) -> io::Result<()> {
        if self.written == Some(watched) {
            return Ok(());
        }
        let line = format!("{}\n", watched.to_line());
        if self.tell(&line).is_err() {
            // The new reaper gets the line as an argument, so that it knows the group from the
            // start.
            self.process = launch(self.plan, &line)?;
        }
        self.written = Some(watched);
        Ok(())
    }

    /// Ends the reaper after the command has ended, and waits for it. True if the reaper has
    /// stopped the command.
    pub(super) fn done(mut self) -> bool {
        // Fails only if the reaper was killed; then it has stopped nothing.
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

/// Starts a reaper that knows a first line.
fn launch(plan: Plan, line: &str) -> io::Result<Child> {
    let text = |span: Duration| span.as_nanos().to_string();
    process::Command::new(own_program()?)
        .arg0(REAPER)
        .args([
            &process::id().to_string(),
            &text(plan.grace),
            &text(plan.margin),
            line,
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        // In another group, so that a signal of the terminal to the job does not end the reaper.
        .process_group(0)
        .spawn()
}

/// What the last line of the runner says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Watched {
    group: Pid,
    until: Moment,
    /// The runner has sent SIGTERM.
    is_stopping: bool,
}

const WATCH: &str = "watch";
const STOPPING: &str = "stopping";

impl Watched {
    fn to_line(self) -> String {
        let word = if self.is_stopping { STOPPING } else { WATCH };
        format!("{} {} {word}", self.group, self.until.to_text())
    }

    fn parse(line: &str) -> Option<Watched> {
        let mut words = line.split(' ');
        let group = Pid::from_raw(words.next()?.parse().ok()?);
        let until = Moment::of_text(words.next()?)?;
        let is_stopping = match words.next()? {
            WATCH => false,
            STOPPING => true,
            _ => return None,
        };
        Some(Watched {
            group,
            until,
            is_stopping,
        })
    }
}

/// How far the command was stopped, by the reaper or by its runner.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Watch,
    Stopped,
    Killed,
}

/// The work of the reaper process.
pub(super) fn reap(runner: Pid, plan: Plan, first_line: &str) -> u8 {
    // The reaper acts later than the runner would, by half of the margin.
    let plan = Plan {
        margin: plan.margin / 2,
        ..plan
    };
    // The name in `ps -o comm` and `top`, which has room for 15 letters.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    let _ = nix::sys::prctl::set_name(c"leasehold-reap");
    if SigSet::all().thread_block().is_err() {
        return exit::INTERNAL;
    }
    let (mut text, mut watched, mut step, mut notices) = (
        String::new(),
        Watched::parse(first_line.trim_end()),
        Step::Watch,
        Notices::new(),
    );
    loop {
        let next = watched.and_then(|watched| match step {
            Step::Watch => Some(plan.stop_at(watched.until)),
            Step::Stopped => Some(plan.kill_at(watched.until)),
            Step::Killed => None,
        });
        if !read(&mut text, next).unwrap_or(false) {
            if let Some(Watched { group, .. }) = watched {
                let _ = killpg(group, Signal::SIGKILL);
                notices.add("the runner was killed, and so is its command");
                notices.write_on_a_new_line();
            }
            return 0;
        }
        while let Some((line, rest)) = text.split_once('\n') {
            if line == DONE {
                notices.write();
                return if step == Step::Watch { 0 } else { exit::LOST };
            }
            watched = Watched::parse(line).or(watched);
            text = rest.to_owned();
        }
        let Some(watched) = watched else { continue };
        step = advance(step, watched, plan, &mut notices);
        if step == Step::Killed {
            // If the runner was stopped, let it continue and see what happened.
            let _ = kill(runner, Signal::SIGCONT);
        }
    }
}

fn advance(step: Step, watched: Watched, plan: Plan, notices: &mut Notices) -> Step {
    let signal = |signal| killpg(watched.group, signal).unwrap_or_default();
    if step != Step::Killed && plan.kill_at(watched.until).has_come() {
        signal(Signal::SIGKILL);
        return Step::Killed;
    }
    if watched.is_stopping && step == Step::Watch {
        return Step::Stopped;
    }
    if step == Step::Watch && plan.stop_at(watched.until).has_come() {
        notices.add("the runner stands still: its command is stopped before the lock can end");
        signal(Signal::SIGTERM);
        signal(Signal::SIGCONT);
        return Step::Stopped;
    }
    step
}

/// Waits for a line of the runner, for the next step, or for the longest sleep. False if the runner
/// is dead.
fn read(text: &mut String, next: Option<Moment>) -> nix::Result<bool> {
    let stdin = io::stdin();
    let wait = next.map_or(LOOK, |next| next.left().min(LOOK));
    // A fraction of a millisecond would be rounded to zero.
    let wait = PollTimeout::try_from(wait + Duration::from_millis(1)).unwrap_or(PollTimeout::ZERO);
    let mut input = [PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
    let mut bytes = [0; 4096];
    match poll(&mut input, wait) {
        // The timeout, or this process was stopped and continued.
        Ok(0) | Err(Errno::EINTR) => return Ok(true),
        ready => ready?,
    };
    let count = unistd::read(stdin.as_fd(), &mut bytes)?;
    text.push_str(&String::from_utf8_lossy(&bytes[..count]));
    Ok(count > 0)
}
