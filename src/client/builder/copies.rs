//! What of the holds is left when a server is.

use std::time::Duration;

use super::ClientBuilder;
use crate::durability::Durability;

impl ClientBuilder {
    /// Sets how many servers must have a copy of a grant before it counts. Default: only the
    /// primary.
    ///
    /// An acquisition waits for the copies after its script. If they do not come in time, the grant
    /// is undone and the call fails with [`Error::NotDurable`](crate::Error::NotDurable). A renewal
    /// waits as well: without the copies the hold becomes uncertain, and the renewal is repeated.
    /// Copies make it less likely to lose a lock in a failover or a restart, but not impossible:
    /// see [guarantees](crate::guide::guarantees).
    ///
    /// # Redis cost
    ///
    /// One command for each acquisition and each batch of renewals. The server answers nothing else
    /// on that connection until the copies are there. So all calls of this client to that server
    /// share the delay.
    pub fn durability(mut self, durability: Durability) -> Self {
        self.durability = Some(durability);
        self
    }

    /// Sets for how long this client takes nothing on a server that has just become the primary.
    /// Default: the longest silence after which a connection is given up, and half a second: 3.5 s,
    /// if the [`command_timeout`](Self::command_timeout) is one second. Up to an hour. Zero
    /// switches it off.
    ///
    /// A new primary may lack the last writes of the former one, and a server that has restarted
    /// may lack all of them. The first client there would get a lock although its holder has not
    /// heard of the change. So a client that sees an address, the sentinels or the slots of a
    /// cluster lead to another server asks for no lock there for so long from that moment.
    /// Meanwhile every client verifies its holds, and loses those that are gone. Renewals,
    /// releases, re-entries and questions are not delayed. An acquisition whose wait ends meanwhile
    /// fails with [`Error::Unavailable`](crate::Error::Unavailable), which says why and may be
    /// retried.
    ///
    /// Other clients need not have it, and those of Redisson do not. But a client without it may
    /// take a lock at once.
    ///
    /// The default is for clients that hear of the change. A client that is cut off together with
    /// the former primary does not, for as long as that primary serves it. With
    /// `min-replicas-to-write 1`, it stops after `min-replicas-max-lag`, and a lock that it granted
    /// ends after its lease. A grace that is longer than both together closes this window too: see
    /// [guarantees](crate::guide::guarantees).
    ///
    /// # Errors
    ///
    /// [`connect`](Self::connect) fails with
    /// [`ConfigError::OutOfRange`](crate::ConfigError::OutOfRange) if it is longer than an hour.
    ///
    /// # Redis cost
    ///
    /// None.
    pub fn failover_grace(mut self, grace: Duration) -> Self {
        self.failover_grace = Some(grace);
        self
    }
}
