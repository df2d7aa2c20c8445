//! A program that runs, and what it says.

use std::io::{BufRead as _, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use leasehold_testbed::{Server, command, keeper, wait_until};

use crate::LIMIT;

/// A line of its output, and when it was read.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    pub(crate) at: Instant,
    pub(crate) text: String,
}

/// Killed when it is dropped.
pub(crate) struct Process {
    child: Child,
    output: Arc<(Mutex<Vec<Line>>, Condvar)>,
    readers: Vec<JoinHandle<()>>,
}

impl Process {
    /// A service on a server.
    pub(crate) fn start(program: &str, server: &Server, arguments: &[&str]) -> Self {
        Process::spawn(
            command(program)
                .args(arguments)
                .env("REDIS_URL", server.url()),
        )
    }

    pub(crate) fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{command:?}: {error}"));
        keeper::keep(child.id());
        let output = Arc::<(Mutex<Vec<Line>>, Condvar)>::default();
        let readers = vec![
            read(child.stdout.take().unwrap(), output.clone()),
            read(child.stderr.take().unwrap(), output.clone()),
        ];
        Process {
            child,
            output,
            readers,
        }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// What it has said so far.
    pub(crate) fn lines(&self) -> Vec<Line> {
        self.output.0.lock().unwrap().clone()
    }

    /// How many of its lines begin with this, once it has ended: a line of a running process may
    /// not be read yet.
    pub(crate) fn count(&self, start: &str) -> usize {
        self.all().filter(|text| text.starts_with(start)).count()
    }

    /// As [`count`](Process::count), for lines with this text anywhere.
    pub(crate) fn count_with(&self, part: &str) -> usize {
        self.all().filter(|text| text.contains(part)).count()
    }

    fn all(&self) -> impl Iterator<Item = String> {
        assert!(self.readers.is_empty(), "it has not ended");
        self.lines().into_iter().map(|line| line.text)
    }

    /// The first line that begins with `start`, behind the first `after` lines.
    pub(crate) fn says_after(&self, after: usize, start: &str) -> Line {
        let (lines, more) = &*self.output;
        let is_it = |line: &&Line| line.text.starts_with(start);
        let find = |lines: &Vec<Line>| lines.iter().skip(after).find(is_it).cloned();
        let lines = lines.lock().unwrap();
        let waited = more.wait_timeout_while(lines, LIMIT, |lines| find(lines).is_none());
        let (lines, _) = waited.unwrap();
        find(&lines).unwrap_or_else(|| panic!("it does not say `{start}`: {lines:#?}"))
    }

    pub(crate) fn says(&self, start: &str) -> Line {
        self.says_after(0, start)
    }

    /// The rest of the line that begins with `start`.
    pub(crate) fn value(&self, start: &str) -> String {
        self.says(start).text[start.len()..].to_owned()
    }

    pub(crate) fn signal(&self, signal: &str) -> Instant {
        let at = Instant::now();
        let sent = command("kill")
            .arg(signal)
            .arg(self.pid().to_string())
            .status();
        assert!(sent.unwrap().success(), "kill {signal}");
        at
    }

    /// Waits until it has ended by itself, and all that it said has been read.
    pub(crate) fn ended(&mut self) -> ExitStatus {
        let mut status = None;
        wait_until("the process ends", LIMIT, || {
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        keeper::forget(self.pid());
        for reader in self.readers.drain(..) {
            reader.join().unwrap();
        }
        status.unwrap()
    }

    /// Ends it as an orchestrator does.
    pub(crate) fn stop(&mut self) {
        self.signal("-TERM");
        assert!(self.ended().success(), "{:#?}", self.lines());
    }

    pub(crate) fn kill(&mut self) -> Instant {
        let at = self.signal("-KILL");
        self.ended();
        at
    }
}

fn read(
    output: impl Read + Send + 'static,
    to: Arc<(Mutex<Vec<Line>>, Condvar)>,
) -> JoinHandle<()> {
    thread::spawn(move || {
        for text in BufReader::new(output).lines().map_while(Result::ok) {
            to.0.lock().unwrap().push(Line {
                at: Instant::now(),
                text,
            });
            to.1.notify_all();
        }
    })
}

impl Drop for Process {
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            keeper::forget(self.pid());
            drop(self.child.kill());
            drop(self.child.wait());
        }
    }
}

pub(crate) fn exists(server: &Server, key: &str) -> bool {
    server.command(&["EXISTS", key]).int() == 1
}
