//! One acquisition as it was asked for.

use super::calls::Calls;
use super::holds::Holds;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use tokio::time::Instant;

use super::attendance::Patience;
use super::hold::{Clocks, Hold, HoldTerms};
use super::local_queue::LocalQueues;
use super::lock_settings::{LockSettings, in_range};
use super::owner::Owner;
use super::retry::Retry;
use super::wait::Wait;
use super::{Handle, sleep_until_some};
use crate::client_id::ClientId;
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::stats::count;
use crate::telemetry::Acquisition;
use crate::transport::CallError;

const OUTAGE_PAUSE: Duration = Duration::from_millis(50);
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a caller asks for, of one lock or of several.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) lease: Lease,
    /// Mostly none. Small, as every acquisition has them.
    pub(crate) ends: Option<Box<Ends>>,
    /// The lock is one of a quorum, whose servers have clocks of their own.
    pub(crate) of_quorum: bool,
    /// How late its caller may be: of a lock of several, as late as the caller of them all.
    pub(crate) patience: Patience,
    /// Holds of the guards that were shown, and of the sections around the call.
    pub(crate) shown: Arc<[Arc<Hold>]>,
    /// What it is for, for people.
    pub(crate) purpose: Option<Arc<str>>,
}

/// When a hold is to end, beside its lease.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Ends {
    pub(crate) max_hold: Option<Duration>,
    pub(crate) unlock_not_before: Option<Duration>,
}

impl Options {
    pub(crate) fn new(wait: Wait, lease: Lease) -> Self {
        let (ends, shown, purpose) = (None, Arc::default(), None);
        Options {
            wait,
            lease,
            ends,
            of_quorum: false,
            patience: Patience::FIRST,
            shown,
            purpose,
        }
    }

    pub(crate) fn unlock_not_before(&self) -> Option<Duration> {
        self.ends.as_ref()?.unlock_not_before
    }

    /// The terms for Redis and the watchdog, of a lock whose renewed holds have that lease.
    pub(crate) fn terms(&self, of_lock: Duration) -> Result<HoldTerms, ConfigError> {
        let max_hold = self.ends.as_ref().and_then(|ends| ends.max_hold);
        let max_hold = max_hold
            .map(|span| Lease::checked("max_hold", span))
            .transpose()?;
        let (lease, renewed) = self.lease.terms(of_lock)?;
        // A hold with a fixed lease is over by itself.
        let longest = if renewed { Lease::MAX } else { lease };
        let unlock_not_before = self
            .unlock_not_before()
            .map(|span| lingering(span, longest))
            .transpose()?;
        let clocks = if self.of_quorum {
            Clocks::OfSeveral
        } else {
            Clocks::OfOne
        };
        Ok(HoldTerms {
            lease,
            unlock_not_before,
            renewed,
            max_hold,
            clocks,
        })
    }
}

/// Checks for how long a lock is to stay locked.
fn lingering(span: Duration, longest: Duration) -> Result<Duration, ConfigError> {
    in_range("unlock_not_before", span, &(Lease::MIN..=longest))?;
    Lease::checked("unlock_not_before", span)
}

/// One acquisition, checked.
#[derive(Debug)]
pub(crate) struct Request {
    client: ClientId,
    pub(crate) resource: Arc<Resource>,
    pub(crate) proofs: Proofs,
    pub(crate) terms: HoldTerms,
    /// How many permits of a semaphore; one of anything else.
    pub(crate) permits: u32,
    pub(super) settings: LockSettings,
    pub(crate) wait: Wait,
    patience: Patience,
    pub(crate) started: Instant,
    /// What was in the way had no expiry.
    pub(super) no_expiry: Arc<AtomicBool>,
    pub(super) told: Acquisition,
    /// What is said of its hold in Redis.
    pub(super) description: Option<Arc<str>>,
    /// Its time-out says who is in the way.
    asks_who: bool,
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
    fn newest(&self, client: ClientId, key: &Arc<str>, kind: Kind) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| {
            hold.resource.kind == kind && hold.is_under(client, key) && hold.is_live()
        };
        let of_owner = |owner: &Owner| owner.newest(client, key, kind);
        self.holds
            .iter()
            .find(live)
            .cloned()
            .or_else(|| self.owner.as_ref().and_then(of_owner))
    }

    /// A live hold of whatever kind under a key.
    fn any(&self, client: ClientId, key: &Arc<str>) -> Option<Arc<Hold>> {
        let live = |hold: &&Arc<Hold>| hold.is_under(client, key) && hold.is_live();
        let of_owner = |owner: &Owner| owner.any(client, key);
        self.holds
            .iter()
            .find(live)
            .cloned()
            .or_else(|| self.owner.as_ref().and_then(of_owner))
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

/// How an acquisition is related to what its owner holds, as its proofs show.
#[derive(Debug)]
pub(super) enum OwnerRelation {
    /// Its owner holds nothing there, or that does not matter.
    Unrelated,
    /// Its owner holds the lock: the count is raised.
    Nested(Arc<Hold>),
    /// Its owner holds the lock in a way that lets it in at once, as a hold of its own.
    Concurrent,
    /// It would wait for its own owner.
    WouldDeadlock(&'static str),
}

impl Request {
    pub(crate) fn new(
        calls: &Calls,
        resource: Arc<Resource>,
        proofs: Proofs,
        terms: HoldTerms,
        wait: Wait,
    ) -> Self {
        let (started, no_expiry) = (Instant::now(), Arc::new(AtomicBool::new(false)));
        let client = calls.client_id;
        let told = calls
            .settings
            .telemetry
            .acquisition(resource.kind.label(), &resource.name);
        Request {
            client,
            resource,
            proofs,
            terms,
            permits: 1,
            settings: LockSettings::default(),
            wait,
            patience: Patience::FIRST,
            started,
            no_expiry,
            told,
            description: None,
            asks_who: false,
        }
    }

    pub(crate) fn with_settings(self, settings: LockSettings) -> Self {
        Request { settings, ..self }
    }

    pub(crate) fn with_patience(self, patience: Patience) -> Self {
        Request { patience, ..self }
    }

    pub(crate) fn with_permits(self, permits: u32) -> Self {
        Request { permits, ..self }
    }

    pub(crate) fn described(self, description: Option<Arc<str>>) -> Self {
        Request {
            description,
            ..self
        }
    }

    pub(crate) fn asking_who(self) -> Self {
        Request {
            asks_who: true,
            ..self
        }
    }

    /// Another owner holds it for this long.
    pub(super) fn met(&self, left: Option<Duration>) {
        let no_expiry = left.is_none() && self.resource.kind.tells_of_missing_expiry();
        self.no_expiry.store(no_expiry, Relaxed);
    }

    /// What the proofs show under the same key decides how it is asked for.
    pub(super) fn relation(&self) -> OwnerRelation {
        let kind = self.resource.kind;
        if !kind.is_lock() {
            return OwnerRelation::Unrelated;
        }
        if self.proofs.is_empty() {
            return OwnerRelation::Unrelated;
        }
        let same = self.proofs.newest(self.client, &self.resource.key, kind);
        let first = same
            .clone()
            .or_else(|| self.proofs.any(self.client, &self.resource.key));
        let Some(first) = first else {
            return OwnerRelation::Unrelated;
        };
        let reentrant = self.resource.reentrant;
        match (kind, same) {
            (Kind::Read, Some(_)) if reentrant => OwnerRelation::Concurrent,
            (Kind::Read, None) if self.writes_already().is_some() => OwnerRelation::Concurrent,
            (_, Some(own)) if reentrant => OwnerRelation::Nested(own),
            (_, Some(_)) => OwnerRelation::WouldDeadlock("and it is not re-entrant"),
            (Kind::Write, None) if first.resource.kind == Kind::Read => {
                OwnerRelation::WouldDeadlock(
                    "for reading: an upgrade would wait for the reader's own release",
                )
            }
            (_, None) => OwnerRelation::WouldDeadlock("as another kind of lock"),
        }
    }

    /// The write hold under which this read hold is taken.
    pub(super) fn writes_already(&self) -> Option<Arc<Hold>> {
        if self.resource.kind != Kind::Read {
            return None;
        }
        self.proofs
            .newest(self.client, &self.resource.key, Kind::Write)
    }

    /// A reader may have been asked to let this client's writers go first.
    pub(super) fn lets_others_first(&self, queues: &LocalQueues) -> bool {
        let Some(writers) = &self.resource.yields_to else {
            return false;
        };
        // Readers that read already are what the writers wait for.
        queues.is_waited_in(writers) && !matches!(self.relation(), OwnerRelation::Concurrent)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.wait.deadline()
    }

    pub(super) fn is_over(&self) -> bool {
        self.wait.is_over()
    }

    /// When a call that is sent now counts as lost, if that is before its own time-out.
    pub(super) fn limit(&self, calls: &Calls) -> Option<Instant> {
        let now = Instant::now();
        match self.wait {
            Wait::Until(deadline) => {
                let limit = deadline.max(now) + calls.grace();
                (limit < now + calls.settings.command_timeout).then_some(limit)
            }
            Wait::Once | Wait::Forever => None,
        }
    }

    pub(super) fn timed_out(&self, holds: &Holds) -> Error {
        count(&holds.calls.counters.timed_out);
        let name = self.resource.name.clone();
        let no_expiry = self.no_expiry.load(Relaxed);
        // Not for permits: many may hold them.
        let held_here = self
            .resource
            .kind
            .is_lock()
            .then(|| holds.watchdog.held_under(&self.resource.key))
            .flatten();
        let holder = held_here.map(|hold| Box::new(holds.holder(&hold)));
        let by_this_client = holder.is_some();
        let waited = self.started.elapsed();
        Error::Timeout {
            name,
            waited,
            no_expiry,
            by_this_client,
            holder,
            passed_over: 0,
        }
    }

    pub(super) fn failed(&self, error: CallError) -> Error {
        Error::from_call(&self.resource.name, self.terms.first_lease(), error)
    }

    /// The calls of this acquisition that meet an outage.
    pub(super) fn retry() -> Retry {
        Retry::growing(OUTAGE_PAUSE, OUTAGE_PAUSE_MAX)
    }

    /// Returns when a call that failed may be tried again, or the error if it may not.
    pub(super) async fn ride_out(
        &self,
        calls: &Calls,
        retry: &mut Retry,
        error: CallError,
    ) -> Result<(), Error> {
        let error = retry.failed(error).map_err(|error| self.failed(error))?;
        if self.is_over() {
            return Err(self.failed(error));
        }
        calls.life.is_ours()?;
        if calls.life.is_closed() {
            return Err(Error::Closed);
        }
        tokio::select! {
            biased;
            () = calls.outages.next().over_within(retry.next_pause()) => Ok(()),
            () = sleep_until_some(self.deadline()) => Err(self.failed(error)),
        }
    }

    /// Does the work of this acquisition for its caller. A caller that stops polling is taken for one
    /// that dropped its future; if it polls again within its wait, it begins again.
    ///
    /// No `async fn`: those keep room for their arguments for as long as they live.
    pub(super) fn attended<T, W>(
        self,
        handle: &Arc<Handle>,
        work: impl Fn(Arc<Handle>, Arc<Request>) -> W + Sync,
    ) -> impl Future<Output = Result<T, Error>>
    where
        W: Future<Output = Result<T, Error>> + Send + 'static,
    {
        let request = Arc::new(self);
        async move {
            let holds = &handle.session.holds;
            request.told.begins();
            let work = |_| work(handle.clone(), request.clone());
            let (limits, timed_out) = ((request.wait, request.patience), || {
                request.timed_out(holds)
            });
            let done = handle
                .session
                .attendance
                .attend_until_over(limits, work, timed_out);
            let mut done = request.told.around(done).await;
            if request.asks_who
                && let Err(error) = &mut done
            {
                // Boxed: every acquisition would keep room for it.
                Box::pin(holds.name_holder(&request.resource, error)).await;
            }
            request.told.ends(done.as_ref().err());
            done
        }
    }
}
