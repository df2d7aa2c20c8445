//! An acquisition and a hold as they are told: to those who listen when they begin.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use tokio::time::Instant;

use super::subject::{Acquired, Subject};
use super::{meters, recorder, spans};
use crate::error::Error;
use crate::lease::{Ended, LossReason};

/// What a client tells of.
#[derive(Clone, Debug, Default)]
pub(crate) struct Telemetry {
    #[cfg(feature = "metrics")]
    pub(crate) name_label: meters::NameLabel,
}

/// One call of a caller for a lock; `None` if nobody listened when it began. As small as can be: it is moved about.
#[derive(Debug)]
pub(crate) struct Acquisition(Option<Box<ToldAcquisition>>);

#[derive(Debug)]
struct ToldAcquisition {
    subject: Subject,
    started: Instant,
    calls: AtomicU32,
    wakes: AtomicU32,
    handed_over: AtomicBool,
    /// Since it began.
    span: OnceLock<spans::Acquire>,
    ended: AtomicBool,
}

/// One hold, from its grant to its end; `None` if nobody listened at its grant.
#[derive(Debug)]
pub(crate) struct Holding(Option<Box<ToldHold>>);

#[derive(Debug)]
struct ToldHold {
    subject: Subject,
    started: Instant,
    renewals: AtomicU32,
    span: spans::Hold,
    ended: AtomicBool,
    /// Since its last guard went; not for one whose field went to another waiter.
    leaving: OnceLock<Option<(Instant, spans::Release)>>,
}

impl Telemetry {
    /// `None` if nobody listens: then nothing is kept, and no clock is read.
    #[cfg_attr(
        not(feature = "metrics"),
        expect(clippy::unused_self, reason = "it is this client's label")
    )]
    fn subject(&self, kind: &'static str, name: &Arc<str>) -> Option<Subject> {
        (spans::is_listened() || recorder::is_listened()).then(|| Subject {
            kind,
            #[cfg(feature = "tracing")]
            name: name.clone(),
            #[cfg(feature = "metrics")]
            label: self.name_label.of(name),
        })
    }

    pub(crate) fn acquisition(&self, kind: &'static str, name: &Arc<str>) -> Acquisition {
        let told = |subject| ToldAcquisition {
            subject,
            started: Instant::now(),
            calls: AtomicU32::new(0),
            wakes: AtomicU32::new(0),
            handed_over: AtomicBool::new(false),
            span: OnceLock::new(),
            ended: AtomicBool::new(false),
        };
        Acquisition(self.subject(kind, name).map(told).map(Box::new))
    }

    pub(crate) fn holding(&self, kind: &'static str, name: &Arc<str>) -> Holding {
        let told = |subject| {
            meters::held(&subject, 1.0);
            ToldHold {
                span: spans::Hold::begin(&subject),
                subject,
                started: Instant::now(),
                renewals: AtomicU32::new(0),
                ended: AtomicBool::new(false),
                leaving: OnceLock::new(),
            }
        };
        Holding(self.subject(kind, name).map(told).map(Box::new))
    }

    /// Another server serves some of the keys.
    #[expect(clippy::unused_self, reason = "it is this client that was told")]
    pub(crate) fn failed_over(&self) {
        meters::failed_over();
        spans::failed_over();
    }

    /// A release is not tried any more.
    pub(crate) fn gave_up(&self, kind: &'static str, name: &Arc<str>) {
        if let Some(subject) = self.subject(kind, name) {
            spans::gave_up(&subject);
        }
    }
}

impl Acquisition {
    pub(crate) fn begins(&self) {
        let Some(told) = &self.0 else { return };
        told.span.get_or_init(|| {
            meters::waiting(&told.subject, 1.0);
            spans::Acquire::begin(&told.subject)
        });
    }

    /// What is told while this is polled belongs to the acquisition.
    pub(crate) fn around<F: Future>(&self, work: F) -> impl Future<Output = F::Output> + use<F> {
        spans::around(self.0.as_ref().and_then(|told| told.span.get()), work)
    }

    pub(crate) fn asks(&self) {
        if let Some(told) = &self.0 {
            told.calls.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn is_woken(&self) {
        if let Some(told) = &self.0 {
            told.wakes.fetch_add(1, Relaxed);
        }
    }

    pub(crate) fn is_handed_over(&self) {
        if let Some(told) = &self.0 {
            told.handed_over.store(true, Relaxed);
        }
    }

    pub(crate) fn ends(&self, error: Option<&Error>) {
        if let Some(told) = &self.0 {
            told.ends(error.map_or("acquired", Error::label));
        }
    }
}

impl ToldAcquisition {
    fn ends(&self, outcome: &'static str) {
        let Some(span) = self.span.get().filter(|_| !self.ended.swap(true, Relaxed)) else {
            return;
        };
        let acquired = Acquired {
            outcome,
            wait: self.started.elapsed(),
            calls: self.calls.load(Relaxed),
            wakes: self.wakes.load(Relaxed),
            handed_over: self.handed_over.load(Relaxed),
        };
        meters::waiting(&self.subject, -1.0);
        meters::acquired(&self.subject, &acquired);
        span.end(&acquired);
    }
}

impl Drop for ToldAcquisition {
    /// The caller dropped its future.
    fn drop(&mut self) {
        self.ends("dropped");
    }
}

impl Holding {
    /// `lag`: how late that was against a third of the lease.
    pub(crate) fn is_renewed(&self, lag: Duration) {
        if let Some(told) = &self.0 {
            told.renewals.fetch_add(1, Relaxed);
            meters::renewed(&told.subject, lag);
        }
    }

    pub(crate) fn is_uncertain(&self) {
        if let Some(told) = &self.0 {
            told.span.uncertain(&told.subject);
        }
    }

    pub(crate) fn is_certain(&self) {
        if let Some(told) = &self.0 {
            told.span.certain(&told.subject);
        }
    }

    /// Its release found nothing, or it ends without one.
    pub(crate) fn is_lost(&self, reason: LossReason) {
        if let Some(told) = &self.0 {
            told.is_lost(reason);
        }
    }

    /// For its guards. Its release may follow.
    pub(crate) fn ends(&self, end: Ended) {
        if let Some(told) = &self.0 {
            told.ends(end);
        }
    }

    /// Its field goes to the next waiter of the client: there is nothing to release.
    pub(crate) fn passes_on(&self) {
        if let Some(told) = &self.0 {
            told.is_released_as(None);
        }
    }

    /// The release is settled.
    pub(crate) fn is_released(&self, error: Option<&Error>) {
        if let Some(told) = &self.0 {
            told.is_released_as(Some(error.map_or("released", Error::label)));
        }
    }
}

impl ToldHold {
    fn is_lost(&self, reason: LossReason) {
        meters::lost(&self.subject, reason.as_str());
        self.span.lost(&self.subject, reason.as_str());
    }

    fn ends(&self, end: Ended) {
        if self.ended.swap(true, Relaxed) {
            return;
        }
        let end = match end {
            Ended::Released => {
                let begin = || Some((Instant::now(), self.span.release(&self.subject)));
                self.leaving.get_or_init(begin);
                "released"
            }
            Ended::HandedOn => "handed_on",
            Ended::Lost(reason) => {
                self.is_lost(reason);
                reason.as_str()
            }
        };
        meters::held(&self.subject, -1.0);
        meters::was_held(&self.subject, self.started.elapsed(), end);
        self.span.end(self.renewals.load(Relaxed), end);
    }

    fn is_released_as(&self, outcome: Option<&'static str>) {
        // Of two that say so, the first one knows.
        let Some(Some((since, span))) = self.leaving.get() else { return };
        if span.end(outcome)
            && let Some(outcome) = outcome
        {
            meters::released(&self.subject, since.elapsed(), outcome);
        }
    }
}

impl Drop for ToldHold {
    /// The client ended, and nobody saw the end of the hold.
    fn drop(&mut self) {
        if !*self.ended.get_mut() {
            meters::held(&self.subject, -1.0);
        }
    }
}

pub(crate) fn connection_lost(server: &dyn Display, reason: &dyn Display) {
    spans::connection_lost(server, reason);
}

pub(crate) fn reconnected(server: &dyn Display) {
    meters::reconnected();
    spans::reconnected(server);
}
