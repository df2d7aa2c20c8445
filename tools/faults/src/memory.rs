//! A group of processes whose memory is limited by the kernel.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Enough for a client, too little for one that uses memory without end.
const LIMIT: u64 = 128 << 20;

/// It ends with this value, if its processes have.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Group {
    /// None where this user may not, or the system has no such groups (version 1).
    pub(crate) fn make() -> Option<Self> {
        let folder = format!("/sys/fs/cgroup/memory/leasehold-{}", std::process::id());
        let group = Group(folder.into());
        fs::create_dir_all(&group.0).ok()?;
        fs::write(group.0.join("memory.limit_in_bytes"), LIMIT.to_string()).ok()?;
        Some(group)
    }

    /// The same command, in the group.
    pub(crate) fn of(&self, command: &Command) -> Command {
        let mut inside = Command::new("sh");
        inside
            .args(["-c", "echo $$ >\"$0\" && exec \"$@\""])
            .arg(self.0.join("cgroup.procs"));
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            if let Some(value) = value {
                inside.env(name, value);
            }
        }
        inside
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.0));
    }
}
