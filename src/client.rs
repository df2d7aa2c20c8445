//! The client: one set of connections, one watchdog, and locks on demand.

mod access;
mod builder;
mod connect;
mod kinds;
mod local_handover;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::connections::Connection;
use crate::error::{ConfigError, Error};
use crate::fencing::FencingToken;
use crate::locks::LockList;
use crate::preflight::{PreflightCheck, Requirements};
use crate::protocol::keys::KeyName;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::{existence, fenced, replies};
use crate::session::{Handle, Session};
use crate::stats::Stats;

pub use builder::ClientBuilder;
pub use local_handover::LocalHandover;

/// A connection to Redis from which locks are made.
///
/// The calls that make locks, semaphores and latches do no I/O. A bad name is refused at the first call
/// of the lock, semaphore or latch, before anything is sent. Names have 1 to 1024 bytes, the client's
/// prefix included; a brace must be part of a hash tag (`{shop}:orders`), except in the name of a string
/// lock.
///
/// Clones are the same client. A client keeps its connections, one thread and its subscriptions
/// until [`shutdown`](Client::shutdown), or until the last clone, lock and guard of the client is gone.
/// In both cases all holds are released first.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// let client = leasehold::Client::connect("redis://127.0.0.1:6379").await?;
/// let lock = client.lock("orders:42");
/// let guard = lock.lock().await?;
/// // … the critical section …
/// guard.unlock().await?;
/// client.shutdown(Duration::from_secs(5)).await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

impl Client {
    /// Connects to `url` with the default settings.
    ///
    /// `url` is `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, or
    /// `redis+unix:///path`; `valkey://`, `valkeys://` and `valkey+unix://` mean the same.
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
    /// [`Error::Config`] if the URL cannot be used or there is no tokio runtime, [`Error::Unavailable`] if no
    /// server answers within the connect time-out, [`Error::Protocol`] if the server refuses the user, the
    /// password or the database.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder(url).connect().await
    }

    /// Starts a client with settings; [`ClientBuilder`] lists them.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Starts a client whose connections are made by fred, as `pattern` is configured.
    ///
    /// Taken from `pattern` are the server, user and password or credential provider, TLS connector,
    /// database and resolver. For programs that configure their Redis through fred; take
    /// [`builder`](Client::builder) otherwise. `pattern` need not be connected, and its connections are not
    /// used. The locks are the same. [`fred`](crate::fred) is the version of fred that `pattern` must have.
    ///
    /// # Limits
    ///
    /// - One server: configurations of Sentinel and Cluster are refused by
    ///   [`connect`](ClientBuilder::connect).
    /// - The builder's time-outs and this crate's reconnecting count. Settings of `pattern` for performance,
    ///   connections, reconnecting and the version of RESP are ignored. RESP3 is needed.
    /// - Calls are not batched: a call costs two to eight times the CPU of this crate's own connection.
    /// - [`Error::Unknown`] comes more often: fred cannot tell whether a call that it was given was sent.
    /// - If the server refuses a channel to this user, each wait for that name costs the connection for
    ///   messages; all other waiters of the client ask again.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example() -> Result<(), leasehold::Error> {
    /// use leasehold::fred::clients::Client as Fred;
    /// use leasehold::fred::types::config::{Config, ServerConfig};
    ///
    /// let server = ServerConfig::new_centralized("127.0.0.1", 6379);
    /// let config = Config { server, password: Some("secret".into()), ..Config::default() };
    /// let pattern = Fred::new(config, None, None, None);
    /// let client = leasehold::Client::builder_with_fred(&pattern).connect().await?;
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "fred")]
    pub fn builder_with_fred(pattern: &fred::clients::Client) -> ClientBuilder {
        ClientBuilder::with_fred(pattern)
    }

    /// A client on an in-memory engine of its own: no server, the same behaviour.
    ///
    /// For a quickstart, and for tests of your service under paused time. To let several clients
    /// contend, make them from one [`EmbeddedRedis`](crate::EmbeddedRedis).
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Client {
        crate::EmbeddedRedis::new().client()
    }

    /// How many requests wait for their answer, to an engine in this process.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn calls_under_way(&self) -> usize {
        self.handle.session.transport.calls_under_way()
    }

    pub(crate) fn new(session: Arc<Session>) -> Self {
        Client { handle: Arc::new(Handle { session }) }
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.handle.session
    }

    /// Sets the string at `key`, unless a holder with a later token has set it.
    ///
    /// Redis is then a resource that checks the fencing token of its writers. The key and its highest
    /// token must be written by this call only. The highest token is at `leasehold_fence:{key}`; for a key
    /// with braces of its own it is at `leasehold_fence::key`, with two colons. The client's prefix is put
    /// before the key.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the value is set or it is not. The same token may set it again.
    ///
    /// # Errors
    ///
    /// [`Error::StaleToken`] if a later token was there: nothing changed, stop the work.
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer,
    /// [`Error::Closed`] after shutdown; [`Error::Config`] for a bad key, and for a token that no lock
    /// gives: below 1.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::embedded();
    /// let guard = client.fenced_lock("report").lock().await?;
    /// client.set_fenced("report:latest", guard.token(), "…").await?;
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn set_fenced(
        &self,
        key: impl AsRef<str>,
        token: FencingToken,
        value: &str,
    ) -> Result<(), Error> {
        if token.value() < 1 {
            let (given, allowed) = (token.to_string(), "at least 1".to_owned());
            let error = ConfigError::OutOfRange { what: "token", given, allowed };
            return Err(Error::Config(error));
        }
        let prefix = &self.handle.session.settings.key_prefix;
        let resource = Resource::new(Kind::Lock, prefix, key.as_ref())?;
        let fence = KeyName::Ours("leasehold_fence").of(&resource.key);
        let call = fenced::set(resource.key.clone(), fence, token.value(), value);
        if self.handle.session.ask(&resource.name, call, replies::yes_or_no).await? {
            return Ok(());
        }
        Err(Error::StaleToken { key: resource.name.clone(), token })
    }

    /// Lists the locks that are held now, by any client, whose names fit `pattern`.
    ///
    /// The pattern is that of `SCAN`: `*` is any text, `?` any letter, `[ab]` one of the letters. The
    /// client's prefix is put before it. Found are hash locks of this library and of Redisson, and string
    /// locks of this library. A lock that more than a thousand readers hold is not found, and a lock that
    /// comes or goes during the search may be missing. The search is bounded: 10,000 locks, about five
    /// million keys, and 30 s; [`LockList::is_truncated`] says whether it ended there.
    ///
    /// # Redis cost
    ///
    /// 1 round trip for each 500 keys of the whole database: about a third of a millisecond of the
    /// server each where few keys fit, up to three where all do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`] if Redis gives no answer,
    /// [`Error::Closed`] after shutdown.
    pub async fn locks(&self, pattern: &str) -> Result<LockList, Error> {
        crate::locks::search(&self.handle, pattern).await
    }

    /// The id of this client, a UUID in lower case: the same for its clones, and no other client's.
    ///
    /// Redis has it too: the owner of every hold begins with the id and a colon
    /// ([`LockGuard::owner`](crate::LockGuard::owner)), and the connections are called `leasehold:<id>`,
    /// or by the client's [`name`](crate::ClientBuilder::name) instead of `leasehold`.
    pub fn id(&self) -> String {
        self.handle.session.client_id().to_string()
    }

    /// The connections of all servers, by `CLIENT LIST`: for an operator, to find the process of a holder.
    ///
    /// The [owner](crate::Holder::owner) of a hold of this library begins with the
    /// [`client`](Connection::client) of its connections. Redisson's does not: its connections are found if they
    /// are [named](Connection::name) by Redisson's `clientName`. The embedded engine has no such list: it is
    /// empty.
    ///
    /// # Redis cost
    ///
    /// 1 command to each server, which looks at all its connections.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if a server gives no answer, [`Error::Protocol`] if the user may not ask
    /// (`CLIENT LIST` is one of the dangerous commands), [`Error::Closed`] after shutdown.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let holder = client.lock("orders:42").holder().await?;
    /// for connection in client.connections().await? {
    ///     let id = connection.client.as_deref().unwrap_or("none");
    ///     if holder.as_ref().is_some_and(|holder| holder.owner.starts_with(id)) {
    ///         println!("{} holds it, from {}", id, connection.address);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connections(&self) -> Result<Vec<Connection>, Error> {
        crate::connections::list(&self.handle.session).await
    }

    /// Checks that this client could ask for a lock now, for a readiness probe.
    ///
    /// The server runs a script that does nothing, on the connection that acquisitions use. The script
    /// reads and writes no key, so the reply does not show whether the server takes writes, or which rights
    /// the user has to keys.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Unavailable`] if there is no connection or the server is not ready,
    /// [`Error::Unknown`] if no reply came within the command time-out, [`Error::Protocol`] if the user
    /// may not run scripts, [`Error::Closed`] after shutdown.
    pub async fn ping(&self) -> Result<(), Error> {
        let (name, call) = (Arc::from("ping"), existence::keys_exist(vec![]));
        self.handle.session.ask(&name, call, |reply| existence::missing(reply, 0)).await.map(drop)
    }

    /// Looks at the servers and says which guarantee results, in words.
    ///
    /// Reported of each server are its version, replicas, eviction, persistence, clock, round trip, cluster
    /// settings, and the rights that this client's user lacks: see
    /// [`ServerState`](crate::preflight::ServerState). With sentinels or in a cluster, how long a failover takes
    /// is compared with the client's lease. What the user may not look at is reported as not known. By default,
    /// rights are those for everything that this crate can do;
    /// [`uses`](PreflightCheck::uses) and [`name`](PreflightCheck::name) narrow that. For the start of a
    /// program, and for an operator. Nothing is written.
    ///
    /// # Redis cost
    ///
    /// 14 commands to each server, 15 in a cluster, in 8 round trips; servers are asked side by side. Two commands
    /// to each sentinel, in one more.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// [`Error::Closed`] after shutdown, [`Error::Config`] for a bad name. A server that cannot be reached is
    /// no error: its [`NodeReport`](crate::preflight::NodeReport) says why.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// use leasehold::preflight::{Severity, Use};
    ///
    /// # let client = leasehold::Client::embedded();
    /// let report = client.preflight().uses([Use::Lock, Use::Semaphore]).name("orders:1").await?;
    /// println!("{report}");
    /// if report.worst() >= Some(Severity::Danger) {
    ///     eprintln!("do not rely on these locks");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn preflight(&self) -> PreflightCheck<'_> {
        PreflightCheck::new(&self.handle)
    }

    /// An error if the deployment gives less.
    async fn meets(&self, requirements: &Requirements) -> Result<(), Error> {
        let check = PreflightCheck::for_requirements(&self.handle, requirements);
        requirements.check(&check.await?, self.handle.session.settings.lease)
    }

    /// What this client has done and what it keeps, as plain counters.
    pub fn stats(&self) -> Stats {
        self.handle.session.stats()
    }

    /// Releases all holds, wakes all waiters, closes the connections and ends the background task.
    ///
    /// Guards that are alive become lost; waiting calls and new calls end with [`Error::Closed`].
    ///
    /// # Redis cost
    ///
    /// 1 round trip for each hold, many at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the shutdown goes on in the background until its deadline; if the client and all its
    /// locks and guards are gone, for two seconds at most.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if Redis did not confirm every release within `deadline`, or if a call without a
    /// reply may yet take a lock. The leases end these holds.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.handle.session.shutdown(deadline).await
    }

    /// Until nothing of this client runs any more. Does not keep the client.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let session = self.handle.session.clone();
        async move { session.ended().await }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.handle.session).finish()
    }
}
