//! Leasehold beside the programs of others: what the suites of this package share.
#![expect(
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "a test fails by a panic"
)]
#![expect(clippy::print_stderr, reason = "a test shows why it is not applicable")]

use std::collections::HashMap;
use std::fmt::Debug;
use std::io::{BufRead as _, BufReader, Write as _};
use std::pin::Pin;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// The reply to a request that has been sent.
pub type Reply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>;

/// A program with another library, which is asked line by line: `7 lock it` is answered by `7 ok
/// locked`, or by `7 err SomeException why`.
///
/// A request is sent when a method is called, not when its future is first polled. So a test can
/// let a thread of the program wait for a lock and continue. The program ends when its standard
/// input closes, and is killed when this value is dropped.
#[derive(Debug)]
pub struct Driver {
    name: &'static str,
    child: Child,
    requests: Mutex<(u64, ChildStdin)>,
    pending: Pending,
    limit: Duration,
}

/// An exception: its class and its message.
#[derive(Debug)]
pub struct Thrown(pub String);

impl Driver {
    /// Each reply is awaited for as long as `limit`.
    pub fn start(name: &'static str, command: &mut Command, limit: Duration) -> Self {
        let command = command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let started = command.spawn();
        let mut child = started.unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let input = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        let pending = Pending::default();
        let waiting = pending.clone();
        std::thread::spawn(move || deliver(output, &waiting));
        Driver {
            name,
            child,
            requests: Mutex::new((0, input)),
            pending,
            limit,
        }
    }

    /// Kills the program, like a crash.
    pub fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Sends a command that must not throw.
    pub fn get<T: FromStr + 'static>(&self, command: &str) -> Reply<T> {
        let (name, reply) = (self.name, self.ask(command));
        let command = command.to_owned();
        Box::pin(async move {
            let value = reply.await;
            value.unwrap_or_else(|thrown| panic_with(name, &command, &thrown))
        })
    }

    /// Sends a command. Its reply without a value is empty text.
    pub fn ask<T: FromStr + 'static>(&self, command: &str) -> Reply<Result<T, Thrown>> {
        let (sender, reply) = oneshot::channel();
        let mut requests = self.requests.lock().expect("not poisoned");
        requests.0 += 1;
        let id = requests.0;
        self.pending
            .lock()
            .expect("not poisoned")
            .insert(id, sender);
        writeln!(requests.1, "{id} {command}").expect("the program runs");
        let (name, limit, command) = (self.name, self.limit, command.to_owned());
        Box::pin(async move {
            let reply = timeout(limit, reply).await;
            let reply = reply.unwrap_or_else(|_| panic_with(name, &command, &"no reply in time"));
            let reply = reply.unwrap_or_else(|_| panic_with(name, &command, &"it ended"));
            if let Some(thrown) = reply.strip_prefix("err ") {
                return Err(Thrown(thrown.to_owned()));
            }
            let value = reply.strip_prefix("ok").map(str::trim_start);
            let value = value.and_then(|text| text.parse().ok());
            Ok(value.unwrap_or_else(|| panic_with(name, &command, &reply)))
        })
    }
}

impl Drop for Driver {
    fn drop(&mut self) {
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Passes each line to the request that it answers, until the program ends.
fn deliver(output: ChildStdout, pending: &Pending) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Some((id, reply)) = line.split_once(' ') else {
            continue;
        };
        if let Some(missing) = reply.strip_prefix("unsupported ") {
            // The test fails because of this line, now or when the effect of the call does not
            // occur.
            eprintln!("not applicable: this Redisson has no {missing}");
        }
        let waiting = id
            .parse()
            .ok()
            .and_then(|id| pending.lock().ok()?.remove(&id));
        if let Some(waiting) = waiting {
            // The test may have given up.
            drop(waiting.send(reply.to_owned()));
        }
    }
    pending.lock().expect("not poisoned").clear();
}

fn panic_with(name: &str, command: &str, what: &dyn Debug) -> ! {
    panic!("{name}, asked to {command}: {what:?}")
}
