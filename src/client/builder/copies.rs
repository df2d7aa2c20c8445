//! What of the holds is left when a server is.

use super::ClientBuilder;
use crate::durability::Durability;
use crate::failover::Failover;

impl ClientBuilder {
    /// Sets how many servers must have a copy of a grant before it counts. Default: only the primary.
    ///
    /// An acquisition waits for the copies after its script. If they do not come in time, the grant is undone
    /// and the call fails with [`Error::NotDurable`](crate::Error::NotDurable). A renewal waits as well:
    /// without the copies the hold becomes uncertain, and the renewal is repeated. Copies make it less likely
    /// to lose a lock in a failover or a restart, but not impossible: see [guarantees](crate::guide::guarantees).
    ///
    /// # Redis cost
    ///
    /// One command for each acquisition and each batch of renewals. The server answers nothing else on that
    /// connection until the copies are there. So all calls of this client to that server share the delay.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets what happens to holds when a primary fails over. Default: those are lost that the new primary lacks, and
    /// somebody else may get their locks while a former holder still relies on them.
    ///
    /// With [`Failover::Reclaim`], holders bring their holds to the new primary, and nobody gets a lock there until all
    /// clients have come back, for at most a [`lease`](Self::lease). So every client has a *session*: all replicas must
    /// know its registration, which it renews every quarter of the lease. A hold counts only while the session of its
    /// client lasts. If a replica is down for longer than a lease, every hold of every client is lost.
    ///
    /// All clients of these locks must have this setting, with the same lease. Redisson does not have it. Only plain locks
    /// can be reclaimed: re-entrant, non-reentrant and spin locks, and those of them that are taken together. A lock that
    /// stays locked until its `unlock_not_before` has no holder any more, so a failover may free it early. [How it
    /// works](crate::guide::guarantees).
    ///
    /// # Errors
    ///
    /// [`connect`](Self::connect) fails with [`ConfigError::OutOfRange`](crate::ConfigError::OutOfRange) unless there are
    /// 1 to 1,000 replicas. Taking another kind of lock, a permit or a hold of another client fails with
    /// [`ConfigError::Setting`](crate::ConfigError::Setting), before anything is sent. While no session lasts, and while
    /// former holders may come back, an acquisition fails with a retryable error at the end of its wait.
    ///
    /// # Redis cost
    ///
    /// For each client, and in a cluster for each slot in which it has locks: one script and one `WAIT` every quarter of the
    /// lease, while a lock is held or was wanted within a lease. The scripts of an acquisition and a renewal read the
    /// identity of the server, which takes it about 4 µs. After a failover or a reconnect: one script for each 500 holds.
    pub fn failover(mut self, failover: Failover) -> Self {
        self.failover = Some(failover);
        self
    }
}
