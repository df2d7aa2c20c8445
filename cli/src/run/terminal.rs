//! Job control, as in a shell: which process group uses the terminal, its modes, and suspension.

use std::fs::File;
use std::io::{IsTerminal as _, stdin, stdout};
use std::os::unix::fs::FileTypeExt as _;

use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::sys::termios::{SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{Pid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

/// The terminal of this session.
#[derive(Debug)]
pub(super) struct Terminal {
    device: File,
    /// The modes before the command got the terminal.
    ours: Option<Termios>,
    /// The modes that the command had when it was stopped.
    theirs: Option<Termios>,
}

impl Terminal {
    pub(super) fn open() -> Option<Terminal> {
        let device = File::options().read(true).write(true).open("/dev/tty");
        device.ok().map(|device| Terminal {
            device,
            ours: None,
            theirs: None,
        })
    }

    /// The foreground group, which reads the terminal and gets its signals.
    pub(super) fn foreground(&self) -> Option<Pid> {
        tcgetpgrp(&self.device).ok()
    }

    /// Whether the command has ever got it.
    pub(super) fn was_lent(&self) -> bool {
        self.ours.is_some()
    }

    /// Whether this process is in the foreground, that is, a shell did not start it with `&`.
    pub(super) fn is_ours(&self) -> bool {
        self.foreground() == Some(getpgrp())
    }

    /// Makes a process group the foreground group, in the modes that it had when it was stopped.
    /// Called only while the terminal is ours.
    pub(super) fn lend(&mut self, group: Pid) {
        self.ours = tcgetattr(&self.device).ok();
        self.set_foreground(group);
        if let Some(theirs) = &self.theirs {
            self.set_modes(theirs);
        }
    }

    pub(super) fn take_back(&mut self) {
        self.theirs = tcgetattr(&self.device).ok();
        self.set_foreground(getpgrp());
    }

    /// Sets the modes that the terminal had before the command got it. Called only after
    /// `take_back`.
    pub(super) fn restore(&self) {
        if let Some(ours) = &self.ours {
            self.set_modes(ours);
        }
    }

    fn set_foreground(&self, group: Pid) {
        // Fails if the group has just ended; then it needs no terminal.
        without_sigttou(|| {
            let _ = tcsetpgrp(&self.device, group);
        });
    }

    fn set_modes(&self, modes: &Termios) {
        // At once: a terminal whose output is paused (`Ctrl-S`) must not delay the release of the
        // lock.
        without_sigttou(|| {
            let _ = tcsetattr(&self.device, SetArg::TCSANOW, modes);
        });
    }
}

/// Changes the terminal. If this process is in the background, SIGTTOU would stop it there.
fn without_sigttou(change: impl FnOnce()) {
    let mut blocked = SigSet::empty();
    blocked.add(Signal::SIGTTOU);
    let is_blocked = blocked.thread_block().is_ok();
    change();
    if is_blocked {
        let _ = blocked.thread_unblock();
    }
}

/// Whether the command gets the terminal at its start. In a pipeline, another program may read the
/// terminal, such as a pager, so the command gets it only when it tries to use it.
pub(super) fn is_for_command() -> bool {
    let is_pipe =
        || std::fs::metadata("/dev/stdout").is_ok_and(|output| output.file_type().is_fifo());
    stdin().is_terminal() && (stdout().is_terminal() || !is_pipe())
}

/// Stops all processes of this job until the shell continues them. Does nothing if no shell could
/// continue them.
pub(super) fn suspend_job() {
    if has_shell() {
        // This process stops before the call returns.
        let _ = killpg(getpgrp(), Signal::SIGSTOP);
    }
}

/// Stops this process until it is continued.
pub(super) fn stop_this_process() {
    if has_shell() {
        let _ = raise(Signal::SIGSTOP);
    }
}

/// Whether a parent in the same session can continue this job. Without one, the kernel does not let
/// a key stop it either.
fn has_shell() -> bool {
    matches!((getsid(Some(getppid())), getsid(None)), (Ok(parent), Ok(own)) if parent == own)
}
