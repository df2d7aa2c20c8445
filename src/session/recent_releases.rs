//! Releases that a failover may have undone.
//!
//! Replication is asynchronous: a release that the former primary confirmed may never have reached its
//! successor, where the lock then stays held by an owner that is gone, for the rest of its lease. So a client of
//! Sentinel or a cluster remembers its latest releases for a while, and repeats them on the new
//! primary. No other acquisition has the same owner field: what is repeated in vain changes nothing.
//!
//! # Bounds
//!
//! [`MOST`] releases, each for [`KEPT`]. A client that releases faster than that forgets some of them; their
//! locks are free when their leases end.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use super::Session;
use super::hold::{Hold, InDoubt};
use crate::protocol::resource::Resource;
use crate::transport::Lane;

/// A former primary that still lives takes writes for about ten seconds.
const KEPT: Duration = Duration::from_secs(12);

const MOST: usize = 8_192;

#[derive(Debug, Default)]
pub(crate) struct RecentReleases {
    latest: Mutex<VecDeque<Release>>,
    to_repeat: Mutex<Vec<Release>>,
    due: Notify,
}

#[derive(Clone, Debug)]
struct Release {
    at: Instant,
    resource: Arc<Resource>,
    field: Arc<str>,
    lease: Duration,
}

impl RecentReleases {
    /// A release was confirmed.
    pub(super) fn note(&self, hold: &Hold) {
        let at = Instant::now();
        let (resource, field) = (hold.resource.clone(), hold.field.clone());
        let mut latest = self.latest.lock();
        latest.push_back(Release { at, resource, field, lease: hold.longest_lease() });
        let is_old = |release: &Release| at.duration_since(release.at) > KEPT;
        while latest.len() > MOST || latest.front().is_some_and(is_old) {
            latest.pop_front();
        }
    }

    /// Another server serves these keys.
    pub(super) fn must_repeat(&self, concerns: &dyn Fn(&str) -> bool) {
        let now = Instant::now();
        let lasts = |release: &&Release| now.duration_since(release.at) < release.lease.min(KEPT);
        let concerned = |release: &&Release| lasts(release) && concerns(&release.resource.key);
        let concerned: Vec<_> = self.latest.lock().iter().filter(concerned).cloned().collect();
        self.to_repeat.lock().extend(concerned);
        self.due.notify_one();
    }
}

/// Repeats what must be repeated, until it is dropped.
pub(super) async fn run(session: &Session) {
    let recent = &session.recent_releases;
    loop {
        recent.due.notified().await;
        let releases = std::mem::take(&mut *recent.to_repeat.lock());
        for Release { resource, field, lease, .. } in releases {
            let epoch = session.transport.epoch(Lane::Caller, &resource.key);
            session.undo(&resource, &field, InDoubt { epoch, lease, once: true });
        }
    }
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
        let hold = session.watchdog.holds().pop().expect("held");
        guard.unlock().await.expect("held");
        let (field, other) = (hold.field.to_string(), client.lock("other"));
        // As on a primary that has the acquisition and lacks the release.
        let lost = |key: &str, field: &str| drop(redis.command(&["HSET", key, field, "1"]));
        lost("n", &field);
        lost("x", "somebody:1");
        session.recent_releases.note(&hold);
        session.recent_releases.must_repeat(&|key| key == "x");
        other.lock().await.expect("free").unlock().await.expect("held");
        assert!(lock.is_locked().await.expect("an answer"), "of another key");
        session.recent_releases.must_repeat(&|key| key == "n");
        lock.lock().await.expect("released again").unlock().await.expect("held");
    }

    #[tokio::test(start_paused = true)]
    async fn old_releases_and_those_beyond_the_bound_are_forgotten() {
        let client = Client::embedded();
        let _guard = client.lock("n").lock().await.expect("free");
        let hold = client.session().watchdog.holds().pop().expect("held");
        let recent = RecentReleases::default();
        for _ in 0..MOST + 10 {
            recent.note(&hold);
        }
        assert_eq!(recent.latest.lock().len(), MOST);
        tokio::time::advance(KEPT + Duration::from_millis(1)).await;
        recent.must_repeat(&|_| true);
        assert!(recent.to_repeat.lock().is_empty());
        recent.note(&hold);
        assert_eq!(recent.latest.lock().len(), 1);
    }
}
