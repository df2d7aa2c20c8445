//! The command: a process group of its own, whose end and suspension are seen.

use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process;

use nix::errno::Errno;
use nix::sys::signal::{Signal, killpg, raise};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::{Pid, getppid};
use tokio::signal::unix::{self, SignalKind};

use super::START;
use crate::exit::{self, Failure};
use crate::output::complain;

/// A command that was started.
#[derive(Debug)]
pub(super) struct Command {
    /// The process and its group.
    pub(super) group: Pid,
    children: unix::Signal,
    /// Of the process itself; others of its group may go on.
    pub(super) status: Option<u8>,
    /// It was stopped by this signal, and nobody has looked yet.
    stopped: Option<Signal>,
}

impl Command {
    /// Starts a process that is to become the command. It stands still until [`go_on`](Command::go_on).
    pub(super) async fn prepare(
        words: &[OsString],
        environment: &[(&str, Option<String>)],
    ) -> Result<Command, Failure> {
        // Processes that lose their parents become children of this one, so that all of them are waited for.
        #[cfg(target_os = "linux")]
        nix::sys::prctl::set_child_subreaper(true).map_err(Failure::internal("subreaper"))?;
        let cannot = "no process could be started";
        let children = unix::signal(SignalKind::child()).map_err(Failure::internal(cannot))?;
        let mut start = process::Command::new(own_program().map_err(Failure::internal(cannot))?);
        start.arg(START).arg(process::id().to_string()).args(words);
        for (name, value) in environment {
            match value {
                Some(value) => start.env(name, value),
                None => start.env_remove(name),
            };
        }
        // `see` waits for it, and sees it stop, too.
        let started = start
            .process_group(0)
            .spawn()
            .map_err(Failure::internal(cannot))?;
        let group = Pid::from_raw(i32::try_from(started.id()).unwrap_or_default());
        let mut command = Command {
            group,
            children,
            status: None,
            stopped: None,
        };
        while command.stopped.take().is_none() && command.status.is_none() {
            command.changed().await;
        }
        Ok(command)
    }

    /// Continues a command that stands still.
    pub(super) fn go_on(&self) {
        self.signal(Signal::SIGCONT);
    }

    /// Sends a signal to all processes of the group.
    pub(super) fn signal(&self, signal: Signal) {
        // A group that has ended needs none.
        let _ = killpg(self.group, signal);
    }

    /// Resolves when a process ended or stopped. Cancel safe: what happened is seen at the next call.
    pub(super) async fn changed(&mut self) {
        self.children.recv().await;
        self.see();
    }

    /// All processes of the group have ended.
    pub(super) fn has_ended(&mut self) -> bool {
        self.see();
        self.status.is_some() && killpg(self.group, None) == Err(Errno::ESRCH)
    }

    /// By which signal the command was stopped, told once.
    pub(super) fn take_stopped(&mut self) -> Option<Signal> {
        self.stopped.take()
    }

    fn see(&mut self) {
        let flags = WaitPidFlag::WNOHANG | WaitPidFlag::WUNTRACED;
        loop {
            match waitpid(None, Some(flags)) {
                Ok(WaitStatus::Exited(pid, code)) if pid == self.group => {
                    self.status = Some(u8::try_from(code).unwrap_or(exit::INTERNAL));
                }
                Ok(WaitStatus::Signaled(pid, signal, _)) if pid == self.group => {
                    self.status = Some(exit::of_signal(signal));
                }
                Ok(WaitStatus::Stopped(pid, signal)) if pid == self.group => {
                    self.stopped = Some(signal);
                }
                Ok(WaitStatus::StillAlive) => return,
                // The reaper, or a process that has lost its parent.
                Ok(_) | Err(Errno::EINTR) => {}
                Err(_) => return,
            }
        }
    }
}

/// This program, also after its file was replaced.
pub(super) fn own_program() -> io::Result<PathBuf> {
    if cfg!(any(target_os = "linux", target_os = "android")) {
        return Ok(PathBuf::from("/proc/self/exe"));
    }
    std::env::current_exe()
}

/// In the new process: stands still until the runner has made its preparations, then becomes the command. Returns
/// if that is not possible.
pub(super) fn start(runner: Pid, words: &[OsString]) -> u8 {
    let has_runner = || getppid() == runner;
    // If the runner ends, this process ends.
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
