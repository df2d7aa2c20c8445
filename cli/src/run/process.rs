//! What Linux tells about a process in `/proc/PID/stat`. Other systems tell nothing.

use std::fs;

use nix::unistd::Pid;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) parent: Pid,
}

impl Process {
    /// `None` if there is no such process, or if it cannot be seen.
    pub(super) fn of(pid: Pid) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    fn parse(line: &str) -> Option<Process> {
        // The name before them is in parentheses, and may contain blanks and parentheses.
        let (_, fields) = line.rsplit_once(") ")?;
        let fields: Vec<_> = fields.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        Some(Process {
            parent: Pid::from_raw(number(1)?),
        })
    }
}
