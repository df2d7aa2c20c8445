//! The client: one connection set, one watchdog, and locks on demand.

mod builder;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use crate::error::{ConfigError, Error};
use crate::fencing::FencingToken;
use crate::latch::CountDownLatch;
use crate::lock::{FencedLock, Guard, Lock};
use crate::locks::LockList;
use crate::permits::PermitExpirableSemaphore;
use crate::protocol::keys::KeyName;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::{existence, fenced, replies};
use crate::read_write::ReadWriteLock;
use crate::semaphore::Semaphore;
use crate::session::{Handle, Session};
use crate::stats::Stats;
use crate::synchronizer::Synchronizer;

pub use builder::{ClientBuilder, LocalHandover};

/// A connection to Redis from which locks are made.
///
/// The calls that make locks, semaphores and latches do no I/O; a bad name is refused at the first
/// call of what they make, before anything is sent. Names have 1 to 1024 bytes, the client's prefix
/// included; a brace must be part of a hash tag (`{shop}:orders`), except in the name of a string lock.
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
    /// Connects with the default settings.
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
    /// [`Error::Config`] if the URL cannot be used or there is no tokio runtime, [`Error::Unavailable`] if nobody answers within
    /// the connect time-out, [`Error::Protocol`] if the server refuses the user, the password or the
    /// database.
    pub async fn connect(url: &str) -> Result<Client, Error> {
        Client::builder(url).connect().await
    }

    /// Starts a client with settings of its own.
    pub fn builder(url: &str) -> ClientBuilder {
        ClientBuilder::new(url)
    }

    /// Starts a client whose connections are made by fred, as `pattern` is configured: the server, user
    /// and password or credential provider, TLS connector, database and resolver are taken from it.
    ///
    /// For programs that configure their Redis through fred; others are better served by
    /// [`builder`](Client::builder). `pattern` need not be connected, and no connection of it is used. The
    /// locks are the same. [`fred`](crate::fred) is the version that is wanted here.
    ///
    /// # Limits
    ///
    /// - One server: configurations of Sentinel and Cluster are refused when it connects.
    /// - The builder's time-outs and our own reconnecting count. What `pattern` says of performance,
    ///   connections, reconnecting and the version of RESP is ignored. RESP3 is needed.
    /// - Nothing is batched: a call costs two to eight times the CPU of our own connection.
    /// - [`Error::Unknown`] comes more often: once fred was given a call, it cannot tell whether it was sent.
    /// - A channel that the server refuses to this user costs the connection for messages, each time
    ///   somebody waits for that name; all other waiters of the client ask again.
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
    /// For a quickstart, and for tests of your service under paused time. Clients that shall
    /// contend are made from one [`EmbeddedRedis`](crate::EmbeddedRedis).
    #[cfg(feature = "embedded")]
    pub fn embedded() -> Client {
        crate::EmbeddedRedis::new().client()
    }

    pub(crate) fn new(session: Arc<Session>) -> Self {
        Client { handle: Arc::new(Handle { session }) }
    }

    #[cfg(all(test, feature = "embedded"))]
    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.handle.session
    }

    /// A re-entrant lock, as Redisson's `getLock`. Does no I/O; a bad name is refused at the first
    /// call.
    ///
    /// Each acquisition is an owner of its own; [`Lock`] says how to take it again.
    pub fn lock(&self, name: impl AsRef<str>) -> Lock {
        self.one(Kind::Lock, name.as_ref())
    }

    /// A re-entrant lock that is served strictly in the order in which its waiters came, over all
    /// clients; as Redisson's `getFairLock`, in one queue with it.
    ///
    /// The queue stands in Redis and knows every waiter. One that lives keeps its place by a beat in
    /// the background; one that died is passed over after
    /// [`fair_claim`](ClientBuilder::fair_claim). A zero wait is not in the queue and never passes it.
    /// Holds are not handed over within a client.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`], with `fair_acquire` and `fair_release`; one `SUBSCRIBE` for each
    /// waiter, and while somebody waits one `fair_heartbeat` for each client at least every third of the
    /// claim. The beat, and queueing, look at the whole queue while clients of Redisson stand in it.
    ///
    /// # Keys
    ///
    /// Those of [`lock`](Client::lock), the list `redisson_lock_queue:{name}`, the sorted set
    /// `redisson_lock_timeout:{name}`, and for each waiter a channel
    /// `redisson_lock__channel:{name}:<owner>`. Entries of this library carry deadlines of the
    /// server's clock.
    pub fn fair_lock(&self, name: impl AsRef<str>) -> Lock {
        self.one(Kind::Fair, name.as_ref())
    }

    /// A re-entrant lock whose guards carry a growing number, as Redisson's `getFencedLock`.
    ///
    /// [`FencedGuard::token`](crate::FencedGuard::token) grows with every outermost acquisition, by whichever client, and is the
    /// same in nested sections. Let the resource refuse lower numbers than it has seen: see
    /// [`FencingToken`](crate::FencingToken). The counter is never deleted and gets no expiry; it
    /// begins again only if the server loses its data. Redisson raises it for nested acquisitions too.
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`], with `fenced_acquire`; a hand-over takes 1 round trip, for the next
    /// token.
    ///
    /// # Keys
    ///
    /// Those of [`lock`](Client::lock), and the counter `redisson_lock_token:{name}`.
    pub fn fenced_lock(&self, name: impl AsRef<str>) -> FencedLock {
        self.one(Kind::Fenced, name.as_ref())
    }

    /// A lock that is not taken again while it is held: inside its section, by its guard or by its
    /// [`Owner`](crate::Owner), the second time is [`Error::AlreadyHeld`], at once. Anybody else waits. As
    /// Redisson's non-reentrant lock.
    ///
    /// The same as [`lock`](Client::lock) with [`Lock::non_reentrant`], which works for the other
    /// kinds as well.
    pub fn non_reentrant_lock(&self, name: impl AsRef<str>) -> Lock {
        self.lock(name).non_reentrant()
    }

    /// A re-entrant lock whose waiters do not listen but ask again, as Redisson's `getSpinLock`: for
    /// servers where subscribing is not possible.
    ///
    /// Pauses grow from half a millisecond to an eighth of a second, with jitter, and never beyond
    /// the lease of the holder. One waiter of a client asks for all. Its release is published all the
    /// same, so that others wake at once.
    pub fn spin_lock(&self, name: impl AsRef<str>) -> Lock {
        self.one(Kind::Spin, name.as_ref())
    }

    /// A lock by `SET key token NX PX` and compare-and-delete: the convention of Laravel, redsync,
    /// bsm/redislock, node-redlock, redis-py and many others.
    ///
    /// The name is the whole key: Laravel's has the prefix of its cache store. The value is
    /// [`LockGuard::owner`](crate::LockGuard::owner). Nesting is counted in this process only. Such peers publish nothing, so
    /// waiters ask again, with pauses up to a tenth of a second, one of a client for all.
    ///
    /// [`Lock::restore`] gives the guard back to whoever knows the owner text. A key without expiry
    /// that is in the way is left alone, and told by [`Error::Timeout`].
    ///
    /// # Redis cost
    ///
    /// As in the table of [`Lock`], with `string_acquire` and so on, and without `SUBSCRIBE`; a
    /// hand-over takes 1 round trip, for the next owner text.
    pub fn string_lock(&self, name: impl AsRef<str>) -> Lock {
        self.one(Kind::String, name.as_ref())
    }

    /// Many readers or one writer, as Redisson's `getReadWriteLock`.
    pub fn read_write_lock(&self, name: impl AsRef<str>) -> ReadWriteLock {
        let side = |kind| self.one(kind, name.as_ref());
        ReadWriteLock::new(side(Kind::Read), side(Kind::Write))
    }

    /// Several re-entrant locks of this client as one: all of them or none. [`Lock::multi`] takes
    /// locks of any kinds and clients.
    pub fn multi_lock(&self, names: impl IntoIterator<Item = impl AsRef<str>>) -> Lock {
        Lock::multi(names.into_iter().map(|name| self.lock(name)))
    }

    /// A quorum lock (`RedLock`) over this server and the servers of `others`, all independent of each
    /// other; made of string locks, as redsync and node-redlock have them. [`Lock::quorum`] takes
    /// locks of any kind.
    pub fn red_lock(&self, others: &[Client], name: impl AsRef<str>) -> Lock {
        let clients = std::iter::once(self).chain(others);
        Lock::quorum(clients.map(|client| client.string_lock(&name)))
    }

    /// A number of permits, as Redisson's `getSemaphore`.
    pub fn semaphore(&self, name: impl AsRef<str>) -> Semaphore {
        Semaphore::new(self.synchronizer(Kind::Semaphore, name.as_ref()))
    }

    /// Permits with ids and leases, as Redisson's `getPermitExpirableSemaphore`.
    pub fn permit_expirable_semaphore(&self, name: impl AsRef<str>) -> PermitExpirableSemaphore {
        PermitExpirableSemaphore::new(self.synchronizer(Kind::Permit, name.as_ref()))
    }

    /// A count that many wait for until it is zero, as Redisson's `getCountDownLatch`.
    pub fn count_down_latch(&self, name: impl AsRef<str>) -> CountDownLatch {
        CountDownLatch::new(self.synchronizer(Kind::Latch, name.as_ref()))
    }

    fn one<G: Guard>(&self, kind: Kind, name: &str) -> Lock<G> {
        let prefix = &self.handle.session.settings.key_prefix;
        Lock::new(self.handle.clone(), Resource::new(kind, prefix, name))
    }

    fn synchronizer(&self, kind: Kind, name: &str) -> Synchronizer {
        let prefix = &self.handle.session.settings.key_prefix;
        Synchronizer::new(self.handle.clone(), Resource::new(kind, prefix, name))
    }

    /// Sets the string at `key` unless a holder with a later token has set it: a resource that checks
    /// its fencing token.
    ///
    /// The key and its highest token, at `leasehold_fence:{key}`, must be written in no other way; for a
    /// key with braces of its own that is `leasehold_fence::key`, with two colons. The client's prefix is
    /// put before the key.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe: it is done or it is not; the same token may set again.
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
    /// ```no_run
    /// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let guard = client.fenced_lock("report").lock().await?;
    /// client.set_fenced("report:latest", guard.token(), "…").await?;
    /// # guard.unlock().await
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
            let fault = ConfigError::OutOfRange { what: "token", given, allowed };
            return Err(Error::Config(fault));
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

    /// Lists the locks that are held now, by whomever, whose names fit a pattern of `SCAN`
    /// (`*` any text, `?` any letter, `[ab]` one of these); the client's prefix is put before it.
    ///
    /// Hash locks of this library and of Redisson, and string locks of this library; not one that more
    /// than a thousand readers hold. A lock that comes or goes during the search may be missing. Bounded:
    /// at most 10,000 locks, and about five million keys searched; [`LockList::is_truncated`] says so.
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
    /// It stands in Redis: the owner text of every lock begins with it and a colon
    /// ([`LockGuard::owner`](crate::LockGuard::owner)), and the connections are called `leasehold:<id>` unless the client has a
    /// [`name`](crate::ClientBuilder::name) of its own.
    pub fn id(&self) -> String {
        self.handle.session.client_id().to_string()
    }

    /// Asks the server to run a script that does nothing: whether this client could ask for a lock now,
    /// for a readiness probe.
    ///
    /// It goes the way of an acquisition, once. It reads and writes no key, so it does not show whether
    /// the server takes writes, or which rights its user has to keys.
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
    /// Cancel safe: the shutdown goes on in the background until its deadline, and for two seconds at
    /// most when the client and all that was made from it are gone.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] if Redis did not confirm every release within `deadline`, or if a lost call
    /// may yet take a lock when its connection is gone; their leases end them.
    pub async fn shutdown(&self, deadline: Duration) -> Result<(), Error> {
        self.handle.session.shutdown(deadline).await
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("session", &self.handle.session).finish()
    }
}
