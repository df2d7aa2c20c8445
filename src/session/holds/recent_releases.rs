//! Releases that a failover may have undone.
//!
//! Replication is asynchronous. A release that the former primary confirmed may never have reached
//! the new one. There the lock stays held by an owner that is gone, for the rest of its lease. So a
//! client of Sentinel or a cluster remembers its latest releases for a while. When another server
//! becomes primary, the client asks it whether any of the released fields are held, and releases
//! those again. The question is a renewal that extends nothing, for hundreds of fields in one call.
//! No other acquisition has the same field, so nothing else can be released by mistake. A hold that
//! was left to its expiry is released when its time is over, because the new primary may have it
//! with its whole lease.
//!
//! # Bounds
//!
//! [`MOST`] releases, each for [`KEPT`], about 120 bytes each. A client that releases faster than
//! that forgets the oldest; their locks are free when their leases end.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::{self, FuturesUnordered};
use tokio::time::Instant;

use super::Holds;
use super::watchdog::renewal::{Field, batches};
use crate::protocol::resource::Resource;
use crate::protocol::{self, replies};
use crate::session::hold::{Hold, InDoubt, VERIFICATION};
use crate::session::retry::Retry;
use crate::sync::{Mutex, Notify};
use crate::transport::{CallError, Lane};

/// A former primary that is still alive accepts writes for about ten seconds.
const KEPT: Duration = Duration::from_secs(12);

const MOST: usize = 65_536;

/// A release noted this soon after a failover may have been confirmed by the former primary.
const LATE: Duration = Duration::from_secs(1);

/// Fields in flight to each node. Each keeps the node busy for a few microseconds.
const AT_ONCE: usize = 2_000;

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

#[derive(Debug, Default)]
pub(crate) struct RecentReleases {
    noted: Mutex<Noted>,
    due: Notify,
}

#[derive(Debug, Default)]
struct Noted {
    latest: VecDeque<Release>,
    to_repeat: Vec<Release>,
    primary_changed: Option<Instant>,
    /// Fields that are already repeated for the latest change because they were noted late. A
    /// repetition is itself a release; without this set it would be repeated again.
    late: HashSet<Arc<str>>,
}

#[derive(Clone, Debug)]
struct Release {
    at: Instant,
    resource: Arc<Resource>,
    field: Arc<str>,
    lease: Duration,
    /// The lock stays locked until this instant.
    after: Option<Instant>,
}

impl Release {
    /// The instant from which the released field cannot be held any more.
    fn over(&self) -> Instant {
        self.at + self.lease.min(KEPT)
    }
}

impl Field for Release {
    fn resource(&self) -> &Resource {
        &self.resource
    }

    fn field(&self) -> &Arc<str> {
        &self.field
    }

    fn lease(&self) -> Duration {
        VERIFICATION
    }
}

impl RecentReleases {
    /// The release of a hold was confirmed, or the call that leaves it to its expiry.
    pub(crate) fn note_end(&self, hold: &Hold) {
        self.note(
            &hold.resource,
            &hold.field,
            hold.longest_lease(),
            hold.lingers_until(),
        );
    }

    /// A release was confirmed.
    pub(crate) fn note(
        &self,
        resource: &Arc<Resource>,
        field: &Arc<str>,
        lease: Duration,
        after: Option<Instant>,
    ) {
        let at = Instant::now();
        let (resource, field) = (resource.clone(), field.clone());
        let release = Release {
            at,
            resource,
            field: field.clone(),
            lease,
            after,
        };
        let mut noted = self.noted.lock();
        let mut is_due = false;
        if noted
            .primary_changed
            .is_none_or(|changed| at >= changed + LATE)
        {
            noted.late.clear();
        } else if noted.late.insert(field) {
            noted.to_repeat.push(release.clone());
            is_due = true;
        }
        noted.latest.push_back(release);
        let is_old = |release: &Release| at.duration_since(release.at) > KEPT;
        while noted.latest.len() > MOST || noted.latest.front().is_some_and(is_old) {
            noted.latest.pop_front();
        }
        drop(noted);
        if is_due {
            self.due.notify_one();
        }
    }

    /// Another server serves these keys now.
    pub(crate) fn must_repeat(&self, concerns: &dyn Fn(&str) -> bool) {
        let now = Instant::now();
        let mut noted = self.noted.lock();
        let concerned =
            |release: &&Release| now < release.over() && concerns(&release.resource.key);
        // Newest first, because a new primary lacks the latest writes of the former one.
        let concerned: Vec<_> = noted
            .latest
            .iter()
            .rev()
            .filter(concerned)
            .cloned()
            .collect();
        noted.late = concerned
            .iter()
            .map(|release| release.field.clone())
            .collect();
        noted.to_repeat.extend(concerned);
        noted.primary_changed = Some(now);
        drop(noted);
        self.due.notify_one();
    }

    fn take(&self) -> Vec<Release> {
        std::mem::take(&mut self.noted.lock().to_repeat)
    }
}

/// Repeats releases after failovers, until it is dropped.
pub(crate) async fn run(holds: &Holds) {
    let recent = &holds.recent_releases;
    let mut nodes = FuturesUnordered::new();
    loop {
        tokio::select! {
            () = recent.due.notified() => {
                let node = |of: &Release| holds.calls.transport.node_of(&of.resource.key);
                let mut releases = recent.take();
                releases.sort_by_key(node);
                for of_node in releases.chunk_by(|one, other| node(one) == node(other)) {
                    let batches = batches(&holds.calls, of_node.to_vec());
                    let longest = batches.iter().map(Vec::len).max();
                    let at_once = AT_ONCE.div_ceil(longest.unwrap_or(1));
                    let asked = stream::iter(batches);
                    nodes.push(asked.for_each_concurrent(at_once, |batch| repeat(holds, batch)));
                }
            }
            Some(()) = nodes.next() => {}
        }
    }
}

/// Asks which of these fields are held, and releases those again.
async fn repeat(holds: &Holds, batch: Vec<Release>) {
    let kind = batch[0].resource.kind;
    let over = batch
        .iter()
        .map(Release::over)
        .max()
        .expect("a batch is not empty");
    let mut retry = Retry::growing(PAUSE_FIRST, PAUSE_MAX).until(over);
    loop {
        let fields: Vec<_> = batch
            .iter()
            .map(|release| (&*release.resource, &release.field))
            .collect();
        let outage = holds.calls.outages.next();
        let call = protocol::renew(kind, VERIFICATION, &fields);
        let reply = holds.calls.call(Lane::Background, call).await;
        let held = reply.and_then(|value| Ok(replies::renewed(value, batch.len())?));
        let error = match held {
            Ok(held) => {
                let held = batch.iter().zip(held).filter(|(_, held)| *held);
                return held.for_each(|(release, _)| release_again(holds, release));
            }
            Err(error) => error,
        };
        // One key of another type, or on another node, fails the call for all of them. Release them
        // one by one.
        let is_refused = matches!(error, CallError::Refused(_));
        if is_refused || retry.pause(error, outage).await.is_err() {
            return batch
                .iter()
                .for_each(|release| release_again(holds, release));
        }
    }
}

/// Releases a field again, unless a hold of the same field was restored in the meantime: a string
/// lock can be given any text, also one that was released before.
fn release_again(holds: &Holds, release: &Release) {
    if holds.watchdog.has(&release.resource, &release.field) {
        return;
    }
    let Release {
        resource,
        field,
        lease,
        after,
        ..
    } = release;
    let epoch = holds.calls.transport.epoch(Lane::Caller, &resource.key);
    holds.undo_after(
        *after,
        resource,
        field,
        InDoubt {
            epoch,
            lease: *lease,
        },
    );
}

#[cfg(all(test, feature = "embedded"))]
mod tests {
    use super::*;
    use crate::Client;
    #[tokio::test(start_paused = true)]
    async fn a_release_that_was_undone_is_repeated() {
        let redis = crate::EmbeddedRedis::new();
        let client = redis.client();
        let (session, lock) = (client.session(), client.lock("n"));
        let guard = lock.lock().await.expect("free");
        let hold = session.holds.watchdog.holds().pop().expect("held");
        guard.unlock().await.expect("held");
        let (field, other) = (hold.field.to_string(), client.lock("other"));
        // Simulate a primary that has the acquisition but not the release.
        let lost = |key: &str, field: &str| drop(redis.command(&["HSET", key, field, "1"]));
        lost("n", &field);
        lost("x", "somebody:1");
        session.holds.recent_releases.note_end(&hold);
        session.holds.recent_releases.must_repeat(&|key| key == "x");
        other
            .lock()
            .await
            .expect("free")
            .unlock()
            .await
            .expect("held");
        assert!(
            lock.is_locked().await.expect("an answer"),
            "released by a change of another key"
        );
        session.holds.recent_releases.must_repeat(&|key| key == "n");
        lock.lock()
            .await
            .expect("released again")
            .unlock()
            .await
            .expect("held");
    }

    #[tokio::test(start_paused = true)]
    async fn a_released_text_that_is_held_again_is_not_released() {
        let redis = crate::EmbeddedRedis::new();
        let client = redis.client();
        let (session, lock) = (client.session(), client.string_lock("x"));
        let restore = async || {
            drop(redis.command(&["SET", "x", "job-17", "PX", "60000"]));
            lock.restore("job-17").await.expect("the key exists")
        };
        let guard = restore().await;
        let hold = session.holds.watchdog.holds().pop().expect("held");
        guard.unlock().await.expect("held");
        session.holds.recent_releases.note_end(&hold);
        let again = restore().await;
        session.holds.recent_releases.must_repeat(&|_| true);
        // Longer than a repetition takes.
        tokio::time::sleep(KEPT).await;
        assert!(lock.is_locked().await.expect("an answer"));
        again.unlock().await.expect("held");
    }

    /// The new primary may have the hold with its whole lease.
    #[tokio::test(start_paused = true)]
    async fn a_hold_that_was_left_to_its_expiry_is_released_then() {
        let span = Duration::from_secs(1);
        let redis = crate::EmbeddedRedis::new();
        let client = redis.client();
        let (session, lock) = (client.session(), client.lock("n"));
        let begin = Instant::now();
        let guard = lock.acquire().unlock_not_before(span).await.expect("free");
        let hold = session.holds.watchdog.holds().pop().expect("held");
        guard.unlock().await.expect("held");
        session.holds.recent_releases.note_end(&hold);
        drop(redis.command(&["PEXPIRE", "n", "30000"]));
        session.holds.recent_releases.must_repeat(&|_| true);
        lock.lock()
            .await
            .expect("released in time")
            .unlock()
            .await
            .expect("held");
        let took = begin.elapsed();
        assert!(took >= span && took < span * 2, "{took:?}");
    }

    /// If every repetition is refused, for instance by a key of another type, repetitions of
    /// repetitions would go on without a pause for all of [`LATE`].
    #[tokio::test(start_paused = true)]
    async fn a_repetition_is_not_repeated_for_the_same_change() {
        let client = Client::embedded();
        let (lock, recent) = (client.lock("n"), RecentReleases::default());
        let mut holds = Vec::new();
        for _ in 0..2 {
            let _guard = lock.lock().await.expect("free");
            holds.extend(client.session().holds.watchdog.holds());
        }
        let taken = || recent.take().len();
        recent.note_end(&holds[0]);
        for _ in 0..2 {
            recent.must_repeat(&|_| true);
            assert_eq!(taken(), 1);
            recent.note_end(&holds[0]);
            assert_eq!(taken(), 0, "it was a repetition");
            recent.noted.lock().latest.pop_back();
        }
        recent.note_end(&holds[1]);
        assert_eq!(taken(), 1, "it may have been confirmed before the change");
        recent.note_end(&holds[1]);
        assert_eq!(taken(), 0, "it was a repetition");
    }

    #[tokio::test(start_paused = true)]
    async fn old_releases_and_those_beyond_the_bound_are_forgotten() {
        let client = Client::embedded();
        let _guard = client.lock("n").lock().await.expect("free");
        let hold = client.session().holds.watchdog.holds().pop().expect("held");
        let recent = RecentReleases::default();
        for _ in 0..MOST + 10 {
            recent.note_end(&hold);
        }
        assert_eq!(recent.noted.lock().latest.len(), MOST);
        tokio::time::advance(KEPT + Duration::from_millis(1)).await;
        recent.must_repeat(&|_| true);
        assert!(recent.take().is_empty());
        recent.note_end(&hold);
        assert_eq!(recent.noted.lock().latest.len(), 1);
    }
}
