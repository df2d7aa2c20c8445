//! A worker: takes a lock, works while it holds the lock, and releases it, again and again.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use fastrand::Rng;
use futures::future::BoxFuture;
use leasehold::{Ended, Error, HoldState, Lease, LockGuard};
use nix::sys::signal::{Signal, raise};
use tokio::time::{Instant, sleep, timeout};

use crate::clock;
use crate::history::{Doing, What};
use crate::log::Log;
use crate::orders::{Orders, Span};
use crate::plan::{Plan, Times, WorkerKind};
use crate::resource::Resource;
use crate::workload::{Hold, Target};

/// Pause after an error that is not a timeout, because Redis may be unavailable.
const PAUSE: Duration = Duration::from_millis(20);

/// The locks of a new client. `None` if it cannot connect.
pub(crate) type Connects =
    Box<dyn FnMut() -> BoxFuture<'static, Option<Vec<Target>>> + Send + Sync>;

pub(crate) struct Worker {
    pub(crate) number: u32,
    pub(crate) kind: WorkerKind,
    pub(crate) targets: Vec<Target>,
    /// Set if it connects anew for each acquisition.
    pub(crate) newcomer: Option<Connects>,
    pub(crate) times: Times,
    pub(crate) think: Span,
    pub(crate) random: Rng,
    pub(crate) resource: Arc<Resource>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) log: Log,
    pub(crate) id: String,
}

impl Worker {
    /// Works until the `stop` order. Fails if the resource fails.
    pub(crate) async fn work(mut self) -> io::Result<()> {
        let mut count = 0_u64;
        while !self.orders.stop.load(SeqCst) {
            if let Some(connect) = &mut self.newcomer {
                let Some(targets) = connect().await else {
                    sleep(PAUSE).await;
                    continue;
                };
                self.targets = targets;
            }
            let target = self
                .kind
                .choose_target(&self.targets, &mut self.random)
                .clone();
            let plan = self.kind.plan(&target, &self.times, &mut self.random);
            self.record(&target, asked(&target, &plan));
            match timeout(plan.patience, target.take(plan.wait, plan.lease)).await {
                Err(_) => {
                    let error = "Dropped".to_owned();
                    self.record(
                        &target,
                        What::Refused {
                            error,
                            timeout: true,
                        },
                    );
                }
                Ok(Ok(hold)) => {
                    count += 1;
                    let work = format!("{}.{count}", self.id);
                    self.section(&target, hold, &work, plan).await?;
                }
                Ok(Err(error)) => self.refused(&target, &error).await,
            }
            sleep(self.think.pick(&mut self.random)).await;
        }
        Ok(())
    }

    async fn section(&self, target: &Target, hold: Hold, work: &str, plan: Plan) -> io::Result<()> {
        let token = hold.token();
        // Read the clock before the deadline. Otherwise, a deadline that passes in between would
        // make the grant look late.
        let (at, until) = (clock::monotonic(), until(hold.guard()));
        // The hold may have been lost already since it was granted.
        let is_held = hold.guard().state() == HoldState::Held;
        let until = Some(if is_held { until } else { at });
        self.log.write_as_of(
            at,
            self.number,
            &target.name,
            What::Granted {
                until,
                token,
                field: Some(hold.guard().owner().to_owned()),
            },
        );
        let leave = Instant::now() + plan.stay;
        let mut doing = plan.doing;
        loop {
            if self.is_held(target, hold.guard()) {
                if self.orders.is_to_freeze() {
                    raise(Signal::SIGSTOP)?;
                }
                let accepted = self.resource.write(&target.name, token, work).await?;
                self.record(target, What::Wrote { accepted });
            }
            if Instant::now() >= leave || self.orders.stop.load(SeqCst) {
                break;
            }
            match doing.take() {
                // Wait until half of the lease has passed.
                Some(Doing::Extended) if hold.guard().remaining() > self.times.lease / 2 => {
                    doing = plan.doing;
                }
                Some(what) => self.perform(target, &hold, what, leave).await,
                None => {}
            }
            tokio::select! {
                ended = hold.guard().ended() => {
                    let reason = match ended {
                        Ended::Lost(reason) => reason.as_str().to_owned(),
                        other => format!("{other:?}"),
                    };
                    self.record(target, What::Lost { reason });
                    break;
                }
                () = sleep(plan.step) => {}
            }
        }
        self.record(target, What::Releasing);
        let error = hold.release().await.err().as_ref().map(kind);
        self.record(target, What::Released { error });
        Ok(())
    }

    /// Does the planned extra with the hold.
    async fn perform(&self, target: &Target, hold: &Hold, what: Doing, leave: Instant) {
        let guard = hold.guard();
        let done = match what {
            Doing::Extended => guard.extend(self.times.lease).await,
            Doing::Reentered => match guard.reenter().await {
                Ok(inner) => inner.unlock().await,
                Err(error) => Err(error),
            },
            Doing::Paused | Doing::Renewed => Ok(()),
        };
        self.record(
            target,
            What::Did {
                what,
                error: done.err().as_ref().map(kind),
            },
        );
        // A careless caller: it does not check the guard, even if the lock is lost meanwhile.
        while what == Doing::Paused && Instant::now() < leave && !self.orders.stop.load(SeqCst) {
            sleep(PAUSE).await;
        }
    }

    /// Checks the guard, and records whether the lock is held.
    fn is_held(&self, target: &Target, guard: &LockGuard) -> bool {
        let (before, until, state) = (clock::monotonic(), until(guard), guard.state());
        let is_held = state == HoldState::Held;
        // The thread may stand still between reading the clock and looking at the guard. What is
        // held now was held at the earlier time. What is lost may have been lost in between, so the
        // clock is read again.
        let (at, what) = if is_held {
            (before, What::Held { until: Some(until) })
        } else {
            (clock::monotonic(), What::Doubted)
        };
        self.log.write_as_of(at, self.number, &target.name, what);
        is_held
    }

    async fn refused(&self, target: &Target, error: &Error) {
        let timeout = error.is_timeout();
        self.record(
            target,
            What::Refused {
                error: kind(error),
                timeout,
            },
        );
        let lost_its_number = matches!(error, Error::NoPermits { .. });
        let prepared = lost_its_number && target.prepare().await.is_ok();
        if !timeout && !prepared {
            sleep(PAUSE).await;
        }
    }

    fn record(&self, target: &Target, what: What) {
        self.log.write(self.number, &target.name, what);
    }
}

/// The guard's deadline on the clock of the history, even if it has passed. The result is never
/// later than the real deadline, because the clock is read first.
fn until(guard: &LockGuard) -> u64 {
    let (now, instant, deadline) = (clock::monotonic(), Instant::now(), guard.deadline());
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 2);
    let left = nanos(deadline.saturating_duration_since(instant));
    let passed = nanos(instant.saturating_duration_since(deadline));
    (now + left).saturating_sub(passed)
}

fn asked(target: &Target, plan: &Plan) -> What {
    let millis = |lease: Duration| u64::try_from(lease.as_millis()).ok();
    let (fixed_ms, renewed_ms) = match plan.lease {
        Lease::Fixed(lease) => (millis(lease), None),
        Lease::RenewedFor(lease) => (None, millis(lease)),
        _ => (None, None),
    };
    What::Asked {
        mode: target.mode(),
        fixed_ms,
        renewed_ms,
    }
}

/// The variant of the error: the first word of its `Debug` output.
pub(crate) fn kind(error: &Error) -> String {
    let text = format!("{error:?}");
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    text[..end].to_owned()
}
