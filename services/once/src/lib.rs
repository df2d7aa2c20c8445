//! Once in a fleet: a job that many instances schedule runs in one of them, by locks on Redis or
//! Valkey.
//!
//! Every instance has the same schedule, and calls [`Once::at_most`] or [`Once::at_least`] for each
//! *tick*. The tick is the time for which the run was scheduled, to the millisecond. It is not the
//! time at which it begins, so instances agree on it although their clocks differ.
//!
//! # What each may do at worst
//!
//! | Call | A tick that some instance handles | At worst |
//! |------|-----------------------------------|----------|
//! | [`at_most`](Once::at_most) | is claimed before the work, and the claim is kept | **a crash loses the run**: nobody runs the tick again |
//! | [`at_least`](Once::at_least) | is locked during the work, and marked as done after it | **it runs twice**, if an instance dies, stands still or is cut off between the end of the work and the mark |
//!
//! `at_least` needs an instance that lives: if the last one dies during the work, nobody is left to
//! run it again. Work of `at_least` should do no harm the second time. A later run of a job has a
//! higher [`FencingToken`].
//!
//! Both are as good as Redis. If it loses its data, in a failover or a restart, it loses claims and
//! marks, and the tick may run again. Work that must *never* run twice needs a row with the tick as
//! its key in the database that it changes.
//!
//! # What clock skew does
//!
//! - An instance whose clock is ahead handles a tick before the others, so the run is early by the
//!   skew.
//! - `at_most` runs a tick only while the instance's clock is within a quarter of
//!   [`with_keep`](Once::with_keep) of it. So no claim that counts has expired, as long as two
//!   clocks differ by less than *half* of it: 30 min by default. With a greater difference, a tick
//!   may run twice. A process that was paused, and a tick that was delivered late, are
//!   [`Ran::Missed`].
//! - `at_least` never misses a tick. An instance that handles a tick when its mark has expired runs
//!   it again: after [`with_keep`](Once::with_keep), counted from the end of the run.
//!
//! # Long runs
//!
//! Runs of one job under `at_least` exclude each other: while one takes longer than the period,
//! later ticks wait. Under `at_most` they do not: take a lock in the work, if they must.
//!
//! # Examples
//!
//! ```
//! use std::time::{Duration, SystemTime};
//!
//! use leasehold::{Client, Error};
//! use leasehold_once::{Once, Ran};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Error> {
//! let client = Client::embedded(); // or Client::connect("redis://127.0.0.1:6379").await?
//! let invoices = Once::new(&client, "invoices");
//!
//! # let scheduler_says = || SystemTime::now();
//! let tick: SystemTime = scheduler_says(); // 03:00:00, in each instance
//! let ran = invoices.at_most(tick, async || println!("in one instance")).await?;
//! assert_eq!(ran, Ran::Here(()));
//! let again = invoices.at_most(tick, async || unreachable!()).await?;
//! assert_eq!(again, Ran::Elsewhere);
//! # Ok(())
//! # }
//! ```
//!
//! # Features
//!
//! | Feature | What it adds |
//! |---------|--------------|
#![cfg_attr(
    feature = "tokio-cron-scheduler",
    doc = "| `tokio-cron-scheduler` | [`job`]: a job that is given its tick |"
)]
#![cfg_attr(
    feature = "apalis",
    doc = "| `apalis` | [`OnceLayer`]: a layer for workers on `apalis-cron` |"
)]

#[cfg(feature = "apalis")]
mod apalis;
#[cfg(feature = "tokio-cron-scheduler")]
mod cron;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use leasehold::{Client, ConfigError, Error, FencingToken, Lease};
use tokio::time::sleep;

#[cfg(feature = "apalis")]
pub use apalis::{OnceLayer, OnceService};
#[cfg(feature = "tokio-cron-scheduler")]
pub use cron::job;

/// Between two tries while Redis is not available.
const PAUSE: Duration = Duration::from_millis(250);

/// A job whose ticks run once in a fleet. The [crate] says what that means.
///
/// A clone is the same job. Its lock is named `{job}@run`. Claims are locks named
/// `{job}@{milliseconds since 1970}:claimed` that nobody releases, and marks are strings with
/// `:done` in place of that.
#[derive(Clone, Debug)]
pub struct Once {
    client: Client,
    job: Arc<str>,
    keep: Duration,
    lease: Lease,
}

/// What became of a tick in this instance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a tick may have run elsewhere, or been missed"]
pub enum Ran<T> {
    /// It ran in this instance.
    Here(T),
    /// Another instance claimed it ([`Once::at_most`]) or has run it ([`Once::at_least`]), or an
    /// earlier call here.
    Elsewhere,
    /// It did not run here, because it is too far from this instance's clock. Only
    /// [`Once::at_most`] gives this.
    Missed,
}

impl Once {
    /// Makes a job. Does no I/O. Instances with the same name share its ticks.
    pub fn new(client: &Client, job: impl Into<Arc<str>>) -> Self {
        Once {
            client: client.clone(),
            job: job.into(),
            keep: Duration::from_secs(60 * 60),
            lease: Lease::Renewed,
        }
    }

    /// Sets how long Redis remembers a tick. Default: an hour.
    ///
    /// It must be longer than twice the difference of two clocks: see the [crate]. One small key is
    /// kept for each tick.
    ///
    /// # Errors
    ///
    /// [`ConfigError::OutOfRange`] below a second, and above a year.
    pub fn with_keep(mut self, keep: Duration) -> Result<Self, ConfigError> {
        self.keep = Lease::at_least(Duration::from_secs(1), "keep", keep)?;
        Ok(self)
    }

    /// Sets how long a tick stays locked after its instance died in [`at_least`](Once::at_least).
    /// Default: the client's lease, 30 s.
    #[must_use = "the job is moved into the returned value"]
    pub fn with_lease(mut self, lease: Duration) -> Self {
        self.lease = Lease::RenewedFor(lease);
        self
    }

    /// Runs `work` for this tick unless any instance has claimed the tick: at most once.
    ///
    /// The claim stays, however the work ends. During an outage of Redis the call tries again,
    /// until the tick is [missed](Ran::Missed).
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up, until the work begins: the claim is taken back. After that the
    /// work is dropped, and no other instance runs it.
    ///
    /// # Errors
    ///
    /// The errors of [`Lock::try_lock`](leasehold::Lock::try_lock) that no retry mends: Redis
    /// refuses the call, the client was shut down, or the name cannot be used. `work` did not
    /// start.
    pub async fn at_most<W: Future>(
        &self,
        tick: SystemTime,
        work: impl FnOnce() -> W,
    ) -> Result<Ran<W::Output>, Error> {
        let claim = self.client.lock(self.name(tick) + ":claimed");
        loop {
            if self.is_far_from(tick) {
                return Ok(Ran::Missed);
            }
            match claim.try_lock_now(Lease::Fixed(self.keep)).await {
                Ok(guard) => {
                    // Time may have passed since: only now it is certain that no earlier claim has
                    // expired.
                    if self.is_far_from(tick) {
                        return Ok(Ran::Missed);
                    }
                    guard.forget();
                    return Ok(Ran::Here(work().await));
                }
                Err(error) if error.is_busy() => return Ok(Ran::Elsewhere),
                Err(error) if error.is_retryable() => sleep(PAUSE).await,
                Err(error) => return Err(error),
            }
        }
    }

    /// Runs `work` for this tick unless any instance has finished it: at least once.
    ///
    /// It waits while another instance runs the tick, and runs it if that instance dies or its work
    /// fails. `work` is called again if the lock is lost, unless another instance finished the tick
    /// meanwhile. It gets a number that grows with each run of the job.
    ///
    /// # Redis cost
    ///
    /// In the instance that runs it: that of a fenced lock, and 2 round trips. In the others: that
    /// of a fenced lock, and 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe, with clean-up. `work` is dropped, and another instance that waits runs it.
    ///
    /// # Errors
    ///
    /// - Those of `work`. The tick is not done then: the next instance that waits runs it.
    /// - Those of [`Lock::lock`](leasehold::Lock::lock): Redis refuses a call for good, the client
    ///   was shut down, or a name or the lease cannot be used. If only the mark was refused, the
    ///   work is done, but others may run it again.
    pub async fn at_least<T, E, W>(
        &self,
        tick: SystemTime,
        mut work: impl FnMut(FencingToken) -> W,
    ) -> Result<Ran<T>, E>
    where
        E: From<Error>,
        W: Future<Output = Result<T, E>>,
    {
        let mark = self.name(tick) + ":done";
        // One for all ticks: Redis keeps the counter of a fenced lock for ever.
        let lock = self.client.fenced_lock(format!("{}@run", self.job));
        loop {
            let guard = lock.acquire().lease(self.lease).await?;
            let run = async {
                if retried(|| self.client.kept(&mark)).await?.is_some() {
                    return Ok(Ran::Elsewhere);
                }
                let done = work(guard.token()).await?;
                // A former holder of the lock may have marked it.
                retried(|| self.client.keep(&mark, "done", self.keep)).await?;
                Ok(Ran::Here(done))
            };
            match guard.run(run).await {
                Ok(ran) => {
                    // A release that was not confirmed goes on in the background.
                    let _released: Result<(), Error> = guard.unlock().await;
                    return ran;
                }
                // The work was dropped, and another instance may run it now.
                Err(Error::Lost { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn name(&self, tick: SystemTime) -> String {
        let since = tick.duration_since(SystemTime::UNIX_EPOCH);
        format!("{}@{}", self.job, since.unwrap_or_default().as_millis())
    }

    /// Whether this instance's clock is so far from the tick that a claim of another one may have
    /// expired.
    #[expect(
        clippy::disallowed_methods,
        reason = "a schedule is one of the wall clock"
    )]
    fn is_far_from(&self, tick: SystemTime) -> bool {
        let now = SystemTime::now();
        let apart = now
            .duration_since(tick)
            .unwrap_or_else(|ahead| ahead.duration());
        apart > self.keep / 4
    }
}

/// The first answer that no retry can change.
async fn retried<T, A>(ask: impl Fn() -> A) -> Result<T, Error>
where
    A: Future<Output = Result<T, Error>>,
{
    loop {
        match ask().await {
            Err(error) if error.is_retryable() => sleep(PAUSE).await,
            answer => return answer,
        }
    }
}
