//! Whether a process of the command's group still works.
//!
//! A process that has ended stays in its group until its parent waits for it. If the parent is a
//! daemon that left the group, that may be never, and no signal helps. Such a process does not
//! count. Only Linux tells what state the members of a group are in, and only if `/proc` shows the
//! processes of all users (it has no `hidepid`). Elsewhere the group ends with its last member, in
//! whatever state that is.

use nix::errno::Errno;
use nix::sys::signal::killpg;
use nix::unistd::Pid;

use super::process::Process;
use crate::clock::{self, Moment};

/// A search reads the state of all processes. It takes at most this part of the time.
const PART: u32 = 50;

#[derive(Debug)]
pub(super) struct Group {
    pub(super) id: Pid,
    /// A member that worked when it was seen last. As long as it does, nothing is searched.
    working: Option<Pid>,
    next_search: Moment,
}

impl Group {
    pub(super) fn new(id: Pid) -> Group {
        Group {
            id,
            working: None,
            next_search: clock::now(),
        }
    }

    /// Whether all processes of the group have ended. May notice it late, but only by [`PART`]
    /// times the time of a search.
    pub(super) fn has_ended(&mut self) -> bool {
        if killpg(self.id, None) == Err(Errno::ESRCH) {
            return true;
        }
        let works = |process: &Process| process.group == self.id && !process.has_ended;
        let member = self.working.and_then(Process::of);
        if member.is_some_and(|member| works(&member)) || !self.next_search.has_come() {
            return false;
        }
        let began = clock::now();
        let has_ended = self.search();
        self.next_search = clock::now().after(began.passed() * PART);
        has_ended
    }

    /// Whether the group has members, all of which have ended.
    fn search(&mut self) -> bool {
        let Some(processes) = Process::all() else {
            return false;
        };
        let mut members = processes
            .filter(|(_, process)| process.group == self.id)
            .peekable();
        let has_members = members.peek().is_some();
        self.working = members
            .find(|(_, member)| !member.has_ended)
            .map(|(pid, _)| pid);
        has_members && self.working.is_none()
    }
}
