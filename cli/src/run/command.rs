//! The command, in its own process group. The runner sees when its processes end or stop.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getpid, getppid};
use tokio::signal::unix::{self, SignalKind};

use super::START;
use super::group::Group;
use super::process::Process;
use crate::exit::{self, Failure};
use crate::output::complain;

/// A running command.
#[derive(Debug)]
pub(super) struct Command {
    /// The process is the first of its group.
    group: Group,
    children: unix::Signal,
    /// How the process itself ended. Other processes of the group may still run.
    pub(super) exit: Option<Exit>,
    /// The signal that stopped the command, until `take_stopped` returns it.
    stopped: Option<Signal>,
}

/// How a process ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exit {
    Code(u8),
    Signal(Signal),
}

impl Exit {
    /// The exit code, as in a shell.
    pub(super) fn code(self) -> u8 {
        match self {
            Exit::Code(code) => code,
            Exit::Signal(signal) => exit::of_signal(signal),
        }
    }
}

impl Command {
    /// Starts a process that becomes the command. It is stopped until [`go_on`](Command::go_on).
    pub(super) async fn prepare(
        words: &[OsString],
        environment: &[(&str, Option<String>)],
    ) -> Result<Command, Failure> {
        // Orphans of the command become children of this process, so that it can wait for all of
        // them.
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true).map_err(Failure::internal("subreaper"))?;
        let cannot = "no process could be started";
        let children = unix::signal(SignalKind::child()).map_err(Failure::internal(cannot))?;
        let mut start = process::Command::new(own_program().map_err(Failure::internal(cannot))?);
        start.arg0(START).arg(process::id().to_string()).args(words);
        for (name, value) in environment {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        // Not by tokio: `see` reaps the process itself, and also learns when it stops.
        let started = start
            .process_group(0)
            .spawn()
            .map_err(Failure::internal(cannot))?;
        let group = Pid::from_raw(i32::try_from(started.id()).unwrap_or_default());
        let mut command = Command {
            group: Group::new(group),
            children,
            exit: None,
            stopped: None,
        };
        while command.stopped.take().is_none() && command.exit.is_none() {
            command.changed().await;
        }
        Ok(command)
    }

    pub(super) fn group(&self) -> Pid {
        self.group.id
    }

    /// Continues a stopped command.
    pub(super) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Sends a signal to all processes of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // Fails only if the group has ended.
        let _ = killpg(self.group.id, signal);
    }

    /// Resolves when a process has ended or stopped. Cancel safe: the next call reports it.
    pub(super) async fn changed(&mut self) {
        self.children.recv().await;
        self.see();
    }

    /// Whether all processes of the group have ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.see();
        self.exit.is_some() && self.group.has_ended()
    }

    /// Whether the foreground group of a terminal that the command has got is its own, or that of a
    /// job which the command has left behind. Otherwise a shell has taken the terminal meanwhile.
    pub(super) fn has_left(&self, foreground: Pid) -> bool {
        // Orphans of the command are children of this process.
        let is_orphan = |process: Process| process.parent == getpid();
        foreground == self.group.id
            || Process::of(foreground).is_some_and(is_orphan)
            || killpg(foreground, None) == Err(Errno::ESRCH)
    }

    /// The signal that stopped the command. Returned once for each stop.
    pub(super) fn take_stopped(&mut self) -> Option<Signal> {
        self.stopped.take()
    }

    fn see(&mut self) {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.group.id => {
                    self.exit = Some(Exit::Code(u8::try_from(code).unwrap_or(exit::INTERNAL)));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.group.id => {
                    self.exit = Some(Exit::Signal(signal));
                }
                Ok(WaitStatus::Stopped(pid, signal)) if pid == self.group.id => {
                    self.stopped = Some(signal);
                }
                Ok(WaitStatus::StillAlive) => return,
                // Another child: the reaper, or an orphan of the command.
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// The file of this program, even after an upgrade has replaced it.
pub(super) fn own_program() -> io::Result<PathBuf> {
    if cfg!(any(target_os = "linux", target_os = "android")) {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}

/// Runs in the new process. Stops until the runner is prepared, then executes the command. Returns
/// only if the command cannot be executed.
pub(super) fn start(runner: Pid, words: &[OsString]) -> u8 {
    let has_runner = || getppid() == runner;
    // If the runner dies, the kernel kills this process.
    #[cfg(any(target_os = "linux", target_os = "android"))]
    if nix::sys::prctl::set_pdeathsig(Signal::SIGKILL).is_err() {
        return exit::INTERNAL;
    }
    if !has_runner() || raise(Signal::SIGSTOP).is_err() || !has_runner() {
        return exit::INTERNAL;
    }
    let [program, arguments @ ..] = words else {
        return exit::USAGE;
    };
    let error = process::Command::new(program).args(arguments).exec();
    complain(&format!("{}: {error}", program.to_string_lossy()));
    match error.kind() {
        io::ErrorKind::NotFound => exit::NOT_FOUND,
        _ => exit::NOT_EXECUTABLE,
    }
}
