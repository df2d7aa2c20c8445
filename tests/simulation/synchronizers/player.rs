//! One user of synchronizers: what all of them do alike.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use futures::FutureExt;
use leasehold::{Client, Error, Lease};
use tokio::time::{Instant, sleep, timeout};

use super::book::{Book, Entry, Held, Who, Wish};
use super::plan::{Plan, Sky, Sort};
use crate::plan::{ms, us};

pub(crate) struct Player {
    pub(crate) who: Who,
    pub(crate) plan: Plan,
    pub(crate) book: Book,
    /// One for each server.
    pub(crate) clients: Vec<Client>,
    pub(crate) rng: fastrand::Rng,
    pub(crate) over: Arc<AtomicBool>,
}

/// How one acquisition is asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    /// `None`: without end.
    pub(crate) wait: Option<Duration>,
    pub(crate) lease: Lease,
    pub(crate) cancel_at: Option<Duration>,
}

impl Manner {
    pub(crate) fn patience(self) -> Duration {
        self.wait.unwrap_or(Duration::MAX)
    }
}

impl Player {
    pub(crate) fn is_over(&self) -> bool {
        self.over.load(SeqCst)
    }

    pub(crate) fn note(&self, text: &str) {
        self.book.log.note(&format!("{:?} {text}", self.who));
    }

    pub(crate) fn violation(&self, text: &str) {
        self.book.log.violation(format!("{:?} {text}", self.who));
    }

    pub(crate) async fn rests(&mut self) {
        sleep(us(self.rng.u64(0..40_000))).await;
    }

    pub(crate) fn manner(&mut self) -> Manner {
        let wait = match self.rng.u8(0..10) {
            0..2 => Some(Duration::ZERO),
            2..6 => Some(ms(self.rng.u64(1..400))),
            _ => None,
        };
        let lease = match self.rng.u8(0..if self.plan.overrun { 2 } else { 3 }) {
            0 => Lease::Fixed(ms(self.fixed_lease())),
            _ => Lease::Renewed,
        };
        let patience = self.rng.u64(0..1_500_000);
        let cancels = self.rng.u8(0..4) == 0;
        Manner { wait, lease, cancel_at: cancels.then(|| us(patience * patience / 1_500_000)) }
    }

    fn fixed_lease(&mut self) -> u64 {
        let lease = u64::try_from(self.plan.lease.as_millis()).expect("small");
        match (self.plan.sort, self.plan.overrun) {
            // Each server may take its part of the lease to answer.
            (Sort::Quorum, _) => self.rng.u64(lease / 2..lease),
            (_, true) => self.rng.u64(40..lease / 3),
            _ => self.rng.u64(40..lease),
        }
    }

    pub(crate) fn wish(&self, names: Vec<usize>, permits: u32) -> Wish {
        Wish { who: self.who, names, permits, since: Instant::now() }
    }

    /// One acquisition, unless it is given up before.
    pub(crate) async fn takes<F>(
        &mut self,
        wish: &Wish,
        manner: Manner,
        acquire: F,
    ) -> Option<Entry>
    where
        F: Future<Output = Result<Held, Error>>,
    {
        self.note(&format!("wants {:?} x {}: {manner:?}", wish.names, wish.permits));
        let waiting = self.book.waits(wish.clone());
        let outcome = self.cancelled_at(manner.cancel_at, acquire).await;
        drop(waiting);
        self.check_wait(manner, wish.since);
        match outcome {
            None => {
                self.note("gives up");
                None
            }
            Some(Ok(held)) => Some(self.book.enters(wish.clone(), held)),
            Some(Err(error)) => {
                self.refused(&error);
                None
            }
        }
    }

    /// The outcome, or nothing if it was dropped before: after a time, or after a few polls.
    pub(crate) async fn cancelled_at<F: Future>(
        &mut self,
        at: Option<Duration>,
        future: F,
    ) -> Option<F::Output> {
        match at {
            None => Some(future.await),
            Some(after) if self.rng.bool() => timeout(after, future).await.ok(),
            Some(_) => {
                let mut future = Box::pin(future);
                for _ in 0..self.rng.u8(0..12) {
                    if let Some(done) = future.as_mut().now_or_never() {
                        return Some(done);
                    }
                    sleep(us(self.rng.u64(0..3000))).await;
                }
                None
            }
        }
    }

    pub(crate) fn check_wait(&self, manner: Manner, since: Instant) {
        let Some(slack) = self.plan.slack() else { return };
        let limit = match manner.wait {
            Some(wait) if wait.is_zero() => self.plan.command_timeout,
            Some(wait) => wait,
            None => self.plan.served_within(),
        };
        let waited = since.elapsed();
        if waited > limit + slack {
            self.violation(&format!("waited {waited:?} for {:?}", manner.wait));
        }
    }

    pub(crate) fn refused(&self, error: &Error) {
        self.note(&format!("is refused: {error}"));
        // Servers that are asked for a part of a short lease only may be too slow for it.
        let late = matches!(error, Error::Unavailable { .. } | Error::Quorum { .. });
        let slow = self.plan.faults.reply.max > ms(20) && late;
        let unhurt = self.plan.is_calm() && !error.is_timeout() && !slow;
        let wrong = matches!(
            error,
            Error::Protocol { .. }
                | Error::NotOwner { .. }
                | Error::Config(_)
                | Error::AlreadyHeld { .. }
        );
        if unhurt || wrong {
            self.violation(&format!("must not be told: {error}"));
        }
    }

    /// The critical section.
    pub(crate) async fn works(&mut self, entry: &Entry) {
        let work = us(self.rng.u64(0..1_000_000).pow(2) / 2_000_000);
        if self.rng.bool() && !self.plan.overrun {
            // Stops by itself when the hold is lost.
            let _ended = entry.held.run(sleep(work)).await;
        } else {
            sleep(work).await;
        }
        if self.rng.u8(0..8) == 0 {
            let _extended = entry.held.extend(self.plan.lease).await;
        }
    }

    pub(crate) async fn lets_go(&mut self, entry: Entry) {
        let valid = entry.is_valid();
        let released = self.book.leaves(entry);
        let release = async {
            match released {
                Held::Lock(guard) => guard.unlock().await,
                Held::Semaphore(permit) => permit.release().await,
                Held::Permit(permit) => permit.release().await,
            }
        };
        let result = match self.rng.u8(0..4) {
            // Never polled: as a drop of the guard itself.
            0 => return drop(release),
            1 => {
                let at = us(self.rng.u64(0..8000));
                self.cancelled_at(Some(at), release).await
            }
            _ => Some(release.await),
        };
        let Some(Err(error)) = result else { return };
        self.note(&format!("releases: {error}"));
        let unhurt = self.plan.is_calm() || self.plan.sky == Sky::Crash;
        if unhurt && valid && !matches!(error, Error::Lost { .. }) {
            self.violation(&format!("cannot release: {error}"));
        }
    }
}
