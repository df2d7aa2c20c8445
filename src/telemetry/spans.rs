//! Spans and events, through the facade `tracing`. Fields follow OpenTelemetry's conventions where
//! these exist: `db.system.name`, `error.type`.

use std::fmt::Display;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use futures_util::future::Either;
use tracing::field::Empty;
use tracing::level_filters::LevelFilter;
use tracing::{Instrument as _, Span, debug_span, info, warn};

use super::subject::{AcquisitionSummary, Subject};

/// The target of all spans and events.
const TARGET: &str = "leasehold";

#[derive(Debug)]
pub(super) struct AcquireSpan(Span);

#[derive(Debug)]
pub(super) struct HoldSpan(Span);

#[derive(Debug)]
pub(super) struct ReleaseSpan {
    span: Span,
    ended: AtomicBool,
}

/// Whether there is a subscriber for anything.
pub(crate) fn is_listened() -> bool {
    LevelFilter::current() != LevelFilter::OFF
}

/// Seconds, as in all fields with durations.
fn seconds(span: Duration) -> f64 {
    span.as_secs_f64()
}

impl AcquireSpan {
    pub(super) fn begin(subject: &Subject) -> Self {
        AcquireSpan(debug_span!(
            target: TARGET,
            "leasehold.acquire",
            db.system.name = "redis",
            lock.name = &*subject.name,
            lock.kind = subject.kind,
            outcome = Empty,
            error.type = Empty,
            wait = Empty,
            calls = Empty,
            wakes = Empty,
            handed_over = Empty,
        ))
    }

    pub(super) fn end(&self, summary: &AcquisitionSummary) {
        let AcquisitionSummary {
            outcome,
            wait,
            calls,
            wakes,
            handed_over,
        } = *summary;
        let span = &self.0;
        span.record("outcome", outcome);
        if !matches!(outcome, "acquired" | "busy" | "dropped") {
            span.record("error.type", outcome);
        }
        span.record("wait", seconds(wait));
        span.record("calls", calls);
        span.record("wakes", wakes);
        span.record("handed_over", handed_over);
    }
}

/// Events emitted while the work is polled belong to the span.
pub(super) fn around<F: Future>(
    span: Option<&AcquireSpan>,
    work: F,
) -> impl Future<Output = F::Output> + use<F> {
    match span {
        // There is no span to enter and leave at each poll.
        None => Either::Left(work),
        Some(span) => Either::Right(Box::pin(work.instrument(span.0.clone()))),
    }
}

impl HoldSpan {
    /// A trace of its own, linked to the current span. A child span would keep the current span
    /// open.
    pub(super) fn begin(subject: &Subject) -> Self {
        let span = debug_span!(
            target: TARGET,
            parent: None,
            "leasehold.hold",
            db.system.name = "redis",
            lock.name = &*subject.name,
            lock.kind = subject.kind,
            end = Empty,
            renewals = Empty,
        );
        span.follows_from(Span::current());
        HoldSpan(span)
    }

    pub(super) fn end(&self, renewals: u32, end: &'static str) {
        self.0.record("end", end);
        self.0.record("renewals", renewals);
    }

    pub(super) fn release(&self, subject: &Subject) -> ReleaseSpan {
        let span = debug_span!(
            target: TARGET,
            parent: &self.0,
            "leasehold.release",
            db.system.name = "redis",
            lock.name = &*subject.name,
            lock.kind = subject.kind,
            outcome = Empty,
            error.type = Empty,
        );
        ReleaseSpan {
            span,
            ended: AtomicBool::new(false),
        }
    }

    pub(super) fn uncertain(&self, subject: &Subject) {
        let Subject { kind, name, .. } = subject;
        warn!(
            target: TARGET,
            parent: &self.0,
            { lock.name = &**name, lock.kind = kind },
            "a renewal failed: the hold is uncertain"
        );
    }

    pub(super) fn certain(&self, subject: &Subject) {
        let Subject { kind, name, .. } = subject;
        info!(
            target: TARGET,
            parent: &self.0,
            { lock.name = &**name, lock.kind = kind },
            "the hold is certain again"
        );
    }

    pub(super) fn lost(&self, subject: &Subject, reason: &'static str) {
        let Subject { kind, name, .. } = subject;
        warn!(
            target: TARGET,
            parent: &self.0,
            { lock.name = &**name, lock.kind = kind, reason },
            "the lock was lost"
        );
    }
}

impl ReleaseSpan {
    /// False if the span had already ended. No outcome means that there was nothing to release.
    pub(super) fn end(&self, outcome: Option<&'static str>) -> bool {
        if self.ended.swap(true, Relaxed) {
            return false;
        }
        let outcome = outcome.unwrap_or("handed_over");
        self.span.record("outcome", outcome);
        if !matches!(outcome, "released" | "handed_over") {
            self.span.record("error.type", outcome);
        }
        true
    }
}

pub(super) fn gave_up(subject: &Subject) {
    let Subject { kind, name, .. } = subject;
    warn!(target: TARGET, { lock.name = &**name, lock.kind = kind }, "a release was given up: the \
        lock is free when its lease ends");
}

pub(super) fn left_behind(releases: u64, keys: &str) {
    warn!(target: TARGET, { releases, keys }, "the client was dropped before Redis had confirmed \
        all releases: if the process ends now, some locks may stay until their leases end");
}

pub(super) fn failed_over() {
    warn!(target: TARGET, "another server serves some of the keys: holds there are uncertain until \
        it confirms them");
}

pub(super) fn connection_lost(server: &dyn Display, reason: &dyn Display) {
    warn!(target: TARGET, { server.address = %server, reason = %reason }, "a connection was lost");
}

pub(super) fn reconnected(server: &dyn Display) {
    info!(target: TARGET, { server.address = %server }, "a connection was made again");
}
