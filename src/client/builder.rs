//! Settings of a client, checked when it connects.

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::local_handover::LocalHandover;
use crate::clock::{Clock, Counts};
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::lease::Lease;
use crate::preflight::Requirements;
use crate::session::lock_settings::{SAFETY_POLL, in_range};
use crate::session::{Settings, Streak};
#[cfg(feature = "metrics")]
use crate::telemetry::NameLabel;
use crate::telemetry::Telemetry;
use crate::transport::ShardedPubSub;
#[cfg(feature = "embedded")]
use crate::transport::embedded::EmbeddedRedis;
use crate::transport::redis::Timing;
use crate::transport::redis::credentials::{CredentialsProvider, Provider};
use crate::transport::redis::deployment::Deployment;
#[cfg(feature = "fred")]
use crate::transport::redis::endpoint::Endpoint;
#[cfg(feature = "fred")]
use crate::transport::redis::fred::FredTemplate;
#[cfg(feature = "test-util")]
use crate::transport::redis::memory_network::MemoryNetwork;
#[cfg(feature = "tls")]
use crate::transport::redis::tls::TlsOptions;

const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// A round trip takes well under a millisecond in one data centre: a second is far too long.
const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const CONNECT_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
/// A server makes a hundred TLS handshakes in a second or so: a crowd that comes back has to wait.
const CONNECT_TIMEOUT_TLS: Duration = Duration::from_secs(5);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// Several heartbeats of a living waiter, and a short wait behind a dead waiter.
const FAIR_CLAIM_DEFAULT: Duration = Duration::from_secs(2);
const PREFIX_MAX: usize = 256;
/// Bytes of a name in CLIENT LIST, which has a line for each connection.
const NAME_MAX: usize = 64;

/// Settings of a client; [`Client::builder`](crate::Client::builder) starts with a URL.
///
/// Settings are checked by [`connect`](ClientBuilder::connect), before anything is sent.
///
/// # Examples
///
#[cfg_attr(feature = "embedded", doc = "```")]
#[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// use leasehold::EmbeddedRedis;
///
/// let builder = EmbeddedRedis::new().builder(); // or Client::builder("redis://127.0.0.1:6379")
/// let client = builder
///     .name("billing@pod-7")
///     .key_prefix("billing:")
///     .lease(Duration::from_secs(20))
///     .connect()
///     .await?;
/// let guard = client.lock("orders:42").lock().await?; // the key is billing:orders:42
/// guard.unlock().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a builder does nothing until it connects"]
pub struct ClientBuilder {
    pub(super) target: Target,
    lease: Duration,
    command_timeout: Duration,
    connect_timeout: Option<Duration>,
    safety_poll: Duration,
    fair_claim: Duration,
    key_prefix: String,
    name: Option<String>,
    describe_holds: bool,
    handover: LocalHandover,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<TlsOptions>,
    pub(super) credentials: Option<Provider>,
    pub(super) sharded_pubsub: ShardedPubSub,
    pub(super) requirements: Option<Requirements>,
    durability: Option<Durability>,
    telemetry: Telemetry,
    #[cfg(feature = "test-util")]
    pub(super) network: Option<MemoryNetwork>,
    #[cfg(feature = "test-util")]
    pub(super) gate: crate::session::gate::Gate,
    #[cfg(feature = "test-util")]
    machine: crate::clock::Machine,
}

/// Where the locks live.
#[derive(Clone, Debug)]
pub(super) enum Target {
    Url(Result<Deployment, ConfigError>),
    #[cfg(feature = "fred")]
    Fred(Result<(FredTemplate, Endpoint), ConfigError>),
    #[cfg(feature = "embedded")]
    Engine(EmbeddedRedis),
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> Self {
        ClientBuilder::with_target(Target::Url(Deployment::parse(url)))
    }

    #[cfg(feature = "fred")]
    pub(crate) fn with_fred(pattern: &fred::clients::Client) -> Self {
        ClientBuilder::with_target(Target::Fred(FredTemplate::of(pattern)))
    }

    pub(super) fn with_target(target: Target) -> Self {
        ClientBuilder {
            target,
            lease: LEASE_DEFAULT,
            command_timeout: COMMAND_TIMEOUT_DEFAULT,
            connect_timeout: None,
            safety_poll: POLL_DEFAULT,
            fair_claim: FAIR_CLAIM_DEFAULT,
            key_prefix: String::new(),
            name: None,
            describe_holds: false,
            handover: LocalHandover::default(),
            #[cfg(feature = "tls")]
            tls: None,
            credentials: None,
            sharded_pubsub: ShardedPubSub::default(),
            requirements: None,
            durability: None,
            telemetry: Telemetry::default(),
            #[cfg(feature = "test-util")]
            network: None,
            #[cfg(feature = "test-util")]
            gate: crate::session::gate::Gate::default(),
            #[cfg(feature = "test-util")]
            machine: crate::clock::Machine::default(),
        }
    }

    /// The lease of renewed holds. Default: 30 s, as Redisson's watchdog. From 100 ms to a year.
    ///
    /// Renewals come every third of it. Longer: fewer renewals, and a lock whose holder died stays
    /// held longer. Shorter: a shorter outage loses the lock.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Whether releases in a cluster are published within their shard. Default: if the servers can, as
    /// Redisson's `shardedSubscriptionMode` AUTO. Elsewhere than in a cluster it means nothing.
    ///
    /// All clients of a lock must agree, those in Java too: a waiter that listens elsewhere goes on only at its
    /// next poll. A channel that lies in another slot than its lock is published to all nodes in any case: that
    /// of a count-down latch whose name has braces.
    pub fn sharded_pubsub(mut self, sharded: ShardedPubSub) -> Self {
        self.sharded_pubsub = sharded;
        self
    }

    /// How many servers must have a copy of a grant before it counts. Default: none but the primary.
    ///
    /// An acquisition waits for the copies behind its script. If they do not come in time, what was taken is
    /// given back, and the call ends with [`Error::NotDurable`](crate::Error::NotDurable). A renewal waits
    /// as well: without the copies the hold is uncertain, and is renewed again. It makes the loss of a lock at
    /// a failover or a restart rarer, and not impossible: see `docs/guarantees.md`.
    ///
    /// # Redis cost
    ///
    /// One command for each acquisition and each batch of renewals. The server answers nothing else on that
    /// connection until the copies are there: all calls of this client to that server share this delay.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// How long one call may take before its reply counts as lost. Default: 1 s. From 10 ms to 60 s.
    ///
    /// Longer: a dead server is noticed later. Shorter: a slow server is taken for dead. It may be longer
    /// than the lease: the reply to a renewal is waited for a third of the lease at most, then the renewal
    /// is sent again.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// How long a connection may take to be made. Default: 1 s, with TLS 5 s. From 10 ms to 60 s.
    ///
    /// Shorter than a crowded server needs for a TLS handshake, it makes the crowd come back again and again.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// How often locks with waiters are checked, in case a message was lost. Default: 1 s. From 10 ms
    /// to 60 s.
    ///
    /// Costs one call for each 500 names with waiters. Longer: a lost message delays a waiter longer.
    pub fn safety_poll(mut self, every: Duration) -> Self {
        self.safety_poll = every;
        self
    }

    /// How long a waiter of a fair lock keeps its place in the queue without a heartbeat.
    /// Default: 2 s. From 100 ms to 60 s.
    ///
    /// A client sends heartbeats for its waiters in the background, at least every third of the claim.
    /// Shorter: a dead waiter delays the waiters behind it less, and a stalled waiter loses its place
    /// sooner. Keep the claim several times longer than a slow answer of the server takes. Clients may
    /// have different claims.
    pub fn fair_claim(mut self, claim: Duration) -> Self {
        self.fair_claim = claim;
        self
    }

    /// The text put before every name. Default: empty. At most 256 bytes.
    ///
    /// Other programs see the whole key: Java's clients must have the prefix in their names.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// What this client is called, for people: `billing@pod-7`. Default: `leasehold`. 1 to 64 printable ASCII
    /// characters without blanks.
    ///
    /// `CLIENT LIST` shows its three connections as `<name>:<id>`, with [`Client::id`](crate::Client::id): owners
    /// on the wire begin with the id, so that the connections of a holder are found. A server that does not
    /// allow `CLIENT SETNAME` shows no name. The embedded engine has no `CLIENT LIST`.
    /// [`describe_holds`](ClientBuilder::describe_holds) shows the name where a lock is held.
    ///
    /// The name need not be unique.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Lets every hold of a lock say who holds it and since when: the [name](ClientBuilder::name) of the client,
    /// and the [purpose](crate::Acquire::purpose) if there is one. Default: those with a purpose do, others do not.
    ///
    /// [`Lock::holder`](crate::Lock::holder), [`Client::locks`](crate::Client::locks) and the command line show
    /// it, and an [`Error::Timeout`](crate::Error::Timeout) says who is in the way.
    ///
    /// # Redis cost
    ///
    /// One more call (`hold_describe`) for each grant and each renewal, which nobody waits for: it goes out in the
    /// background, for up to 100 holds at once. One more call (`lock_inspect`) when a wait ends in vain, before
    /// the error is returned.
    ///
    /// # Keys
    ///
    /// The hash `leasehold_holders:{name}`, with up to 64 owners. Clients that do not know it, as Redisson, do
    /// not read it. It goes when the lease ends, also if the lock is released sooner, and what is said of a hold that
    /// was released is not shown any more. So with long fixed leases each name leaves a small hash until then.
    pub fn describe_holds(mut self) -> Self {
        self.describe_holds = true;
        self
    }

    /// Whether holds pass between this client's waiters directly. Default: [`LocalHandover::Streak`], 256
    /// hand-overs within 5 ms.
    pub fn local_handover(mut self, handover: LocalHandover) -> Self {
        self.handover = handover;
        self
    }

    /// Adds a label `name` to the metrics of locks, by a function from a lock's name to the label; `None` is no
    /// label. Default: none has one.
    ///
    /// Each label is a series of its own at the exporter, for as long as the process lives. So map names to few
    /// texts: `orders:42` to `orders`.
    ///
    /// The function is called for each acquisition and each hold, and must be fast. It may use the client. If it
    /// panics, there is no label.
    #[cfg(feature = "metrics")]
    pub fn metric_name(
        mut self,
        label: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.telemetry.name_label = NameLabel::by(label);
        self
    }

    /// Refuses a deployment that gives less than this. Default: any is taken.
    ///
    /// [`connect`](ClientBuilder::connect) then asks every server once, as
    /// [`Client::preflight`](crate::Client::preflight) does, and ends with
    /// [`Error::Requirements`](crate::Error::Requirements) if something is missing or may not be looked at. So does
    /// [`connect_in_background`](ClientBuilder::connect_in_background), also if a server cannot be reached.
    pub fn require(mut self, requirements: Requirements) -> Self {
        self.requirements = Some(requirements);
        self
    }

    /// Which servers a `rediss://` URL trusts, and the certificate that the client shows to them. Default: the
    /// system's authorities, and none.
    ///
    /// Certificates and keys are read and checked before anything is sent. For another URL, the embedded
    /// engine or a client of fred the options are refused.
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// User and password for each login, where they are not in the URL. Default: those of the URL.
    ///
    /// For [`Credentials`](crate::Credentials) that change, and for some that should not be in a URL.
    /// [`CredentialsProvider`] says when the provider is asked. With credentials in the URL, on the embedded
    /// engine or with a client of fred a provider is refused. Sentinels are not servers: their user and
    /// password stay in the URL.
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.credentials = Some(Provider::new(provider));
        self
    }

    /// Puts the background task of a client on the embedded engine behind a gate.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn gate(mut self, gate: crate::session::gate::Gate) -> Self {
        self.gate = gate;
        self
    }

    /// Runs the client on a machine that the test suspends.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn machine(mut self, machine: &crate::clock::Machine) -> Self {
        self.machine = machine.clone();
        self
    }

    fn clock(&self) -> Clock {
        let on_server = matches!(self.target, Target::Url(_));
        #[cfg(feature = "fred")]
        let on_server = on_server || matches!(self.target, Target::Fred(_));
        let clock = Clock::new(if on_server { Counts::AllTime } else { Counts::TimerTime });
        #[cfg(feature = "test-util")]
        let clock = clock.on(&self.machine);
        clock
    }

    pub(super) fn connection_name(&self, client_id: Uuid) -> String {
        format!("{}:{client_id}", self.name.as_deref().unwrap_or("leasehold"))
    }

    pub(super) fn timing(&self) -> Timing {
        Timing { command: self.command_timeout, connect: self.time_to_connect() }
    }

    fn time_to_connect(&self) -> Duration {
        let is_secured =
            matches!(&self.target, Target::Url(Ok(deployment)) if deployment.is_secured());
        let default = if is_secured { CONNECT_TIMEOUT_TLS } else { CONNECT_TIMEOUT_DEFAULT };
        self.connect_timeout.unwrap_or(default)
    }

    pub(super) fn settings(&self) -> Result<Settings, ConfigError> {
        let minute = Duration::from_secs(60);
        let short = Duration::from_millis(10)..=minute;
        in_range("lease", self.lease, &(Duration::from_millis(100)..=Lease::MAX))?;
        in_range("command_timeout", self.command_timeout, &short)?;
        in_range("connect_timeout", self.time_to_connect(), &short)?;
        in_range("safety_poll", self.safety_poll, &SAFETY_POLL)?;
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
        self.check_access()?;
        let streak = match self.handover {
            LocalHandover::Off => Streak { count: 0, time: Duration::ZERO },
            LocalHandover::Streak { count, time } => Streak { count, time },
        };
        #[cfg(feature = "embedded")]
        if self.durability.is_some() && matches!(self.target, Target::Engine(_)) {
            let (what, given) = ("durability", "copies".to_owned());
            let allowed = "none: the embedded engine has no replicas and no disk".to_owned();
            return Err(ConfigError::OutOfRange { what, given, allowed });
        }
        let durability = self
            .durability
            .map(|durability| durability.checked(self.command_timeout))
            .transpose()?;
        Ok(Settings {
            lease: Lease::checked("lease", self.lease)?,
            command_timeout: self.command_timeout,
            key_prefix: self.key_prefix.clone(),
            streak,
            safety_poll: self.safety_poll,
            fair_claim: self.fair_claim,
            clock: self.clock(),
            durability,
            telemetry: self.telemetry.clone(),
            name: self.name.as_deref().map(Arc::from),
            describe_holds: self.describe_holds,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Client;
    use crate::error::Error;

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
