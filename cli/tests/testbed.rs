//! A server, runners, and what they leave behind.

use std::fs;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use leasehold_testbed::{Reply, Server, command, is_missing, wait_until};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_leasehold");
/// Far longer than anything takes here.
pub(crate) const LATE: Duration = Duration::from_secs(60);

/// A server with a folder for the files of a test.
pub(crate) struct Testbed {
    pub(crate) server: Server,
}

impl Testbed {
    /// `None` if there is no server to start.
    pub(crate) fn start() -> Option<Testbed> {
        let start = || Testbed {
            server: Server::start(),
        };
        (!is_missing()).then(start)
    }

    /// The program with this server, and nothing of the environment of the tests.
    pub(crate) fn leasehold(&self, arguments: &[&str]) -> Command {
        let mut command = bare(arguments);
        command.env("LEASEHOLD_URL", self.server.url());
        command
    }

    /// Runs to the end.
    pub(crate) fn output(&self, arguments: &[&str]) -> Output {
        self.leasehold(arguments)
            .stdin(Stdio::null())
            .output()
            .expect("started")
    }

    /// Runs a script of `sh` under a lock, in the background.
    pub(crate) fn run(&self, options: &[&str], script: &str) -> Runner {
        let arguments = [&["run"], options, &["--", "sh", "-c", script]].concat();
        Runner::start(&mut self.leasehold(&arguments))
    }

    /// A path in the folder of the server, whose words need no quotes.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.server.folder().join(name)
    }

    pub(crate) fn is_held(&self, name: &str) -> bool {
        matches!(self.server.command(&["EXISTS", name]), Reply::Int(1))
    }

    /// What is left of its lease; `None` if it is free.
    pub(crate) fn left(&self, name: &str) -> Option<Duration> {
        let left = self.server.command(&["PTTL", name]).int();
        u64::try_from(left).ok().map(Duration::from_millis)
    }

    /// Somebody else's hold, as Redisson leaves it.
    pub(crate) fn hold_by_another(&self, name: &str) {
        self.server
            .command(&["HSET", name, "9f2d47a8-5b6c-4e21-8d11-0c3a5e7f9b10:1", "1"]);
        self.server.command(&["PEXPIRE", name, "600000"]);
    }
}

/// The program without any server. What it runs knows its path as `$L`.
pub(crate) fn bare(arguments: &[&str]) -> Command {
    let mut command = command(PROGRAM);
    command.env("L", PROGRAM).args(arguments);
    command
}

/// A runner in the background. It is killed if the test ends before it does.
pub(crate) struct Runner {
    process: Child,
}

impl Runner {
    pub(crate) fn start(command: &mut Command) -> Runner {
        let piped = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        Runner {
            process: piped.spawn().expect("started"),
        }
    }

    pub(crate) fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.process.id()).expect("a pid"))
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("running");
    }

    /// Its standard error, to be read while it runs.
    pub(crate) fn take_stderr(&mut self) -> ChildStderr {
        self.process.stderr.take().expect("piped")
    }

    /// The exit code, and what was written to standard error, unless that was taken.
    pub(crate) fn end(mut self) -> (i32, String) {
        drop(self.process.stdin.take());
        wait_until("the runner ends", LATE, || {
            self.process.try_wait().is_ok_and(|status| status.is_some())
        });
        let status = self.process.wait().expect("it has ended");
        let mut text = String::new();
        if let Some(mut errors) = self.process.stderr.take() {
            errors.read_to_string(&mut text).expect("text");
        }
        (status.code().unwrap_or(-1), text)
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        drop(self.process.kill());
        drop(self.process.wait());
    }
}

/// The text of a file, empty if there is none.
pub(crate) fn text(file: &Path) -> String {
    fs::read_to_string(file).unwrap_or_default()
}

/// Waits for a file with a line.
pub(crate) fn await_line(file: &Path) -> String {
    wait_until(&format!("{} has a line", file.display()), LATE, || {
        text(file).contains('\n')
    });
    text(file).trim().to_owned()
}

/// Whether a process runs. One that has ended and was not waited for does not.
pub(crate) fn runs(pid: &str) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .map(|(_, rest)| rest.starts_with(['Z', 'X']));
    state.is_some_and(|has_ended| !has_ended)
}

/// The wall clock, as `date +%s%N` tells it.
pub(crate) fn wall_nanos() -> u128 {
    #[expect(
        clippy::disallowed_methods,
        reason = "it is compared with what a command writes down"
    )]
    let now = SystemTime::now();
    now.duration_since(UNIX_EPOCH)
        .expect("after 1970")
        .as_nanos()
}

pub(crate) fn exit_code(output: &Output) -> i32 {
    output.status.code().unwrap_or(-1)
}

pub(crate) fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Checks how a run ended and what it wrote.
pub(crate) fn assert_output(output: &Output, code: i32, written: &str) {
    assert_eq!(
        (exit_code(output), &*stdout(output)),
        (code, written),
        "{}",
        stderr(output)
    );
}
