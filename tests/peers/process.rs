//! A process with the locks of another library: a driver that answers line by line.

use std::collections::HashMap;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::{Arc, Mutex};

use leasehold_testbed::soon;
use tokio::sync::oneshot;

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>;

/// A library, by the language of its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Library {
    RedisPy,
    Redsync,
    Redislock,
    NodeRedlock,
}

impl Library {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Library::RedisPy => "redis-py",
            Library::Redsync => "redsync",
            Library::Redislock => "redislock",
            Library::NodeRedlock => "node-redlock",
        }
    }

    /// What `tests/run` prepares for the library, and how its driver is started.
    fn driver(self) -> (PathBuf, Command) {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        let prepared = sources.join("../../target/peers");
        match self {
            Library::RedisPy => {
                let python = prepared.join("bin/python");
                let mut command = leasehold_testbed::command(&python);
                command.arg(sources.join("python/driver.py"));
                (python, command)
            }
            Library::Redsync | Library::Redislock => {
                let driver = prepared.join("go/driver");
                let command = leasehold_testbed::command(&driver);
                (driver, command)
            }
            Library::NodeRedlock => {
                let modules = prepared.join("node/node_modules");
                let mut command = leasehold_testbed::command("node");
                command
                    .arg(sources.join("node/driver.js"))
                    .env("NODE_PATH", &modules);
                (modules.join("redlock"), command)
            }
        }
    }
}

pub(crate) struct Process {
    library: Library,
    child: Child,
    requests: Mutex<(u64, ChildStdin)>,
    pending: Pending,
}

/// The class and text of an exception.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Raised(pub(crate) String);

impl Raised {
    pub(crate) fn is(&self, class: &str) -> bool {
        self.0.split_whitespace().next() == Some(class)
    }
}

impl Process {
    /// A driver that uses these servers.
    pub(crate) fn start(library: Library, urls: &[String]) -> Self {
        let (needed, mut command) = library.driver();
        let name = library.name();
        let missing = || {
            format!(
                "{} is needed for {name}: see tests/run peers",
                needed.display()
            )
        };
        assert!(needed.exists(), "{}", missing());
        let mut child = command
            .args(urls)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap_or_else(|error| panic!("{}: {error}", missing()));
        let input = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        let pending = Pending::default();
        let waiting = pending.clone();
        std::thread::spawn(move || deliver(output, &waiting));
        Process {
            library,
            child,
            requests: Mutex::new((0, input)),
            pending,
        }
    }

    /// Sends a command immediately. The future resolves to its answer.
    pub(crate) fn ask(
        &self,
        command: &str,
    ) -> impl Future<Output = Result<String, Raised>> + Send + use<> {
        let (sender, answer) = oneshot::channel();
        let mut requests = self.requests.lock().expect("not poisoned");
        requests.0 += 1;
        let id = requests.0;
        self.pending
            .lock()
            .expect("not poisoned")
            .insert(id, sender);
        writeln!(requests.1, "{id} {command}").expect("the driver lives");
        drop(requests);
        let (name, command) = (self.library.name(), command.to_owned());
        async move {
            let answer = soon(&command, answer).await;
            let answer = answer.unwrap_or_else(|_| panic!("the driver of {name} ended: {command}"));
            match answer.split_once(' ') {
                Some(("ok", value)) => Ok(value.to_owned()),
                Some(("err", raised)) => Err(Raised(raised.to_owned())),
                _ => panic!("{command}: {answer}"),
            }
        }
    }

    /// A command that must not raise an exception.
    pub(crate) async fn tell(&self, command: &str) -> String {
        let answer = self.ask(command).await;
        answer.unwrap_or_else(|raised| panic!("{command}: {raised:?}"))
    }

    /// Makes a lock known to the driver as `it`.
    pub(crate) async fn make(&self, key: &str, lease_ms: u32) {
        self.tell(&format!("make {} it {key} {lease_ms}", self.library.name()))
            .await;
    }

    /// Starts a crowd in the driver. The future returns how many tasks met another one
    /// inside.
    pub(crate) fn contend(
        &self,
        contenders: usize,
        rounds: usize,
        key: &str,
    ) -> impl Future<Output = Result<String, Raised>> + Send + use<> {
        let name = self.library.name();
        self.ask(&format!("contend {name} {contenders} {rounds} {key} 60000"))
    }

    /// A command that says yes or no.
    pub(crate) async fn is(&self, command: &str) -> bool {
        match self.tell(command).await.as_str() {
            "True" | "true" => true,
            "False" | "false" => false,
            other => panic!("{command}: {other}"),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Hands every line to the request that it answers, until the process ends.
fn deliver(output: ChildStdout, pending: &Pending) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Some((id, answer)) = line.split_once(' ') else {
            continue;
        };
        let waiting = id
            .parse()
            .ok()
            .and_then(|id| pending.lock().ok()?.remove(&id));
        if let Some(waiting) = waiting {
            // The test may have given up.
            drop(waiting.send(answer.to_owned()));
        }
    }
    pending.lock().expect("not poisoned").clear();
}
