//! Contenders for every kind of lock, from two clients, and which holds they trust.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use leasehold::{Client, Ended, Error, HoldState, Lease, LockGuard, Stats};
use leasehold_testbed::{KINDS, LIMIT, until_stats, within};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

const WAIT: Duration = Duration::from_secs(5);
const SECTION: Duration = Duration::from_millis(2);

/// Names of each kind.
pub(crate) const NAMES: usize = 3;

/// Two clients whose tasks take locks until they are stopped.
pub(crate) struct Contenders {
    pub(crate) clients: [Client; 2],
    shared: Arc<Shared>,
    tasks: Vec<JoinHandle<()>>,
}

/// Who may be inside besides the holder.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Admits {
    Nobody,
    Others,
}

#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    /// Acquisitions of each client and name.
    acquired: Mutex<HashMap<(usize, String), u64>>,
    /// The guards inside each section.
    inside: Mutex<HashMap<String, Vec<Arc<LockGuard>>>>,
    /// Holds whose guards were still trusted when another one was granted.
    doubles: Mutex<Vec<Arc<LockGuard>>>,
    /// Errors that no caller may see.
    faults: Mutex<Vec<String>>,
    errors: Mutex<Vec<String>>,
}

impl Contenders {
    /// Starts this many tasks of each client, over all kinds and names.
    pub(crate) fn start(clients: [Client; 2], each: usize) -> Self {
        let shared = Arc::<Shared>::default();
        let mut tasks = Vec::new();
        for (client, of) in clients.iter().zip(0..) {
            for number in 0..each {
                let kind = KINDS[number % KINDS.len()];
                let name = format!("{}:{}", kind.name, number / KINDS.len() % NAMES);
                let (lock, shared) = (kind.lock(client, &name), shared.clone());
                let admits = if kind.name.contains("read") {
                    Admits::Others
                } else {
                    Admits::Nobody
                };
                tasks.push(tokio::spawn(async move {
                    while !shared.stop.load(SeqCst) {
                        let taken = lock.try_lock(WAIT, Lease::Renewed).await;
                        shared.section((of, &name), taken, admits).await;
                    }
                }));
            }
        }
        Contenders {
            clients,
            shared,
            tasks,
        }
    }

    fn counts(&self) -> HashMap<(usize, String), u64> {
        self.shared.acquired.lock().expect("no panic").clone()
    }

    pub(crate) fn errors(&self) -> Vec<String> {
        self.shared.errors.lock().expect("no panic").clone()
    }

    /// The number of holds that were still trusted when another one was granted.
    pub(crate) fn doubles(&self) -> usize {
        self.shared.doubles.lock().expect("no panic").len()
    }

    /// Waits until each client has taken each of its names again. Returns how long that took.
    pub(crate) async fn all_win_again(&self) -> Duration {
        let (since, before) = (Instant::now(), self.counts());
        loop {
            let now = self.counts();
            let left: Vec<_> = before
                .iter()
                .filter(|(key, count)| now[*key] <= **count)
                .collect();
            if left.is_empty() {
                return since.elapsed();
            }
            assert!(since.elapsed() < LIMIT, "these do not win again: {left:?}");
            sleep(Duration::from_millis(5)).await;
        }
    }

    /// Stops everything. Asserts that every waiter ends, every double hold was reported, and
    /// nothing is held.
    pub(crate) async fn stop(self) -> [Client; 2] {
        self.shared.stop.store(true, SeqCst);
        for task in self.tasks {
            let ended = timeout(LIMIT, task)
                .await
                .expect("no waiter is left behind");
            ended.expect("no contender panics");
        }
        let faults = std::mem::take(&mut *self.shared.faults.lock().expect("no panic"));
        assert!(faults.is_empty(), "{faults:#?}");
        let doubles = std::mem::take(&mut *self.shared.doubles.lock().expect("no panic"));
        for hold in doubles {
            let ended = timeout(LIMIT, hold.ended()).await.expect("lost");
            assert_ne!(ended, Ended::Forgotten, "{hold:?}");
        }
        for client in &self.clients {
            let is_idle = |stats: &Stats| stats.holds + stats.waiting == 0;
            until_stats(client, LIMIT, "nothing is held", is_idle).await;
        }
        self.clients
    }
}

impl Shared {
    async fn section(
        &self,
        (client, name): (usize, &str),
        taken: Result<LockGuard, Error>,
        admits: Admits,
    ) {
        let guard = match taken {
            Ok(guard) => Arc::new(guard),
            Err(error) => return self.refused(name, &error),
        };
        *self
            .acquired
            .lock()
            .expect("no panic")
            .entry((client, name.to_owned()))
            .or_default() += 1;
        if admits == Admits::Nobody {
            let mut inside = self.inside.lock().expect("no panic");
            let others = inside.entry(name.to_owned()).or_default();
            let believed = others
                .iter()
                .filter(|other| other.state() == HoldState::Held);
            self.doubles
                .lock()
                .expect("no panic")
                .extend(believed.cloned());
            others.push(guard.clone());
        }
        // Another task may enter only after the section.
        sleep(SECTION).await;
        if admits == Admits::Nobody {
            let mut inside = self.inside.lock().expect("no panic");
            let others = inside.get_mut(name).expect("it is inside");
            others.retain(|other| !Arc::ptr_eq(other, &guard));
        }
        // Another task may be looking at the guard as a double hold.
        match Arc::try_unwrap(guard) {
            Ok(guard) => match guard.unlock().await {
                Ok(()) | Err(Error::Lost { .. }) => {}
                Err(error) => self.refused(name, &error),
            },
            Err(shared) => drop(shared),
        }
    }

    /// Accepts only errors that a caller must expect while servers fail. On a busy machine a wait
    /// may end before its turn; `all_win_again` sees whether there is one.
    fn refused(&self, name: &str, error: &Error) {
        if error.is_timeout() {
            return;
        }
        let text = format!("{name}: {error:?}");
        if !error.is_retryable() {
            self.faults.lock().expect("no panic").push(text.clone());
        }
        self.errors.lock().expect("no panic").push(text);
    }
}

/// Takes all names by one client and waits for them by another.
pub(crate) async fn held_and_waited_for(
    [holder, waiter]: [&Client; 2],
    names: &[String],
) -> (Vec<LockGuard>, Vec<JoinHandle<Result<(), Error>>>) {
    let mut held = Vec::new();
    for name in names {
        held.push(holder.lock(name).lock().await.expect("free"));
    }
    let waiting = names.iter().map(|name| {
        let lock = waiter.lock(name);
        tokio::spawn(async move { lock.lock().await.expect("released").unlock().await })
    });
    (held, waiting.collect())
}

/// Releases all names; every waiter gets its own.
pub(crate) async fn release_wakes_all(
    held: Vec<LockGuard>,
    waiting: Vec<JoinHandle<Result<(), Error>>>,
) {
    for guard in held {
        guard.unlock().await.expect("held");
    }
    for waiter in waiting {
        let woken = within(LIMIT, "woken", waiter).await;
        woken.expect("no panic").expect("held");
    }
}

/// Waiting for the end of a lease would exceed the limit.
pub(crate) const LONG: Duration = Duration::from_secs(60);
/// A lock whose release the promoted replica lacks is held there until its lease ends.
pub(crate) const BRIEF: Duration = Duration::from_secs(5);

pub(crate) async fn two_clients(url: &str, lease: Duration) -> [Client; 2] {
    let connect = || async {
        let builder = Client::builder(url).lease(lease);
        builder
            .connect_timeout(LIMIT)
            .connect()
            .await
            .expect("connects")
    };
    [connect().await, connect().await]
}

/// The size for CI, or the value of the variable.
pub(crate) fn size(variable: &str, default: usize) -> usize {
    std::env::var(variable)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or(default)
}
