//! What all clients of a world sent and trusted, for the specification.

use std::sync::Arc;

use leasehold::history::History;
use leasehold_specification::trace::{Entry, Reader, Said, Verdict, judge};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::plan::{Plan, in_ms, name_of};

/// Whole milliseconds are read twice.
pub(crate) const NOISE: u32 = 2;

#[derive(Clone)]
pub(crate) struct Histories {
    zero: Instant,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Histories {
    pub(crate) fn new() -> Self {
        Histories {
            zero: Instant::now(),
            entries: Arc::default(),
        }
    }

    /// The history of a client.
    pub(crate) fn of_client(&self, process: usize, engine: usize) -> History {
        let [client, server] = [process, engine].map(|number| u32::try_from(number).expect("few"));
        let reader = Mutex::new(Reader::new(client, server, self.zero.into_std()));
        let entries = self.entries.clone();
        History::new(move |event| {
            let read = reader.lock().read(event);
            entries.lock().extend(read);
        })
    }

    /// A server loses what it has of these names, or its clock jumps.
    pub(crate) fn forgets(&self, engine: usize, names: impl Iterator<Item = usize>) {
        let at = u64::try_from(self.zero.elapsed().as_nanos()).expect("not for centuries");
        let entry = |name| Entry {
            at,
            client: 0,
            server: u32::try_from(engine).expect("few"),
            key: name_of(name),
            said: Said::Forgets { until: at },
        };
        self.entries.lock().extend(names.map(entry));
    }

    /// Takes all entries.
    pub(crate) fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut self.entries.lock())
    }

    /// What the specification says.
    pub(crate) fn verdict(&self, plan: &Plan) -> Verdict {
        let drift = if plan.drifts { in_ms(plan.drift()) } else { 0 };
        let noise = u32::try_from(drift).expect("a part of a lease") + NOISE;
        judge(self.take(), noise)
    }
}

/// What the specification does not allow.
pub(crate) fn disallowed(verdict: &Verdict) -> Option<String> {
    let told = verdict
        .rejected
        .iter()
        .map(|rejected| format!("not allowed: {rejected}"));
    let told: String = told.collect();
    (!told.is_empty()).then_some(told)
}
