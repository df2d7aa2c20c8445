//! What a hold is made of.

use std::sync::Arc;
use std::time::Duration;

use crate::client_id::ClientId;
use crate::clock::Moment;
use crate::protocol::resource::Resource;
use crate::transport::Epoch;

/// Who holds what under which name.
#[derive(Clone, Debug)]
pub(crate) struct HoldIdentity {
    pub(crate) resource: Arc<Resource>,
    /// The owner's field on the wire.
    pub(crate) field: Arc<str>,
    /// The client: a hold of one says nothing to another, which may be of another server.
    pub(crate) client: ClientId,
}

/// What one acquisition asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct HoldTerms {
    /// The lease in Redis: the lock's, or the fixed one.
    pub(crate) lease: Duration,
    /// After its release it stays locked until then, counted from the acquisition.
    pub(crate) unlock_not_before: Option<Duration>,
    /// The watchdog renews it.
    pub(crate) renewed: bool,
    /// The watchdog ends it after this.
    pub(crate) max_hold: Option<Duration>,
    pub(crate) clocks: Clocks,
}

/// The servers whose clocks count a lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Clocks {
    OfOne,
    /// The lock is one of a quorum.
    OfSeveral,
}

impl Clocks {
    /// When a lease that was asked for at `sent` is surely still running.
    ///
    /// The margin covers the drift of two clocks over one lease (0.1 %) and Redis' whole milliseconds;
    /// for several servers also Redlock's allowance, a hundredth of the lease and two milliseconds.
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
    /// The lease that the acquisition asks for: if its process dies, nothing else keeps the lock.
    pub(crate) fn first_lease(&self) -> Duration {
        self.lease.max(self.unlock_not_before.unwrap_or_default())
    }

    /// May a hold with these terms go on with a lease that Redis has already? Waiters of other clients know how long
    /// that is: a shorter one would end behind their backs. What is to stay locked needs a lease that covers it.
    pub(crate) fn continue_lease(&self, longest: Duration) -> bool {
        self.renewed && self.unlock_not_before.is_none() && self.lease >= longest
    }
}

/// What is said of it in Redis.
#[derive(Clone, Debug)]
pub(crate) struct Description {
    pub(crate) since: Moment,
    pub(crate) text: Arc<str>,
}

/// A field that may be taken by a call whose outcome is not known.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InDoubt {
    /// The epoch of lane and key when the first such call was sent.
    pub(crate) epoch: Epoch,
    /// How long the field may stay once it is taken.
    pub(crate) lease: Duration,
}
