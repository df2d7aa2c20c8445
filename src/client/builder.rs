//! Settings of a client, checked when it connects.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle;

use super::Client;
use crate::error::{Cause, ConfigError, Error};
use crate::lease::Lease;
use crate::session::background::Thread;
use crate::session::{Parts, Session, Settings, Streak, Subscriptions};
use crate::stats::Counters;
#[cfg(feature = "embedded")]
use crate::transport::embedded::EmbeddedRedis;
use crate::transport::redis::dial::Dial;
use crate::transport::redis::endpoint::Endpoint;
#[cfg(feature = "fred")]
use crate::transport::redis::fred::FredTemplate;
use crate::transport::redis::{IfUnreachable, Node, Redis, Timing};
use crate::transport::{CallError, Transport};

const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// A round trip takes well under a millisecond in one data centre; a second means trouble.
const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// Several beats of a living waiter, and little to wait for after a dead one.
const FAIR_CLAIM_DEFAULT: Duration = Duration::from_secs(2);
const PREFIX_MAX: usize = 256;
/// Bytes of a name in CLIENT LIST, which has a line for each connection.
const NAME_MAX: usize = 64;

/// May a released hold pass to the next waiter of the same client without going through Redis?
///
/// It saves that waiter two round trips. The streak is bounded so that waiters of other clients
/// get their turn: after it the lock is released and this client steps back for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum LocalHandover {
    /// Every release goes to Redis.
    Off,
    /// At most so many hand-overs in a row, and none later than so long after the first. A count or a
    /// time of zero is [`Off`](LocalHandover::Off).
    Streak {
        /// Hand-overs in a row. Raising it favours this client's waiters over those of others.
        count: u32,
        /// Time from the first acquisition of the streak.
        time: Duration,
    },
}

impl Default for LocalHandover {
    fn default() -> Self {
        LocalHandover::Streak { count: 256, time: Duration::from_millis(5) }
    }
}

/// Settings of a client; see [`Client::builder`].
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    target: Target,
    lease: Duration,
    command_timeout: Duration,
    connect_timeout: Duration,
    safety_poll: Duration,
    fair_claim: Duration,
    key_prefix: String,
    name: Option<String>,
    handover: LocalHandover,
    #[cfg(feature = "test-util")]
    gate: crate::session::gate::Gate,
}

/// Where the locks live.
#[derive(Clone, Debug)]
enum Target {
    Url(Result<Endpoint, ConfigError>),
    #[cfg(feature = "fred")]
    Fred(Result<(FredTemplate, Endpoint), ConfigError>),
    #[cfg(feature = "embedded")]
    Engine(EmbeddedRedis),
    /// The same, by connections as to a server.
    #[cfg(feature = "test-util")]
    Bytes(EmbeddedRedis),
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> Self {
        ClientBuilder::with_target(Target::Url(Endpoint::parse(url)))
    }

    #[cfg(feature = "fred")]
    pub(crate) fn with_fred(pattern: &fred::clients::Client) -> Self {
        ClientBuilder::with_target(Target::Fred(FredTemplate::of(pattern)))
    }

    fn with_target(target: Target) -> Self {
        ClientBuilder {
            target,
            lease: LEASE_DEFAULT,
            command_timeout: COMMAND_TIMEOUT_DEFAULT,
            connect_timeout: CONNECT_TIMEOUT_DEFAULT,
            safety_poll: POLL_DEFAULT,
            fair_claim: FAIR_CLAIM_DEFAULT,
            key_prefix: String::new(),
            name: None,
            handover: LocalHandover::default(),
            #[cfg(feature = "test-util")]
            gate: crate::session::gate::Gate::default(),
        }
    }

    /// The lease of renewed holds. Default: 30 s, as Redisson's watchdog. From 100 ms to a year.
    ///
    /// It is renewed every third of it. Longer: fewer renewals, and a lock whose holder died stays
    /// longer. Shorter: a short outage loses the lock.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// How long one call may take before its reply counts as lost. Default: 1 s. From 10 ms to 60 s.
    ///
    /// Longer: a dead server is noticed later. Shorter: a slow one is taken for dead. It may be longer
    /// than the lease: a renewal is waited for a third of that at most, then sent again.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a connection may take to be made. Default: 1 s. From 10 ms to 60 s.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = timeout;
        self
    }

    /// How often waited-for locks are checked in case a message was lost. Default: 1 s. From 10 ms
    /// to 60 s.
    ///
    /// Costs one call for each 500 names waited for. Longer: a lost message delays a waiter longer.
    pub fn safety_poll(mut self, every: Duration) -> Self {
        self.safety_poll = every;
        self
    }

    /// How long a waiter of a fair lock keeps its place in the queue without a sign of life.
    /// Default: 2 s. From 100 ms to 60 s.
    ///
    /// Living waiters give one in the background, at least every third of it. Shorter: a waiter that
    /// died delays those behind it less, and one that stalls loses its place sooner. Keep it several
    /// times longer than a slow answer of the server takes. Clients may differ in it.
    pub fn fair_claim(mut self, claim: Duration) -> Self {
        self.fair_claim = claim;
        self
    }

    /// Put before every name. Default: empty. At most 256 bytes.
    ///
    /// Java sees the whole; its own clients must use it in their names.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// How `CLIENT LIST` shows this client's three connections, for example `billing@pod-7`. Default:
    /// `leasehold:<id>` with [`Client::id`]. 1 to 64 printable ASCII characters without blanks.
    ///
    /// It is shown as given, and need not be unique; owner texts have the id, whatever the name. A server
    /// that does not allow `CLIENT SETNAME` shows none. The embedded engine has no such list.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Whether holds pass between this client's waiters directly. Default: a bounded streak.
    pub fn local_handover(mut self, handover: LocalHandover) -> Self {
        self.handover = handover;
        self
    }

    /// Puts the background task of a client on the embedded engine behind a gate.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn gate(mut self, gate: crate::session::gate::Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Checks the settings and connects.
    ///
    /// # Redis cost
    ///
    /// Three connections.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the connections are closed.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names the setting, its value and its limits, or says that there is no tokio
    /// runtime; nothing was sent. [`Error::Unavailable`] if nobody answers within the connect time-out, [`Error::Protocol`] if
    /// the server refuses the user, the password or the database.
    pub async fn connect(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::Fail).await
    }

    /// As [`connect`](ClientBuilder::connect), but a server that cannot be reached is no error: the
    /// client goes on connecting in the background, and until then its calls are
    /// [`Error::Unavailable`], or wait as in an outage.
    ///
    /// For the servers of a quorum lock: a minority of them may be down when the program starts.
    ///
    /// # Redis cost
    ///
    /// Three connections.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the connections are closed.
    ///
    /// # Errors
    ///
    /// [`Error::Config`] names the setting, its value and its limits, or says that there is no tokio
    /// runtime; nothing was sent. [`Error::Protocol`] if the server refuses the user, the password or the database.
    pub async fn connect_in_background(self) -> Result<Client, Error> {
        self.connect_to(IfUnreachable::RetryLater).await
    }

    async fn connect_to(self, if_unreachable: IfUnreachable) -> Result<Client, Error> {
        let settings = self.settings()?;
        let (dial, endpoint) = match &self.target {
            Target::Url(endpoint) => {
                let endpoint = endpoint.clone()?;
                (Dial::to(&endpoint), endpoint)
            }
            #[cfg(feature = "fred")]
            Target::Fred(checked) => {
                let (template, endpoint) = checked.clone()?;
                (Ok(Dial::Fred(template)), endpoint)
            }
            #[cfg(feature = "embedded")]
            Target::Engine(engine) => return Ok(self.embed(engine, settings)),
            #[cfg(feature = "test-util")]
            Target::Bytes(engine) => {
                return self.connect_by_bytes(engine, settings, if_unreachable).await;
            }
        };
        // Later, tokio panics.
        if Handle::try_current().is_err() {
            return Err(Error::Config(ConfigError::NoRuntime));
        }
        let thread = Thread::spawn().map_err(|error| failed(error.to_string()))?;
        let session =
            self.session(dial, &endpoint, settings, if_unreachable, &thread.runtime).await?;
        thread.serve(session.clone());
        Ok(Client::new(session))
    }

    async fn session(
        &self,
        dial: Result<Dial, CallError>,
        endpoint: &Endpoint,
        settings: Settings,
        if_unreachable: IfUnreachable,
        background: &Handle,
    ) -> Result<Arc<Session>, Error> {
        let refused =
            |error| Error::from_call(&Arc::from(endpoint.to_string()), Duration::ZERO, error);
        let counters = Arc::<Counters>::default();
        let subscriptions = Subscriptions::new(counters.clone());
        let client_id = uuid::Uuid::new_v4();
        let timing = Timing { command: self.command_timeout, connect: self.connect_timeout };
        let name = self.name.clone().unwrap_or_else(|| format!("leasehold:{client_id}"));
        let node = Node::new(dial.map_err(refused)?, endpoint, &name);
        let redis = Redis::connect(node, timing, subscriptions.clone(), background, if_unreachable);
        let transport = Transport::Redis(redis.await.map_err(refused)?);
        let parts = Parts { transport, subscriptions, counters, settings, client_id };
        Ok(Session::new(parts))
    }

    fn settings(&self) -> Result<Settings, ConfigError> {
        let minute = Duration::from_secs(60);
        let short = Duration::from_millis(10)..=minute;
        in_range("lease", self.lease, &(Duration::from_millis(100)..=Lease::MAX))?;
        in_range("command_timeout", self.command_timeout, &short)?;
        in_range("connect_timeout", self.connect_timeout, &short)?;
        in_range("safety_poll", self.safety_poll, &short)?;
        in_range("fair_claim", self.fair_claim, &(Duration::from_millis(100)..=minute))?;
        if self.key_prefix.len() > PREFIX_MAX {
            return Err(ConfigError::OutOfRange {
                what: "length of key_prefix",
                given: self.key_prefix.len().to_string(),
                allowed: format!("0 to {PREFIX_MAX}"),
            });
        }
        if let Some(name) = &self.name {
            let fits = (1..=NAME_MAX).contains(&name.len());
            if !fits || !name.bytes().all(|byte| byte.is_ascii_graphic()) {
                return Err(ConfigError::OutOfRange {
                    what: "name",
                    given: name.chars().take(NAME_MAX).collect(),
                    allowed: format!("1 to {NAME_MAX} printable ASCII characters without blanks"),
                });
            }
        }
        let streak = match self.handover {
            LocalHandover::Off => Streak { count: 0, time: Duration::ZERO },
            LocalHandover::Streak { count, time } => Streak { count, time },
        };
        Ok(Settings {
            lease: Lease::checked("lease", self.lease)?,
            command_timeout: self.command_timeout,
            key_prefix: self.key_prefix.clone(),
            streak,
            safety_poll: self.safety_poll,
            fair_claim: self.fair_claim,
        })
    }
}

fn in_range(
    what: &'static str,
    given: Duration,
    allowed: &std::ops::RangeInclusive<Duration>,
) -> Result<(), ConfigError> {
    if allowed.contains(&given) {
        return Ok(());
    }
    let allowed = format!("{:?} to {:?}", allowed.start(), allowed.end());
    Err(ConfigError::OutOfRange { what, given: format!("{given:?}"), allowed })
}

fn failed(text: String) -> Error {
    Error::Unavailable { name: Arc::from("connect"), source: Cause::new(text) }
}

#[cfg(feature = "embedded")]
impl EmbeddedRedis {
    /// A client of this engine with the default settings.
    ///
    /// # Panics
    ///
    /// Outside a runtime, if the system gives no thread.
    pub fn client(&self) -> Client {
        let settings = self.builder().settings().expect("BUG: the defaults are in range");
        self.builder().embed(self, settings)
    }

    /// Starts a client of this engine with settings of its own. The connect time-out does nothing.
    pub fn builder(&self) -> ClientBuilder {
        ClientBuilder::with_target(Target::Engine(self.clone()))
    }

    /// As [`builder`](EmbeddedRedis::builder), for a client that is connected as to a server: by
    /// byte streams, on which RESP3 is spoken. Its switches are the last of `byte_links`.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn builder_over_bytes(&self) -> ClientBuilder {
        ClientBuilder::with_target(Target::Bytes(self.clone()))
    }
}

#[cfg(feature = "embedded")]
impl ClientBuilder {
    /// A client on an engine in this process. Its background task runs where the caller runs, so
    /// that paused time is one for both; without a runtime it gets a thread.
    fn embed(&self, engine: &EmbeddedRedis, settings: Settings) -> Client {
        let thread = match Handle::try_current() {
            Ok(_) => None,
            Err(_) => Some(Thread::spawn().expect("a thread for the embedded engine")),
        };
        let runtime = thread.as_ref().map_or_else(Handle::current, |thread| thread.runtime.clone());
        let counters = Arc::<Counters>::default();
        let subscriptions = Subscriptions::new(counters.clone());
        let embedded = engine.connect(subscriptions.clone(), &runtime);
        embedded.set_command_timeout(settings.command_timeout);
        let transport = Transport::Embedded(embedded);
        let client_id = uuid::Uuid::new_v4();
        let parts = Parts { transport, subscriptions, counters, settings, client_id };
        let session = Session::new(parts);
        match thread {
            Some(thread) => thread.serve(session.clone()),
            None => self.serve_here(&runtime, session.clone()),
        }
        Client::new(session)
    }

    /// A client over byte streams in memory. All of it runs where the caller runs, so that paused
    /// time is one for all, and one seed gives one history.
    #[cfg(feature = "test-util")]
    async fn connect_by_bytes(
        &self,
        engine: &EmbeddedRedis,
        settings: Settings,
        if_unreachable: IfUnreachable,
    ) -> Result<Client, Error> {
        let Ok(runtime) = Handle::try_current() else {
            return Err(Error::Config(ConfigError::NoRuntime));
        };
        let (dialer, _) = engine.dialer(&runtime);
        let (dial, endpoint) = (Ok(Dial::Memory(dialer)), Endpoint::parse(&engine.url())?);
        let session = self.session(dial, &endpoint, settings, if_unreachable, &runtime).await?;
        self.serve_here(&runtime, session.clone());
        Ok(Client::new(session))
    }

    #[cfg(feature = "test-util")]
    fn serve_here(&self, runtime: &Handle, session: Arc<Session>) {
        runtime.spawn(self.gate.clone().run(crate::session::background::serve(session)));
    }

    #[cfg(not(feature = "test-util"))]
    #[expect(clippy::unused_self, reason = "the same call with and without the feature")]
    fn serve_here(&self, runtime: &Handle, session: Arc<Session>) {
        runtime.spawn(crate::session::background::serve(session));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn builder() -> ClientBuilder {
        ClientBuilder::new("redis://127.0.0.1")
    }

    #[test]
    fn every_span_has_limits_and_is_refused_with_value_and_limits() {
        type Set = fn(ClientBuilder, Duration) -> ClientBuilder;
        let (ms, tick) = (Duration::from_millis, Duration::from_nanos(1));
        let table: [(&str, Set, Duration, Duration); 5] = [
            ("lease", ClientBuilder::lease, ms(100), Lease::MAX),
            ("command_timeout", ClientBuilder::command_timeout, ms(10), ms(60_000)),
            ("connect_timeout", ClientBuilder::connect_timeout, ms(10), ms(60_000)),
            ("safety_poll", ClientBuilder::safety_poll, ms(10), ms(60_000)),
            ("fair_claim", ClientBuilder::fair_claim, ms(100), ms(60_000)),
        ];
        for (setting, set, least, most) in table {
            for fits in [least, most] {
                assert!(set(builder(), fits).settings().is_ok(), "{setting}: {fits:?}");
            }
            for given in
                [Duration::ZERO, tick, least.saturating_sub(tick), most + tick, Duration::MAX]
            {
                let text = set(builder(), given).settings().expect_err(setting).to_string();
                for part in [setting, &format!("`{given:?}`"), &format!("{least:?} to {most:?}")] {
                    assert!(text.contains(part), "{text}");
                }
            }
        }
    }

    #[test]
    fn a_prefix_that_is_too_long_is_refused() {
        assert!(builder().key_prefix("p".repeat(256)).settings().is_ok());
        let refused = builder().key_prefix("p".repeat(257)).settings().expect_err("too long");
        assert!(refused.to_string().contains("257"), "{refused}");
    }

    #[test]
    fn a_name_is_one_word_that_can_be_shown() {
        for fits in ["billing@pod-7", "!", &"~".repeat(64)] {
            assert!(builder().name(fits).settings().is_ok(), "{fits}");
        }
        for given in ["", "two words", "line\n", "\t", "\u{7f}", "bill\u{ef}ng", &"n".repeat(65)] {
            let refused = builder().name(given).settings().expect_err(given).to_string();
            let allowed = "1 to 64 printable ASCII characters without blanks";
            assert!(refused.contains("name") && refused.contains(allowed), "{refused}");
        }
    }

    #[test]
    fn without_a_runtime_connecting_says_so() {
        let refused = futures::executor::block_on(Client::connect("redis://127.0.0.1:1"));
        assert_eq!(
            refused.err().map(|error| error.to_string()),
            Some(ConfigError::NoRuntime.to_string())
        );
        let refused = futures::executor::block_on(builder().connect_in_background());
        assert!(matches!(refused, Err(Error::Config(ConfigError::NoRuntime))));
    }
}
