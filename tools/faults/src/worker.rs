//! One of those who contend: takes a lock, works under it, lets go, over and over.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use fastrand::Rng;
use leasehold::{Ended, Error, HoldState, Lease, LockGuard};
use nix::sys::signal::{Signal, raise};
use tokio::time::{Instant, sleep, timeout};

use crate::clock;
use crate::habit::{Habit, Plan, Times};
use crate::history::{Doing, What};
use crate::log::Log;
use crate::orders::{Orders, Span};
use crate::resource::Resource;
use crate::workload::{Hold, Place};

/// After an error that says that Redis is away.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) struct Worker {
    pub(crate) number: u32,
    pub(crate) habit: Habit,
    pub(crate) places: Vec<Place>,
    pub(crate) times: Times,
    pub(crate) think: Span,
    pub(crate) random: Rng,
    pub(crate) resource: Arc<Resource>,
    pub(crate) orders: Arc<Orders>,
    pub(crate) log: Log,
    pub(crate) who: String,
}

impl Worker {
    /// Until it is told to stop.
    pub(crate) async fn work(mut self) -> io::Result<()> {
        let mut count = 0_u64;
        while !self.orders.stop.load(SeqCst) {
            let place = self.habit.place(&self.places, &mut self.random).clone();
            let plan = self.habit.plan(&place, &self.times, &mut self.random);
            self.note(&place, asked(&place, &plan));
            match timeout(plan.patience, place.take(plan.wait, plan.lease)).await {
                Err(_) => {
                    let error = "Dropped".to_owned();
                    self.note(
                        &place,
                        What::Refused {
                            error,
                            timeout: true,
                        },
                    );
                }
                Ok(Ok(hold)) => {
                    count += 1;
                    let work = format!("{}.{count}", self.who);
                    self.section(&place, hold, &work, plan).await?;
                }
                Ok(Err(error)) => self.refused(&place, &error).await,
            }
            sleep(self.think.pick(&mut self.random)).await;
        }
        Ok(())
    }

    async fn section(&self, place: &Place, hold: Hold, work: &str, plan: Plan) -> io::Result<()> {
        let token = hold.token();
        // The clock is read first: the deadline is not later than it is written down.
        let (at, until) = (clock::monotonic(), until(hold.guard()));
        // If not, it was lost on its way here.
        let is_held = hold.guard().state() == HoldState::Held;
        let until = Some(if is_held { until } else { at });
        self.log
            .write_as_of(at, self.number, &place.name, What::Granted { until, token });
        let leave = Instant::now() + plan.stay;
        let mut doing = plan.doing;
        loop {
            if self.is_held(place, hold.guard()) {
                if self.orders.is_to_freeze() {
                    raise(Signal::SIGSTOP)?;
                }
                let accepted = self.resource.write(&place.name, token, work).await?;
                self.note(place, What::Wrote { accepted });
            }
            if Instant::now() >= leave || self.orders.stop.load(SeqCst) {
                break;
            }
            match doing.take() {
                // In the middle of its lease.
                Some(Doing::Extended) if hold.guard().remaining() > self.times.lease / 2 => {
                    doing = plan.doing;
                }
                Some(what) => self.does(place, &hold, what, leave).await,
                None => {}
            }
            tokio::select! {
                ended = hold.guard().ended() => {
                    let reason = match ended {
                        Ended::Lost(reason) => reason.as_str().to_owned(),
                        other => format!("{other:?}"),
                    };
                    self.note(place, What::Lost { reason });
                    break;
                }
                () = sleep(plan.step) => {}
            }
        }
        self.note(place, What::Releasing);
        let error = hold.release().await.err().as_ref().map(kind);
        self.note(place, What::Released { error });
        Ok(())
    }

    /// Something else than to look and to write.
    async fn does(&self, place: &Place, hold: &Hold, what: Doing, leave: Instant) {
        let guard = hold.guard();
        let done = match what {
            Doing::Extended => guard.extend(self.times.lease).await,
            Doing::Reentered => match guard.reenter().await {
                Ok(inner) => inner.unlock().await,
                Err(error) => Err(error),
            },
            Doing::Paused | Doing::Renewed => Ok(()),
        };
        self.note(
            place,
            What::Did {
                what,
                error: done.err().as_ref().map(kind),
            },
        );
        // Careless: it looks at nothing, also if the lock is lost meanwhile.
        while what == Doing::Paused && Instant::now() < leave && !self.orders.stop.load(SeqCst) {
            sleep(PAUSE).await;
        }
    }

    /// Looks at the guard, and writes down what it says.
    fn is_held(&self, place: &Place, guard: &LockGuard) -> bool {
        let (at, until, state) = (clock::monotonic(), until(guard), guard.state());
        let is_held = state == HoldState::Held;
        let what = if is_held {
            What::Held { until: Some(until) }
        } else {
            What::Doubted
        };
        self.log.write_as_of(at, self.number, &place.name, what);
        is_held
    }

    async fn refused(&self, place: &Place, error: &Error) {
        let timeout = error.is_timeout();
        self.note(
            place,
            What::Refused {
                error: kind(error),
                timeout,
            },
        );
        // Perhaps there are no permits any more.
        let prepared = if timeout {
            place.prepare().await
        } else {
            Ok(())
        };
        if !timeout || prepared.is_err() {
            sleep(PAUSE).await;
        }
    }

    fn note(&self, place: &Place, what: What) {
        self.log.write(self.number, &place.name, what);
    }
}

/// The deadline, on the clock of the history, also if it has passed. It is not later than it is.
fn until(guard: &LockGuard) -> u64 {
    let (now, instant, deadline) = (clock::monotonic(), Instant::now(), guard.deadline());
    let nanos = |span: Duration| u64::try_from(span.as_nanos()).unwrap_or(u64::MAX / 2);
    let left = nanos(deadline.saturating_duration_since(instant));
    let passed = nanos(instant.saturating_duration_since(deadline));
    (now + left).saturating_sub(passed)
}

fn asked(place: &Place, plan: &Plan) -> What {
    let millis = |lease: Duration| u64::try_from(lease.as_millis()).ok();
    let (fixed_ms, renewed_ms) = match plan.lease {
        Lease::Fixed(lease) => (millis(lease), None),
        Lease::RenewedFor(lease) => (None, millis(lease)),
        _ => (None, None),
    };
    What::Asked {
        mode: place.mode(),
        fixed_ms,
        renewed_ms,
    }
}

/// The name of its kind: the first word of what `Debug` says.
pub(crate) fn kind(error: &Error) -> String {
    let text = format!("{error:?}");
    let end = text
        .find(|c: char| !c.is_alphanumeric())
        .unwrap_or(text.len());
    text[..end].to_owned()
}
