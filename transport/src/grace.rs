//! The moment after a change of server in which nothing is taken there.
//!
//! A server that has just become the primary may lack the last writes of the former one, and one
//! that has restarted may lack all of them. So somebody else could take a lock there whose holder
//! has not heard of the change. Therefore a client that sees an address, a name of sentinels or the
//! slots of a node lead to another server sends no call there that takes something, for
//! [`Timing::grace`](crate::Timing::grace) from then on. Meanwhile every client verifies what it
//! holds.
//!
//! | a connection reaches | grace |
//! | --- | --- |
//! | the first server of this client | none |
//! | the same run of the same server, also at another address | none, unless it was promoted since |
//! | another server, or another run | from now on |
//! | a server that does not say who it is, after all connections to it were lost | from now on |
//! | a node that is new in the cluster | from now on, if it was ever promoted, or does not say |
//!
//! Slots that move to a node that was there already need no grace, because their keys move with
//! them.
//!
//! `docs/dev/decisions/0016-a-grace-after-a-change-of-server.md` says what this protects from, and
//! `specification/src/failover.rs` which overlaps are left.

use tokio::time::{Duration, Instant};

use crate::call::Call;
use crate::call_error::{CallError, Fault};
use crate::identity::Identity;
use crate::sync::Mutex;

/// The server that a node had before the present one.
#[derive(Clone, Debug)]
pub(super) enum Former {
    /// None: this is where the client has begun.
    Nobody,
    /// One that this client has not reached.
    Unknown,
    Known(Identity),
}

impl Former {
    /// Whether the server that was met now may lack writes of this one.
    pub(super) fn may_have_more_than(&self, met: &Identity) -> bool {
        match self {
            Former::Nobody => false,
            Former::Unknown => met.may_have_been_promoted(),
            Former::Known(former) => !met.is_same_as(former),
        }
    }
}

/// The grace of one node.
pub(super) struct Grace {
    length: Duration,
    ends: Mutex<Option<Instant>>,
}

impl Grace {
    pub(super) fn new(length: Duration) -> Self {
        Grace {
            length,
            ends: Mutex::new(None),
        }
    }

    /// Another server serves now. Call it before a connection to that server carries calls.
    pub(super) fn begins(&self) {
        if !self.length.is_zero() {
            *self.ends.lock() = Some(Instant::now() + self.length);
        }
    }

    /// When it ends. `None` if it is over.
    pub(super) fn ends(&self) -> Option<Instant> {
        let mut ends = self.ends.lock();
        ends.take_if(|ends| *ends <= Instant::now());
        *ends
    }

    /// Refuses a call that takes something. Ask after taking the connection that is to carry the
    /// call: a connection of before the change leads to the former server.
    pub(super) fn admits(&self, call: &Call) -> Result<(), CallError> {
        if !call.script.takes {
            return Ok(());
        }
        self.ends().map_or(Ok(()), |ends| Err(refused_until(ends)))
    }
}

/// The error of a call that is refused in a grace.
#[must_use]
pub fn refused_until(ends: Instant) -> CallError {
    let left = ends.saturating_duration_since(Instant::now());
    CallError::NotApplied(Fault(format!(
        "another server serves this key since a moment ago, and its former holders may not have \
         heard of that: nothing is taken there for another {:.1} s",
        left.as_secs_f64()
    )))
}
