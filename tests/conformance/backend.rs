//! One place where locks live, whatever it is, and what the behaviours need of it.
//!
//! On a server that is the deployment which `LEASEHOLD_DEPLOYMENT` names: `cluster`, `sentinel`, or one
//! server if it is not set.

use std::fmt::Debug;
use std::future::Future;
use std::time::Duration;

use futures::FutureExt;
use leasehold::settings::LocalHandover;
use leasehold::test_util::{ErrorReply, Reply, scripts};
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error};
use leasehold_testbed::{self as testbed, Borrowed, eventually, ms};
use tokio::time::Instant;

/// How long anything may take that is expected to happen.
pub(crate) const LIMIT: Duration = Duration::from_secs(10);

pub(crate) enum Backend {
    Redis(Box<Borrowed>),
    Embedded(EmbeddedRedis),
}

impl Backend {
    pub(crate) fn redis() -> Self {
        Backend::Redis(Box::new(Borrowed::take()))
    }

    pub(crate) fn embedded() -> Self {
        Backend::Embedded(EmbeddedRedis::new())
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        match self {
            // The machine may stall: a client that connects is no part of what is shown, nor is a reply
            // that is read late.
            Backend::Redis(server) => connection(&server.url())
                .connect_timeout(LIMIT)
                .command_timeout(LIMIT / 2),
            Backend::Embedded(engine) => engine.builder(),
        }
    }

    pub(crate) async fn client(&self) -> Client {
        self.builder().connect().await.expect("a client")
    }

    /// An engine that knows all scripts: each call is one request.
    pub(crate) fn engine() -> EmbeddedRedis {
        let redis = EmbeddedRedis::new();
        for (name, text, _) in scripts() {
            redis.command(&["SCRIPT", "LOAD", text]).expect(name);
        }
        redis
    }

    /// A short time: exact under paused time, longer where other processes may be slow.
    pub(crate) fn span(&self, span: u64) -> Duration {
        match self {
            Backend::Redis(_) => ms(span * 4),
            Backend::Embedded(_) => ms(span),
        }
    }

    /// A lease or a claim that is kept while a test goes on, and what is compared with it: exact under
    /// paused time; on a server it outlasts a machine that stalls for a second.
    pub(crate) fn lease(&self, span: u64) -> Duration {
        match self {
            Backend::Redis(_) => ms(span * 10),
            Backend::Embedded(_) => ms(span),
        }
    }

    /// What may be late by so much: exact under paused time; on a server the machine may stall,
    /// and only what never comes is a fault.
    pub(crate) fn late(&self, span: u64) -> Duration {
        match self {
            Backend::Redis(_) => LIMIT / 2,
            Backend::Embedded(_) => ms(span),
        }
    }

    /// How much earlier a span may be over on a server's clock: it counts whole milliseconds, when the span begins
    /// and when it ends, and while it is corrected it runs faster by up to a thousandth.
    pub(crate) fn early(&self, span: Duration) -> Duration {
        match self {
            Backend::Redis(_) => ms(2) + span / 1000,
            Backend::Embedded(_) => ms(1),
        }
    }

    /// Waits in vain. A machine that stalls loses the last answer of a wait: on a server, then, once more.
    pub(crate) async fn in_vain<T: Debug>(
        &self,
        wait: impl AsyncFn() -> Result<T, Error>,
    ) -> Error {
        // How long the first one waits is its caller's.
        let mut limit = None;
        loop {
            let error = wait().await.unwrap_err();
            if error.is_timeout() {
                return error;
            }
            let may_be = matches!(self, Backend::Redis(_)) && error.is_retryable();
            assert!(may_be, "{error}");
            let now = Instant::now();
            assert!(
                now < *limit.get_or_insert(now + LIMIT),
                "no wait was answered: {error}"
            );
        }
    }

    /// A wait that cannot be repeated ended in vain: with its answer, or on a machine that stalled without.
    pub(crate) fn is_over(&self, error: &Error) {
        let may_be = matches!(self, Backend::Redis(_)) && error.is_retryable();
        assert!(error.is_timeout() || may_be, "{error}");
    }

    /// A client that does not poll within a test: it goes on when it is told, or not at all.
    pub(crate) async fn client_without_polls(&self) -> Client {
        self.without_polls().connect().await.expect("a client")
    }

    pub(crate) fn without_polls(&self) -> ClientBuilder {
        self.builder().safety_poll(Duration::from_secs(60))
    }

    /// A client that hands holds over however long the sections take.
    pub(crate) async fn client_with_long_streaks(&self) -> Client {
        let streak = LocalHandover::Streak {
            count: 1000,
            time: LIMIT,
        };
        self.without_polls()
            .local_handover(streak)
            .connect()
            .await
            .expect("a client")
    }

    /// A client whose renewed holds last so long.
    pub(crate) async fn client_with_lease(&self, lease: Duration) -> Client {
        self.builder()
            .lease(lease)
            .connect()
            .await
            .expect("a client")
    }

    /// Lets the process stand still for so long, in the middle of a poll.
    pub(crate) fn stall(&self) -> fn(Duration) {
        match self {
            Backend::Redis(_) => std::thread::sleep,
            // Its first poll moves the clock.
            Backend::Embedded(_) => |span| {
                tokio::time::advance(span)
                    .now_or_never()
                    .unwrap_or_default();
            },
        }
    }

    /// One command from outside the library; nil comes as `nil`.
    pub(crate) fn command(&self, words: &[&str]) -> String {
        match self {
            Backend::Redis(server) => match server.command(words) {
                testbed::Reply::Nil => "nil".into(),
                testbed::Reply::Int(number) => number.to_string(),
                reply => reply.text(),
            },
            Backend::Embedded(engine) => text(engine.command(words)),
        }
    }

    /// A message as a release sends it.
    pub(crate) fn publish(&self, channel: &str, message: &str) {
        let in_cluster = matches!(self, Backend::Redis(server) if server.is_cluster());
        // Redis 6.2 does not know it.
        let sent = in_cluster
            && !self
                .command(&["SPUBLISH", channel, message])
                .starts_with("ERR");
        if !sent {
            self.command(&["PUBLISH", channel, message]);
        }
    }

    pub(crate) fn number(&self, words: &[&str]) -> i64 {
        let text = self.command(words);
        text.parse()
            .unwrap_or_else(|_| panic!("{words:?} gave {text}"))
    }

    pub(crate) fn exists(&self, key: &str) -> bool {
        self.number(&["EXISTS", key]) == 1
    }

    pub(crate) fn left(&self, key: &str) -> i64 {
        self.number(&["PTTL", key])
    }

    /// The parts of a reply that is a list of texts.
    pub(crate) fn list(&self, words: &[&str]) -> Vec<String> {
        match self {
            Backend::Redis(server) => server
                .command(words)
                .array()
                .iter()
                .map(testbed::Reply::text)
                .collect(),
            Backend::Embedded(engine) => match engine.command(words) {
                Ok(Reply::Array(parts)) => parts.into_iter().map(text).collect(),
                other => panic!("{words:?} gave {other:?}"),
            },
        }
    }

    /// Further places of the same kind.
    pub(crate) fn more(&self, number: usize) -> Vec<Backend> {
        let one = |_| match self {
            Backend::Redis(_) => Backend::redis(),
            Backend::Embedded(_) => Backend::embedded(),
        };
        (0..number).map(one).collect()
    }

    /// Nobody answers any more.
    pub(crate) fn fail(&mut self) {
        match self {
            Backend::Redis(server) => server.kill(),
            Backend::Embedded(engine) => engine.cut(),
        }
    }

    /// Nobody answers until [`resume`](World::resume), and all connections stay.
    pub(crate) fn pause(&self) {
        match self {
            Backend::Redis(server) => server.pause(),
            Backend::Embedded(engine) => engine.pause(),
        }
    }

    /// What was sent meanwhile is executed.
    pub(crate) fn resume(&self) {
        match self {
            Backend::Redis(server) => server.resume(),
            Backend::Embedded(engine) => engine.resume(),
        }
    }

    /// The clock of the server, as milliseconds since 1970.
    pub(crate) fn clock(&self) -> i64 {
        let parts = self.list(&["TIME"]);
        let [seconds, micros] = [0, 1].map(|at| parts[at].parse::<i64>().expect("a number"));
        seconds * 1000 + micros / 1000
    }

    /// How many scripts clients have run.
    pub(crate) fn calls(&self) -> u64 {
        match self {
            Backend::Redis(server) => {
                let stats = server.command(&["INFO", "commandstats"]).text();
                let calls = |line: &str| {
                    let count = line
                        .strip_prefix("cmdstat_evalsha:calls=")?
                        .split(',')
                        .next()?;
                    Some(count.parse::<u64>().expect("a number"))
                };
                // In a cluster every master has a line.
                stats.lines().filter_map(calls).sum()
            }
            Backend::Embedded(engine) => engine.scripts_run().values().sum(),
        }
    }

    /// The channels that somebody listens to.
    pub(crate) fn channels(&self) -> Vec<String> {
        match self {
            Backend::Redis(server) => server.channels(),
            Backend::Embedded(engine) => {
                let heard = engine
                    .listeners()
                    .into_iter()
                    .filter(|(_, listeners)| *listeners > 0);
                heard.map(|(channel, _)| channel).collect()
            }
        }
    }

    pub(crate) async fn until_gone(&self, key: &str) {
        eventually("the key is gone", async || !self.exists(key)).await;
    }
}

/// Connections of our own, or those that `LEASEHOLD_CONNECTION` names.
pub(crate) fn connection(url: &str) -> ClientBuilder {
    match std::env::var("LEASEHOLD_CONNECTION").as_deref() {
        #[cfg(feature = "fred")]
        Ok("fred") => {
            let config = fred::types::config::Config::from_url(url).expect("a URL");
            let pattern = fred::clients::Client::new(config, None, None, None);
            Client::builder_with_fred(&pattern)
        }
        Ok(other) => panic!("LEASEHOLD_CONNECTION: no such connection: {other}"),
        Err(_) => Client::builder(url),
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

/// The outcome of something that must happen, and how long it took.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> (T, Duration) {
    let start = Instant::now();
    let Ok(done) = tokio::time::timeout(LIMIT, future).await else {
        panic!("not within {LIMIT:?}: {what}");
    };
    (done, start.elapsed())
}

/// What a zero wait is told. A machine that stalls loses its answer: then, when it was undone, once more.
pub(crate) async fn told<T>(
    client: &Client,
    ask: impl AsyncFn() -> Result<T, Error>,
) -> Result<T, Error> {
    let told = ask().await;
    if !matches!(&told, Err(error) if error.may_be_held()) {
        return told;
    }
    eventually("it is undone", async || {
        client.stats().releases_pending == 0
    })
    .await;
    ask().await
}

/// Waits until a client has so many waiters.
pub(crate) async fn waiting(client: &Client, waiters: u64) {
    eventually("the waiters wait", async || {
        client.stats().waiting == waiters
    })
    .await;
}
