//! A control group (cgroup v1) that limits the memory of a client.

use std::fs;
use std::path::PathBuf;
use std::process::Command;

/// Enough for a normal client, and soon exceeded by one that leaks.
const LIMIT: u64 = 128 << 20;

/// Dropping it removes the group, if its processes have ended.
#[derive(Debug)]
pub(crate) struct Group(PathBuf);

impl Group {
    /// Creates a group. `None` if the user lacks the permission, or the system has no cgroup v1.
    pub(crate) fn make() -> Option<Self> {
        let folder = format!("/sys/fs/cgroup/memory/leasehold-{}", std::process::id());
        let group = Group(folder.into());
        fs::create_dir_all(&group.0).ok()?;
        fs::write(group.0.join("memory.limit_in_bytes"), LIMIT.to_string()).ok()?;
        Some(group)
    }

    /// Returns a command that runs `command` in the group.
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
