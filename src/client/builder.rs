//! Settings of a client, checked when it connects.

mod checks;
mod copies;

use std::sync::Arc;
use std::time::Duration;

use super::local_handover::LocalHandover;
use super::streams::Streams;
use crate::durability::Durability;
use crate::error::ConfigError;
use crate::harness::{Harness, Hearing};
#[cfg(feature = "metrics")]
use crate::telemetry::NameLabel;
use crate::telemetry::Telemetry;
#[cfg(feature = "tls")]
use crate::transport::TlsOptions;
use crate::transport::{AddressMap, CredentialsProvider, Deployment, Provider, ShardedPubSub};
use crate::wake::Wake;

const LEASE_DEFAULT: Duration = Duration::from_secs(30);
/// A round trip takes well under a millisecond in one data centre: a second is far too long.
const COMMAND_TIMEOUT_DEFAULT: Duration = Duration::from_secs(1);
const POLL_DEFAULT: Duration = Duration::from_secs(1);
/// Several heartbeats of a living waiter, and a short wait behind a dead waiter.
const FAIR_CLAIM_DEFAULT: Duration = Duration::from_secs(2);

/// The settings of a client; start with [`Client::builder`](crate::Client::builder) and a URL.
///
/// [`connect`](ClientBuilder::connect) checks the settings before anything is sent.
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
    pub(super) deployment: Result<Deployment, ConfigError>,
    pub(super) streams: Streams,
    lease: Duration,
    command_timeout: Duration,
    connect_timeout: Option<Duration>,
    safety_poll: Duration,
    wake: Wake,
    fair_claim: Duration,
    key_prefix: String,
    name: Option<String>,
    describe_holds: bool,
    handover: LocalHandover,
    #[cfg(feature = "tls")]
    pub(super) tls: Option<TlsOptions>,
    pub(super) credentials: Option<Provider>,
    pub(super) sharded_pubsub: ShardedPubSub,
    durability: Option<Durability>,
    failover_grace: Option<Duration>,
    telemetry: Telemetry,
    #[cfg(feature = "test-util")]
    machine: crate::clock::Machine,
}

impl ClientBuilder {
    pub(crate) fn new(url: &str) -> Self {
        let deployment = Deployment::parse(url).map_err(ConfigError::of_transport);
        ClientBuilder::on(deployment, Streams::Sockets)
    }

    pub(super) fn on(deployment: Result<Deployment, ConfigError>, streams: Streams) -> Self {
        ClientBuilder {
            deployment,
            streams,
            lease: LEASE_DEFAULT,
            command_timeout: COMMAND_TIMEOUT_DEFAULT,
            connect_timeout: None,
            safety_poll: POLL_DEFAULT,
            wake: Wake::default(),
            fair_claim: FAIR_CLAIM_DEFAULT,
            key_prefix: String::new(),
            name: None,
            describe_holds: false,
            handover: LocalHandover::default(),
            #[cfg(feature = "tls")]
            tls: None,
            credentials: None,
            sharded_pubsub: ShardedPubSub::default(),
            durability: None,
            failover_grace: None,
            telemetry: Telemetry::default(),
            #[cfg(feature = "test-util")]
            machine: crate::clock::Machine::default(),
        }
    }

    /// Sets the lease of renewed holds. Default: 30 s, like Redisson's watchdog. From 100 ms to a
    /// year.
    ///
    /// A hold is renewed every third of the lease. With a longer lease there are fewer renewals,
    /// and a lock whose holder died stays held for longer. With a shorter lease, a shorter outage
    /// loses the lock.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.lease = lease;
        self
    }

    /// Sets whether a cluster publishes releases with sharded Pub/Sub. Default: if the servers
    /// support it, like Redisson's `shardedSubscriptionMode` AUTO. It has no effect outside a
    /// cluster.
    ///
    /// All clients of a lock must agree, including those in Java. A waiter that listens on the
    /// other kind of channel goes on only at its next poll. A channel in a different slot from its
    /// lock is always published to all nodes. This applies to count-down latches whose name has
    /// braces.
    pub fn sharded_pubsub(mut self, sharded: ShardedPubSub) -> Self {
        self.sharded_pubsub = sharded;
        self
    }

    /// Sets how long a call may take before its reply counts as lost. Default: 1 s. From 10 ms to
    /// 60 s.
    ///
    /// With a longer timeout, a dead server is noticed later. With a shorter one, a slow server
    /// looks dead. The timeout may exceed the lease: a renewal without a reply is sent again after
    /// a third of the lease at most.
    pub fn command_timeout(mut self, timeout: Duration) -> Self {
        self.command_timeout = timeout;
        self
    }

    /// Sets how long it may take to open a connection. Default: 1 s, or 5 s with TLS. From 10 ms to
    /// 60 s.
    ///
    /// The time begins when the name of the server is resolved, which may take up to 10 s before.
    ///
    /// If it is shorter than a TLS handshake with a crowded server takes, all clients reconnect
    /// over and over.
    pub fn connect_timeout(mut self, timeout: Duration) -> Self {
        self.connect_timeout = Some(timeout);
        self
    }

    /// Sets how often waiters check their locks, in case a message was lost. Default: 1 s. From 10
    /// ms to 60 s.
    ///
    /// Each check costs one call for 500 names with waiters, and in a cluster one for each name.
    /// With a longer interval, a lost message delays a waiter for longer.
    pub fn safety_poll(mut self, every: Duration) -> Self {
        self.safety_poll = every;
        self
    }

    /// Sets what wakes waiters. Default: [`Wake::Messages`].
    pub fn wake(mut self, wake: Wake) -> Self {
        self.wake = wake;
        self
    }

    /// Sets how long a waiter of a fair lock keeps its place in the queue without a heartbeat.
    /// Default: 2 s. From 100 ms to 60 s.
    ///
    /// A client sends heartbeats for its waiters in the background, at least every third of the
    /// claim. With a shorter claim, a dead waiter delays the waiters behind it less, but a stalled
    /// waiter loses its place sooner. Keep the claim several times longer than a slow reply of the
    /// server. Clients may have different claims.
    ///
    /// A release gives the lock to the next waiter, for as long as its place would have been kept.
    /// So the lease of such a hold is at most a claim until its first renewal, which comes after
    /// 100 ms. A waiter that wants the lock for less than a claim asks for it instead, which costs
    /// a round trip.
    ///
    /// A plain lock that a release gives to a waiter of another client has a lease of at most a
    /// claim, too, until then.
    pub fn fair_claim(mut self, claim: Duration) -> Self {
        self.fair_claim = claim;
        self
    }

    /// Sets the text that is prepended to every name. Default: empty. At most 256 bytes.
    ///
    /// Other programs see the whole key, so Java clients must put the prefix into their names.
    pub fn key_prefix(mut self, prefix: impl Into<String>) -> Self {
        self.key_prefix = prefix.into();
        self
    }

    /// Names this client for people: `billing@pod-7`. Default: `leasehold`. 1 to 64 printable ASCII
    /// characters without blanks. The name need not be unique.
    ///
    /// `CLIENT LIST` shows the three connections of the client as `<name>:<id>`, with
    /// [`Client::id`](crate::Client::id). Owners on the wire start with the same id, so the
    /// connections of a holder can be found. A server without `CLIENT SETNAME` shows no name. The
    /// embedded engine has no `CLIENT LIST`. [`describe_holds`](ClientBuilder::describe_holds)
    /// shows the name on each held lock.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Describes every hold in Redis: the [name](ClientBuilder::name) of the client, since when it
    /// holds the lock, and the [purpose](crate::Acquire::purpose) if there is one. Default: only
    /// holds with a purpose are described.
    ///
    /// [`Lock::holder`](crate::Lock::holder), the crate leasehold-admin and the command line show
    /// the description. Every [`Error::Timeout`](crate::Error::Timeout) says who is in the way,
    /// even of a zero wait.
    ///
    /// # Redis cost
    ///
    /// One more call (`hold_describe`) for each grant and each renewal. It is sent in the
    /// background for up to 100 holds at once, and nothing waits for it. When a wait times out, one
    /// more call (`lock_inspect`) precedes the error.
    ///
    /// # Keys
    ///
    /// The hash `leasehold_holders:{name}`, with up to 64 owners. Redisson and other clients that
    /// do not know the hash ignore it. It expires with the lease, even if the lock is released
    /// sooner, but the description of a released hold is no longer shown. So with long fixed
    /// leases, each name leaves a small hash until then.
    pub fn describe_holds(mut self) -> Self {
        self.describe_holds = true;
        self
    }

    /// Sets whether holds pass directly between the waiters of this client. Default:
    /// [`LocalHandover::Streak`] with 256 hand-overs within 5 ms.
    pub fn local_handover(mut self, handover: LocalHandover) -> Self {
        self.handover = handover;
        self
    }

    /// Adds the label `name` to the [metrics](crate::guide::telemetry) of locks. The function maps
    /// a lock's name to the label, or to `None` for no label. Default: no labels.
    ///
    /// Each label is its own series at the exporter for as long as the process lives. So map names
    /// to few texts: `orders:42` to `orders`.
    ///
    /// The function is called for each acquisition and each hold, and must be fast. It may use the
    /// client. If it panics, there is no label.
    #[cfg(feature = "metrics")]
    pub fn metric_name(
        mut self,
        label: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
    ) -> Self {
        self.telemetry.name_label = NameLabel::by(label);
        self
    }

    /// Sets which servers a `rediss://` URL trusts, and which client certificate to use. Default:
    /// the system's root certificates, and no client certificate.
    ///
    /// Certificates and keys are read and checked before anything is sent. The options are refused
    /// for other URLs, for the embedded engine and for `leasehold-fred`.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Client;
    /// use leasehold::settings::TlsOptions;
    ///
    /// let tls = TlsOptions::new()
    ///     .ca_file("/etc/redis-tls/ca.crt")
    ///     .client_certificate_files("/etc/redis-tls/tls.crt", "/etc/redis-tls/tls.key");
    /// let client = Client::builder("rediss://redis.internal:6380").tls(tls).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "tls")]
    pub fn tls(mut self, options: TlsOptions) -> Self {
        self.tls = Some(options);
        self
    }

    /// Sets the user and password for each login. Default: those of the URL.
    ///
    /// Use it for [`Credentials`](crate::settings::Credentials) that change, or that do not belong
    /// in a URL. [`CredentialsProvider`] says when the provider is asked. A provider is refused if
    /// the URL has credentials, for the embedded engine, and for `leasehold-fred`. It is not used
    /// for sentinels: their user and password stay in the URL.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Client;
    /// use leasehold::settings::Credentials;
    ///
    /// // A file that an agent keeps up to date.
    /// let provider = || async {
    ///     let read = || std::fs::read_to_string("/run/redis");
    ///     let password = tokio::task::spawn_blocking(read).await??;
    ///     Ok(Credentials::new("orders", password.trim()))
    /// };
    /// let client = Client::builder("rediss://redis.example")
    ///     .credentials(provider)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn credentials(mut self, provider: impl CredentialsProvider) -> Self {
        self.credentials = Some(Provider::new(provider));
        self
    }

    /// Sets where servers are reached that announce addresses which this client cannot use: behind
    /// NAT, in containers, or through tunnels. Default: at the addresses that they announce.
    ///
    /// The map applies to every address that servers name: the nodes of a cluster, redirects, the
    /// primary and the other sentinels. It does not apply to the hosts of the URL. With TLS, the
    /// certificate must name the host to which the map leads. If that is an IP address, it must
    /// name the announced host. [Networks](crate::guide::networks#address-maps) has examples. A map
    /// is refused for a single server, which names no addresses.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::Client;
    /// use leasehold::settings::AddressMap;
    ///
    /// // ssh -L 7001:10.0.0.1:6379 -L 7002:10.0.0.2:6379 -L 7003:10.0.0.3:6379 bastion
    /// let tunnels = AddressMap::table([
    ///     ("10.0.0.1:6379", "127.0.0.1:7001"),
    ///     ("10.0.0.2:6379", "127.0.0.1:7002"),
    ///     ("10.0.0.3:6379", "127.0.0.1:7003"),
    /// ]);
    /// let client = Client::builder("redis-cluster://127.0.0.1:7001")
    ///     .address_map(tunnels)
    ///     .connect()
    ///     .await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn address_map(mut self, map: AddressMap) -> Self {
        let mapped = |deployment: Deployment| {
            let mapped = deployment.mapped_by(map);
            mapped.map_err(ConfigError::of_transport)
        };
        self.deployment = self.deployment.and_then(mapped);
        self
    }

    /// Passes on what the client sends, and on which deadlines it relies.
    #[doc(hidden)]
    pub fn harness(mut self, harness: Arc<dyn Harness>) -> Self {
        self.telemetry.harness = Hearing::by(harness);
        self
    }

    /// Runs the client on a machine that the test suspends.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn machine(mut self, machine: &crate::clock::Machine) -> Self {
        self.machine = machine.clone();
        self
    }
}
