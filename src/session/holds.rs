//! What a client holds and waits for, and how each hold ends.

pub(super) mod contention;
pub(super) mod descriptions;
pub(super) mod forced;
pub(crate) mod release;
pub(super) mod watchdog;

use std::sync::Arc;

use super::caller::Caller;
use super::calls::Calls;
use super::hold::{Hold, InDoubt};
use super::local_queue::{FreeFor, LocalQueues};
use super::subscriptions::Subscriptions;
use crate::error::Error;
use crate::holder::Holder;
use crate::lease::LossReason;
use crate::protocol::kind::Kind;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value, lock};
use crate::stats::count;
use crate::timer::{Instant, timeout_at};
use contention::Contention;
use descriptions::Descriptions;
use forced::ClientChannel;
use release::cleanup::{Cleanup, Cleanups};
use watchdog::Watchdog;

pub(crate) struct Holds {
    pub(crate) calls: Arc<Calls>,
    pub(crate) watchdog: Arc<Watchdog>,
    pub(crate) queues: LocalQueues,
    pub(crate) subscriptions: Arc<Subscriptions>,
    pub(crate) cleanups: Cleanups,
    /// Filled only if the deployment can fail over.
    pub(super) descriptions: Descriptions,
    pub(super) client_channel: Arc<ClientChannel>,
    /// A clone for each member of each quorum lock that is waited for.
    pub(crate) in_rounds: Arc<()>,
    pub(super) contention: Contention,
}

impl Holds {
    /// The call that ends a hold whose last guard is gone.
    pub(super) fn end_call(&self, hold: &Hold) -> Call {
        if self.contention.looks() {
            self.release_to_waiters(&hold.resource, &hold.field)
        } else {
            self.calls.release_call(&hold.resource, &hold.field, 0)
        }
    }

    /// The call that ends a field, and the wait of its owner beside a plain lock. It gives such a lock to the first waiter.
    pub(super) fn release_to_waiters(&self, resource: &Resource, field: &Arc<str>) -> Call {
        let mut release = self.calls.release_call(resource, field, 0);
        if resource.kind == Kind::Lock && self.calls.gives_locks() {
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
        let under_way = self.watchdog.release_under_way(&hold.resource, &hold.field);
        self.watchdog.disarm(hold);
        count(&self.calls.counters.lost);
        let doubt = hold.doubt();
        if !is_gone || hold.resource.entries(&hold.field) > 1 || doubt.is_some() {
            // On the background lane, because the caller's lane stands still if the caller's
            // runtime does.
            let hold = hold.clone();
            self.cleanups.post(Cleanup::End { hold, under_way });
        }
        if let Some(doubt) = doubt {
            let lease = hold.longest_lease();
            self.undo(&hold.resource, &hold.field, InDoubt { lease, ..doubt });
        }
        self.queues.vacate(hold, FreeFor::NOBODY);
    }

    /// The field of a hold is gone. By now, another hold of this client may have it, by hand-over.
    pub(super) fn lose_field_of(&self, hold: &Arc<Hold>) {
        let heir = self.queues.holder(&hold.resource.queue_name());
        let heir = heir.filter(|heir| heir.field == hold.field);
        self.lose(heir.as_ref().unwrap_or(hold), LossReason::Gone);
    }

    /// Repairs a queue that waits for a hold that is over (QUEUE-4).
    pub(super) fn end_stale(&self, hold: &Arc<Hold>) {
        if let Some(reason) = hold.loss() {
            self.lose(hold, reason);
        }
        self.queues.vacate(hold, FreeFor::NOBODY);
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
        let Some(releases) = self.watchdog.releases_of(key) else {
            return;
        };
        let longest = Instant::now() + self.calls.settings.command_timeout;
        let limit = limit.map_or(longest, |limit| limit.min(longest));
        // Boxed, because every acquisition would keep space for it. What is not over in time is no
        // reason to fail: Redis is asked all the same.
        drop(Box::pin(timeout_at(limit, releases.over())).await);
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
    pub(super) fn was_gone(&self, hold: &Hold) -> LossReason {
        count(&self.calls.counters.lost);
        hold.was_gone()
    }

    /// The hold of this client that an acquisition waits for, and whether the caller has taken it. Permits are held by
    /// many, so they are in nobody's way.
    pub(crate) fn held_here(&self, resource: &Resource, caller: Caller) -> Option<(Holder, bool)> {
        let is_lock = resource.kind.is_lock();
        let found = is_lock.then(|| self.watchdog.held_under(&resource.key, Some(caller)));
        let hold = found.flatten()?;
        Some((self.holder(&hold), hold.taken_by() == Some(caller)))
    }

    /// Redis has released a hold. `told` says who received the message, this client included.
    pub(super) fn released(&self, hold: &Arc<Hold>, told: FreeFor) {
        let (free_for, meets) = match told {
            FreeFor::Unlisted => (told, true),
            FreeFor::Others(receivers) => {
                // Do not count this client, if it listens: only other clients are let go first.
                let others = receivers - self.own_listeners(&hold.resource);
                (FreeFor::Others(others), others > 0)
            }
        };
        if meets && hold.resource.kind == Kind::Lock {
            self.contention.was_met();
        }
        self.queues.vacate(hold, free_for);
        if let Some(doubt) = hold.doubt() {
            self.undo(&hold.resource, &hold.field, doubt);
        }
        hold.release_settled();
    }

    /// Removes what a field may have taken, and what an earlier call for it may still take.
    pub(super) fn undo(&self, resource: &Arc<Resource>, field: &Arc<str>, doubt: InDoubt) {
        let under_way = self.watchdog.release_under_way(resource, field);
        let (resource, field) = (resource.clone(), field.clone());
        self.cleanups.post(Cleanup::Undo {
            resource,
            field,
            doubt,
            under_way,
        });
    }
}
