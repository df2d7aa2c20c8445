//! One acquisition as it was asked for, and its patience.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;
use uuid::Uuid;

use super::hold::{Hold, Terms};
use super::{Session, jittered, sleep_until_some};
use crate::error::Error;
use crate::owner::Owner;
use crate::protocol::kind::Kind;
use crate::protocol::place::Place;
use crate::stats::count;
use crate::transport::CallError;

const OUTAGE_PAUSE: Duration = Duration::from_millis(50);
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// One acquisition, checked.
#[derive(Debug)]
pub(crate) struct Request {
    client: Uuid,
    pub(crate) place: Arc<Place>,
    pub(crate) proofs: Proofs,
    pub(crate) terms: Terms,
    /// How many permits of a semaphore; one of anything else.
    pub(crate) permits: u32,
    pub(crate) wait: Wait,
    pub(crate) started: Instant,
    /// What was in the way had no expiry.
    pub(super) no_expiry: Arc<AtomicBool>,
}

/// What lets an acquisition take again what is held already: an acquisition without any is an owner of
/// its own.
#[derive(Clone, Debug, Default)]
pub(crate) struct Proofs {
    /// Holds of the guard that was shown, and of the sections around the call: they outlive it.
    pub(crate) holds: Vec<Arc<Hold>>,
    pub(crate) owner: Option<Owner>,
}

impl Proofs {
    /// A live hold of a kind under a key.
    fn newest(&self, client: Uuid, key: &Arc<str>, kind: Kind) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| {
            hold.place.kind == kind && hold.is_under(client, key) && hold.is_live()
        };
        let of_owner = |owner: &Owner| owner.newest(client, key, kind);
        self.holds.iter().find(live).cloned().or_else(|| self.owner.as_ref().and_then(of_owner))
    }

    /// A live hold of whatever kind under a key.
    fn any(&self, client: Uuid, key: &Arc<str>) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| hold.is_under(client, key) && hold.is_live();
        let of_owner = |owner: &Owner| owner.any(client, key);
        self.holds.iter().find(live).cloned().or_else(|| self.owner.as_ref().and_then(of_owner))
    }

    fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.owner.is_none()
    }

    /// A hold was granted.
    pub(super) fn add(&self, hold: &Arc<Hold>) {
        if let Some(owner) = &self.owner {
            owner.add(hold);
        }
    }
}

/// How long a caller is patient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    /// One question, one answer.
    Once,
    Until(Instant),
    Forever,
}

impl Wait {
    /// There is no time for another question.
    pub(crate) fn is_over(self) -> bool {
        match self {
            Wait::Once => true,
            Wait::Until(deadline) => Instant::now() >= deadline,
            Wait::Forever => false,
        }
    }
}

/// How an acquisition stands to what its proofs show.
#[derive(Debug)]
pub(super) enum Standing {
    /// It holds nothing there, or that does not matter.
    Apart,
    /// It holds the lock: the count is raised.
    Within(Arc<Hold>),
    /// It holds it in a way that lets this one in at once, as a hold of its own.
    Beside,
    /// It would wait for itself.
    Refused(&'static str),
}

impl Request {
    pub(crate) fn new(
        session: &Session,
        place: Arc<Place>,
        proofs: Proofs,
        terms: Terms,
        wait: Wait,
    ) -> Self {
        let (started, no_expiry) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let client = session.client_id;
        Request { client, place, proofs, terms, permits: 1, wait, started, no_expiry }
    }

    pub(crate) fn with_permits(self, permits: u32) -> Self {
        Request { permits, ..self }
    }

    /// Somebody else has it for so long.
    pub(super) fn met(&self, left: Option<Duration>) {
        let no_expiry = left.is_none() && self.place.kind.tells_of_missing_expiry();
        self.no_expiry.store(no_expiry, Relaxed);
    }

    /// What the proofs show under the same key decides how it is asked for.
    pub(super) fn standing(&self) -> Standing {
        let kind = self.place.kind;
        if !kind.is_lock() {
            return Standing::Apart;
        }
        if self.proofs.is_empty() {
            return Standing::Apart;
        }
        let same = self.proofs.newest(self.client, &self.place.key, kind);
        let first = same.clone().or_else(|| self.proofs.any(self.client, &self.place.key));
        let Some(first) = first else { return Standing::Apart };
        let reentrant = self.place.reentrant;
        match (kind, same) {
            (Kind::Read, Some(_)) if reentrant => Standing::Beside,
            (Kind::Read, None) if self.writes_already().is_some() => Standing::Beside,
            (_, Some(own)) if reentrant => Standing::Within(own),
            (_, Some(_)) => Standing::Refused("and it is not re-entrant"),
            (Kind::Write, None) if first.place.kind == Kind::Read => {
                Standing::Refused("for reading: an upgrade would wait for the reader's own release")
            }
            (_, None) => Standing::Refused("as another kind of lock"),
        }
    }

    /// The write hold under which this read hold is taken.
    pub(super) fn writes_already(&self) -> Option<Arc<Hold>> {
        if self.place.kind != Kind::Read {
            return None;
        }
        self.proofs.newest(self.client, &self.place.key, Kind::Write)
    }

    /// A reader may have been asked to let this client's writers go first.
    pub(super) fn lets_others_first(&self, session: &Session) -> bool {
        let Some(writers) = &self.place.yields_to else { return false };
        // Whoever reads already is what the writers wait for.
        session.rooms.is_waited_in(writers) && !matches!(self.standing(), Standing::Beside)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        if let Wait::Until(deadline) = self.wait { Some(deadline) } else { None }
    }

    pub(super) fn is_over(&self) -> bool {
        self.wait.is_over()
    }

    /// When a call that is sent now counts as lost, if that is before its own time-out.
    pub(super) fn limit(&self, session: &Session) -> Option<Instant> {
        let now = Instant::now();
        match self.wait {
            Wait::Until(deadline) => {
                let limit = deadline.max(now) + session.reply_times.grace();
                (limit < now + session.settings.command_timeout).then_some(limit)
            }
            Wait::Once | Wait::Forever => None,
        }
    }

    pub(super) fn timed_out(&self, session: &Session) -> Error {
        count(&session.counters.timed_out);
        let name = self.place.name.clone();
        let no_expiry = self.no_expiry.load(Relaxed);
        // Not for permits: many may hold them.
        let held_here = self
            .place
            .kind
            .is_lock()
            .then(|| session.watchdog.held_under(&self.place.key))
            .flatten();
        let holder = held_here.map(|hold| hold.field.clone());
        let by_this_client = holder.is_some();
        Error::Timeout { name, waited: self.started.elapsed(), no_expiry, by_this_client, holder }
    }

    pub(super) fn failed(&self, error: CallError) -> Error {
        Error::from_call(&self.place.name, self.terms.lease, error)
    }
}

/// Patience with a server that cannot be reached.
pub(super) struct Outage {
    pause: Duration,
    /// A call may have been applied; what comes later does not change that.
    in_doubt: bool,
}

impl Outage {
    pub(super) fn new() -> Self {
        Outage { pause: OUTAGE_PAUSE, in_doubt: false }
    }

    /// Returns when the call may be tried again, or the error if it may not.
    pub(super) async fn ride_out(
        &mut self,
        session: &Session,
        request: &Request,
        error: CallError,
    ) -> Result<(), Error> {
        self.in_doubt |= matches!(error, CallError::Unknown(_));
        let error = if self.in_doubt { error.in_doubt() } else { error };
        let passes = matches!(error, CallError::NotApplied(_) | CallError::Unknown(_));
        if !passes || request.is_over() {
            return Err(request.failed(error));
        }
        if session.is_closed() {
            return Err(Error::Closed);
        }
        let pause = jittered(self.pause);
        self.pause = (self.pause * 2).min(OUTAGE_PAUSE_MAX);
        tokio::select! {
            biased;
            () = session.wakes.restored_within(pause) => Ok(()),
            () = sleep_until_some(request.deadline()) => Err(request.failed(error)),
        }
    }
}
