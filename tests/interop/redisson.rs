//! The real Redisson in a child process, driven a line at a time (`tests/redisson`).
//!
//! A request is sent when a method is called, not when its future is first polled: a test can let
//! a Java thread wait for a lock and go on. Every reply is awaited with a deadline. The child ends
//! when its standard input closes, and is killed when this is dropped.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long the work of one request may take; long enough for a lock to be waited for.
const DEADLINE: Duration = Duration::from_mins(1);

type Pending = Arc<Mutex<HashMap<u64, oneshot::Sender<String>>>>;

#[derive(Debug)]
pub(crate) struct Redisson {
    child: Child,
    requests: Mutex<Requests>,
    pending: Pending,
}

#[derive(Debug)]
struct Requests {
    input: ChildStdin,
    last_id: u64,
}

/// An exception: its class and its message.
#[derive(Debug)]
pub(crate) struct Thrown(pub(crate) String);

impl Redisson {
    /// Starts a JVM with one Redisson client; `watchdog` is its `lockWatchdogTimeout`.
    pub(crate) async fn start(url: &str, watchdog: Option<Duration>) -> Redisson {
        let java = Redisson::launch();
        let watchdog = watchdog.map(|d| d.as_millis().to_string()).unwrap_or_default();
        java.ask::<String>(&format!("connect {url} {watchdog}")).await.expect("connect");
        java
    }

    fn launch() -> Redisson {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/redisson/target");
        let (classes, deps) = (target.join("classes"), target.join("deps"));
        assert!(deps.is_dir(), "run tests/run once: it builds the Redisson driver");
        let path = format!("{}:{}/*", classes.display(), deps.display());
        let mut child = Command::new("java")
            .args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", &path])
            .arg("leasehold.Driver")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("java is installed");
        let input = child.stdin.take().expect("piped");
        let output = child.stdout.take().expect("piped");
        let pending = Pending::default();
        let waiting = pending.clone();
        std::thread::spawn(move || deliver(output, &waiting));
        Redisson { child, requests: Mutex::new(Requests { input, last_id: 0 }), pending }
    }

    /// Takes a lock on a thread; waits as long as it takes. Without a lease the watchdog renews it.
    pub(crate) fn lock(
        &self,
        thread: &str,
        lock: &str,
        lease: Option<Duration>,
    ) -> impl Future<Output = ()> + Send + use<> {
        let lease = lease.map(|d| d.as_millis().to_string()).unwrap_or_default();
        let reply = self.ask::<String>(&format!("lock {thread} {lock} {lease}"));
        async move {
            reply.await.expect("lock");
        }
    }

    pub(crate) fn try_lock(
        &self,
        thread: &str,
        lock: &str,
        wait: Duration,
        lease: Option<Duration>,
    ) -> impl Future<Output = bool> + Send + use<> {
        let lease = lease.map_or("-1".to_owned(), |d| d.as_millis().to_string());
        let wait = wait.as_millis();
        self.expect(&format!("trylock {thread} {lock} {wait} {lease}"))
    }

    pub(crate) async fn unlock(&self, thread: &str, lock: &str) -> Result<(), Thrown> {
        self.ask::<String>(&format!("unlock {thread} {lock}")).await.map(|_| ())
    }

    pub(crate) async fn is_locked(&self, lock: &str) -> bool {
        self.expect(&format!("islocked {lock}")).await
    }

    pub(crate) async fn is_held(&self, thread: &str, lock: &str) -> bool {
        self.expect(&format!("isheld {thread} {lock}")).await
    }

    pub(crate) async fn hold_count(&self, thread: &str, lock: &str) -> u64 {
        self.expect(&format!("holdcount {thread} {lock}")).await
    }

    /// Remaining milliseconds; -2 if it is free.
    pub(crate) async fn ttl(&self, lock: &str) -> i64 {
        self.expect(&format!("ttl {lock}")).await
    }

    pub(crate) async fn force_unlock(&self, lock: &str) -> bool {
        self.expect(&format!("forceunlock {lock}")).await
    }

    /// The owner that Redis sees when this thread holds a lock.
    pub(crate) async fn owner(&self, thread: &str) -> String {
        self.expect(&format!("owner {thread}")).await
    }

    /// Threads that take the lock so many times each; see `Contention.java`.
    pub(crate) fn contend(
        &self,
        threads: u32,
        rounds: u32,
        lock: &str,
        counter: &str,
    ) -> impl Future<Output = String> + Send + use<> {
        self.expect(&format!("contend {threads} {rounds} {lock} {counter}"))
    }

    /// Ends the JVM at once, as a crash would.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    fn expect<T: FromStr>(&self, command: &str) -> impl Future<Output = T> + Send + use<T> {
        let reply = self.ask(command);
        let command = command.to_owned();
        async move {
            let value = reply.await;
            value.unwrap_or_else(|thrown| panic_with(&command, &thrown))
        }
    }

    fn ask<T: FromStr>(
        &self,
        command: &str,
    ) -> impl Future<Output = Result<T, Thrown>> + Send + use<T> {
        let (sender, reply) = oneshot::channel();
        let mut requests = self.requests.lock().expect("not poisoned");
        requests.last_id += 1;
        let id = requests.last_id;
        self.pending.lock().expect("not poisoned").insert(id, sender);
        writeln!(requests.input, "{id} {command}").expect("the JVM lives");
        let command = command.to_owned();
        async move {
            let reply = timeout(DEADLINE, reply).await;
            let reply = reply.unwrap_or_else(|_| panic_with(&command, &"no reply in time"));
            parse(&reply.expect("the JVM lives"), &command)
        }
    }
}

impl Drop for Redisson {
    fn drop(&mut self) {
        // It may have ended by itself already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// Hands every line to the request that it answers, until the JVM ends.
fn deliver(output: ChildStdout, pending: &Pending) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        let Some((id, reply)) = line.split_once(' ') else { continue };
        let waiting = id.parse().ok().and_then(|id| pending.lock().ok()?.remove(&id));
        if let Some(waiting) = waiting {
            // The test may have given up.
            drop(waiting.send(reply.to_owned()));
        }
    }
    pending.lock().expect("not poisoned").clear();
}

fn parse<T: FromStr>(reply: &str, command: &str) -> Result<T, Thrown> {
    if let Some(thrown) = reply.strip_prefix("err ") {
        return Err(Thrown(thrown.to_owned()));
    }
    let value = reply.strip_prefix("ok").map(str::trim_start);
    let value = value.and_then(|text| text.parse().ok());
    Ok(value.unwrap_or_else(|| panic_with(command, &reply)))
}

#[expect(clippy::panic, reason = "ends the test")]
fn panic_with(command: &str, what: &dyn std::fmt::Debug) -> ! {
    panic!("Redisson, asked to {command}: {what:?}")
}
