//! The client: one connection set, one watchdog, and lock values on demand.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::config::ClientBuilder;
use crate::error::Error;
use crate::lock::{HoldHandle, Lock, LockGuard};
use crate::owner::Owner;
use crate::session::hold::Terms;
use crate::session::place::Place;
use crate::session::rejoin::adopt;
use crate::session::request::{Request, Wait};
use crate::session::{Handle, Session};
use crate::stats::Stats;

/// A connection to Redis from which locks are made.
///
/// Clones are the same client. A client keeps its connections, one thread and its subscriptions
/// until [`shutdown`](Client::shutdown), or until the last clone, lock and guard made from it is
/// gone; in both cases what is held is released first.
///
/// # Examples
///
/// ```no_run
/// # async fn example() -> Result<(), leasehold::Error> {
/// use std::time::Duration;
///
/// let client = leasehold::Client::connect("redis://127.0.0.1:6379").await?;
/// let mut lock = client.lock("orders:42");
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
    /// Connects with the default settings.
    ///
    /// `url` is `redis://[user:password@]host[:port][/database]`, `rediss://…` for TLS, or
    /// `redis+unix:///path`.
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
    /// [`Error::Config`] if the URL cannot be used, [`Error::Unavailable`] if nobody answers within
    /// the connect time-out, [`Error::Protocol`] if the server refuses the user or password.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder(url).connect().await
    }

    /// Starts a client with settings of its own.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// A client on an in-memory engine of its own: no server, the same behaviour.
    ///
    /// For a quickstart, and for tests of your service under paused time. Clients that shall
    /// contend are made from one [`EmbeddedRedis`](crate::EmbeddedRedis).
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Client {
        crate::EmbeddedRedis::new().client()
    }

    pub(crate) fn new(session: Arc<Session>) -> Self {
        Client { handle: Arc::new(Handle { session }) }
    }

    /// A re-entrant lock, as Redisson's `getLock`. Does no I/O; a bad name is refused at the first
    /// call.
    ///
    /// Each value is an owner of its own: two values of one name exclude each other.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        let prefix = &self.handle.session.settings.key_prefix;
        Lock::new(self.handle.clone(), Place::lock(prefix, name.as_ref()), Owner::new())
    }

    /// Takes over a hold that was turned into a [`HoldHandle`], here or in another process.
    ///
    /// The hold gets this client's lease and is renewed from now on.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up: a call on its way is undone, and with it the hold.
    ///
    /// # Errors
    ///
    /// [`Error::Lost`] if the hold's lease ended before, [`Error::Unavailable`] and
    /// [`Error::Unknown`] as for an acquisition.
    pub async fn adopt(&self, handle: &HoldHandle) -> Result<LockGuard, Error> {
        let settings = &self.handle.session.settings;
        let place = Place::lock("", handle.key()).map_err(Error::Config)?;
        let terms = Terms { lease: settings.lease, renewed: true, max_hold: None };
        let started = tokio::time::Instant::now();
        let request = Request { place, owner: Owner::new(), terms, wait: Wait::Once, started };
        adopt(&self.handle, &request, handle.field()).await.map(LockGuard::new)
    }

    /// What this client has done and what it keeps, as plain counters.
    pub fn stats(&self) -> Stats {
        self.handle.session.stats()
    }

    /// Releases all that is held, wakes all that wait, closes the connections and ends all tasks.
    ///
    /// Guards that are alive become lost; waiting calls and new ones end with [`Error::Closed`].
    ///
    /// # Redis cost
    ///
    /// 1 round trip for each hold, many at once.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: the shutdown goes on in the background.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if Redis did not confirm every release within `deadline`; their leases
    /// end them.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.handle.session.shutdown(deadline).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.handle.session).finish()
    }
}
