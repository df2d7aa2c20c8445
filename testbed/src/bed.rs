//! What a behaviour runs on: the embedded engine, or real servers.

use std::fmt::Debug;
use std::time::Duration;

use futures::FutureExt as _;
use leasehold::settings::LocalHandover;
use leasehold::test_util::{ErrorReply, Reply, scripts};
use leasehold::{Client, ClientBuilder, EmbeddedRedis, Error};
use tokio::time::Instant;

use crate::{
    Borrowed, Histories, LIMIT, Outside, PROFILES, SOON, count_of, eventually, ms, wait_until,
};

/// How a suite makes its connections to a URL.
pub type Connect = fn(&str) -> ClientBuilder;

/// The engine or servers of one test, with a view of Redis from outside.
///
/// The specification judges what its clients do ([`behaviours!`](crate::behaviours)).
#[derive(Debug)]
pub struct Bed {
    pub place: Place,
    histories: Histories,
    /// Which of several independent servers it is.
    number: usize,
}

#[derive(Debug)]
pub enum Place {
    Server(Box<Borrowed>, Connect),
    Embedded(EmbeddedRedis),
}

/// Commands that change nothing.
const READS: &[&str] = &[
    "CLIENT", "CONFIG", "EXISTS", "GET", "HEXISTS", "HGET", "HGETALL", "HKEYS", "HLEN", "INFO",
    "KEYS", "LLEN", "LRANGE", "PTTL", "PUBLISH", "PUBSUB", "SCAN", "SCARD", "SMEMBERS", "SPUBLISH",
    "TIME", "TTL", "TYPE", "ZCARD", "ZRANGE", "ZSCORE",
];

impl Bed {
    pub fn on(place: Place) -> Self {
        Bed {
            place,
            histories: Histories::default(),
            number: 0,
        }
    }

    pub fn of(engine: &EmbeddedRedis) -> Self {
        Bed::on(Place::Embedded(engine.clone()))
    }

    /// The deployment that `LEASEHOLD_DEPLOYMENT` names: `cluster`, `sentinel`, or a single server
    /// if it is not set.
    pub fn server() -> Self {
        Bed::server_through(Client::builder)
    }

    /// The same for clients with another kind of connection.
    pub fn server_through(connect: Connect) -> Self {
        Bed::on(Place::Server(Box::new(Borrowed::take()), connect))
    }

    /// The engine. With paused time every instant is exact. `LEASEHOLD_PROFILE` names one of the
    /// [`PROFILES`].
    pub fn embedded() -> Self {
        let Ok(name) = std::env::var("LEASEHOLD_PROFILE") else {
            return Bed::of(&EmbeddedRedis::new());
        };
        let profile = PROFILES.iter().find(|profile| profile.name == name);
        let profile = profile.unwrap_or_else(|| panic!("no profile is called {name}"));
        Bed::of(&EmbeddedRedis::with_profile(*profile))
    }

    /// An engine that knows all scripts, so that each call is one request.
    pub fn engine() -> EmbeddedRedis {
        let redis = EmbeddedRedis::new();
        for (name, text, _) in scripts() {
            redis.command(&["SCRIPT", "LOAD", text]).expect(name);
        }
        redis
    }

    pub fn is_cluster(&self) -> bool {
        match &self.place {
            Place::Server(server, _) => server.is_cluster(),
            Place::Embedded(engine) => engine.profile().is_some_and(|profile| profile.is_cluster),
        }
    }

    pub fn is_embedded(&self) -> bool {
        matches!(self.place, Place::Embedded(_))
    }

    /// Another, independent bed of the same kind.
    #[must_use]
    pub fn another(&self) -> Self {
        let another = match &self.place {
            Place::Server(_, connect) => Bed::server_through(*connect),
            Place::Embedded(_) => Bed::embedded(),
        };
        Bed {
            histories: self.histories.clone(),
            number: self.histories.another_server(),
            ..another
        }
    }
}

/// Clients.
impl Bed {
    pub fn builder(&self) -> ClientBuilder {
        self.judged(self.unjudged())
    }

    /// A client of which the specification does not hear: its clock is one of its own.
    pub fn unjudged(&self) -> ClientBuilder {
        match &self.place {
            // Generous timeouts, because the machine may stall while the client connects or reads a
            // reply.
            Place::Server(server, connect) => connect(&server.url())
                .connect_timeout(SOON)
                .command_timeout(SOON / 2),
            Place::Embedded(engine) => engine.builder(),
        }
    }

    /// The specification judges what the client does, too.
    pub fn judged(&self, builder: ClientBuilder) -> ClientBuilder {
        builder.harness(self.histories.of_client(self.number))
    }

    pub fn histories(&self) -> &Histories {
        &self.histories
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
        self.in_vain_with(wait, |_| true).await
    }

    /// Like [`in_vain`](Self::in_vain), if the error must say who has the lock. That takes one more
    /// call, for which there is no time if a stalled machine notices the end of the wait late.
    pub async fn in_vain_told<T: Debug>(&self, wait: impl AsyncFn() -> Result<T, Error>) -> Error {
        let is_told = |error: &Error| {
            matches!(
                error,
                Error::Timeout {
                    in_the_way: Some(_),
                    ..
                }
            )
        };
        self.in_vain_with(wait, is_told).await
    }

    async fn in_vain_with<T: Debug>(
        &self,
        wait: impl AsyncFn() -> Result<T, Error>,
        is_enough: fn(&Error) -> bool,
    ) -> Error {
        // The caller measures how long the first wait takes. It is repeated a few times, however
        // long that is.
        let began = Instant::now();
        let mut limit = None;
        loop {
            let error = wait().await.expect_err("somebody has it");
            if error.is_timeout() && is_enough(&error) {
                return error;
            }
            self.timed_out(&error);
            let now = Instant::now();
            let limit = *limit.get_or_insert(now + 3 * began.elapsed() + SOON);
            let may_be_repeated = !self.is_embedded() && now < limit;
            assert!(may_be_repeated, "not the error of a wait in vain: {error}");
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
        self.noted(words, || match &self.place {
            Place::Server(server, _) => text_of(&server.command(words)),
            Place::Embedded(engine) => text(engine.command(words)),
        })
    }

    /// Runs a command, and notes that no client has done what it does.
    fn noted<T>(&self, words: &[&str], run: impl FnOnce() -> T) -> T {
        let (name, others) = words.split_first().expect("a command");
        let (histories, since) = (&self.histories, Instant::now());
        let done = run();
        if READS.contains(name) {
            return done;
        }
        let mut keys = histories.keys(self.number);
        if *name != "FLUSHALL" {
            // Some keys are made of the name.
            keys.retain(|key| others.iter().any(|other| other.contains(key.as_str())));
        }
        histories.forgot(since, self.number, keys.clone());
        if !["DEL", "FLUSHALL"].contains(name) {
            histories.changed(since, self.number, keys);
        }
        done
    }

    /// The texts of a reply that is a list.
    pub fn list(&self, words: &[&str]) -> Vec<String> {
        self.noted(words, || match &self.place {
            Place::Server(server, _) => {
                let reply = server.command(words);
                reply.array().iter().map(text_of).collect()
            }
            Place::Embedded(engine) => match engine.command(words) {
                Ok(Reply::Array(parts)) => parts.into_iter().map(text).collect(),
                other => panic!("{words:?} gave {other:?}"),
            },
        })
    }

    pub fn number(&self, words: &[&str]) -> i64 {
        let text = self.command(words);
        text.parse()
            .unwrap_or_else(|_| panic!("{words:?} gave {text}"))
    }

    /// The count of a hold.
    pub fn count(&self, key: &str, owner: &str) -> i64 {
        let text = self.command(&["HGET", key, owner]);
        let count = count_of(&text).map(i64::from);
        count.unwrap_or_else(|| panic!("{owner} has {text} of {key}"))
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
        match &self.place {
            Place::Server(server, _) => server.publish(channel, message),
            Place::Embedded(_) => {
                let publish = if self.is_cluster() {
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
        match &self.place {
            Place::Server(server, _) => server.channels(),
            Place::Embedded(engine) => {
                let all = engine.listeners().into_iter();
                let heard = all.filter(|(_, listeners)| *listeners > 0);
                heard.map(|(channel, _)| channel).collect()
            }
        }
    }

    /// The number of scripts that clients have run.
    pub fn calls(&self) -> u64 {
        match &self.place {
            Place::Server(server, _) => Outside::of(&**server).calls("evalsha"),
            Place::Embedded(engine) => engine.scripts_run().values().sum(),
        }
    }

    /// The number of commands that clients, their scripts and this bed have run.
    pub fn commands(&self) -> u64 {
        match &self.place {
            Place::Server(server, _) => {
                let stats = Outside::of(&**server).command_stats();
                stats.values().map(|stats| stats.calls).sum()
            }
            Place::Embedded(engine) => engine.commands_run().values().sum(),
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
        match &mut self.place {
            Place::Server(server, _) => server.kill(),
            Place::Embedded(engine) => engine.cut(),
        }
    }

    /// Stops all replies until [`resume`](Bed::resume), without closing connections.
    pub fn pause(&self) {
        match &self.place {
            Place::Server(server, _) => server.pause(),
            Place::Embedded(engine) => engine.pause(),
        }
    }

    /// Executes what was sent in the meantime.
    pub fn resume(&self) {
        match &self.place {
            Place::Server(server, _) => server.resume(),
            Place::Embedded(engine) => engine.resume(),
        }
    }
}

/// A client builder with generous timeouts, because the machine may stall while it connects or
/// waits for a reply.
pub fn patient(url: &str) -> ClientBuilder {
    Client::builder(url)
        .connect_timeout(LIMIT)
        .command_timeout(SOON / 2)
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
