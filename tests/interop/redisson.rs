//! The real Redisson in a child process that is driven line by line (`tests/redisson`).
//!
//! A request is sent when a method is called, not when its future is first polled. So a test can
//! let a Java thread wait for a lock and continue. Every reply is awaited with a deadline. The
//! child ends when its standard input closes, and is killed when this value is dropped.
//!
//! A thread does one thing after another: while it waits for a lock, it answers nothing else.
//!
//! `LEASEHOLD_REDISSON` names another version of Redisson than that of the driver's pom. A test
//! that needs a feature which that version lacks ends with "not applicable"
//! (`tests/redisson/versions` tells it from a failure).

pub(crate) mod contention;
mod latch;
mod locks;
mod semaphores;

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::pin::Pin;
use std::process::{Child, ChildStdin, ChildStdout, Stdio};
use std::str::FromStr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use leasehold_testbed::{command, eventually_within};
use tokio::sync::oneshot;
use tokio::time::timeout;

/// How long a request may take, including the wait for a lock. Threads that contend for a lock need thousands of turns,
/// and a machine that is far too busy may need a tenth of a second for each.
const DEADLINE: Duration = Duration::from_secs(600);

/// The reply to a request that has been sent.
pub(crate) type Reply<T> = Pin<Box<dyn Future<Output = T> + Send>>;

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

/// Settings of a client that differ from Redisson's defaults.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Timeouts {
    /// `lockWatchdogTimeout`
    pub(crate) watchdog: Option<Duration>,
    /// `fairLockWaitTimeout`
    pub(crate) fair_wait: Option<Duration>,
}

/// An exception: its class and its message.
#[derive(Debug)]
pub(crate) struct Thrown(pub(crate) String);

impl Redisson {
    /// Starts a JVM with one Redisson client; `watchdog` is its `lockWatchdogTimeout`.
    pub(crate) async fn start(url: &str, watchdog: Option<Duration>) -> Redisson {
        Redisson::start_with(
            url,
            Timeouts {
                watchdog,
                fair_wait: None,
            },
        )
        .await
    }

    /// One client for each of several servers, whose URLs are separated by semicolons.
    pub(crate) async fn start_with(url: &str, timeouts: Timeouts) -> Redisson {
        let java = Redisson::launch();
        let [watchdog, fair_wait] =
            [timeouts.watchdog, timeouts.fair_wait].map(|d| millis(d.unwrap_or_default()));
        let sharded = sharded(url);
        java.done(&format!("connect {url}{sharded} {watchdog} {fair_wait}"))
            .await;
        java
    }

    fn launch() -> Redisson {
        let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("../redisson/target");
        let version = std::env::var("LEASEHOLD_REDISSON");
        let folder = version.map_or("deps".into(), |version| format!("versions/{version}"));
        let (classes, deps) = (target.join("classes"), target.join(folder));
        let made_by = "tests/run makes it, of another version tests/redisson/versions";
        assert!(
            deps.is_dir(),
            "no Redisson in {}: {made_by}",
            deps.display()
        );
        let path = format!("{}:{}/*", classes.display(), deps.display());
        let mut child = command("java")
            .args([
                "-Xmx256m",
                "-XX:+UseSerialGC",
                "-XX:TieredStopAtLevel=1",
                "-cp",
                &path,
            ])
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
        Redisson {
            child,
            requests: Mutex::new(Requests { input, last_id: 0 }),
            pending,
        }
    }

    /// The owner that Redis sees when this thread holds a lock.
    pub(crate) fn owner(&self, thread: &str) -> Reply<String> {
        self.owner_on(0, thread)
    }

    /// The same for the client of one of several servers.
    pub(crate) fn owner_on(&self, server: usize, thread: &str) -> Reply<String> {
        self.expect(&format!("owner {thread} {server}"))
    }

    /// Waits until this thread, which works on a request, sleeps until a message comes.
    pub(crate) async fn until_parked(&self, thread: &str) {
        let parked = format!("parked {thread}");
        eventually_within(DEADLINE, &parked, async || self.expect(&parked).await).await;
    }

    /// Kills the JVM, like a crash.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("kill");
        self.child.wait().expect("wait");
    }

    /// Sends a command whose reply has no value.
    fn done(&self, command: &str) -> Reply<()> {
        let reply = self.expect::<String>(command);
        Box::pin(async move { drop(reply.await) })
    }

    /// The same for a command that may be refused.
    fn attempt(&self, command: &str) -> Reply<Result<(), Thrown>> {
        let reply = self.ask::<String>(command);
        Box::pin(async move { reply.await.map(drop) })
    }

    /// Sends a command that must not throw.
    fn expect<T: FromStr + 'static>(&self, command: &str) -> Reply<T> {
        let reply = self.ask(command);
        let command = command.to_owned();
        Box::pin(async move {
            let value = reply.await;
            value.unwrap_or_else(|thrown| panic_with(&command, &thrown))
        })
    }

    /// The same, of one that replies `null` if there is nothing.
    fn expect_option<T: FromStr + 'static>(&self, command: &str) -> Reply<Option<T>> {
        let reply = self.expect::<Nullable<T>>(command);
        Box::pin(async move { reply.await.0 })
    }

    fn ask<T: FromStr>(
        &self,
        command: &str,
    ) -> impl Future<Output = Result<T, Thrown>> + Send + use<T> {
        let (sender, reply) = oneshot::channel();
        let mut requests = self.requests.lock().expect("not poisoned");
        requests.last_id += 1;
        let id = requests.last_id;
        self.pending
            .lock()
            .expect("not poisoned")
            .insert(id, sender);
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
        // The process may have ended already.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

/// The `shardedSubscriptionMode` in a cluster: `LEASEHOLD_SHARDED` is `AUTO`, `ON` or `OFF`.
fn sharded(url: &str) -> String {
    match std::env::var("LEASEHOLD_SHARDED") {
        Ok(mode) if url.starts_with("redis-cluster:") => format!("?sharded={mode}"),
        _ => String::new(),
    }
}

/// A value, or `null`.
struct Nullable<T>(Option<T>);

impl<T: FromStr> FromStr for Nullable<T> {
    type Err = T::Err;

    fn from_str(text: &str) -> Result<Nullable<T>, T::Err> {
        if text == "null" {
            Ok(Nullable(None))
        } else {
            text.parse().map(|v| Nullable(Some(v)))
        }
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}

/// Passes each line to the request that it answers, until the JVM ends.
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
