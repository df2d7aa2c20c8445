//! The client: one set of connections, one watchdog, and locks on demand.

mod access;
mod builder;
mod connect;
mod kept;
mod kinds;
mod local_handover;
mod servers;
mod streams;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::Error;
use crate::session::Handle;
#[cfg(all(test, feature = "embedded"))]
use crate::session::Session;
use crate::stats::Stats;

pub use builder::ClientBuilder;
pub use local_handover::LocalHandover;

/// A client of Redis or Valkey, which makes locks, semaphores and latches.
///
/// The methods that make locks, semaphores and latches do no I/O. A bad name is refused at their first call,
/// before anything is sent. A name has 1 to 1024 bytes, including the client's prefix. A brace must be part
/// of a hash tag (`{shop}:orders`), except in the name of a string lock.
///
/// Clones are the same client. A client keeps its connections, one thread and its subscriptions until
/// [`shutdown`](Client::shutdown), or until its last clone, lock and guard is dropped. In both cases all
/// holds are released first. `shutdown` waits until Redis has confirmed that. The last drop blocks for up to
/// 0.1 s, if releases are under way, and then continues in the background for up to two seconds.
///
/// [Deployments](crate::guide::deployments) has the URLs, [operations](crate::guide::operations) the settings of
/// servers and clients.
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
    /// `redis+unix:///path`. The schemes `valkey://`, `valkeys://` and `valkey+unix://` mean the same. Write a host name
    /// in ASCII: an internationalised one in its `xn--…` form.
    ///
    /// # Redis cost
    ///
    /// Three connections, with one round trip each for the handshake. The first one may take up to two more on a server
    /// that refuses `HELLO` or scripts without keys.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The connections are closed.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`]: the URL cannot be used, or there is no tokio runtime with timers and I/O.
    /// - [`Error::Unavailable`]: no server answered within the connect timeout.
    /// - [`Error::Protocol`]: the server refused the user, the password or the database.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder(url).connect().await
    }

    /// Starts a client with settings. [`ClientBuilder`] lists them.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Starts a client whose connections are made by fred, with the configuration of `pattern`.
    ///
    /// This is for programs that configure their Redis through fred; other programs use
    /// [`builder`](Client::builder). The client takes the server, the user and password or credential
    /// provider, the TLS connector, the database and the resolver from `pattern`. `pattern` need not be
    /// connected, and its connections are not used. The locks behave the same. [`fred`] is the
    /// version of fred that `pattern` must have.
    ///
    /// # Limits
    ///
    /// - One server. [`connect`](ClientBuilder::connect) refuses configurations of Sentinel and Cluster.
    /// - The timeouts of the builder and the reconnecting of this crate apply. Settings of `pattern` for
    ///   performance, connections, reconnecting and the version of RESP are ignored.
    /// - The server must speak RESP3 (`HELLO 3`). Without fred, RESP2 will do.
    /// - Calls are not batched. A call costs two to eight times the CPU of this crate's own connection.
    /// - [`Error::Unknown`] is more frequent, because fred cannot tell whether it sent a call.
    /// - If the server refuses a channel to this user, each wait for that name costs the connection for
    ///   messages, and all other waiters of the client retry.
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

    /// Makes a client with its own in-memory engine, which behaves like a server.
    ///
    /// Use it for a quickstart, and to test your service under paused time. To let several clients contend,
    /// make them from one [`EmbeddedRedis`](crate::EmbeddedRedis).
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Client {
        crate::EmbeddedRedis::new().client()
    }

    /// The number of requests in flight to an engine in this process.
    #[cfg(feature = "test-util")]
    #[doc(hidden)]
    pub fn calls_under_way(&self) -> usize {
        self.handle.calls().transport.calls_under_way()
    }

    pub(crate) fn new(handle: Handle) -> Self {
        Client {
            handle: Arc::new(handle),
        }
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.handle.session
    }

    /// The id of this client and its clones: a unique UUID in lower case.
    ///
    /// The id is visible in Redis. The owner of every hold starts with the id and a colon
    /// ([`LockGuard::owner`](crate::LockGuard::owner)). The connections are named `leasehold:<id>`; if the
    /// client has a [`name`](crate::ClientBuilder::name), it replaces `leasehold`.
    pub fn id(&self) -> String {
        self.handle.calls().client_id().to_string()
    }

    /// A snapshot of what this client has done and what it keeps, as plain counters.
    pub fn stats(&self) -> Stats {
        self.handle.session.stats()
    }

    /// Shuts the client down: releases all holds, wakes all waiters and closes the connections.
    ///
    /// Live guards become lost. Waiting calls and new calls fail with [`Error::Closed`].
    ///
    /// # Redis cost
    ///
    /// 1 round trip for each hold, many at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The shutdown continues in the background until its deadline. If the client and all its
    /// locks and guards are dropped, it continues for two seconds at most.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if Redis did not confirm every release within `deadline`, or if a call without a
    /// reply may still take a lock. The leases end these holds.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.handle.session.shutdown(deadline).await
    }

    /// Resolves when nothing of this client runs any more. Does not keep the client alive.
    pub(crate) fn ended(&self) -> impl Future<Output = ()> + Send + use<> {
        let session = self.handle.session.clone();
        async move {
            session.calls.life.ended().await;
        }
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("session", &self.handle.session)
            .finish()
    }
}
