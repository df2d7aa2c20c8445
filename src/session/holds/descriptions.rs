//! Describes in Redis who holds a lock, and what for.
//!
//! Descriptions are written in the background after the grant and after each renewal, by one call
//! for many holds. The script describes a lock only while the described owner holds it, and only
//! for as long as the lease lasts. So a late or repeated call does no harm, and a lost one is made
//! up for by the next renewal.

use std::sync::Arc;

use futures_util::future::join_all;

use super::Holds;
use crate::error::Error;
use crate::holder::Holder;
use crate::protocol::description::{self, Said, describe};
use crate::protocol::replies;
use crate::protocol::resource::Resource;
use crate::session::calls::Calls;
use crate::session::hold::{Description, Hold};
use crate::sync::{Mutex, Notify};
use crate::timer::{Instant, timeout};
use crate::transport::Lane;

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
pub(crate) async fn run(holds: &Holds) {
    loop {
        let mut described = holds.descriptions.next().await;
        described.retain(|hold| hold.is_live());
        let batches = described.chunks(holds.calls.keys_at_once(BATCH));
        join_all(batches.map(|batch| describe_batch(&holds.calls, batch))).await;
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
            Some(Said {
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

impl Holds {
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
            ..holder
        }
    }

    /// Adds the current holder to a timeout error, by one call whose reply may take as long after `wait_ended` as
    /// replies usually do. Leaves other errors as they are.
    pub(crate) async fn name_holder(
        &self,
        resource: &Resource,
        wait_ended: Instant,
        error: &mut Error,
    ) {
        let Error::Timeout {
            by_this_client: false,
            holder: holder @ None,
            ..
        } = error
        else {
            return;
        };
        let limit = wait_ended + self.calls.grace();
        if limit <= Instant::now() {
            return;
        }
        // CANCEL: nothing was taken.
        let call = self.calls.inspect_call(resource);
        let reply = self.calls.call_until(Some(limit), call).await;
        let seen = reply.ok().and_then(|reply| replies::seen(reply).ok()?);
        *holder = seen
            .and_then(|seen| seen.holders.into_iter().next())
            .map(Box::new);
    }
}
