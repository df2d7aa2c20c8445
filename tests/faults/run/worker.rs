//! One of those who contend: takes a lock, works under it, lets go, over and over.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering::SeqCst;
use std::time::Duration;

use fastrand::Rng;
use leasehold::{Ended, Error, HoldState, LockGuard};
use nix::sys::signal::{Signal, raise};
use tokio::time::{Instant, sleep};

use crate::client::{Orders, Span};
use crate::clock;
use crate::history::What;
use crate::log::Log;
use crate::resource::{Answer, Resource};
use crate::workload::{Hold, Place};

/// After an error that says that Redis is away.
const PAUSE: Duration = Duration::from_millis(20);

/// One hold of so many ends after one step: a client hands holds on to its own waiters only within some milliseconds.
const BRIEF_ONE_OF: u8 = 4;

pub(crate) struct Worker {
    pub(crate) number: u32,
    pub(crate) places: Vec<Place>,
    pub(crate) wait: Duration,
    pub(crate) hold: Span,
    pub(crate) think: Span,
    pub(crate) step: Duration,
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
            let place = self.random.choice(&self.places).expect("a place").clone();
            self.note(&place, What::Asked { mode: place.mode() });
            match place.take(self.wait).await {
                Ok(hold) => {
                    count += 1;
                    let work = format!("{}.{count}", self.who);
                    self.section(&place, hold, &work).await?;
                }
                Err(error) => self.refused(&place, &error).await,
            }
            sleep(self.think.pick(&mut self.random)).await;
        }
        Ok(())
    }

    async fn section(&mut self, place: &Place, hold: Hold, work: &str) -> io::Result<()> {
        let token = hold.token();
        // The clock is read first: the deadline is not later than it is written down.
        let (at, until) = (clock::monotonic(), until(hold.guard()));
        match hold.guard().state() {
            HoldState::Held => {
                self.log.write_as_of(
                    at,
                    self.number,
                    &place.name,
                    What::Granted { until: Some(until), token },
                );
            }
            // It was lost on its way here.
            _ => {
                self.log.write_as_of(
                    at,
                    self.number,
                    &place.name,
                    What::Granted { until: Some(at), token },
                );
            }
        }
        let is_brief = self.random.u8(0..BRIEF_ONE_OF) == 0;
        let stay = if is_brief { Duration::ZERO } else { self.hold.pick(&mut self.random) };
        let leave = Instant::now() + stay;
        let lost = loop {
            if self.is_held(place, hold.guard()) {
                if self.orders.is_to_freeze() {
                    raise(Signal::SIGSTOP)?;
                }
                let Answer { accepted, order } =
                    self.resource.write(&place.name, token, work).await?;
                self.note(place, What::Wrote { accepted, order });
            }
            if Instant::now() >= leave {
                break false;
            }
            tokio::select! {
                ended = hold.guard().ended() => {
                    let reason = match ended {
                        Ended::Lost(reason) => reason.as_str().to_owned(),
                        other => format!("{other:?}"),
                    };
                    self.note(place, What::Lost { reason });
                    break true;
                }
                () = sleep(self.step) => {}
            }
        };
        if !lost {
            self.is_held(place, hold.guard());
        }
        self.note(place, What::Releasing);
        let error = hold.release().await.err().as_ref().map(kind);
        self.note(place, What::Released { error });
        Ok(())
    }

    /// Looks at the guard, and writes down what it says.
    fn is_held(&self, place: &Place, guard: &LockGuard) -> bool {
        let (at, until, state) = (clock::monotonic(), until(guard), guard.state());
        let is_held = state == HoldState::Held;
        let what = if is_held { What::Held { until: Some(until) } } else { What::Doubted };
        self.log.write_as_of(at, self.number, &place.name, what);
        is_held
    }

    async fn refused(&self, place: &Place, error: &Error) {
        let timeout = error.is_timeout();
        self.note(place, What::Refused { error: kind(error), timeout });
        // Perhaps there are no permits any more.
        let prepared = if timeout { place.prepare().await } else { Ok(()) };
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

/// The name of its kind: the first word of what `Debug` says.
fn kind(error: &Error) -> String {
    let text = format!("{error:?}");
    let end = text.find(|c: char| !c.is_alphanumeric()).unwrap_or(text.len());
    text[..end].to_owned()
}
