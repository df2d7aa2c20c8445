//! Locks and releases one name, by one client or by both at the same time.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use leasehold::{Client, Error, Lease, Lock, LockGuard, SemaphorePermit};
use tokio::sync::Notify;

/// How long one attempt to lock a name may take.
const WAIT: Duration = Duration::from_secs(10);
/// Pause before a failed call is retried.
const PAUSE: Duration = Duration::from_millis(20);
/// One of this many names is locked by both clients at the same time.
const CONTENDED: u64 = 10;
/// One of this many guards is dropped instead of unlocked.
const DROPPED: u64 = 5;
/// At most this many errors are kept.
const REFUSED_MAX: usize = 20;

#[derive(Clone, Copy, Debug)]
enum Kind {
    Plain,
    Fair,
    ReadWrite,
    Fenced,
    Semaphore,
    String,
    Several,
}

const KINDS: [(Kind, &str); 7] = [
    (Kind::Plain, "plain"),
    (Kind::Fair, "fair"),
    (Kind::ReadWrite, "read_write"),
    (Kind::Fenced, FENCED),
    (Kind::Semaphore, SEMAPHORE),
    (Kind::String, "string"),
    (Kind::Several, "several"),
];

/// Each fenced lock leaves a token counter in Redis.
pub(super) const FENCED: &str = "fenced";

/// Each semaphore leaves its number of permits in Redis.
pub(super) const SEMAPHORE: &str = "semaphore";

/// Counters that all tasks share.
#[derive(Debug, Default)]
pub(super) struct Tally {
    /// Names that were locked and released.
    pub(super) names: AtomicU64,
    pub(super) contended: AtomicU64,
    pub(super) dropped: AtomicU64,
    pub(super) by_kind: Mutex<BTreeMap<String, u64>>,
    pub(super) retried: Mutex<BTreeMap<String, u64>>,
    pub(super) refused: Mutex<Vec<String>>,
}

pub(super) struct Visitor {
    pub(super) clients: [Client; 2],
    pub(super) tally: Tally,
    seed: u64,
}

/// One client that locks and releases one name.
struct Visit<'a> {
    visitor: &'a Visitor,
    client: &'a Client,
    kind: Kind,
    name: &'a str,
    /// Whether to take the read side of a read/write lock.
    reads: bool,
    drops: bool,
}

enum Held {
    Lock(LockGuard),
    Permit(SemaphorePermit),
}

/// A call failed with an error that cannot be retried.
struct Refused;

impl Visitor {
    pub(super) fn new(clients: [Client; 2], seed: u64) -> Self {
        Visitor {
            clients,
            tally: Tally::default(),
            seed,
        }
    }

    pub(super) async fn visit(&self, number: u64) {
        let mut random = fastrand::Rng::with_seed(self.seed.wrapping_add(number));
        let (kind, kind_name) = kind_of(number);
        let name = format!("names:{}:{number}", self.seed);
        let mut clients = self.clients.each_ref();
        random.shuffle(&mut clients);
        let [first, second] = clients.map(|client| Visit {
            visitor: self,
            client,
            kind,
            name: &name,
            reads: random.bool(),
            drops: random.u64(..DROPPED) == 0,
        });
        let done = if number.is_multiple_of(CONTENDED) {
            self.tally.contended.fetch_add(1, Relaxed);
            Box::pin(contend(first, second, &mut random)).await
        } else {
            first.pass_through().await
        };
        if done.is_ok() {
            self.tally.names.fetch_add(1, Relaxed);
            *self
                .tally
                .by_kind
                .lock()
                .expect("no panic")
                .entry(kind_name.into())
                .or_default() += 1;
        }
    }
}

fn kind_of(number: u64) -> (Kind, &'static str) {
    KINDS[usize::try_from(number % 7).expect("one of seven")]
}

/// Whether the key holds the number of permits of a semaphore.
pub(super) fn is_semaphore(key: &str) -> bool {
    let number = key
        .strip_prefix("names:")
        .and_then(|rest| rest.split_once(':')?.1.parse().ok());
    number.is_some_and(|number| kind_of(number).1 == SEMAPHORE)
}

/// The first client holds the lock until an attempt of the second one has failed, and for a moment
/// more while the second one waits. In half of the cases, the failed attempt has waited too.
async fn contend(
    first: Visit<'_>,
    second: Visit<'_>,
    random: &mut fastrand::Rng,
) -> Result<(), Refused> {
    let first = Visit {
        reads: false,
        ..first
    };
    let stay = Duration::from_millis(random.u64(2..=12));
    let impatient = Duration::from_millis(random.u64(1..=3));
    let patience = if random.bool() {
        impatient
    } else {
        Duration::ZERO
    };
    let held = first.acquire().await?;
    let tried = Notify::new();
    let stay = async {
        tried.notified().await;
        tokio::time::sleep(stay).await;
        first.release(held).await
    };
    let (first, second) = tokio::join!(stay, second.try_and_wait(patience, &tried));
    first.and(second)
}

impl Visit<'_> {
    async fn pass_through(&self) -> Result<(), Refused> {
        let held = self.acquire().await?;
        self.release(held).await
    }

    /// Notifies after the first attempt, which waits for at most `patience`.
    async fn try_and_wait(&self, patience: Duration, tried: &Notify) -> Result<(), Refused> {
        let first = self.take(patience).await;
        tried.notify_one();
        let held = match first {
            Ok(held) => held,
            Err(error) => {
                self.count_and_pause(&error).await?;
                self.acquire().await?
            }
        };
        self.release(held).await
    }

    /// Retries until the lock is held.
    async fn acquire(&self) -> Result<Held, Refused> {
        loop {
            match self.take(WAIT).await {
                Ok(held) => return Ok(held),
                Err(error) => self.count_and_pause(&error).await?,
            }
        }
    }

    /// Releases the hold, or drops it. If a release fails, the lock is taken and released again,
    /// because the outcome of the first release may be unknown.
    async fn release(&self, mut held: Held) -> Result<(), Refused> {
        loop {
            if let Err(error) = held.check() {
                self.count_and_pause(&error).await?;
            }
            if self.drops {
                self.visitor.tally.dropped.fetch_add(1, Relaxed);
                drop(held);
                return Ok(());
            }
            match held.release().await {
                Ok(()) => return Ok(()),
                Err(error) => self.count_and_pause(&error).await?,
            }
            held = self.acquire().await?;
        }
    }

    async fn take(&self, wait: Duration) -> Result<Held, Error> {
        let Some(lock) = self.lock() else {
            let semaphore = self.client.semaphore(self.name);
            semaphore.try_set_permits(1).await?;
            return Ok(Held::Permit(semaphore.try_acquire(1, wait).await?));
        };
        Ok(Held::Lock(lock.try_lock(wait, Lease::Renewed).await?))
    }

    /// The lock, or `None` for a semaphore.
    fn lock(&self) -> Option<Lock> {
        let (client, name) = (self.client, self.name);
        Some(match self.kind {
            Kind::Plain => client.lock(name),
            Kind::Fair => client.fair_lock(name),
            Kind::ReadWrite if self.reads => client.read_write_lock(name).read().clone(),
            Kind::ReadWrite => client.read_write_lock(name).write().clone(),
            Kind::Fenced => client.fenced_lock(name).into(),
            Kind::Semaphore => return None,
            Kind::String => client.string_lock(name),
            Kind::Several => Lock::multi(
                ["a", "b", "c"]
                    .map(|part| format!("{name}:{part}"))
                    .map(|name| client.lock(name)),
            ),
        })
    }

    /// Counts the error. Pauses if the call may be retried, and fails otherwise. After a loss
    /// everything is done again; the client counts it, too, and the verdict says whether there may
    /// be any.
    async fn count_and_pause(&self, error: &Error) -> Result<(), Refused> {
        let tally = &self.visitor.tally;
        if !error.is_retryable() && !matches!(error, Error::Lost { .. }) {
            let mut refused = tally.refused.lock().expect("no panic");
            if refused.len() < REFUSED_MAX {
                refused.push(error.to_string());
            }
            return Err(Refused);
        }
        let debug = format!("{error:?}");
        let kind = debug.split_once(' ').map_or(&*debug, |(kind, _)| kind);
        *tally
            .retried
            .lock()
            .expect("no panic")
            .entry(kind.to_owned())
            .or_default() += 1;
        if !error.is_timeout() {
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }
}

impl Held {
    fn check(&self) -> Result<(), Error> {
        match self {
            Held::Lock(guard) => guard.check(),
            Held::Permit(permit) => permit.guard().map_or(Ok(()), LockGuard::check),
        }
    }

    async fn release(self) -> Result<(), Error> {
        match self {
            Held::Lock(guard) => guard.unlock().await,
            Held::Permit(permit) => permit.release().await,
        }
    }
}
