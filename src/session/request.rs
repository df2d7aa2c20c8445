//! One acquisition, as the caller asked for it.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use tokio::time::Instant;

use crate::client_id::ClientId;
use crate::error::{ConfigError, Error};
use crate::lease::Lease;
use crate::protocol::resource::Resource;
use crate::session::calls::Calls;
use crate::session::core::{Core, Handle};
use crate::session::deadline::{Clocks, HoldTerms};
use crate::session::hold::Hold;
use crate::session::poll_watch::{Caller, PollLimit, Wait};
use crate::session::reentry::{OwnerRelation, Proofs};
use crate::session::retry::Retry;
use crate::session::settings::{LockSettings, checked_text};
use crate::stats::count;
use crate::telemetry::Acquisition;
use crate::timer::sleep_until_some;
use crate::transport::{CallError, rarely};

const OUTAGE_PAUSE: Duration = Duration::from_millis(50);
const OUTAGE_PAUSE_MAX: Duration = Duration::from_secs(1);

/// The retries of an acquisition's calls during an outage, made when the first call fails.
pub(super) type OutageRetry = Option<Box<Retry>>;

/// One acquisition whose arguments are checked.
#[derive(Debug)]
pub(crate) struct Request {
    client: ClientId,
    pub(crate) resource: Arc<Resource>,
    pub(crate) proofs: Proofs,
    pub(crate) terms: HoldTerms,
    /// The number of permits of a semaphore; one for anything else.
    pub(crate) permits: u32,
    pub(crate) settings: LockSettings,
    pub(crate) wait: Wait,
    pub(super) caller: Caller,
    /// How late the caller may poll.
    pub(crate) poll_limit: PollLimit,
    pub(crate) started: Instant,
    /// The last call found a key without an expiry.
    pub(super) no_expiry: AtomicBool,
    pub(super) observer: Acquisition,
    /// What Redis is to say about the hold.
    pub(crate) description: Option<Arc<str>>,
    /// A timeout error names the current holder.
    pub(crate) asks_who: bool,
    /// It asked Redis while it waited, on behalf of all waiters of this client.
    contended: AtomicBool,
}

impl Request {
    pub(crate) fn new(
        calls: &Calls,
        resource: Arc<Resource>,
        proofs: Proofs,
        terms: HoldTerms,
        wait: Wait,
    ) -> Self {
        let (started, no_expiry) = (Instant::now(), AtomicBool::new(false));
        let client = calls.client_id;
        let observer = calls
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
            caller: Caller::current(),
            poll_limit: PollLimit::FIRST,
            started,
            no_expiry,
            observer,
            description: None,
            asks_who: false,
            contended: AtomicBool::new(false),
        }
    }

    /// Another owner holds the lock for this long.
    pub(super) fn saw_holder(&self, left: Option<Duration>) {
        let no_expiry = left.is_none() && self.resource.kind.tells_of_missing_expiry();
        self.no_expiry.store(no_expiry, Relaxed);
    }

    /// How this acquisition relates to what its owner holds under the same key.
    pub(super) fn relation(&self) -> OwnerRelation {
        self.proofs.relation(self.client, &self.resource)
    }

    /// The write hold under which this read hold is taken, if any.
    pub(super) fn writes_already(&self) -> Option<Arc<Hold>> {
        self.proofs.write_hold(self.client, &self.resource)
    }

    /// It asks Redis, on behalf of all waiters of this client.
    pub(super) fn contends(&self) {
        self.contended.store(self.wait != Wait::Once, Relaxed);
    }

    /// Whether a timeout error is to name the current holder, by one more call. Of many waiters
    /// that time out at once, only one asks. A quorum does not ask, because it retries often.
    pub(super) fn names_holder(&self) -> bool {
        let of_quorum = self.terms.clocks == Clocks::OfSeveral;
        self.asks_who
            || (self.contended.load(Relaxed) && self.resource.kind.is_lock() && !of_quorum)
    }

    pub(super) fn deadline(&self) -> Option<Instant> {
        self.wait.deadline()
    }

    pub(super) fn is_over(&self) -> bool {
        self.wait.is_over()
    }

    /// When a call that is sent now counts as lost, if that is before the call's own timeout.
    pub(super) fn limit(&self, calls: &Calls) -> Option<Instant> {
        match self.wait {
            Wait::Until(deadline) => {
                let now = Instant::now();
                let limit = deadline.max(now) + calls.grace();
                (limit < now + calls.settings.command_timeout).then_some(limit)
            }
            Wait::Once | Wait::Forever => None,
        }
    }

    pub(super) fn timed_out(&self, core: &Core) -> Error {
        count(&core.calls.counters.timed_out);
        let name = self.resource.name.clone();
        let mut in_the_way = core.held_here(&self.resource, self.caller);
        if self.no_expiry.load(Relaxed) {
            // Its owner may be unknown.
            in_the_way.get_or_insert_default().lease = None;
        }
        let waited = self.started.elapsed();
        Error::Timeout {
            name,
            waited,
            in_the_way: in_the_way.map(Box::new),
            cancelled_as_unpolled: 0,
        }
    }

    /// There are never as many permits: more than the limit, or there is no number of permits.
    pub(crate) fn never(&self, limit: Option<u32>) -> Error {
        let (name, permits) = (self.resource.name.clone(), self.permits);
        match limit {
            Some(limit) => Error::ExceedsLimit {
                name,
                permits,
                limit,
            },
            None => Error::NoPermits { name },
        }
    }

    pub(super) fn reports_end(&self, error: Option<&Error>) {
        match error {
            Some(Error::Timeout { .. }) if self.wait == Wait::Once => self.observer.ends_busy(),
            error => self.observer.ends(error),
        }
    }

    pub(super) fn failed(&self, error: CallError) -> Error {
        Error::from_call(&self.resource.name, self.terms.first_lease(), error)
    }

    /// Returns when a failed call may be repeated, or with the error if it may not.
    pub(super) async fn ride_out(
        &self,
        calls: &Calls,
        retry: &mut OutageRetry,
        error: CallError,
    ) -> Result<(), Error> {
        let growing = || Box::new(Retry::growing(OUTAGE_PAUSE, OUTAGE_PAUSE_MAX));
        let retry = retry.get_or_insert_with(growing);
        let error = retry.failed(error).map_err(|error| self.failed(error))?;
        if self.is_over() {
            return Err(self.failed(error));
        }
        calls.life.check_process()?;
        if calls.life.is_closed() {
            return Err(Error::Closed);
        }
        let pause = retry.next_pause();
        let pause = match calls.transport.grace_ends(&self.resource.key) {
            Some(at) => at.saturating_duration_since(Instant::now()),
            None => pause,
        };
        tokio::select! {
            biased;
            () = calls.outages.next().over_within(pause) => Ok(()),
            () = sleep_until_some(self.deadline()) => Err(self.failed(error)),
        }
    }
}

// What a caller asks for, and the hold's terms that follow from it.

/// What a caller asks for, about one lock or several.
#[derive(Clone, Debug)]
pub(crate) struct Options {
    pub(crate) wait: Wait,
    pub(crate) lease: Lease,
    pub(crate) max_hold: Option<Duration>,
    /// The lock is a member of a quorum, whose servers have independent clocks.
    pub(crate) of_quorum: bool,
    /// How late the caller may poll. The members of a multi lock use the limit of the whole.
    pub(crate) poll_limit: PollLimit,
    /// Holds of the guards that the caller presented, and of the sections around the call.
    pub(crate) shown: Arc<[Arc<Hold>]>,
    /// A text that tells people what the lock is for.
    pub(crate) purpose: Option<Arc<str>>,
}

impl Options {
    pub(crate) fn new(wait: Wait, lease: Lease) -> Self {
        let (shown, purpose) = (Arc::default(), None);
        Options {
            wait,
            lease,
            max_hold: None,
            of_quorum: false,
            poll_limit: PollLimit::FIRST,
            shown,
            purpose,
        }
    }

    /// Adds holds that outlive the acquisition.
    pub(crate) fn shows(&mut self, holds: Vec<Arc<Hold>>) {
        if !holds.is_empty() {
            self.shown = self.shown.iter().cloned().chain(holds).collect();
        }
    }

    /// The terms for Redis and the watchdog. `of_lock` is the lease of the lock's renewed holds.
    pub(crate) fn terms(&self, of_lock: Duration) -> Result<HoldTerms, ConfigError> {
        let max_hold = self
            .max_hold
            .map(|span| Lease::checked("max_hold", span))
            .transpose()?;
        let (lease, renewed) = self.lease.terms(of_lock)?;
        let clocks = if self.of_quorum {
            Clocks::OfSeveral
        } else {
            Clocks::OfOne
        };
        Ok(HoldTerms {
            lease,
            renewed,
            max_hold,
            clocks,
        })
    }
}

/// Checks the purpose of a hold.
pub(crate) fn checked_purpose(purpose: String) -> Result<Arc<str>, ConfigError> {
    checked_text("purpose", &purpose)?;
    Ok(Arc::from(purpose))
}

// Runs an acquisition on behalf of a caller who may stop polling.

/// Does the `work` of an acquisition, watched. A caller that stops polling is treated as if it had
/// dropped its future. If it polls again within its wait, the work starts over.
///
/// Not an `async fn`, because its future would keep space for the arguments for as long as it
/// lives.
pub(super) fn run_watched<T, W>(
    handle: &Arc<Handle>,
    request: Request,
    work: impl Fn(Arc<Handle>, Arc<Request>) -> W + Sync,
) -> impl Future<Output = Result<T, Error>>
where
    W: Future<Output = Result<T, Error>> + Send + 'static,
{
    let request = Arc::new(request);
    async move {
        let core = handle.core();
        request.observer.begins();
        let work = |_| work(handle.clone(), request.clone());
        let timed_out = || request.timed_out(core);
        let limits = (request.wait, request.poll_limit);
        let poll_watch = &handle.session.poll_watch;
        let done = poll_watch.run_until_over(limits, work, timed_out);
        let mut done = request.observer.around(done).await;
        if request.names_holder()
            && let Err(error) = &mut done
        {
            let wait_ended = request.deadline().unwrap_or_else(Instant::now);
            rarely(core.name_holder(&request.resource, wait_ended, error)).await;
        }
        request.reports_end(done.as_ref().err());
        done
    }
}
