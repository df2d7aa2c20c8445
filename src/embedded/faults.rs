//! The faults of an engine, for tests of services.

use std::time::Duration;

use super::{EmbeddedRedis, Restart};

impl EmbeddedRedis {
    /// Deletes the key of a lock, and tells no client.
    ///
    /// The holder finds out when it renews or releases, as after an operator's `DEL`. The name is
    /// the key: with a prefix, if the clients have one. Answers whether the key was there.
    pub fn lose(&self, name: &str) -> bool {
        self.engine.remove(name.as_bytes())
    }

    /// Breaks the connections of all clients, until [`heal`](Self::heal).
    ///
    /// Calls in flight end without a reply, new calls fail at once with [`Error::Unavailable`]. An
    /// acquisition that has time left waits for the server. Guards become [`Uncertain`] at their
    /// next renewal. Keys and leases stay as they are. The events are *a connection was lost* and,
    /// after `heal`, *a connection was made again*.
    ///
    /// [`Error::Unavailable`]: crate::Error::Unavailable
    /// [`Uncertain`]: crate::HoldState::Uncertain
    pub fn cut(&self) {
        self.engine.cut();
    }

    /// Lets broken connections come back.
    pub fn heal(&self) {
        self.engine.heal();
    }

    /// Loses the next reply: the next call of any client is executed, and its connection breaks
    /// before the reply.
    ///
    /// Only calls about locks, semaphores and latches count, renewals included. Each
    /// `lose_next_reply` loses one reply.
    ///
    /// - An acquisition that asks once fails with [`Error::Unknown`]: the caller must not enter.
    ///   The client releases in the background what the call has taken.
    /// - An acquisition that has time left, a release, a renewal or a change of a number is
    ///   repeated, and takes effect once.
    ///
    /// The events are *a connection was lost* and *a connection was made again*.
    ///
    /// # Examples
    ///
    /// A service must not enter if it does not know:
    ///
    /// ```
    /// use leasehold::{EmbeddedRedis, Lease};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let redis = EmbeddedRedis::new();
    /// let (ours, theirs) = (redis.client(), redis.client());
    ///
    /// redis.lose_next_reply();
    /// let error = ours.lock("orders:42").try_lock_now(Lease::Renewed).await.unwrap_err();
    /// assert!(error.may_be_held() && error.is_retryable());
    ///
    /// // What the call took is given back, long before its lease ends.
    /// let guard = theirs.lock("orders:42").lock().await?;
    ///
    /// // A release is repeated until its reply comes.
    /// redis.lose_next_reply();
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Error::Unknown`]: crate::Error::Unknown
    pub fn lose_next_reply(&self) {
        self.engine.lose_next_reply();
    }

    /// Delays every reply and message by this much, until another delay is set. Zero delays
    /// nothing.
    ///
    /// The server executes each call at once, and the reply comes late. So a granted lease has
    /// already run for that time. If the delay is longer than [`command_timeout`], calls end as if
    /// their replies were lost: [`Error::Unknown`], guards become [`Uncertain`], and connections
    /// are probed and replaced.
    ///
    /// # Examples
    ///
    /// A handler must answer in time although the server is slow:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use leasehold::{EmbeddedRedis, Lease};
    /// use tokio::time::Instant;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let redis = EmbeddedRedis::new();
    /// let lock = redis.client().lock("orders:42");
    /// lock.lock().await?.unlock().await?;
    ///
    /// redis.delay(Duration::from_millis(80));
    /// let start = Instant::now();
    /// let guard = lock.try_lock(Duration::from_millis(500), Lease::Renewed).await?;
    /// assert!(start.elapsed() >= Duration::from_millis(80));
    ///
    /// redis.delay(Duration::ZERO);
    /// guard.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`command_timeout`]: crate::ClientBuilder::command_timeout
    /// [`Error::Unknown`]: crate::Error::Unknown
    /// [`Uncertain`]: crate::HoldState::Uncertain
    pub fn delay(&self, by: Duration) {
        self.engine.delay(by);
    }

    /// Restarts the server without its data: all locks, fencing tokens and numbers of permits are
    /// gone.
    ///
    /// All connections break and are made again at once. The clients find a server with another run
    /// id, and ask it for all of their holds: each guard is lost with [`LossReason::Gone`], and its
    /// [`run`] stops. Waiters ask again after the [`failover_grace`], and one gets the lock. A
    /// semaphore without a [limit] refuses acquisitions with [`Error::NoPermits`]. The events are
    /// *a connection was lost*, *a connection was made again* and *the lock was lost*.
    ///
    /// # Examples
    ///
    /// The work must stop when the server has forgotten its lock:
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use leasehold::{EmbeddedRedis, Error, LossReason};
    /// use tokio::time::sleep;
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let redis = EmbeddedRedis::new();
    /// let guard = redis.client().lock("orders:42").lock().await?;
    ///
    /// let work = guard.run(sleep(Duration::from_secs(3600)));
    /// let restart = async {
    ///     sleep(Duration::from_secs(5)).await;
    ///     redis.restart_empty();
    /// };
    /// let (stopped, ()) = tokio::join!(work, restart);
    /// assert!(matches!(stopped, Err(Error::Lost { reason: LossReason::Gone, .. })));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Error::NoPermits`]: crate::Error::NoPermits
    /// [`failover_grace`]: crate::ClientBuilder::failover_grace
    /// [`LossReason::Gone`]: crate::LossReason::Gone
    /// [limit]: crate::Semaphore::with_limit
    /// [`run`]: crate::LockGuard::run
    pub fn restart_empty(&self) {
        self.engine.restart(Restart::Empty);
    }

    /// Sets how many replicas have each write as soon as it is made. Default: 1.
    ///
    /// With 0, the replicas stop following: they keep the keys that they have now, for the next
    /// [`fail_over`](Self::fail_over). They follow again when the number is raised.
    ///
    /// A client with [`durability`](crate::ClientBuilder::durability) that asks for more replicas
    /// gets [`Error::NotDurable`] for each acquisition, after [`Durability::within`]: nothing is
    /// held. Its renewals fail, so its guards become [`Uncertain`] and are lost when their leases
    /// end.
    ///
    /// # Examples
    ///
    /// A job must not start if its lock could be lost:
    ///
    /// ```
    /// use leasehold::settings::Durability;
    /// use leasehold::{EmbeddedRedis, Error};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let redis = EmbeddedRedis::new();
    /// let client = redis.builder().durability(Durability::replicas(1)).connect().await?;
    /// client.lock("orders:42").lock().await?.unlock().await?;
    ///
    /// redis.set_replicas(0);
    /// let refused = client.lock("orders:42").lock().await.unwrap_err();
    /// assert!(matches!(refused, Error::NotDurable { wanted: 1, acknowledged: 0, .. }));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`Error::NotDurable`]: crate::Error::NotDurable
    /// [`Durability::within`]: crate::settings::Durability::within
    /// [`Uncertain`]: crate::HoldState::Uncertain
    pub fn set_replicas(&self, following: u32) {
        self.engine.set_replicas(following);
    }

    /// Makes a replica the primary: all connections break, and later calls go to another server
    /// with another run id.
    ///
    /// The new primary has all keys. If the replicas have stopped following, by
    /// [`set_replicas`](Self::set_replicas) with 0, it lacks the writes since then, as after a
    /// failover with asynchronous replication. A lock that was taken since then is free, and one
    /// that was released since then is held again until its lease ends.
    ///
    /// The clients ask the new primary for all of their holds. A guard whose key is there goes on.
    /// The others are lost with [`LossReason::Gone`]. Nobody gets a lock before the
    /// [`failover_grace`] is over. With a grace of zero, or for a new client, there may be two
    /// holders for a moment. Only a [fencing token](crate::guide::fencing) keeps their writes
    /// apart. The events are *a connection was lost*, *a connection was made again* and, for each
    /// loss, *the lock was lost*.
    ///
    /// # Examples
    ///
    /// A lock that no replica knew is lost, an older one is kept:
    ///
    /// ```
    /// use leasehold::{EmbeddedRedis, Ended, LossReason};
    ///
    /// # #[tokio::main(flavor = "current_thread", start_paused = true)]
    /// # async fn main() -> Result<(), leasehold::Error> {
    /// let redis = EmbeddedRedis::new();
    /// let (ours, theirs) = (redis.client(), redis.client());
    ///
    /// let old = ours.lock("orders:41").lock().await?;
    /// redis.set_replicas(0);
    /// let new = ours.lock("orders:42").lock().await?;
    ///
    /// redis.fail_over();
    /// // The new primary does not know it.
    /// assert_eq!(new.ended().await, Ended::Lost(LossReason::Gone));
    /// let _second = theirs.lock("orders:42").lock().await?; // after the grace
    /// old.unlock().await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// [`failover_grace`]: crate::ClientBuilder::failover_grace
    /// [`LossReason::Gone`]: crate::LossReason::Gone
    pub fn fail_over(&self) {
        self.engine.fail_over();
    }
}
