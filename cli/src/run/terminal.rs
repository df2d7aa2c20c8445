//! Job control, as in a shell: which process group uses the terminal, and suspension.

use std::fs::File;
use std::io::{IsTerminal as _, stdin, stdout};
use std::os::unix::fs::FileTypeExt as _;

use nix::sys::signal::{SigSet, Signal, killpg, raise};
use nix::unistd::{Pid, getpgrp, getppid, getsid, tcgetpgrp, tcsetpgrp};

/// The terminal of this session.
#[derive(Debug)]
pub(super) struct Terminal {
    device: File,
}

impl Terminal {
    pub(super) fn open() -> Option<Terminal> {
        File::options()
            .read(true)
            .write(true)
            .open("/dev/tty")
            .ok()
            .map(|device| Terminal { device })
    }

    /// Whether this process is in the foreground, that is, a shell did not start it with `&`.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == getpgrp())
    }

    pub(super) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|foreground| foreground == group)
    }

    /// Makes a process group the foreground group, which reads the terminal and gets its signals.
    pub(super) fn give(&self, group: Pid) {
        // If this process is in the background, SIGTTOU would stop it here.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let is_blocked = blocked.thread_block().is_ok();
        // Fails if the group has just ended; then it needs no terminal.
        let _ = tcsetpgrp(&self.device, group);
        if is_blocked {
            let _ = blocked.thread_unblock();
        }
    }

    pub(super) fn take_back(&self) {
        self.give(getpgrp());
    }
}

/// Whether the command gets the terminal at its start. In a pipeline, another program may read the terminal, such as a
/// pager, so the command gets it only when it tries to use it.
pub(super) fn is_for_command() -> bool {
    let is_pipe =
        || std::fs::metadata("/dev/stdout").is_ok_and(|output| output.file_type().is_fifo());
    stdin().is_terminal() && (stdout().is_terminal() || !is_pipe())
}

/// Stops all processes of this job until the shell continues them. Does nothing if no shell could continue them.
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

/// Whether a parent in the same session can continue this job. Without one, the kernel does not let a key stop it
/// either.
fn has_shell() -> bool {
    matches!((getsid(Some(getppid())), getsid(None)), (Ok(parent), Ok(own)) if parent == own)
}
