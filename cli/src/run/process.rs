//! What Linux tells about a process in `/proc/PID/stat`. Other systems tell nothing.

use std::{fmt, fs};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::unistd::{Pid, getpid};
use serde::{Deserialize, Serialize};

/// A process, as other processes of the machine can find it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ProcessId {
    pid: i32,
    /// When it was started: its number may be given to another process later. `None` if the system
    /// does not tell.
    #[serde(skip_serializing_if = "Option::is_none")]
    started: Option<u64>,
}

impl ProcessId {
    pub(super) fn of_this() -> ProcessId {
        let pid = getpid();
        ProcessId {
            pid: pid.as_raw(),
            started: Process::of(pid).map(|process| process.started),
        }
    }

    /// False also for a process that cannot be seen from here, such as one outside this container.
    pub(super) fn lives(self) -> bool {
        let pid = Pid::from_raw(self.pid);
        match self.started {
            Some(started) => Process::of(pid)
                .is_some_and(|process| process.started == started && !process.has_ended),
            None => kill(pid, None) != Err(Errno::ESRCH),
        }
    }
}

impl fmt::Display for ProcessId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.pid.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) parent: Pid,
    pub(super) group: Pid,
    /// It only waits for its parent to collect its exit code.
    pub(super) has_ended: bool,
    /// In ticks since the machine was started.
    started: u64,
}

impl Process {
    /// `None` if there is no such process, or if it cannot be seen.
    pub(super) fn of(pid: Pid) -> Option<Process> {
        Process::parse(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
    }

    /// All processes, with their ids. `None` if the system hides some from this user.
    pub(super) fn all() -> Option<impl Iterator<Item = (Pid, Process)>> {
        let mounts = fs::read_to_string("/proc/self/mounts").ok()?;
        let hides = |mount: &str| mount.contains(" /proc ") && mount.contains("hidepid=");
        if mounts.lines().any(hides) {
            return None;
        }
        let names = fs::read_dir("/proc").ok()?.filter_map(|entry| {
            let name = entry.ok()?.file_name();
            Some(Pid::from_raw(name.to_str()?.parse().ok()?))
        });
        Some(names.filter_map(|pid| Some((pid, Process::of(pid)?))))
    }

    fn parse(line: &str) -> Option<Process> {
        // The name before them is in parentheses, and may contain blanks and parentheses.
        let (_, fields) = line.rsplit_once(") ")?;
        let fields: Vec<_> = fields.split(' ').collect();
        let number = |at: usize| fields.get(at)?.parse().ok();
        let is_zombie = matches!(fields[0], "Z" | "X");
        // If only the main thread has ended, the state is that of a zombie.
        let threads = number(17)?;
        Some(Process {
            parent: Pid::from_raw(number(1)?),
            group: Pid::from_raw(number(2)?),
            has_ended: is_zombie && threads <= 1,
            started: fields.get(19)?.parse().ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(state: &str, threads: u32) -> Process {
        let line = format!(
            "71 (a) Z (b) {state} 70 69 68 34816 71 4194560 1 0 0 0 0 0 0 0 20 0 {threads} 0 5513 \
             1 1"
        );
        Process::parse(&line).expect("as Linux writes it")
    }

    #[test]
    fn a_process_ends_with_its_last_thread() {
        assert!(!parse("S", 1).has_ended);
        assert!(parse("Z", 1).has_ended);
        assert!(!parse("Z", 2).has_ended, "another thread works on");
    }

    #[test]
    fn a_process_may_have_any_name() {
        let process = parse("R", 1);
        assert_eq!(process.parent, Pid::from_raw(70));
        assert_eq!(process.group, Pid::from_raw(69));
    }

    #[test]
    fn a_later_process_with_the_same_number_is_another_one() {
        let this = ProcessId::of_this();
        assert!(this.lives());
        let earlier = ProcessId {
            started: this.started.map(|started| started - 1),
            ..this
        };
        assert!(!earlier.lives() || this.started.is_none());
    }
}
