//! The life of a hold, from its grant to its end.
//!
//! ```text
//! Live ── the last guard leaves ──▶ Leaving ── released, or handed over ──▶ Released
//!   │ ╲── its guard leaves it in Redis ──▶ Forgotten
//!   ╰── a deadline passes, a renewal finds nothing, shutdown ──▶ Lost
//! ```

use crate::error::Error;
use crate::lease::{Ended, LossReason};

#[derive(Debug)]
pub(super) enum Phase {
    Live {
        /// False while a hold that was handed over is not picked up. Until then it is not renewed.
        picked_up: bool,
    },
    Lost(LossReason),
    /// The last guard left; a release or a hand-over follows.
    Leaving(ReleaseCall),
    /// The field is released, or belongs to another hold.
    Released(ReleaseCall),
    /// The guard left the field to its lease.
    Forgotten,
}

/// The release after the last guard, for callers that ask about it later.
#[derive(Debug)]
pub(super) enum ReleaseCall {
    NotSent,
    Sent,
    /// The release was given up, or it found nothing.
    Failed(Box<Error>),
}

impl ReleaseCall {
    pub(super) fn error(&self) -> Option<Error> {
        match self {
            ReleaseCall::Failed(error) => Some(Error::clone(error)),
            ReleaseCall::NotSent | ReleaseCall::Sent => None,
        }
    }
}

impl Phase {
    pub(super) fn is_live(&self) -> bool {
        matches!(self, Phase::Live { .. })
    }

    pub(super) fn is_picked_up(&self) -> bool {
        !matches!(self, Phase::Live { picked_up: false })
    }

    pub(super) fn is_leaving(&self) -> bool {
        matches!(self, Phase::Leaving(_))
    }

    pub(super) fn all_guards_left(&self) -> bool {
        matches!(self, Phase::Leaving(_) | Phase::Released(_))
    }

    /// True if nothing about the hold is in flight any more.
    pub(super) fn is_over(&self) -> bool {
        !matches!(self, Phase::Live { .. } | Phase::Leaving(_))
    }

    /// How the hold ended, from its guards' point of view.
    pub(super) fn ended(&self) -> Option<Ended> {
        match self {
            Phase::Live { .. } => None,
            Phase::Lost(reason) => Some(Ended::Lost(reason.clone())),
            Phase::Leaving(_) | Phase::Released(_) => Some(Ended::Released),
            Phase::Forgotten => Some(Ended::Forgotten),
        }
    }

    /// The release after the last guard, if there is one.
    pub(super) fn release(&self) -> Option<&ReleaseCall> {
        match self {
            Phase::Leaving(release) | Phase::Released(release) => Some(release),
            Phase::Live { .. } | Phase::Lost(_) | Phase::Forgotten => None,
        }
    }

    pub(super) fn release_mut(&mut self) -> Option<&mut ReleaseCall> {
        match self {
            Phase::Leaving(release) | Phase::Released(release) => Some(release),
            Phase::Live { .. } | Phase::Lost(_) | Phase::Forgotten => None,
        }
    }

    /// The release is settled. Has no effect in other phases.
    pub(super) fn settle(&mut self) {
        if let Phase::Leaving(release) = self {
            *self = Phase::Released(std::mem::replace(release, ReleaseCall::NotSent));
        }
    }
}
