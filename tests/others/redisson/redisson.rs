//! The real Redisson in a child process (`tests/redisson`).
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

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use leasehold_others::{Driver, Reply, Thrown};
use leasehold_testbed::{command, eventually_within};

/// How long a request may take, including the wait for a lock. Threads that contend for a lock need
/// thousands of turns, and a machine that is far too busy may need a tenth of a second for each.
const DEADLINE: Duration = Duration::from_secs(600);

/// The codec of versions before 3.18 looks into these packages of Java itself.
const OPENED: [&str; 12] = [
    "io",
    "lang",
    "lang.invoke",
    "lang.reflect",
    "math",
    "net",
    "nio",
    "text",
    "time",
    "util",
    "util.concurrent",
    "util.concurrent.atomic",
];

#[derive(Debug)]
pub(crate) struct Redisson(Driver);

impl Redisson {
    /// Starts a JVM with one Redisson client for each of several servers, whose URLs are separated
    /// by semicolons. `watchdog` is their `lockWatchdogTimeout`.
    pub(crate) async fn start(url: &str, watchdog: Option<Duration>) -> Redisson {
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
        let mut java = command("java");
        java.args(["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]);
        java.args(OPENED.map(|name| format!("--add-opens=java.base/java.{name}=ALL-UNNAMED")));
        java.args(["-cp", &path, "leasehold.Driver"]);
        let java = Redisson(Driver::start("Redisson", &mut java, DEADLINE));
        let (sharded, watchdog) = (sharded(url), millis(watchdog.unwrap_or_default()));
        java.done(&format!("connect {url}{sharded} {watchdog}"))
            .await;
        java
    }

    /// The owner that Redis sees when this thread holds a lock.
    pub(crate) fn owner(&self, thread: &str) -> Reply<String> {
        self.owner_on(0, thread)
    }

    /// The same for the client of one of several servers.
    pub(crate) fn owner_on(&self, server: usize, thread: &str) -> Reply<String> {
        self.get(&format!("owner {thread} {server}"))
    }

    /// Waits until this thread, which works on a request, sleeps until a message comes.
    pub(crate) async fn until_parked(&self, thread: &str) {
        let parked = format!("parked {thread}");
        eventually_within(DEADLINE, &parked, async || self.get(&parked).await).await;
    }

    /// Kills the JVM, like a crash.
    pub(crate) fn kill(&mut self) {
        self.0.kill();
    }

    /// Sends a command that must not throw.
    fn get<T: FromStr + 'static>(&self, command: &str) -> Reply<T> {
        self.0.get(command)
    }

    /// The same for a command whose reply has no value.
    fn done(&self, command: &str) -> Reply<()> {
        let reply = self.get::<String>(command);
        Box::pin(async move { drop(reply.await) })
    }

    /// The same for a command that may be refused.
    fn attempt(&self, command: &str) -> Reply<Result<(), Thrown>> {
        let reply = self.0.ask::<String>(command);
        Box::pin(async move { reply.await.map(drop) })
    }
}

/// The `shardedSubscriptionMode` in a cluster: `LEASEHOLD_SHARDED` is `AUTO`, `ON` or `OFF`.
fn sharded(url: &str) -> String {
    match std::env::var("LEASEHOLD_SHARDED") {
        Ok(mode) if url.starts_with("redis-cluster:") => format!("?sharded={mode}"),
        _ => String::new(),
    }
}

fn millis(duration: Duration) -> String {
    duration.as_millis().to_string()
}
