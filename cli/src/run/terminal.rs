//! The terminal: which process group reads it, and suspension, as a shell does it.

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

    /// Whether this process is in the foreground: a shell did not start it with `&`.
    pub(super) fn is_ours(&self) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|group| group == getpgrp())
    }

    pub(super) fn is_of(&self, group: Pid) -> bool {
        tcgetpgrp(&self.device).is_ok_and(|foreground| foreground == group)
    }

    /// Makes a group the one that reads the terminal and gets its signals.
    pub(super) fn give(&self, group: Pid) {
        // Without the foreground this is a background group, which SIGTTOU would stop here.
        let mut blocked = SigSet::empty();
        blocked.add(Signal::SIGTTOU);
        let is_blocked = blocked.thread_block().is_ok();
        // A group that has ended just now needs no terminal.
        let _ = tcsetpgrp(&self.device, group);
        if is_blocked {
            let _ = blocked.thread_unblock();
        }
    }

    pub(super) fn take_back(&self) {
        self.give(getpgrp());
    }
}

/// Whether the command is given the terminal at once. In a pipeline others may read it, as a pager does: there the
/// command gets it when it asks.
pub(super) fn is_for_command() -> bool {
    let is_pipe =
        || std::fs::metadata("/dev/stdout").is_ok_and(|output| output.file_type().is_fifo());
    stdin().is_terminal() && (stdout().is_terminal() || !is_pipe())
}

/// Stops all processes of this job until the shell continues them; not where there is no shell that would.
pub(super) fn suspend_job() {
    if has_shell() {
        // It holds for this process before the call returns.
        let _ = killpg(getpgrp(), Signal::SIGSTOP);
    }
}

/// Stops this process until it is continued.
pub(super) fn stop_this_process() {
    if has_shell() {
        let _ = raise(Signal::SIGSTOP);
    }
}

/// A parent of the same session can continue a job. Without one the kernel does not stop it by a key either.
fn has_shell() -> bool {
    matches!((getsid(Some(getppid())), getsid(None)), (Ok(parent), Ok(own)) if parent == own)
}
