//! What a behaviour runs on: the embedded engine, or real servers.

use std::fmt::Debug;
use std::time::Duration;

use futures::FutureExt as _;
use leasehold::settings::LocalHandover;
use leasehold::test_util::{ErrorReply, Reply, scripts};
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error, blocking};
use tokio::time::Instant;

use crate::{Borrowed, Outside, PROFILES, SOON, eventually, ms, wait_until};

/// How a suite makes its connections to a URL.
pub type Connect = fn(&str) -> ClientBuilder;

/// The engine or servers of one test, with a view of Redis from outside.
#[derive(Debug)]
pub enum Bed {
    Server(Box<Borrowed>, Connect),
    Embedded(EmbeddedRedis),
}

impl Bed {
    /// The deployment that `LEASEHOLD_DEPLOYMENT` names: `cluster`, `sentinel`, or a single server
    /// if it is not set.
    pub fn server() -> Self {
        Bed::server_through(Client::builder)
    }

    /// The same for clients with another kind of connection.
    pub fn server_through(connect: Connect) -> Self {
        Bed::Server(Box::new(Borrowed::take()), connect)
    }

    /// The engine. With paused time every instant is exact. `LEASEHOLD_PROFILE` names one of the [`PROFILES`].
    pub fn embedded() -> Self {
        let Ok(name) = std::env::var("LEASEHOLD_PROFILE") else {
            return Bed::Embedded(EmbeddedRedis::new());
        };
        let profile = PROFILES.iter().find(|profile| profile.name == name);
        let profile = profile.unwrap_or_else(|| panic!("no profile is called {name}"));
        Bed::Embedded(EmbeddedRedis::with_profile(*profile))
    }

    /// An engine that knows all scripts, so that each call is one request.
    pub fn engine() -> EmbeddedRedis {
        let redis = EmbeddedRedis::new();
        for (name, text, _) in scripts() {
            redis.command(&["SCRIPT", "LOAD", text]).expect(name);
        }
        redis
    }

    pub fn is_embedded(&self) -> bool {
        matches!(self, Bed::Embedded(_))
    }

    /// Another, independent bed of the same kind.
    #[must_use]
    pub fn another(&self) -> Self {
        match self {
            Bed::Server(_, connect) => Bed::server_through(*connect),
            Bed::Embedded(_) => Bed::embedded(),
        }
    }
}

/// Clients.
impl Bed {
    pub fn builder(&self) -> ClientBuilder {
        match self {
            // Generous timeouts, because the machine may stall while the client connects or reads a
            // reply.
            Bed::Server(server, connect) => connect(&server.url())
                .connect_timeout(SOON)
                .command_timeout(SOON / 2),
            Bed::Embedded(engine) => engine.builder(),
        }
    }

    /// Without polls within a test, so that waiters depend on messages.
    pub fn without_polls(&self) -> ClientBuilder {
        self.builder().safety_poll(Duration::from_secs(60))
    }

    pub async fn client(&self) -> Client {
        connected(self.builder()).await
    }

    pub async fn client_without_polls(&self) -> Client {
        connected(self.without_polls()).await
    }

    /// A client whose renewed holds last this long.
    pub async fn client_with_lease(&self, lease: Duration) -> Client {
        connected(self.builder().lease(lease)).await
    }

    /// A client that hands holds over however long the sections take.
    pub async fn client_with_long_streaks(&self) -> Client {
        let streak = LocalHandover::Streak {
            count: 1000,
            time: SOON,
        };
        connected(self.without_polls().local_handover(streak)).await
    }

    /// A client for threads, without polls.
    pub fn blocking_client(&self) -> blocking::Client {
        blocking::Client::connect_with(self.without_polls()).expect("a client")
    }

    pub fn blocking_client_with_lease(&self, lease: Duration) -> blocking::Client {
        blocking::Client::connect_with(self.without_polls().lease(lease)).expect("a client")
    }
}

/// Times: exact with paused time, generous where the machine may stall.
impl Bed {
    /// A short time, longer where other processes may be slow.
    pub fn span(&self, span: u64) -> Duration {
        ms(if self.is_embedded() { span } else { span * 4 })
    }

    /// A lease that must outlast a part of the test. On a server it outlasts a stall of the machine
    /// of one second.
    pub fn lease(&self, span: u64) -> Duration {
        ms(if self.is_embedded() { span } else { span * 10 })
    }

    /// How late something may be. On a server, only something that never happens is a fault.
    pub fn late(&self, span: u64) -> Duration {
        if self.is_embedded() {
            ms(span)
        } else {
            SOON / 2
        }
    }

    /// How much earlier a span may end by a server's clock. The clock counts whole milliseconds at
    /// both ends of the span, and runs faster by up to a thousandth while it is being corrected.
    pub fn early(&self, span: Duration) -> Duration {
        if self.is_embedded() {
            ms(1)
        } else {
            ms(2) + span / 1000
        }
    }

    /// Expects a wait to fail because another owner has the lock. On a server, tries once more if
    /// a stalled machine lost the last reply of the wait.
    pub async fn in_vain<T: Debug>(&self, wait: impl AsyncFn() -> Result<T, Error>) -> Error {
        // The caller measures how long the first wait takes.
        let mut limit = None;
        loop {
            let error = wait().await.expect_err("somebody has it");
            if error.is_timeout() {
                return error;
            }
            self.timed_out(&error);
            let now = Instant::now();
            let limit = *limit.get_or_insert(now + SOON);
            assert!(now < limit, "no wait was answered: {error}");
        }
    }

    /// Asserts that a wait which cannot be repeated has failed: by a timeout, or on a stalled
    /// machine by a lost reply.
    pub fn timed_out(&self, error: &Error) {
        let is_lost = !self.is_embedded() && error.is_retryable();
        assert!(error.is_timeout() || is_lost, "{error}");
    }

    /// Blocks the process for a while in the middle of a poll.
    pub fn stall(&self) -> fn(Duration) {
        if self.is_embedded() {
            // The first poll moves the clock.
            |span| {
                let advanced = tokio::time::advance(span);
                advanced.now_or_never().unwrap_or_default();
            }
        } else {
            std::thread::sleep
        }
    }
}

/// Redis from outside: its keys, its switches, its counters.
impl Bed {
    /// Runs a command and returns its reply as text; `nil` if it is empty.
    pub fn command(&self, words: &[&str]) -> String {
        match self {
            Bed::Server(server, _) => text_of(&server.command(words)),
            Bed::Embedded(engine) => text(engine.command(words)),
        }
    }

    /// The texts of a reply that is a list.
    pub fn list(&self, words: &[&str]) -> Vec<String> {
        match self {
            Bed::Server(server, _) => {
                let reply = server.command(words);
                reply.array().iter().map(text_of).collect()
            }
            Bed::Embedded(engine) => match engine.command(words) {
                Ok(Reply::Array(parts)) => parts.into_iter().map(text).collect(),
                other => panic!("{words:?} gave {other:?}"),
            },
        }
    }

    pub fn number(&self, words: &[&str]) -> i64 {
        let text = self.command(words);
        text.parse()
            .unwrap_or_else(|_| panic!("{words:?} gave {text}"))
    }

    pub fn exists(&self, key: &str) -> bool {
        self.number(&["EXISTS", key]) == 1
    }

    /// The remaining milliseconds of a key.
    pub fn left(&self, key: &str) -> i64 {
        self.number(&["PTTL", key])
    }

    /// Deletes a key that must exist, without a message.
    pub fn delete(&self, key: &str) {
        assert_eq!(self.number(&["DEL", key]), 1, "it was there");
    }

    pub async fn until_gone(&self, key: &str) {
        eventually("the key is gone", async || !self.exists(key)).await;
    }

    /// [`until_gone`](Bed::until_gone) for a thread.
    pub fn wait_until_gone(&self, key: &str) {
        wait_until("the key is gone", SOON, || !self.exists(key));
    }

    /// Publishes a message like a release.
    pub fn publish(&self, channel: &str, message: &str) {
        match self {
            Bed::Server(server, _) => server.publish(channel, message),
            Bed::Embedded(engine) => {
                let profile = engine.profile();
                let publish = if profile.is_some_and(|profile| profile.is_cluster) {
                    "SPUBLISH"
                } else {
                    "PUBLISH"
                };
                drop(self.command(&[publish, channel, message]));
            }
        }
    }

    /// The channels that have subscribers.
    pub fn channels(&self) -> Vec<String> {
        match self {
            Bed::Server(server, _) => server.channels(),
            Bed::Embedded(engine) => {
                let all = engine.listeners().into_iter();
                let heard = all.filter(|(_, listeners)| *listeners > 0);
                heard.map(|(channel, _)| channel).collect()
            }
        }
    }

    /// The number of scripts that clients have run.
    pub fn calls(&self) -> u64 {
        match self {
            Bed::Server(server, _) => Outside::of(&**server).calls("evalsha"),
            Bed::Embedded(engine) => engine.scripts_run().values().sum(),
        }
    }

    /// The server's clock, in milliseconds since 1970.
    pub fn clock(&self) -> i64 {
        let parts = self.list(&["TIME"]);
        let [seconds, micros] = [0, 1].map(|at| parts[at].parse::<i64>().expect("a number"));
        seconds * 1000 + micros / 1000
    }

    /// Stops all replies for good.
    pub fn fail(&mut self) {
        match self {
            Bed::Server(server, _) => server.kill(),
            Bed::Embedded(engine) => engine.cut(),
        }
    }

    /// Stops all replies until [`resume`](Bed::resume), without closing connections.
    pub fn pause(&self) {
        match self {
            Bed::Server(server, _) => server.pause(),
            Bed::Embedded(engine) => engine.pause(),
        }
    }

    /// Executes what was sent in the meantime.
    pub fn resume(&self) {
        match self {
            Bed::Server(server, _) => server.resume(),
            Bed::Embedded(engine) => engine.resume(),
        }
    }
}

/// A client whose server answers.
pub async fn connected(builder: ClientBuilder) -> Client {
    builder.connect().await.expect("a client")
}

fn text_of(reply: &crate::Reply) -> String {
    match reply {
        crate::Reply::Nil => "nil".into(),
        crate::Reply::Int(number) => number.to_string(),
        reply => reply.text(),
    }
}

fn text(reply: Result<Reply, ErrorReply>) -> String {
    match reply {
        Ok(Reply::Nil) => "nil".into(),
        Ok(Reply::Int(number)) => number.to_string(),
        Ok(Reply::Bulk(bytes)) => String::from_utf8(bytes).expect("text"),
        Ok(Reply::Array(parts)) => format!("{parts:?}"),
        Ok(Reply::Status(text)) | Err(ErrorReply(text)) => text,
    }
}
