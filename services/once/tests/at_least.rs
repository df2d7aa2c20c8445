//! A lock during the work, and a mark after it.

use std::cell::Cell;
use std::time::{Duration, SystemTime};

use leasehold::{Client, EmbeddedRedis, Error, FencingToken};
use leasehold_once::{Once, Ran};
use leasehold_testbed::{ms, timed};
use tokio::time::{advance, sleep, timeout};

use crate::once;

const TICK: SystemTime = SystemTime::UNIX_EPOCH;
const NAME: &str = "job@run";

async fn quick(once: &Once) -> Result<Ran<FencingToken>, Error> {
    Box::pin(once.at_least(TICK, async |token| Ok(token))).await
}

fn is_here<T>(ran: &Result<Ran<T>, Error>) -> bool {
    matches!(ran, Ok(Ran::Here(_)))
}

#[tokio::test(start_paused = true)]
async fn others_wait_until_it_is_done_and_do_not_run_it() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (once(&redis.client()), once(&redis.client()));
    let slow = one.at_least(TICK, async |_| {
        sleep(ms(5000)).await;
        Ok::<_, Error>(())
    });
    let second = async {
        sleep(ms(100)).await;
        timed("done", quick(&other)).await
    };
    let (slow, (second, took)) = tokio::join!(slow, second);
    assert_eq!(slow.expect("ran"), Ran::Here(()));
    assert_eq!(second.expect("refused"), Ran::Elsewhere);
    assert!(took > ms(4000), "it waits for the outcome: {took:?}");
    advance(Duration::from_secs(3000)).await;
    assert_eq!(quick(&one).await.expect("refused"), Ran::Elsewhere);
    advance(Duration::from_secs(700)).await;
    assert!(is_here(&quick(&one).await), "the mark has expired");
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_dropped_or_fails_is_followed_by_another() {
    let redis = EmbeddedRedis::new();
    let (one, other) = (once(&redis.client()), once(&redis.client()));
    let stuck = one.at_least(TICK, async |_| {
        std::future::pending::<()>().await;
        Ok::<_, Error>(())
    });
    assert!(timeout(ms(100), stuck).await.is_err(), "it never ends");
    let failing = one.at_least(TICK, async |_| Err::<(), _>(Failure));
    assert!(failing.await.is_err());
    let ran = timed("ran", quick(&other)).await;
    assert!(is_here(&ran.0) && ran.1 < ms(100), "{ran:?}");
    assert_eq!(quick(&one).await.expect("refused"), Ran::Elsewhere);
}

#[derive(Debug)]
struct Failure;

impl From<Error> for Failure {
    fn from(_: Error) -> Self {
        Failure
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_lock_is_lost_begins_again_with_a_higher_number() {
    let redis = EmbeddedRedis::new();
    let one = once(&redis.client());
    let runs = Cell::new(0);
    let numbers = Cell::new(Vec::new());
    let work = one.at_least(TICK, async |token| {
        runs.set(runs.get() + 1);
        let mut seen = numbers.take();
        seen.push(token);
        numbers.set(seen);
        if runs.get() == 1 {
            std::future::pending::<()>().await;
        }
        Ok::<_, Error>(runs.get())
    });
    let lose = async {
        sleep(ms(100)).await;
        assert!(redis.lose(NAME));
    };
    let (ran, ()) = tokio::join!(work, lose);
    assert_eq!(ran.expect("ran"), Ran::Here(2));
    let numbers = numbers.take();
    assert!(numbers[1] > numbers[0], "{numbers:?}");
}

#[tokio::test(start_paused = true)]
async fn a_run_whose_mark_is_lost_runs_again() {
    // The worst that may happen: the work is done, and the lock is lost before the mark is set.
    let redis = EmbeddedRedis::new();
    let (one, other) = (once(&redis.client()), once(&redis.client()));
    let runs = Cell::new(0);
    let work = one.at_least(TICK, async |_| {
        runs.set(runs.get() + 1);
        if runs.get() == 1 {
            redis.cut();
        }
        Ok::<_, Error>(())
    });
    let heal = async {
        sleep(ms(3000)).await;
        assert_eq!(runs.get(), 1);
        redis.heal();
    };
    let (ran, ()) = tokio::join!(work, heal);
    assert_eq!(ran.expect("ran"), Ran::Here(()));
    assert_eq!(runs.get(), 2);
    assert_eq!(quick(&other).await.expect("refused"), Ran::Elsewhere);
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_locked_or_marked_is_an_error() {
    let client = Client::embedded();
    let brief = once(&client).with_lease(ms(1));
    assert!(matches!(quick(&brief).await, Err(Error::Config(_))));
    client.shutdown(ms(1000)).await.expect("closed");
    assert!(matches!(quick(&once(&client)).await, Err(Error::Closed)));
}
