//! One server, one JVM, one client of ours, and an observer.

use std::fmt::Debug;
use std::time::Duration;

use leasehold::settings::ShardedPubSub;
use leasehold::{Client, ClientBuilder, Error, Lock, Stats};
use leasehold_others::Reply;
use leasehold_testbed::{Borrowed, LIMIT, connected, eventually, patient, timed, until_stats};
use tokio::task::JoinHandle;

use crate::observer::Observer;
use crate::redisson::Redisson;

pub(crate) const NOW: Duration = Duration::ZERO;
/// A lease whose end a test waits for. Two thirds are left when it is renewed, which is enough for
/// a machine that stalls for a second.
pub(crate) const SHORT: Duration = Duration::from_secs(3);
/// More than two leases: the time for which a test lets a contender wait.
pub(crate) const TWO_LEASES: Duration = Duration::from_millis(6500);
/// The milliseconds that are left of a lease of 30 s that was taken or renewed a moment ago.
pub(crate) const NEARLY_WHOLE: std::ops::RangeInclusive<u128> = 15_000..=30_000;

/// `LEASEHOLD_SHARDED` says for both sides how messages are published in a cluster.
pub(crate) fn builder(url: &str) -> ClientBuilder {
    patient(url).sharded_pubsub(match std::env::var("LEASEHOLD_SHARDED").as_deref() {
        Ok("ON") => ShardedPubSub::On,
        Ok("OFF") => ShardedPubSub::Off,
        _ => ShardedPubSub::Auto,
    })
}

pub(crate) struct Harness {
    pub(crate) server: Borrowed,
    pub(crate) java: Redisson,
    pub(crate) client: Client,
    pub(crate) observer: Observer,
}

impl Harness {
    /// With the default leases of 30 s on both sides. Our client polls so rarely that only messages
    /// wake its waiters within a test.
    pub(crate) async fn start() -> Harness {
        Harness::with(None, |ours| ours.safety_poll(Duration::from_secs(60))).await
    }

    /// With short leases on both sides.
    pub(crate) async fn with_short_leases() -> Harness {
        Harness::with(Some(SHORT), |ours| ours.lease(SHORT)).await
    }

    /// With a `lockWatchdogTimeout` on their side and further settings on ours.
    pub(crate) async fn with(
        watchdog: Option<Duration>,
        ours: impl FnOnce(ClientBuilder) -> ClientBuilder,
    ) -> Harness {
        let server = Borrowed::take();
        let java = Redisson::start(&server.url(), watchdog).await;
        let client = connected(ours(builder(&server.url()))).await;
        let observer = Observer::of(&server.url());
        Harness {
            server,
            java,
            client,
            observer,
        }
    }

    /// Starts a waiter that sends scripts. Returns when it has asked, subscribed, and asked again,
    /// so that only a message or the end of a lease makes it ask once more.
    pub(crate) async fn waiting<F>(
        &mut self,
        wait: impl FnOnce(&Harness) -> F,
    ) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        self.waiting_by(&["eval", "evalsha"], wait).await
    }

    /// The same for a waiter that sends these commands.
    pub(crate) async fn waiting_by<F>(
        &mut self,
        commands: &[&str],
        wait: impl FnOnce(&Harness) -> F,
    ) -> JoinHandle<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        // If our client were still subscribed to the channel, the waiter would ask only once.
        self.until("no subscription is kept", |stats| {
            stats.subscriptions == 0 || stats.listeners > 0
        })
        .await;
        let before = self.observer.calls(commands).await;
        let waiting = tokio::spawn(wait(self));
        eventually("it waits", async || {
            self.observer.calls(commands).await >= before + 2
        })
        .await;
        waiting
    }

    /// Starts so many tasks that wait. The first one subscribes for all tasks of our client.
    pub(crate) async fn tasks_wait<F>(
        &mut self,
        tasks: u64,
        wait: impl Fn(&Client) -> F + Send + Sync,
    ) -> Vec<JoinHandle<F::Output>>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let mut waiting = vec![self.waiting(|harness| wait(&harness.client)).await];
        for number in 2..=tasks {
            waiting.push(tokio::spawn(wait(&self.client)));
            self.until_waiting(number).await;
        }
        waiting
    }

    /// Lets each of these threads wait.
    pub(crate) async fn threads_wait<T: Send + 'static>(
        &mut self,
        threads: &[&str],
        wait: impl Fn(&Redisson, &str) -> Reply<T> + Send + Sync,
    ) -> Vec<JoinHandle<T>> {
        let mut waiting = Vec::new();
        for thread in threads {
            let waits = self.waiting(|harness| wait(&harness.java, thread));
            waiting.push(waits.await);
        }
        waiting
    }

    /// Waits until the keys that Redisson keeps for a moment after each release are gone.
    pub(crate) async fn java_has_cleaned_up(&mut self) {
        eventually("its latch keys are gone", async || {
            let keys = self.observer.ask("KEYS redisson_unlock_latch:*");
            keys.await.is_empty()
        })
        .await;
    }

    /// Waits until this many of our futures wait.
    pub(crate) async fn until_waiting(&self, futures: u64) {
        self.until("they wait", |stats| stats.waiting == futures)
            .await;
    }

    /// Waits until the statistics of our client satisfy the condition.
    pub(crate) async fn until(&self, what: &str, holds: impl Fn(&Stats) -> bool + Sync) {
        until_stats(&self.client, LIMIT, what, holds).await;
    }
}

/// Checks that a lease of 30 s was taken or renewed a moment ago.
pub(crate) async fn assert_nearly_whole(lock: &Lock) {
    let left = lock.remaining_lease().await.expect("remaining_lease");
    let left = left.expect("held").as_millis();
    assert!(NEARLY_WHOLE.contains(&left), "{left} ms");
}

/// Checks that the wait for something that others hold has ended in vain.
#[track_caller]
pub(crate) fn assert_timed_out<T: Debug>(refused: Result<T, Error>) {
    let refused = refused.expect_err("others hold it");
    assert!(refused.is_timeout(), "{refused}");
}

/// The result of something that has already happened, or happens long before a lease of 30 s ends.
pub(crate) async fn soon<T>(what: &str, future: impl Future<Output = T>) -> T {
    let (done, elapsed) = timed(what, future).await;
    eprintln!("{what}: {elapsed:.2?}");
    done
}

/// The same, of something that was spawned.
pub(crate) async fn joined<T>(what: &str, handle: JoinHandle<T>) -> T {
    soon(what, handle).await.expect("no panic")
}

pub(crate) async fn all_joined<T>(what: &str, handles: Vec<JoinHandle<T>>) -> Vec<T> {
    let mut done = Vec::new();
    for handle in handles {
        done.push(joined(what, handle).await);
    }
    done
}
