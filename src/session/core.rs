//! What a client holds and waits for, and how each hold ends.

use std::convert::Infallible;
use std::fmt;
use std::sync::atomic::AtomicU32;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::{Arc, mpsc};
use std::thread::{self, ThreadId};
use std::time::Duration;

use futures_util::future::join_all;

use crate::error::Error;
use crate::holder::Holder;
use crate::lease::LossReason;
use crate::protocol::description::{self, DescribedHold, describe};
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value, lock, replies};
use crate::session::calls::Calls;
use crate::session::cleanup_queue::{Cleanup, Cleanups};
use crate::session::deadline::{Description, InDoubt};
use crate::session::hold::Hold;
use crate::session::hold_table::HoldTable;
use crate::session::poll_watch::{Caller, PollWatch};
use crate::session::queue::LocalQueues;
use crate::session::subscriptions::{ClientChannel, Subscriptions};
use crate::session::waiter::Audience;
use crate::stats::count;
use crate::sync::{Mutex, Notify};
use crate::timer::{Instant, timeout, timeout_at};
use crate::transport::{Lane, rarely};

pub(crate) struct Core {
    pub(crate) calls: Arc<Calls>,
    pub(crate) hold_table: Arc<HoldTable>,
    pub(crate) queues: LocalQueues,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) cleanups: Cleanups,
    /// Filled only if the deployment can fail over.
    pub(super) descriptions: Descriptions,
    pub(super) client_channel: Arc<ClientChannel>,
    /// A clone for each member of each quorum lock that is waited for.
    pub(crate) quorum_waiters: Arc<()>,
    pub(super) contention: Contention,
}

impl Core {
    /// The call that ends a hold whose last guard is gone.
    pub(super) fn end_call(&self, hold: &Hold) -> Call {
        if self.contention.looks() {
            self.release_to_waiters(&hold.resource, &hold.field)
        } else {
            self.calls.release_call(&hold.resource, &hold.field, 0)
        }
    }

    /// The call that ends a field, and the place of its owner in the holder's field. It hands such
    /// a lock to the first waiter.
    pub(super) fn release_to_waiters(&self, resource: &Resource, field: &Arc<str>) -> Call {
        let mut release = self.calls.release_call(resource, field, 0);
        if resource.kind == Kind::Lock && self.calls.releases_hand_over() {
            lock::looks_for_waiters(&mut release, self.own_listeners(resource));
        }
        release
    }

    /// How many of the subscribers of a lock's channel are of this client.
    fn own_listeners(&self, resource: &Resource) -> i64 {
        i64::from(self.subscriptions.is_subscribed(resource.channel()))
    }

    /// Handles the loss of a hold: tells its guards, lets its waiters go on, and releases what may
    /// be left in Redis.
    pub(crate) fn lose(&self, hold: &Arc<Hold>, reason: LossReason) {
        // Before `hold.lose`: otherwise a session that shuts down in between would not wait for the
        // cleanup.
        let _pending = self.cleanups.expect_one();
        let is_gone = reason == LossReason::Gone;
        if !hold.lose(reason) {
            return;
        }
        // Before the hold leaves the watchdog's table, so that nobody can restore it before its
        // undo is posted.
        let in_flight = self.hold_table.begin_release(&hold.resource, &hold.field);
        self.hold_table.disarm(hold);
        count(&self.calls.counters.lost);
        let doubt = hold.doubt();
        if !is_gone || hold.resource.entries(&hold.field) > 1 || doubt.is_some() {
            // On the background lane, because the caller's lane stands still if the caller's
            // runtime does.
            let hold = hold.clone();
            self.cleanups.post(Cleanup::End { hold, in_flight });
        }
        if let Some(doubt) = doubt {
            let lease = hold.longest_lease();
            self.undo(&hold.resource, &hold.field, InDoubt { lease, ..doubt });
        }
        self.queues.vacate(hold, Audience::NOBODY);
    }

    /// The field of a hold is gone. By now, another hold of this client may have it, by hand-over.
    pub(super) fn lose_field_of(&self, hold: &Arc<Hold>) {
        let holder_now = self.queues.holder(hold.resource.queue_name());
        let holder_now = holder_now.filter(|holder_now| holder_now.field == hold.field);
        self.lose(holder_now.as_ref().unwrap_or(hold), LossReason::Gone);
    }

    /// Repairs a queue that waits for a hold that is over (QUEUE-4).
    pub(super) fn end_stale(&self, hold: &Arc<Hold>) {
        if let Some(reason) = hold.loss() {
            self.lose(hold, reason);
        }
        self.queues.vacate(hold, Audience::NOBODY);
    }

    /// Shutdown closes the session before it collects holds. So either this function sees that, or
    /// shutdown sees the hold.
    pub(super) fn lose_if_closed(&self, hold: &Arc<Hold>) -> bool {
        let closed = self.calls.life.is_closed();
        if closed {
            self.lose(hold, LossReason::Closed);
        }
        closed
    }

    /// Waits until this client's own releases of a key are over that have begun by now, within
    /// `limit` and a command's timeout. So a lock whose guard was dropped is free for the next
    /// caller of this client, and for its questions.
    ///
    /// The order of the calls on one connection would not suffice: a call may be sent again,
    /// because a script is unknown, a slot has moved or a connection was lost.
    pub(crate) async fn own_releases_over(&self, key: &Arc<str>, limit: Option<Instant>) {
        let Some(releases) = self.hold_table.releases_of(key) else {
            return;
        };
        let longest = Instant::now() + self.calls.settings.command_timeout;
        let limit = limit.map_or(longest, |limit| limit.min(longest));
        // What is not over in time is no reason to fail: Redis is asked all the same.
        drop(rarely(timeout_at(limit, releases.over())).await);
    }

    /// Sends a question about one key, once this client's own releases of it are over.
    pub(crate) async fn ask<T>(
        &self,
        resource: &Resource,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        self.own_releases_over(&resource.key, None).await;
        self.calls.ask(&resource.name, call, read).await
    }

    /// A release found nothing, although no earlier release can have removed the hold.
    pub(super) fn record_gone(&self, hold: &Hold) -> LossReason {
        count(&self.calls.counters.lost);
        hold.record_gone()
    }

    /// The hold of this client that an acquisition waits for. Permits are held by many, so they are
    /// in nobody's way.
    pub(crate) fn held_here(&self, resource: &Resource, caller: Caller) -> Option<Holder> {
        let is_lock = resource.kind.is_lock();
        let found = is_lock.then(|| self.hold_table.held_under(&resource.key, Some(caller)));
        let hold = found.flatten()?;
        Some(Holder {
            is_this_task: hold.taken_by() == Some(caller),
            ..self.holder(&hold)
        })
    }

    /// Redis has released a hold. `received_by` says who received the message, this client
    /// included.
    pub(super) fn released(&self, hold: &Arc<Hold>, received_by: Audience) {
        let (audience, meets) = match received_by {
            Audience::Unlisted => (received_by, true),
            Audience::Others(receivers) => {
                // Do not count this client, if it listens: only other clients are let go first.
                let others = receivers - self.own_listeners(&hold.resource);
                (Audience::Others(others), others > 0)
            }
        };
        if meets && hold.resource.kind == Kind::Lock {
            self.contention.note_other_client();
        }
        self.queues.vacate(hold, audience);
        if let Some(doubt) = hold.doubt() {
            self.undo(&hold.resource, &hold.field, doubt);
        }
        hold.release_settled();
    }

    /// Removes what a field may have taken, and what an earlier call for it may still take.
    pub(super) fn undo(&self, resource: &Arc<Resource>, field: &Arc<str>, doubt: InDoubt) {
        let in_flight = self.hold_table.begin_release(resource, field);
        let (resource, field) = (resource.clone(), field.clone());
        self.cleanups.post(Cleanup::Undo {
            resource,
            field,
            doubt,
            in_flight,
        });
    }
}

// Whether other clients want the plain locks of this one.
//
// A release that looks for waiters costs Redis one command more. While nobody else wants the locks
// of this client, it does not look. If somebody waits all the same, the message to all wakes it,
// and the next release looks.

/// The releases that look for waiters after the last sign of another client.
const LOOKS: u32 = 1_000;

#[derive(Debug, Default)]
pub(crate) struct Contention {
    looks: AtomicU32,
}

impl Contention {
    /// Another client holds a lock that this one wants, or waits for one that this client had.
    pub(super) fn note_other_client(&self) {
        self.looks.store(LOOKS, Relaxed);
    }

    /// Whether the next release looks for waiters.
    pub(super) fn looks(&self) -> bool {
        let one_less = |looks: u32| looks.checked_sub(1);
        self.looks.fetch_update(Relaxed, Relaxed, one_less).is_ok()
    }
}

// Describes in Redis who holds a lock, and what for.
//
// Descriptions are written in the background after the grant and after each renewal, by one call
// for many holds. The script describes a lock only while the described owner holds it, and only
// for as long as the lease lasts. So a late or repeated call does no harm, and a lost one is made
// up for by the next renewal.

/// Holds in one call.
const BATCH: usize = 100;
/// Bounds the queue while Redis does not reply. A hold that does not fit is described again when it
/// is renewed.
const MOST: usize = 10_000;

/// The holds that are to be described.
#[derive(Debug, Default)]
pub(crate) struct Descriptions {
    queue: Mutex<Vec<Arc<Hold>>>,
    added: Notify,
}

impl Descriptions {
    /// Queues a hold to be described, if it has a description.
    pub(crate) fn say(&self, hold: &Arc<Hold>) {
        if hold.description().is_none() {
            return;
        }
        let mut queue = self.queue.lock();
        if queue.len() < MOST {
            queue.push(hold.clone());
            drop(queue);
            self.added.notify_one();
        }
    }

    async fn next(&self) -> Vec<Arc<Hold>> {
        loop {
            let queued = std::mem::take(&mut *self.queue.lock());
            if !queued.is_empty() {
                return queued;
            }
            // `notified` keeps a permit, so a hold that is queued before the await is not missed.
            self.added.notified().await;
        }
    }
}

/// Sends descriptions, until it is dropped.
pub(super) async fn send_descriptions(core: &Core) {
    loop {
        let mut described = core.descriptions.next().await;
        described.retain(|hold| hold.is_live());
        let batches = described.chunks(core.calls.keys_at_once(BATCH));
        join_all(batches.map(|batch| describe_batch(&core.calls, batch))).await;
    }
}

/// Ignores errors: nobody waits for the result.
async fn describe_batch(calls: &Calls, described: &[Arc<Hold>]) {
    let now = calls.now();
    let said: Vec<_> = described
        .iter()
        .filter_map(|hold| {
            let Description { since, text } = hold.description()?;
            let age = now.saturating_duration_since(*since);
            Some(DescribedHold {
                resource: &hold.resource,
                field: &hold.field,
                age,
                text,
            })
        })
        .collect();
    let call = calls.call(Lane::Background, describe(&said));
    drop(timeout(calls.settings.command_timeout, call).await);
}

impl Core {
    /// The description for the holds of an acquisition, if they are to have one.
    pub(crate) fn description(
        &self,
        resource: &Resource,
        purpose: Option<&str>,
    ) -> Option<Arc<str>> {
        let says_something = purpose.is_some() || self.calls.settings.describe_holds;
        (says_something && resource.can_be_described()).then(|| self.description_text(purpose))
    }

    fn description_text(&self, purpose: Option<&str>) -> Arc<str> {
        description::text(self.calls.settings.name.as_deref(), purpose)
    }

    /// Describes a hold that was granted.
    pub(crate) fn describe(&self, hold: &Arc<Hold>, text: Option<&Arc<str>>) {
        let text = match text {
            Some(text) => text.clone(),
            // The description of the previous hold would be wrong for this one.
            None if hold.follows_described() => self.description_text(None),
            None => return,
        };
        hold.describe(Description {
            since: self.calls.now(),
            text,
        });
        self.descriptions.say(hold);
    }

    /// This client's hold as other clients see it.
    pub(crate) fn holder(&self, hold: &Hold) -> Holder {
        let mut holder = Holder::default();
        if let Some(Description { since, text }) = hold.description() {
            description::tell(&mut holder, text);
            holder.held_for = Some(self.calls.now().saturating_duration_since(*since));
        }
        let lease = hold.deadline().saturating_duration_since(Instant::now());
        Holder {
            owner: hold.field.to_string(),
            holds: hold.guards().into(),
            lease: Some(lease),
            name: self.calls.settings.name.as_deref().map(str::to_owned),
            is_this_client: true,
            ..holder
        }
    }

    /// Marks a holder that Redis reported under a key, if it is this client or even the calling
    /// task.
    pub(crate) fn mark_own(&self, key: &Arc<str>, holder: &mut Holder) {
        let hold = self.hold_table.held_as(key, &holder.owner);
        let client = self.calls.client_id().to_string();
        // A string lock that was restored has the owner of its former holder.
        holder.is_this_client = hold.is_some() || holder.owner.starts_with(&client);
        holder.is_this_task = hold.is_some_and(|hold| hold.taken_by() == Some(Caller::current()));
    }

    /// Adds the current holder to a timeout error, by one call whose reply may take as long after
    /// `wait_ended` as replies usually do. Leaves other errors as they are.
    pub(crate) async fn name_holder(
        &self,
        resource: &Resource,
        wait_ended: Instant,
        error: &mut Error,
    ) {
        let Error::Timeout { in_the_way, .. } = error else {
            return;
        };
        if in_the_way.as_ref().is_some_and(|holder| holder.has_owner()) {
            return;
        }
        let limit = wait_ended + self.calls.grace();
        if limit <= Instant::now() {
            return;
        }
        // CANCEL: nothing was taken.
        let call = self.calls.inspect_call(resource);
        let reply = self.calls.call_until(Some(limit), call).await;
        let seen = reply.ok().and_then(|reply| replies::seen(reply).ok()?);
        let holder = seen.and_then(|seen| seen.holders.into_iter().next());
        if let Some(mut holder) = holder {
            self.mark_own(&resource.key, &mut holder);
            *in_the_way = Some(Box::new(holder));
        }
    }
}

// The public handles' way to one session.

/// One client: its calls, its holds, and the supervision of its callers' futures.
pub(crate) struct Session {
    pub(crate) calls: Arc<Calls>,
    pub(crate) core: Core,
    pub(crate) poll_watch: Arc<PollWatch>,
}

/// Shared by the public handles. Dropping the last one stops the session.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) session: Arc<Session>,
    /// `None` if the caller's runtime serves the session.
    pub(super) thread: Option<Running>,
}

impl Handle {
    pub(crate) fn new(session: Arc<Session>, thread: Option<Running>) -> Self {
        Handle { session, thread }
    }

    pub(crate) fn calls(&self) -> &Calls {
        &self.session.calls
    }

    pub(crate) fn core(&self) -> &Core {
        &self.session.core
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("calls", &self.calls)
            .finish_non_exhaustive()
    }
}

/// A thread that serves a session.
#[derive(Debug)]
pub(crate) struct Running {
    pub(super) id: ThreadId,
    /// Carries nothing. Closed when the thread ends.
    pub(super) ended: Mutex<mpsc::Receiver<Infallible>>,
}

impl Running {
    /// Blocks until the thread has ended. False if that takes longer than `limit`, or if this is
    /// the thread.
    pub(crate) fn ends_within(&mut self, limit: Duration) -> bool {
        let is_another = thread::current().id() != self.id;
        is_another
            && self.ended.get_mut().recv_timeout(limit) == Err(mpsc::RecvTimeoutError::Disconnected)
    }
}
