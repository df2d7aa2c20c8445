//! What a client learns about its servers: their locks, their connections, and what they guarantee.

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use crate::connections::Connection;
use crate::error::Error;
use crate::locks::{LockInfo, LockList};
use crate::preflight::{PreflightCheck, Requirements};
use crate::protocol::existence;

/// The key that [`Client::ping`] names if it must name one. It never exists.
const PING: &str = "leasehold_ping";

impl Client {
    /// Lists the locks held now, by any client, whose names match `pattern`.
    ///
    /// The pattern is that of `SCAN`: `*` matches any text, `?` any letter, and `[ab]` one of the letters.
    /// The client's prefix is prepended.
    ///
    /// The search finds hash locks of this library and of Redisson, and string locks of this library. It finds
    /// semaphores whose permits are held or waited for, idle ones with a [limit](crate::Semaphore::with_limit), and
    /// latches that are waited for. It does not find a lock that more than a thousand readers hold, and may miss a lock
    /// that comes or goes during the search. It stops after 10,000 locks, about five million keys, or 30 s.
    /// [`LockList::is_truncated`] says whether it stopped early.
    ///
    /// # Redis cost
    ///
    /// 1 round trip for each 500 keys of the whole database. Each takes about a third of a millisecond of
    /// the server's time if few keys match, and up to three milliseconds if all do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer, or refused
    ///   the call.
    /// - [`Error::Closed`]: the client was shut down.
    pub async fn locks(&self, pattern: &str) -> Result<LockList, Error> {
        crate::locks::search(&self.handle, pattern).await
    }

    /// Looks at one key, and tells what [`locks`](Client::locks) would list about it. `None` if nobody holds it.
    ///
    /// The key is the whole key, with the prefix of its client, as in [`LockInfo::key_bytes`]. Any string there counts
    /// as a lock, because the text of other programs may be anything: its kind is
    /// [`Foreign`](crate::inspect::LockKind::Foreign) if this library did not write it.
    ///
    /// # Redis cost
    ///
    /// 1 round trip for a lock that `locks` lists, otherwise 2.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer, or refused
    ///   the call. `Protocol` also if the key has another type.
    /// - [`Error::Closed`]: the client was shut down.
    /// - [`Error::Config`]: the key is empty or too long.
    ///
    /// # Examples
    ///
    #[cfg_attr(feature = "embedded", doc = "```")]
    #[cfg_attr(not(feature = "embedded"), doc = "```ignore")]
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::embedded();
    /// let encoders = client.semaphore("encoders").with_limit(3);
    /// encoders.acquire(1).await?.release().await?;
    ///
    /// let idle = client.lock_at(b"encoders").await?.expect("it has a limit");
    /// assert_eq!((idle.available, idle.limit), (Some(3), Some(3)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock_at(&self, key: &[u8]) -> Result<Option<LockInfo>, Error> {
        crate::locks::look_at(&self.handle, key).await
    }

    /// Frees a lock by force whose key is not UTF-8, if this owner holds it; returns false if it was free.
    ///
    /// No client of this library or of Redisson has such a name, so nobody is told of the release. `owner` is the text
    /// of [`Holder::owner`](crate::inspect::Holder::owner). An empty text frees a string whatever its text is, which need
    /// not be UTF-8 either.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe. The lock is either freed or not.
    ///
    /// # Errors
    ///
    /// - [`Error::NotOwner`]: another owner holds the lock. Nothing changed.
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer, or refused
    ///   the call. `Protocol` also if the key is neither a hash nor a string.
    /// - [`Error::Closed`]: the client was shut down.
    /// - [`Error::Config`]: the key is UTF-8. Its lock has
    ///   [`force_unlock_of`](crate::Lock::force_unlock_of).
    pub async fn force_unlock_at(&self, key: &[u8], owner: &str) -> Result<bool, Error> {
        crate::locks::force_unlock_at(&self.handle, key, owner).await
    }

    /// Lists the connections of all servers with `CLIENT LIST`, so that an operator can find the process of a
    /// holder.
    ///
    /// If a hold was taken by this library, its [owner](crate::inspect::Holder::owner) starts with the
    /// [`client`](Connection::client) of its connections. That is not so for Redisson. Its connections can be
    /// found by [name](Connection::name), if its setting `clientName` is used. The embedded engine has no
    /// such list and returns an empty one.
    ///
    /// # Redis cost
    ///
    /// 1 command for each server, which visits all its connections.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Unavailable`]: a server did not answer.
    /// - [`Error::Protocol`]: the user has no right to `CLIENT LIST`, which is one of the dangerous commands.
    /// - [`Error::Closed`]: the client was shut down.
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
        crate::connections::list(self.handle.calls()).await
    }

    /// Checks that this client can send lock calls now. Use it for a readiness probe.
    ///
    /// The server runs a script that does nothing, on the connection that acquisitions use. The script
    /// touches no key, unless the server refuses scripts without one: then it asks whether `leasehold_ping`
    /// exists, after the prefix of keys. So a success does not show whether the server accepts writes, or which
    /// keys the user may access.
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
    /// - [`Error::Unavailable`]: there is no connection, or the server is not ready.
    /// - [`Error::Unknown`]: no reply came within the command timeout.
    /// - [`Error::Protocol`]: the user has no right to run scripts.
    /// - [`Error::Closed`]: the client was shut down.
    pub async fn ping(&self) -> Result<(), Error> {
        let (name, calls) = (Arc::from("ping"), self.handle.calls());
        let ask = async |keys: Vec<_>| {
            let number = keys.len();
            let call = existence::keys_exist(keys);
            calls
                .ask(&name, call, |reply| existence::missing(reply, number))
                .await
        };
        let key: Arc<str> = Arc::from(format!("{}{PING}", calls.settings.key_prefix));
        let keys = if calls.transport.wants_keys() {
            vec![key]
        } else {
            vec![]
        };
        ask(keys).await.map(drop)
    }

    /// Inspects the servers, and reports in words which guarantee this deployment gives.
    ///
    /// Use it when a program starts, or as an operator. It writes nothing. The report covers the version,
    /// replicas, eviction, persistence, clock, round trip and cluster settings of each server, what the server can do and
    /// which kinds of locks work there, and the rights that the user of this client lacks. With sentinels
    /// or in a cluster, it compares the duration of a failover with the client's lease. What the user has no
    /// right to see is reported as unknown.
    ///
    /// By default it checks the rights for everything that this crate can do. [`uses`](PreflightCheck::uses)
    /// and [`name`](PreflightCheck::name) narrow that.
    ///
    /// # Redis cost
    ///
    /// 17 commands for each server, in 9 round trips, and one subscription, which is ended again. All
    /// servers are asked concurrently. Each sentinel gets two commands, in one more round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Closed`]: the client was shut down.
    /// - [`Error::Config`]: the name cannot be used.
    ///
    /// A server that cannot be reached is not an error: its [`CheckedServer`](crate::preflight::CheckedServer)
    /// says why.
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

    /// An error if a server refuses to wait for the copies that this client asks for.
    pub(super) async fn may_wait_for_copies(&self) -> Result<(), Error> {
        let calls = self.handle.calls();
        let asked = calls.may_wait_for_copies().await;
        asked.map_err(|error| {
            let server = Arc::from(calls.transport.server());
            Error::from_call(&server, Duration::ZERO, error)
        })
    }

    /// An error if the deployment gives less than required.
    pub(super) async fn meets(&self, requirements: &Requirements) -> Result<(), Error> {
        let check = PreflightCheck::for_requirements(&self.handle, requirements);
        requirements.check(&check.await?, self.handle.calls().settings.lease)
    }
}
