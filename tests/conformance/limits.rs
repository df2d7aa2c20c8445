//! Limits that acquisitions declare: they make a semaphore, change its number, and refuse what can
//! never be granted.
#![expect(
    clippy::future_not_send,
    reason = "all of a test is polled in one task"
)]

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use futures::future::{join_all, try_join_all};
use leasehold::{Client, ConfigError, Error, ExpirablePermit, Lease, SemaphorePermit};
use leasehold_testbed::{Bed, eventually, timed, waiting};

use crate::faulty_connection::FaultyConnection;
use crate::semaphores::while_waiting;

const LIMIT: &str = "leasehold_limit:{s}";
const ONCE: Option<Duration> = Some(Duration::ZERO);

/// Both kinds of semaphores have limits.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Of {
    Plain,
    Expirable,
}

const BOTH: [Of; 2] = [Of::Plain, Of::Expirable];

#[derive(Debug)]
pub(crate) enum Taken {
    Plain(SemaphorePermit),
    Expirable(ExpirablePermit),
}

impl Taken {
    /// Whether its holder knows that it has ended.
    pub(crate) fn is_lost(&self) -> bool {
        match self {
            Taken::Plain(permit) => permit.guard().unwrap().check().is_err(),
            Taken::Expirable(permit) => permit.check().is_err(),
        }
    }

    pub(crate) async fn release(self) {
        match self {
            Taken::Plain(permit) => permit.release().await.unwrap(),
            Taken::Expirable(permit) => permit.release().await.unwrap(),
        }
    }
}

impl Of {
    /// Takes permits of the semaphore `s` by a value with this limit. Waits for ever, or for the
    /// time given.
    pub(crate) async fn take(
        self,
        client: &Client,
        limit: impl Into<Option<u32>>,
        permits: u32,
        wait: Option<Duration>,
    ) -> Result<Taken, Error> {
        let limit = limit.into();
        match self {
            Of::Plain => {
                let semaphore = client.semaphore("s");
                let semaphore = match limit {
                    Some(limit) => semaphore.with_limit(limit),
                    None => semaphore,
                };
                match wait {
                    Some(wait) => semaphore.try_acquire(permits, wait).await,
                    None => semaphore.acquire(permits).await,
                }
                .map(Taken::Plain)
            }
            Of::Expirable => {
                let semaphore = client.permit_expirable_semaphore("s");
                let semaphore = match limit {
                    Some(limit) => semaphore.with_limit(limit),
                    None => semaphore,
                };
                match wait {
                    Some(wait) => semaphore.try_acquire(permits, wait, Lease::Renewed).await,
                    None => semaphore.acquire(permits, Lease::Renewed).await,
                }
                .map(Taken::Expirable)
            }
        }
    }

    pub(crate) async fn set(self, client: &Client, permits: u32) -> i64 {
        match self {
            Of::Plain => client.semaphore("s").set_permits(permits).await,
            Of::Expirable => {
                let semaphore = client.permit_expirable_semaphore("s");
                semaphore.set_permits(permits).await
            }
        }
        .unwrap()
    }

    pub(crate) async fn available(self, client: &Client) -> i64 {
        match self {
            Of::Plain => client.semaphore("s").available().await,
            Of::Expirable => client.permit_expirable_semaphore("s").available().await,
        }
        .unwrap()
    }

    /// Available and held permits.
    async fn total(self, client: &Client) -> i64 {
        match self {
            Of::Plain => client.semaphore("s").permits().await,
            Of::Expirable => client.permit_expirable_semaphore("s").permits().await,
        }
        .unwrap()
    }
}

/// Each kind on keys of its own.
pub(crate) async fn for_both(bed: &Bed, test: impl AsyncFn(Of, &Client, &Bed)) {
    for of in BOTH {
        let bed = bed.another();
        test(of, &bed.client().await, &bed).await;
    }
}

async fn release_all(taken: impl IntoIterator<Item = Taken>) {
    for taken in taken {
        taken.release().await;
    }
}

pub(crate) async fn a_limit_makes_the_semaphore(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let two = of.take(client, 2, 2, None).await.unwrap();
        bed.in_vain(async || of.take(client, 2, 1, ONCE).await)
            .await;
        assert_eq!((of.available(client).await, of.total(client).await), (0, 2));
        assert_eq!(bed.command(&["GET", LIMIT]), "2");
        assert_eq!(
            bed.left("s"),
            -1,
            "it lasts as long as one that was set by hand"
        );
        two.release().await;
        assert_eq!(of.available(client).await, 2);
    })
    .await;
}

pub(crate) async fn another_limit_changes_the_number_by_the_difference(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let two = of.take(client, 2, 2, None).await.unwrap();
        let three = of.take(client, 5, 3, None).await.unwrap();
        bed.in_vain(async || of.take(client, 5, 1, ONCE).await)
            .await;
        // A lower limit takes nothing away from those who hold permits.
        bed.in_vain(async || of.take(client, 1, 1, ONCE).await)
            .await;
        assert_eq!(
            (of.available(client).await, of.total(client).await),
            (-4, 1)
        );
        two.release().await;
        bed.in_vain(async || of.take(client, 1, 1, ONCE).await)
            .await;
        three.release().await;
        assert_eq!(of.available(client).await, 1);
        let one = of.take(client, 1, 1, None).await.unwrap();
        bed.in_vain(async || of.take(client, 1, 1, ONCE).await)
            .await;
        one.release().await;
    })
    .await;
}

/// The first limit knows only the permits that are held.
pub(crate) async fn the_first_limit_replaces_a_number_that_was_set(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        assert_eq!(of.set(client, 2).await, 2);
        let one = of.take(client, None, 1, None).await.unwrap();
        assert!(!bed.exists(LIMIT), "who declares none leaves no key");
        let four = of.take(client, 5, 4, None).await.unwrap();
        assert_eq!((of.available(client).await, of.total(client).await), (0, 5));
        release_all([one, four]).await;
        assert_eq!(of.available(client).await, 5);
    })
    .await;
}

pub(crate) async fn more_permits_than_the_limit_are_refused_at_once(bed: Bed) {
    for_both(&bed, async |of, client, _| {
        let before = client.stats().calls;
        let refused = of.take(client, 2, 3, None).await.unwrap_err();
        assert!(
            matches!(
                refused,
                Error::ExceedsLimit {
                    permits: 3,
                    limit: 2,
                    ..
                }
            ),
            "{refused}"
        );
        assert_eq!(client.stats().calls, before, "nothing was sent");
        // A value without a limit knows it from the server.
        let one = of.take(client, 2, 1, None).await.unwrap();
        let refused = timed("refused", of.take(client, None, 3, None)).await.0;
        assert!(
            matches!(
                refused,
                Err(Error::ExceedsLimit {
                    permits: 3,
                    limit: 2,
                    ..
                })
            ),
            "{refused:?}"
        );
        assert!(!refused.unwrap_err().is_retryable());
        assert_eq!(client.stats().waiting, 0);
        one.release().await;
        assert_eq!(of.available(client).await, 2);
        let bad = of.take(client, 0, 1, None).await.unwrap_err();
        let range = ConfigError::OutOfRange {
            what: "with_limit",
            given: "0".into(),
            allowed: "1 to 4294967295".into(),
        };
        assert!(
            matches!(&bad, Error::Config(config) if *config == range),
            "{bad}"
        );
    })
    .await;
}

pub(crate) async fn a_semaphore_without_a_number_is_refused_at_once(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        for wait in [None, ONCE, Some(Duration::from_secs(3600))] {
            let refused = timed("refused", of.take(client, None, 1, wait)).await.0;
            assert!(
                matches!(refused, Err(Error::NoPermits { .. })),
                "{refused:?}"
            );
        }
        assert_eq!(bed.number(&["DBSIZE"]), 0);
        assert_eq!(client.stats().waiting, 0);
        // None available is another matter.
        assert_eq!(of.set(client, 0).await, 0);
        bed.in_vain(async || of.take(client, None, 1, ONCE).await)
            .await;
    })
    .await;
}

pub(crate) async fn alternating_limits_give_out_no_more_than_the_higher(bed: Bed) {
    for_both(&bed, async |of, _, bed| {
        let clients = [bed.client().await, bed.client().await, bed.client().await];
        let (out, most) = (Arc::new(AtomicI64::new(0)), Arc::new(AtomicI64::new(0)));
        let tasks = (0..12_usize).map(|number| {
            let client = clients[number % 3].clone();
            let (out, most) = (out.clone(), most.clone());
            let (limit, permits) = [(2, 1), (5, 1), (5, 2), (2, 2)][number % 4];
            tokio::spawn(async move {
                for _ in 0..8 {
                    let taken = of.take(&client, limit, permits, None).await.unwrap();
                    most.fetch_max(
                        out.fetch_add(permits.into(), SeqCst) + i64::from(permits),
                        SeqCst,
                    );
                    tokio::task::yield_now().await;
                    // Before the release: Redis never counts fewer.
                    out.fetch_sub(permits.into(), SeqCst);
                    taken.release().await;
                }
            })
        });
        for done in timed("all are served", join_all(tasks)).await.0 {
            done.unwrap();
        }
        assert!(most.load(SeqCst) <= 5, "{most:?}");
        for limit in [2, 5] {
            let all = of.take(&clients[0], limit, limit, None).await.unwrap();
            assert_eq!(of.total(&clients[0]).await, i64::from(limit));
            all.release().await;
        }
    })
    .await;
}

/// Otherwise waiters with different limits would wake each other for ever.
pub(crate) async fn a_higher_limit_counts_when_it_lets_somebody_in(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let [low, high] = [
            bed.client_without_polls().await,
            bed.client_without_polls().await,
        ];
        let both = of.take(client, 2, 2, None).await.unwrap();
        let one = of.take(&low, 2, 1, None);
        let one = while_waiting(&low, 1, one, async {
            bed.in_vain(async || of.take(&high, 5, 4, ONCE).await).await;
            assert_eq!(bed.command(&["GET", LIMIT]), "2");
            assert_eq!(low.stats().wakes_in_vain, 0);
            both.release().await;
        });
        let one = one.await.unwrap();
        let four = of.take(&high, 5, 4, None).await.unwrap();
        assert_eq!(bed.command(&["GET", LIMIT]), "5");
        release_all([one, four]).await;
    })
    .await;
}

pub(crate) async fn a_higher_limit_wakes_waiters_without_one(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let other = bed.client_without_polls().await;
        let one = of.take(client, 1, 1, None).await.unwrap();
        let mut raised = None;
        let woken = while_waiting(&other, 1, of.take(&other, None, 1, None), async {
            raised = Some(of.take(client, 3, 1, None).await.unwrap());
        });
        let woken = woken.await.unwrap();
        assert_eq!((of.available(client).await, of.total(client).await), (0, 3));
        release_all([one, woken].into_iter().chain(raised)).await;
    })
    .await;
}

/// A waiter waits by its own limit, whatever others have declared since.
pub(crate) async fn a_waiter_is_served_by_its_own_limit(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let held = of.take(client, 2, 2, None).await.unwrap();
        let other = bed.client().await;
        let wait = {
            let other = other.clone();
            tokio::spawn(async move { of.take(&other, 2, 1, None).await.unwrap() })
        };
        waiting(&other, 1).await;
        let more = of.take(client, 5, 1, None).await.unwrap();
        held.release().await;
        let waited = timed("served", wait).await.0.unwrap();
        assert_eq!(bed.command(&["GET", LIMIT]), "2");
        release_all([more, waited]).await;
        assert_eq!(of.available(client).await, 2);
    })
    .await;
}

pub(crate) async fn a_number_that_was_deleted_is_made_again_around_its_holders(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let one = of.take(client, 3, 1, None).await.unwrap();
        bed.delete("s");
        let two = of.take(client, 3, 2, None).await.unwrap();
        bed.in_vain(async || of.take(client, 3, 1, ONCE).await)
            .await;
        release_all([one, two]).await;
        assert_eq!(of.available(client).await, 3);
        // A number that is set anew has no limit yet.
        bed.delete("s");
        assert!(client.semaphore("s").try_set_permits(7).await.unwrap());
        assert!(!bed.exists(LIMIT));
        of.take(client, 3, 1, None).await.unwrap().release().await;
        assert_eq!(of.available(client).await, 3);
        bed.delete("s");
        client.semaphore("s").add_permits(7).await.unwrap();
        of.take(client, 3, 1, None).await.unwrap().release().await;
        assert_eq!(of.available(client).await, 3);
    })
    .await;
}

pub(crate) async fn a_total_that_is_set_counts_as_a_limit(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let one = of.take(client, 2, 1, None).await.unwrap();
        assert_eq!(of.set(client, 5).await, 4);
        assert_eq!(bed.command(&["GET", LIMIT]), "5");
        bed.in_vain(async || of.take(client, 2, 2, ONCE).await)
            .await;
        assert_eq!((of.available(client).await, of.total(client).await), (1, 2));
        one.release().await;
        // What was added stays until the limit changes, and then, too.
        client.semaphore("s").add_permits(1).await.unwrap();
        let three = try_join_all([of.take(client, 2, 2, ONCE), of.take(client, 2, 1, ONCE)]);
        let three = three.await.unwrap();
        assert_eq!(of.available(client).await, 0);
        release_all(three).await;
    })
    .await;
}

pub(crate) async fn a_limit_ends_with_its_semaphore(bed: Bed) {
    let client = bed.client().await;
    let (life, longer) = (bed.lease(300), bed.lease(30_000));
    let semaphore = client.semaphore("s");
    assert!(semaphore.try_set_permits_for(2, longer).await.unwrap());
    let held = Of::Plain.take(&client, 3, 1, None).await.unwrap();
    // Before 7.2, Redis reads its clock for each command of a script. It may be stopped between two
    // of them.
    let stop = if bed.is_embedded() { 0 } else { 1_000 };
    let latest = bed.left("s") + stop;
    assert!((1..=latest).contains(&bed.left(LIMIT)));
    held.release().await;
    bed.delete("s");
    bed.delete(LIMIT);

    let held = Of::Expirable.take(&client, 2, 1, None).await.unwrap();
    let semaphore = client.permit_expirable_semaphore("s");
    assert!(semaphore.expire_after(life).await.unwrap());
    timed("expired", bed.until_gone("s")).await;
    timed("its limit, too", bed.until_gone(LIMIT)).await;
    drop(held);
}

pub(crate) async fn a_limit_whose_reply_was_lost_counts_once(bed: Bed) {
    for_both(&bed, async |of, client, bed| {
        let one = of.take(client, 2, 1, None).await.unwrap();
        let (other, connection) = FaultyConnection::with_lease(bed, bed.lease(3000)).await;
        of.available(&other).await;
        connection.lose_replies();
        let taking = {
            let other = other.clone();
            tokio::spawn(async move { of.take(&other, 5, 3, None).await })
        };
        eventually("it is applied", async || {
            bed.command(&["GET", LIMIT]) == "5"
        })
        .await;
        connection.reconnect();
        let three = timed("asked again", taking).await.0.unwrap().unwrap();
        assert_eq!((of.available(client).await, of.total(client).await), (1, 5));
        release_all([one, three]).await;
        assert_eq!(of.available(client).await, 5);
    })
    .await;
}
