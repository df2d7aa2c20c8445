//! Plain values that describe a hold.

use std::sync::Arc;
use std::time::Duration;

use crate::client_id::ClientId;
use crate::clock::Moment;
use crate::protocol::resource::Resource;
use crate::transport::Epoch;

/// Which client holds what under which name.
#[derive(Clone, Debug)]
pub(crate) struct HoldIdentity {
    pub(crate) resource: Arc<Resource>,
    /// The owner's field on the wire.
    pub(crate) field: Arc<str>,
    /// A hold of one client means nothing to another client, which may use another server.
    pub(crate) client: ClientId,
}

/// What one acquisition asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldTerms {
    /// The lease in Redis: the lock's, or the fixed one.
    pub(crate) lease: Duration,
    /// The watchdog renews the hold.
    pub(crate) renewed: bool,
    /// The watchdog ends the hold after this time.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) clocks: Clocks,
}

/// The servers whose clocks time a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clocks {
    OfOne,
    /// The lock is one of a quorum.
    OfSeveral,
}

impl Clocks {
    /// The instant until which a lease asked for at `sent` certainly runs.
    ///
    /// The margin covers the drift of two clocks over one lease (0.1 %) and Redis' resolution of
    /// one millisecond. For several servers it also contains Redlock's allowance: a hundredth of
    /// the lease plus two milliseconds.
    pub(crate) fn local_deadline(self, sent: Moment, lease: Duration) -> Moment {
        let drift = match self {
            Clocks::OfOne => Duration::ZERO,
            Clocks::OfSeveral => lease / 100 + Duration::from_millis(2),
        };
        let margin = (Duration::from_millis(1) + lease / 1000 + drift).min(lease / 5);
        sent + lease.saturating_sub(margin)
    }
}

impl HoldTerms {
    /// The lease that the acquisition asks for.
    pub(crate) fn first_lease(&self) -> Duration {
        self.lease
    }

    /// True if a hold with these terms may continue a lease that Redis already has. Waiters of
    /// other clients know how long that lease is, and a shorter one would end without their
    /// noticing.
    pub(crate) fn continue_lease(&self, longest: Duration) -> bool {
        self.renewed && self.lease >= longest
    }
}

/// What Redis says about a hold.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) since: Moment,
    pub(crate) text: Arc<str>,
}

/// A field that a call with an unknown outcome may have taken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InDoubt {
    /// The epoch of lane and key when the first such call was sent.
    pub(crate) epoch: Epoch,
    /// How long the field may stay once it is taken.
    pub(crate) lease: Duration,
}
