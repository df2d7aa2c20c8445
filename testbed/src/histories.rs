//! What all clients of a test sent and trusted, for the specification.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use leasehold::harness::Harness;
use leasehold_specification::trace::{Entry, Recorder, Said, Verdict, judge};
use tokio::time::Instant;

use crate::Gate;

/// Whole milliseconds are read twice.
pub const NOISE: u32 = 2;

/// The histories of the clients of one test.
#[derive(Clone, Debug)]
pub struct Histories {
    zero: Instant,
    next_client: Arc<AtomicU32>,
    next_server: Arc<AtomicUsize>,
    entries: Arc<Mutex<Vec<Entry>>>,
}

impl Default for Histories {
    fn default() -> Self {
        Histories {
            zero: Instant::now(),
            next_client: Arc::default(),
            next_server: Arc::new(AtomicUsize::new(1)),
            entries: Arc::default(),
        }
    }
}

impl Histories {
    /// Records one more client of a server.
    pub fn of_client(&self, server: usize) -> Arc<dyn Harness> {
        Arc::new(self.recorder(server))
    }

    /// Records one more client of a server, whose background task is behind a gate.
    pub fn of_gated_client(&self, server: usize, gate: &Gate) -> Arc<dyn Harness> {
        let gate = gate.clone();
        let recorder = self.recorder(server);
        Arc::new(recorder.wrapping(move |background| gate.wrap(background)))
    }

    fn recorder(&self, server: usize) -> Recorder {
        let server = numbered(server);
        let client = self.next_client.fetch_add(1, Relaxed);
        let entries = self.entries.clone();
        let write = move |entry| locked(&entries).push(entry);
        Recorder::new((client, server), self.zero.into_std(), write)
    }

    /// The number of a server beside the first.
    pub fn another_server(&self) -> usize {
        self.next_server.fetch_add(1, Relaxed)
    }

    /// At some moment since then, a server lost what it had of these keys, or its clock jumped.
    pub fn forgot(&self, since: Instant, server: usize, keys: impl IntoIterator<Item = String>) {
        let until = self.nanos(Instant::now());
        self.say(since, server, keys, &Said::Forgets { until });
    }

    /// At some moment since then, somebody else changed these keys.
    pub fn changed(&self, since: Instant, server: usize, keys: impl IntoIterator<Item = String>) {
        self.say(since, server, keys, &Said::Unmodelled);
    }

    /// The keys of a server that clients have asked for.
    pub fn keys(&self, server: usize) -> BTreeSet<String> {
        let server = numbered(server);
        let entries = locked(&self.entries);
        let of_server = entries.iter().filter(|entry| entry.server == server);
        of_server.map(|entry| entry.key.clone()).collect()
    }

    /// Takes all entries.
    pub fn take(&self) -> Vec<Entry> {
        std::mem::take(&mut locked(&self.entries))
    }

    /// What the specification says. `noise` is by how many milliseconds the clocks of servers and
    /// clients may differ within a lease.
    pub fn verdict(&self, noise: u32) -> Verdict {
        judge(self.take(), noise)
    }

    fn say(&self, at: Instant, server: usize, keys: impl IntoIterator<Item = String>, said: &Said) {
        let (at, server) = (self.nanos(at), numbered(server));
        let entry = |key| Entry {
            at,
            client: u32::MAX,
            server,
            key,
            said: said.clone(),
        };
        locked(&self.entries).extend(keys.into_iter().map(entry));
    }

    fn nanos(&self, at: Instant) -> u64 {
        u64::try_from((at - self.zero).as_nanos()).expect("not for centuries")
    }
}

fn numbered(server: usize) -> u32 {
    u32::try_from(server).expect("few servers")
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
