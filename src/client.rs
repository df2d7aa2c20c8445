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
use crate::session::core::Handle;
#[cfg(all(test, feature = "embedded"))]
use crate::session::core::Session;
use crate::stats::Stats;

pub use builder::ClientBuilder;
pub use local_handover::LocalHandover;

/// A client of Redis or Valkey, which makes locks, semaphores and latches.
///
/// The methods that make locks, semaphores and latches do no I/O. A bad name is refused at their
/// first call, before anything is sent. A name has 1 to 1024 bytes, including the client's prefix.
/// A brace must be part of a hash tag (`{shop}:orders`), except in the name of a string lock.
///
/// Clones are the same client. A client keeps its connections, one thread and its subscriptions
/// until [`shutdown`](Client::shutdown), or until its last clone, lock and guard is dropped. In
/// both cases all holds are released first. `shutdown` waits until Redis has confirmed that. The
/// last drop blocks for up to 0.1 s, if releases are under way, and then continues in the
/// background for up to two seconds.
///
/// [Deployments](crate::guide::deployments) has the URLs, [operations](crate::guide::operations)
/// the settings of servers and clients.
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
    /// `redis+unix:///path`. The schemes `valkey://`, `valkeys://` and `valkey+unix://` mean the
    /// same. Write a host name in ASCII: an internationalised one in its `xn--…` form.
    ///
    /// # Redis cost
    ///
    /// Three connections, with one round trip each for the handshake. The first one may take up to
    /// two more on a server that refuses `HELLO` or scripts without keys.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The connections are closed.
    ///
    /// # Errors
    ///
    /// - [`Error::Config`]: the URL cannot be used, or there is no tokio runtime with timers and
    ///   I/O.
    /// - [`Error::Unavailable`]: no server answered within the connect timeout.
    /// - [`Error::Protocol`]: the server refused the user, the password or the database.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder(url).connect().await
    }

    /// Starts a client with settings. [`ClientBuilder`] lists them.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Makes a client with its own in-memory engine, which behaves like a server.
    ///
    /// Use it for a quickstart, and to test your service under paused time. To let several clients
    /// contend, make them from one [`EmbeddedRedis`](crate::EmbeddedRedis).
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Client {
        crate::EmbeddedRedis::new().client()
    }

    /// What `leasehold-admin` needs; no promise of stability.
    #[doc(hidden)]
    pub fn parts(&self) -> crate::parts::Parts {
        crate::parts::Parts::of(self.handle.clone())
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
    /// ([`LockGuard::owner`](crate::LockGuard::owner)). The connections are named `leasehold:<id>`;
    /// if the client has a [`name`](crate::ClientBuilder::name), it replaces `leasehold`.
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
    /// Cancel safe. The shutdown continues in the background until its deadline. If the client and
    /// all its locks and guards are dropped, it continues for two seconds at most.
    ///
    /// # Errors
    ///
    /// - [`Error::Unknown`]: Redis did not confirm every release within `deadline`, or a call
    ///   without a reply may still take a lock. The leases end these holds.
    /// - [`Error::Forked`]: the client was made before a fork.
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
