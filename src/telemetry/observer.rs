//! Reports acquisitions and holds to the recorder and subscriber that exist when they begin.
//!
//! Recorders, subscribers and the label function are foreign code (FOREIGN-1). So each call here
//! that may reach them asserts that no lock is held, even if nothing listens.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::oldest::Ongoing;
use super::subject::{AcquisitionSummary, Subject};
use super::{meters, recorder, spans};
use crate::error::Error;
use crate::harness::Hearing;
use crate::lease::{Ended, LossReason};
use crate::sync::{call_out, no_lock_is_held};

/// What a client reports.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "metrics")]
    pub(crate) name_label: meters::NameLabel,
    pub(crate) harness: Hearing,
}

/// One acquisition by a caller. `None` if nothing listened when it began. Boxed, because
/// acquisitions are moved often.
#[derive(Debug)]
pub(crate) struct Acquisition(Option<Box<ObservedAcquisition>>);

#[derive(Debug)]
struct ObservedAcquisition {
    subject: Subject,
    started: Instant,
    calls: AtomicU32,
    wakes: AtomicU32,
    handed_over: AtomicBool,
    /// Set when the acquisition begins.
    begun: OnceLock<(spans::AcquireSpan, Ongoing)>,
    ended: AtomicBool,
}

/// One hold, from its grant to its end. Empty if nothing listened at its grant.
#[derive(Debug, Default)]
pub(crate) struct Holding(OnceLock<Box<ObservedHold>>);

#[derive(Debug)]
struct ObservedHold {
    subject: Subject,
    started: Instant,
    renewals: AtomicU32,
    span: spans::HoldSpan,
    ongoing: Ongoing,
    ended: AtomicBool,
    /// Set when the last guard goes, except if the field went to another waiter.
    leaving: OnceLock<(Instant, spans::ReleaseSpan)>,
}

impl Telemetry {
    /// `None` if nothing listens. In that case nothing is stored, and no clock is read.
    #[cfg_attr(
        not(feature = "metrics"),
        expect(clippy::unused_self, reason = "it is this client's label")
    )]
    fn subject(&self, kind: &'static str, name: &Arc<str>) -> Option<Subject> {
        no_lock_is_held();
        (spans::is_listened() || recorder::is_listened()).then(|| Subject {
            kind,
            name: name.clone(),
            #[cfg(feature = "metrics")]
            label: self.name_label.of(name),
        })
    }

    pub(crate) fn acquisition(&self, kind: &'static str, name: &Arc<str>) -> Acquisition {
        let observed = |subject| ObservedAcquisition {
            subject,
            started: Instant::now(),
            calls: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            handed_over: AtomicBool::new(false),
            begun: OnceLock::new(),
            ended: AtomicBool::new(false),
        };
        Acquisition(self.subject(kind, name).map(observed).map(Box::new))
    }

    /// Another server now serves some of the keys.
    #[expect(clippy::unused_self, reason = "it is this client that noticed")]
    pub(crate) fn failed_over(&self) {
        call_out(|| {
            meters::failed_over();
            spans::failed_over();
        });
    }

    /// A release is no longer retried.
    pub(crate) fn gave_up(&self, kind: &'static str, name: &Arc<str>) {
        if let Some(subject) = self.subject(kind, name) {
            call_out(|| spans::gave_up(&subject));
        }
    }
}

impl Acquisition {
    pub(crate) fn begins(&self) {
        self.report(|observed| {
            meters::waiting(&observed.subject, 1.0);
            let ongoing = Ongoing::wait(&observed.subject);
            // Not `get_or_init`, which takes a lock.
            observed
                .begun
                .set((spans::AcquireSpan::begin(&observed.subject), ongoing))
                .ok();
        });
    }

    /// Events emitted while this is polled belong to the acquisition.
    pub(crate) fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        let begun = self.0.as_ref().and_then(|observed| observed.begun.get());
        spans::around(begun.map(|(span, _)| span), work)
    }

    pub(crate) fn asks(&self) {
        if let Some(observed) = &self.0 {
            observed.calls.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn on_woken(&self) {
        if let Some(observed) = &self.0 {
            observed.wakes.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn on_handed_over(&self) {
        if let Some(observed) = &self.0 {
            observed.handed_over.store(true, Relaxed);
        }
    }

    pub(crate) fn ends(&self, error: Option<&Error>) {
        self.report(|observed| {
            observed.ends(error.map_or("acquired", Error::label));
            if error.is_some_and(Error::is_of_the_servers) {
                meters::failed();
            }
        });
    }

    /// The caller did not want to wait. To find the lock held is no surprise to such a caller, so
    /// this is not a time-out.
    pub(crate) fn ends_busy(&self) {
        self.report(|observed| observed.ends("busy"));
    }

    fn report(&self, what: impl FnOnce(&ObservedAcquisition)) {
        no_lock_is_held();
        if let Some(observed) = &self.0 {
            call_out(|| what(observed));
        }
    }
}

impl Drop for Acquisition {
    /// The caller may have dropped its future.
    fn drop(&mut self) {
        self.report(|observed| observed.ends("dropped"));
        let observed = self.0.take();
        call_out(|| drop(observed));
    }
}

impl ObservedAcquisition {
    fn ends(&self, outcome: &'static str) {
        let Some((span, ongoing)) = self.begun.get() else {
            return;
        };
        if self.ended.swap(true, Relaxed) {
            return;
        }
        ongoing.end();
        let summary = AcquisitionSummary {
            outcome,
            wait: self.started.elapsed(),
            calls: self.calls.load(Relaxed),
            wakes: self.wakes.load(Relaxed),
            handed_over: self.handed_over.load(Relaxed),
        };
        meters::waiting(&self.subject, -1.0);
        meters::acquired(&self.subject, &summary);
        span.end(&summary);
    }
}

impl Holding {
    /// Called once, without a lock held.
    pub(crate) fn begins(&self, telemetry: &Telemetry, kind: &'static str, name: &Arc<str>) {
        let Some(subject) = telemetry.subject(kind, name) else {
            return;
        };
        call_out(|| {
            meters::held(&subject, 1.0);
            let observed = ObservedHold {
                span: spans::HoldSpan::begin(&subject),
                ongoing: Ongoing::hold(&subject),
                subject,
                started: Instant::now(),
                renewals: AtomicU32::new(0),
                ended: AtomicBool::new(false),
                leaving: OnceLock::new(),
            };
            self.0.set(Box::new(observed)).ok();
        });
    }

    /// `lag` is how much later the renewal was than a third of the lease.
    pub(crate) fn on_renewed(&self, lag: Duration) {
        self.report(|observed| {
            observed.renewals.fetch_add(1, Relaxed);
            meters::renewed(&observed.subject, lag);
        });
    }

    pub(crate) fn on_uncertain(&self) {
        self.report(|observed| observed.span.uncertain(&observed.subject));
    }

    pub(crate) fn on_certain(&self) {
        self.report(|observed| observed.span.certain(&observed.subject));
    }

    /// The release found nothing, or the hold ends without one.
    pub(crate) fn on_lost(&self, reason: &LossReason) {
        self.report(|observed| observed.on_lost(reason));
    }

    /// The hold ends for its guards. Its release may follow.
    pub(crate) fn ends(&self, end: Ended) {
        self.report(|observed| observed.ends(end));
    }

    /// The field goes to the next waiter of the client, so there is nothing to release.
    pub(crate) fn passes_on(&self) {
        self.report(|observed| observed.on_release_settled(None));
    }

    /// The release is settled.
    pub(crate) fn on_released(&self, error: Option<&Error>) {
        let outcome = error.map_or("released", Error::label);
        self.report(|observed| observed.on_release_settled(Some(outcome)));
    }

    fn report(&self, what: impl FnOnce(&ObservedHold)) {
        no_lock_is_held();
        if let Some(observed) = self.0.get() {
            call_out(|| what(observed));
        }
    }
}

impl Drop for Holding {
    /// The client may have ended before the hold.
    fn drop(&mut self) {
        self.report(ObservedHold::on_dropped);
        let observed = self.0.take();
        call_out(|| drop(observed));
    }
}

impl ObservedHold {
    fn on_lost(&self, reason: &LossReason) {
        meters::lost(&self.subject, reason.as_str());
        self.span.lost(&self.subject, reason.as_str());
    }

    fn ends(&self, end: Ended) {
        if self.ended.swap(true, Relaxed) {
            return;
        }
        let end = match end {
            Ended::Released => {
                self.leaving
                    .set((Instant::now(), self.span.release(&self.subject)))
                    .ok();
                "released"
            }
            Ended::Forgotten => "forgotten",
            Ended::Lost(reason) => {
                self.on_lost(&reason);
                reason.as_str()
            }
        };
        self.ongoing.end();
        meters::held(&self.subject, -1.0);
        meters::record_hold(&self.subject, self.started.elapsed(), end);
        self.span.end(self.renewals.load(Relaxed), end);
    }

    fn on_dropped(&self) {
        if !self.ended.swap(true, Relaxed) {
            meters::held(&self.subject, -1.0);
        }
    }

    fn on_release_settled(&self, outcome: Option<&'static str>) {
        // Two callers may report the release; the first one knows the outcome.
        let Some((since, span)) = self.leaving.get() else {
            return;
        };
        if span.end(outcome)
            && let Some(outcome) = outcome
        {
            meters::released(&self.subject, since.elapsed(), outcome);
        }
    }
}

/// The last handle of a client is gone, and this many releases are not confirmed. `keys` are some
/// of their keys.
pub(crate) fn left_behind(releases: u64, keys: &str) {
    call_out(|| spans::left_behind(releases, keys));
}

pub(crate) fn connection_lost(server: &dyn Display, reason: &dyn Display) {
    call_out(|| spans::connection_lost(server, reason));
}

pub(crate) fn reconnected(server: &dyn Display) {
    call_out(|| {
        meters::reconnected();
        spans::reconnected(server);
    });
}
