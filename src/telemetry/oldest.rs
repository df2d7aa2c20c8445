//! How long the oldest acquisition, hold and outage of this process have lasted, as gauges.
//!
//! A histogram gets a value only when something ends. A guard that is leaked never ends, and
//! neither does a wait behind it. So the background of each client sets these gauges about once a
//! second.
//!
//! They are kept for the whole process. If each client set them for itself, two clients with the
//! same labels would overwrite each other.
//!
//! # Locking
//!
//! `STARTED`, which is taken alone. The recorder is foreign code (FOREIGN-1), so it is called
//! without it.
//!
//! # Bounds
//!
//! One entry per acquisition, hold and outage under way. One series per combination of labels, as
//! at the exporter.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, LazyLock};

use metrics::{Label, SharedString, gauge};
use tokio::time::Instant;

use super::metric::{DISCONNECTED, OLDEST_HOLD, OLDEST_WAIT};
use super::subject::Subject;
use super::{meters, recorder};
use crate::sync::{Mutex, call_out};

/// When everything began that is under way, by series. An empty series stays, so that its gauge
/// goes back to zero.
static STARTED: LazyLock<Mutex<BTreeMap<Series, BTreeSet<Start>>>> = LazyLock::new(Mutex::default);

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The number tells things apart that began at the same instant.
type Start = (Instant, u64);

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Series {
    Wait(&'static str, Option<Arc<str>>),
    Hold(&'static str, Option<Arc<str>>),
    Outage(Arc<str>),
}

/// Something under way, until it is ended or dropped. It is empty if there was no recorder when it
/// began.
#[derive(Debug, Default)]
pub(super) struct Ongoing(Option<(Series, Start)>);

impl Ongoing {
    pub(super) fn wait(of: &Subject) -> Self {
        Ongoing::of(of, Series::Wait)
    }

    pub(super) fn hold(of: &Subject) -> Self {
        Ongoing::of(of, Series::Hold)
    }

    fn of(
        subject: &Subject,
        series: impl FnOnce(&'static str, Option<Arc<str>>) -> Series,
    ) -> Self {
        if !recorder::is_listened() {
            return Ongoing(None);
        }
        let (ongoing, is_new) = Ongoing::begin(series(subject.kind, subject.label.clone()));
        if is_new {
            meters::may_be_lost(subject);
        }
        ongoing
    }

    /// Also returns whether it is the first of its series.
    fn begin(series: Series) -> (Self, bool) {
        let start = (Instant::now(), NEXT.fetch_add(1, Relaxed));
        let mut started = STARTED.lock();
        let is_new = !started.contains_key(&series);
        started.entry(series.clone()).or_default().insert(start);
        (Ongoing(Some((series, start))), is_new)
    }

    pub(super) fn end(&self) {
        if let Some((series, start)) = &self.0
            && let Some(started) = STARTED.lock().get_mut(series)
        {
            started.remove(start);
        }
    }
}

impl Drop for Ongoing {
    fn drop(&mut self) {
        self.end();
    }
}

/// Sets the gauges on behalf of one client, until it is dropped.
#[derive(Debug)]
pub(crate) struct Gauges {
    server: Arc<str>,
    outage: Option<Ongoing>,
}

impl Gauges {
    pub(crate) fn new(server: impl FnOnce() -> String) -> Self {
        Gauges {
            server: server().into(),
            outage: None,
        }
    }

    /// Called about once a second.
    pub(crate) fn set(&mut self, is_connected: impl FnOnce() -> bool) {
        if !recorder::is_listened() {
            return;
        }
        if is_connected() {
            self.outage = None;
        } else if self.outage.is_none() {
            self.outage = Some(Ongoing::begin(Series::Outage(self.server.clone())).0);
        }
        set_all();
    }
}

impl Drop for Gauges {
    /// If this was the last client, nothing else would set the gauges back.
    fn drop(&mut self) {
        self.outage = None;
        if recorder::is_listened() {
            set_all();
        }
    }
}

fn set_all() {
    let all: Vec<_> = {
        let started = STARTED.lock();
        let oldest = |of: &BTreeSet<Start>| of.first().map(|(began, _)| *began);
        started
            .iter()
            .map(|(series, of)| (series.clone(), oldest(of)))
            .collect()
    };
    let now = Instant::now();
    for (series, oldest) in all {
        let age = oldest.map_or(0.0, |began| now.duration_since(began).as_secs_f64());
        call_out(|| series.set(age));
    }
}

impl Series {
    fn set(&self, age: f64) {
        let labels = |kind, name: &Option<_>| meters::labels_of(kind, name.as_ref(), None);
        match self {
            Series::Wait(kind, name) => gauge!(OLDEST_WAIT, labels(kind, name)).set(age),
            Series::Hold(kind, name) => gauge!(OLDEST_HOLD, labels(kind, name)).set(age),
            Series::Outage(server) => {
                let server = Label::new("server", SharedString::from(server.clone()));
                gauge!(DISCONNECTED, vec![server]).set(age);
            }
        }
    }
}
