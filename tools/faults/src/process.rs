//! The resource usage of a process, read from `/proc`.

use std::{fs, io};

use serde::{Deserialize, Serialize};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Usage {
    /// Resident memory.
    pub(crate) rss_kib: u64,
    pub(crate) descriptors: u64,
    pub(crate) threads: u64,
}

impl Usage {
    /// Reads the usage of this process. Fails if it has ended.
    pub(crate) fn of(pid: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{pid}/status"))?;
        let number = |name: &str| {
            let line = status.lines().find_map(|line| line.strip_prefix(name));
            let number = line.and_then(|rest| rest.split_whitespace().next()?.parse().ok());
            number.ok_or_else(|| io::Error::other(format!("no {name} of process {pid}")))
        };
        // Reading the own list opens one more descriptor.
        let list = u64::from(pid == std::process::id());
        let descriptors = fs::read_dir(format!("/proc/{pid}/fd"))?.count() as u64 - list;
        Ok(Usage {
            rss_kib: number("VmRSS:")?,
            descriptors,
            threads: number("Threads:")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead as _, BufReader};
    use std::process::{Child, Command, Stdio};

    use super::*;

    /// A shell that has run `before` and now waits for its input.
    fn shell(before: &str) -> Child {
        let mut shell = Command::new("sh")
            .args(["-c", &format!("{before}; echo; read line")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a shell");
        let output = shell.stdout.as_mut().expect("piped");
        BufReader::new(output)
            .read_line(&mut String::new())
            .expect("the shell prints a line");
        shell
    }

    #[test]
    fn the_usage_of_another_process_is_read() {
        let (mut bare, mut open) = (shell(":"), shell("exec 8</dev/null 9</dev/null"));
        let [before, after] =
            [&bare, &open].map(|shell| Usage::of(shell.id()).expect("the shell runs"));
        assert_eq!(after.descriptors, before.descriptors + 2);
        assert_eq!(after.threads, 1);
        assert!((100..100_000).contains(&after.rss_kib), "{after:?}");
        for shell in [&mut bare, &mut open] {
            drop(shell.stdin.take());
            shell.wait().expect("the shell ends");
        }
        assert!(Usage::of(open.id()).is_err());
    }
}
