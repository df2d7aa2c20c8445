//! What one behaviour runs on: the embedded engine, or real servers.

use std::fmt::Debug;
use std::time::Duration;

use futures::FutureExt as _;
use leasehold::settings::LocalHandover;
use leasehold::test_util::{ErrorReply, Reply, scripts};
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error, blocking};
use tokio::time::Instant;

use crate::{Borrowed, SOON, eventually, ms, wait_until};

/// How a suite makes its connections to a URL.
pub type Connect = fn(&str) -> ClientBuilder;

/// A place where locks live, and a look at it from outside.
#[derive(Debug)]
pub enum Bed {
    Server(Box<Borrowed>, Connect),
    Embedded(EmbeddedRedis),
}

impl Bed {
    /// The deployment that `LEASEHOLD_DEPLOYMENT` names: `cluster`, `sentinel`, or one server if it is not set.
    pub fn server() -> Self {
        Bed::server_through(Client::builder)
    }

    /// The same, for clients with connections of another kind.
    pub fn server_through(connect: Connect) -> Self {
        Bed::Server(Box::new(Borrowed::take()), connect)
    }

    /// The engine. With paused time every instant is exact.
    pub fn embedded() -> Self {
        Bed::Embedded(EmbeddedRedis::new())
    }

    /// An engine that knows all scripts: each call is one request.
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

    /// Another bed of the same kind, which knows nothing of this one.
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
            // The machine may stall: a client that connects is not what a test is about, nor is a reply that is
            // read late.
            Bed::Server(server, connect) => connect(&server.url())
                .connect_timeout(SOON)
                .command_timeout(SOON / 2),
            Bed::Embedded(engine) => engine.builder(),
        }
    }

    /// Without polls within a test: a waiter goes on when it gets a message, or not at all.
    pub fn without_polls(&self) -> ClientBuilder {
        self.builder().safety_poll(Duration::from_secs(60))
    }

    pub async fn client(&self) -> Client {
        connect(self.builder()).await
    }

    pub async fn client_without_polls(&self) -> Client {
        connect(self.without_polls()).await
    }

    /// A client whose renewed holds last this long.
    pub async fn client_with_lease(&self, lease: Duration) -> Client {
        connect(self.builder().lease(lease)).await
    }

    /// A client that hands holds over however long the sections take.
    pub async fn client_with_long_streaks(&self) -> Client {
        let streak = LocalHandover::Streak {
            count: 1000,
            time: SOON,
        };
        connect(self.without_polls().local_handover(streak)).await
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

    /// A lease that must not end while a test goes on, and what is compared with it. On a server it outlasts a
    /// machine that stalls for a second.
    pub fn lease(&self, span: u64) -> Duration {
        ms(if self.is_embedded() { span } else { span * 10 })
    }

    /// How late something may be. On a server only what never comes is a fault.
    pub fn late(&self, span: u64) -> Duration {
        if self.is_embedded() {
            ms(span)
        } else {
            SOON / 2
        }
    }

    /// How much earlier a span may be over on a server's clock: it counts whole milliseconds, when the span begins
    /// and when it ends, and while it is corrected it runs faster by up to a thousandth.
    pub fn early(&self, span: Duration) -> Duration {
        if self.is_embedded() {
            ms(1)
        } else {
            ms(2) + span / 1000
        }
    }

    /// A wait that must fail because somebody else has the lock. On a server whose machine stalls, the last reply of
    /// a wait may be lost; the wait is repeated then.
    pub async fn in_vain<T: Debug>(&self, wait: impl AsyncFn() -> Result<T, Error>) -> Error {
        // The first wait may take as long as its caller says.
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

    /// Checks that a wait which cannot be repeated timed out, or lost its last reply on a machine that stalled.
    pub fn timed_out(&self, error: &Error) {
        let is_lost = !self.is_embedded() && error.is_retryable();
        assert!(error.is_timeout() || is_lost, "{error}");
    }

    /// Stops the process for this long, in the middle of a poll.
    pub fn stall(&self) -> fn(Duration) {
        if self.is_embedded() {
            // Its first poll moves the clock.
            |span| {
                let advanced = tokio::time::advance(span);
                advanced.now_or_never().unwrap_or_default();
            }
        } else {
            std::thread::sleep
        }
    }
}

/// What is in Redis, and what becomes of it.
impl Bed {
    /// The text of a reply to one command; `nil` if there is none.
    pub fn command(&self, words: &[&str]) -> String {
        match self {
            Bed::Server(server, _) => match server.command(words) {
                crate::Reply::Nil => "nil".into(),
                crate::Reply::Int(number) => number.to_string(),
                reply => reply.text(),
            },
            Bed::Embedded(engine) => text(engine.command(words)),
        }
    }

    /// The texts of a reply that is a list.
    pub fn list(&self, words: &[&str]) -> Vec<String> {
        match self {
            Bed::Server(server, _) => {
                let reply = server.command(words);
                reply.array().iter().map(crate::Reply::text).collect()
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

    /// Deletes a key that must be there; nobody gets a message.
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

    /// A message as a release sends it.
    pub fn publish(&self, channel: &str, message: &str) {
        let in_cluster = matches!(self, Bed::Server(server, _) if server.is_cluster());
        let send = |command| self.command(&[command, channel, message]);
        // Redis 6.2 has no SPUBLISH.
        if !in_cluster || send("SPUBLISH").starts_with("ERR") {
            send("PUBLISH");
        }
    }

    /// The channels that somebody listens to.
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

    /// How many scripts clients have run.
    pub fn calls(&self) -> u64 {
        match self {
            Bed::Server(server, _) => server.calls("evalsha"),
            Bed::Embedded(engine) => engine.scripts_run().values().sum(),
        }
    }

    /// The clock of the server, as milliseconds since 1970.
    pub fn clock(&self) -> i64 {
        let parts = self.list(&["TIME"]);
        let [seconds, micros] = [0, 1].map(|at| parts[at].parse::<i64>().expect("a number"));
        seconds * 1000 + micros / 1000
    }

    /// Nobody answers any more.
    pub fn fail(&mut self) {
        match self {
            Bed::Server(server, _) => server.kill(),
            Bed::Embedded(engine) => engine.cut(),
        }
    }

    /// Nobody answers until [`resume`](Bed::resume), and all connections stay.
    pub fn pause(&self) {
        match self {
            Bed::Server(server, _) => server.pause(),
            Bed::Embedded(engine) => engine.pause(),
        }
    }

    /// What was sent meanwhile is executed.
    pub fn resume(&self) {
        match self {
            Bed::Server(server, _) => server.resume(),
            Bed::Embedded(engine) => engine.resume(),
        }
    }
}

async fn connect(builder: ClientBuilder) -> Client {
    builder.connect().await.expect("a client")
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
