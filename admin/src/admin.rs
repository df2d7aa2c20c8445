//! What an operator, or a program that starts, asks of the servers of a client.

use leasehold::parts::Parts;
use leasehold::{Client, Error};

use crate::connections::{self, Connection};
use crate::error::Refusal;
use crate::locks::{self, LockInfo, LockList};
use crate::preflight::{PreflightCheck, Requirements};

/// Questions about the servers of a [`Client`], by its connections. The [crate] lists them.
///
/// A clone asks the same servers. It keeps the client, as a lock does.
#[derive(Clone, Debug)]
pub struct Admin {
    parts: Parts,
}

impl Admin {
    /// Uses the connections, the user and the settings of a client. Does no I/O.
    pub fn new(client: &Client) -> Self {
        Admin {
            parts: client.parts(),
        }
    }

    /// Lists the locks held now, by any client, whose names match `pattern`.
    ///
    /// The pattern is that of `SCAN`: `*` matches any text, `?` any letter, and `[ab]` one of the
    /// letters. The client's prefix is prepended.
    ///
    /// The search finds hash locks of this library and of Redisson, and string locks of this
    /// library. It finds semaphores whose permits are held or waited for, idle ones with a
    /// [limit](leasehold::Semaphore::with_limit), and latches that are waited for. It does not find
    /// a lock that more than a thousand readers hold, and may miss a lock that comes or goes during
    /// the search. It stops after 10,000 locks, about five million keys, or 30 s.
    /// [`LockList::is_truncated`] says whether it stopped early.
    ///
    /// # Redis cost
    ///
    /// 1 round trip for each 500 keys of the whole database. Each takes about a third of a
    /// millisecond of the server's time if few keys match, and up to three milliseconds if all do.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer,
    ///   or refused the call.
    /// - [`Error::Closed`]: the client was shut down.
    pub async fn locks(&self, pattern: &str) -> Result<LockList, Error> {
        locks::search(&self.parts, pattern).await
    }

    /// Looks at one key, and tells what [`locks`](Admin::locks) would list about it. `None` if
    /// nobody holds it.
    ///
    /// The key is the whole key, with the prefix of its client, as in [`LockInfo::key_bytes`]. Any
    /// string there counts as a lock, because the text of other programs may be anything: its kind
    /// is [`Foreign`](crate::LockKind::Foreign) if this library did not write it.
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
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer,
    ///   or refused the call. `Protocol` also if the key has another type.
    /// - [`Error::Closed`]: the client was shut down.
    /// - [`Error::Config`]: the key is empty or too long.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold_admin::Admin;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let client = leasehold::Client::embedded();
    /// let encoders = client.semaphore("encoders").with_limit(3);
    /// encoders.acquire(1).await?.release().await?;
    ///
    /// let idle = Admin::new(&client).lock_at(b"encoders").await?.expect("it has a limit");
    /// assert_eq!((idle.available, idle.limit), (Some(3), Some(3)));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn lock_at(&self, key: &[u8]) -> Result<Option<LockInfo>, Error> {
        locks::look_at(&self.parts, key).await
    }

    /// Frees a lock by force whose key is not UTF-8, if this owner holds it; returns false if it
    /// was free.
    ///
    /// No client of this library or of Redisson has such a name, so nobody is told of the release.
    /// `owner` is the text of [`Holder::owner`](leasehold::inspect::Holder::owner). An empty text
    /// frees a string whatever its text is, which need not be UTF-8 either.
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
    /// - [`Error::Unavailable`], [`Error::Unknown`] or [`Error::Protocol`]: Redis did not answer,
    ///   or refused the call. `Protocol` also if the key is neither a hash nor a string.
    /// - [`Error::Closed`]: the client was shut down.
    /// - [`Error::Config`]: the key is UTF-8. Its lock has
    ///   [`force_unlock_of`](leasehold::Lock::force_unlock_of).
    pub async fn force_unlock_at(&self, key: &[u8], owner: &str) -> Result<bool, Error> {
        locks::force_unlock_at(&self.parts, key, owner).await
    }

    /// Lists the connections of all servers with `CLIENT LIST`, so that an operator can find the
    /// process of a holder.
    ///
    /// If a hold was taken by this library, its [owner](leasehold::inspect::Holder::owner) starts
    /// with the [`client`](Connection::client) of its connections. That is not so for Redisson. Its
    /// connections can be found by [name](Connection::name), if its setting `clientName` is used.
    /// The embedded engine has no such list and returns an empty one.
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
    /// - [`Error::Protocol`]: the user has no right to `CLIENT LIST`, which is one of the dangerous
    ///   commands.
    /// - [`Error::Closed`]: the client was shut down.
    ///
    /// # Examples
    ///
    /// ```no_run
    /// # async fn example(client: leasehold::Client) -> Result<(), leasehold::Error> {
    /// let holder = client.lock("orders:42").holder().await?;
    /// for connection in leasehold_admin::Admin::new(&client).connections().await? {
    ///     let id = connection.client.as_deref().unwrap_or("none");
    ///     if holder.as_ref().is_some_and(|holder| holder.owner.starts_with(id)) {
    ///         println!("{} holds it, from {}", id, connection.address);
    ///     }
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub async fn connections(&self) -> Result<Vec<Connection>, Error> {
        connections::list(&self.parts).await
    }

    /// Inspects the servers, and reports in words which guarantee this deployment gives.
    ///
    /// Use it when a program starts, or as an operator. It writes nothing. The report covers the
    /// version, replicas, eviction, persistence, clock, round trip and cluster settings of each
    /// server, what the server can do and which kinds of locks work there, and the rights that the
    /// user of this client lacks. With sentinels or in a cluster, it compares the duration of a
    /// failover with the client's lease. What the user has no right to see is reported as unknown.
    ///
    /// By default it checks the rights for everything that the client and this crate can do.
    /// [`uses`](PreflightCheck::uses) and [`name`](PreflightCheck::name) narrow that.
    ///
    /// # Redis cost
    ///
    /// 17 commands for each server, in 9 round trips, and one subscription, which is ended again.
    /// All servers are asked concurrently. Each sentinel gets two commands, in one more round trip.
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
    /// A server that cannot be reached is not an error: its
    /// [`CheckedServer`](crate::preflight::CheckedServer) says why.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold_admin::Admin;
    /// use leasehold_admin::preflight::{Severity, Use};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// # let client = leasehold::Client::embedded();
    /// let admin = Admin::new(&client);
    /// let report = admin.preflight().uses([Use::Lock, Use::Semaphore]).name("orders:1").await?;
    /// println!("{report}");
    /// if report.worst() >= Some(Severity::Danger) {
    ///     eprintln!("do not rely on these locks");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    pub fn preflight(&self) -> PreflightCheck<'_> {
        PreflightCheck::new(&self.parts)
    }

    /// Refuses a deployment that gives less than `requirements`. Call it after connecting, before
    /// the first lock.
    ///
    /// It asks every server once, like [`preflight`](Admin::preflight). What the user has no right
    /// to see counts as not met, and so does a server that cannot be reached.
    ///
    /// # Redis cost
    ///
    /// That of a [preflight](Admin::preflight).
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Refusal::Unmet`]: the deployment gives less than required. No lock was touched.
    /// - [`Refusal::NotChecked`]: the client was shut down, or a name in the requirements cannot be
    ///   used.
    ///
    /// # Examples
    ///
    /// ```
    /// use leasehold_admin::{Admin, Refusal};
    /// use leasehold_admin::preflight::{Persistence, Requirements};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Refusal> {
    /// # let client = leasehold::Client::embedded();
    /// let admin = Admin::new(&client);
    /// admin.require(&Requirements::new().no_eviction()).await?;
    /// let more = Requirements::new().persistence(Persistence::EverySecond);
    /// assert!(matches!(admin.require(&more).await, Err(Refusal::Unmet { .. })));
    /// # Ok(())
    /// # }
    /// ```
    pub async fn require(&self, requirements: &Requirements) -> Result<(), Refusal> {
        let check = PreflightCheck::for_requirements(&self.parts, requirements);
        requirements.check(&check.await?, self.parts.lease())
    }
}
