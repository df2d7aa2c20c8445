//! Locks as they are printed: the columns of the tables, and the fields of the JSON.

use std::fmt;
use std::time::Duration;

use leasehold::inspect::Holder;
use leasehold::{Client, Error, Lock};
use leasehold_admin::{Admin, LockInfo, LockKind};
use serde::Serialize;

use crate::arguments::{EVERY, Kind};
use crate::name::Name;
use crate::output::{Tone, short};

/// The kinds of a string that this library did not write.
const NUMBER: &str = "number";
const STRING: &str = "string";
/// A claim of `leasehold-once`, which nobody holds or releases: `{job}@{milliseconds}:claimed`.
const CLAIM: &str = "claim";

/// A lock that is held, or an idle semaphore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Found {
    pub(crate) name: Name,
    pub(crate) kind: String,
    pub(crate) holders: Vec<FoundHolder>,
    /// The available permits of a semaphore.
    pub(crate) available: Option<i64>,
    /// The number of permits that was declared last.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) limit: Option<u32>,
    /// The count of a latch.
    pub(crate) count: Option<i64>,
    /// What is left of the longest lease. `None` if a lease never ends.
    pub(crate) lease_ms: Option<u64>,
    /// Waiters in the queue of a fair lock. Redis does not know the waiters of other kinds.
    pub(crate) waiters: Option<u64>,
    /// Clients that subscribed to the release of a lock of another kind, one for all its waiters.
    pub(crate) listening: Option<u64>,
    /// The key is a string that this library did not write: the lock of another program, or any
    /// other data. Or a number that nobody waits for, which may be a semaphore, a latch, or any
    /// other data.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub(crate) foreign: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct FoundHolder {
    pub(crate) owner: String,
    pub(crate) holds: u64,
    pub(crate) lease_ms: Option<u64>,
    /// The name of the holder's client, its purpose, and how long it has held the lock, as far as
    /// the client published them.
    pub(crate) name: Option<String>,
    pub(crate) purpose: Option<String>,
    pub(crate) held_for_ms: Option<u64>,
}

impl From<LockInfo> for Found {
    fn from(lock: LockInfo) -> Self {
        let is_fair = lock.kind == LockKind::Fair;
        let foreign = lock.kind == LockKind::Foreign;
        let name = Name::new(lock.key_bytes());
        let mut holders: Vec<_> = lock.holders.into_iter().map(FoundHolder::from).collect();
        let number = holders.first().filter(|_| foreign);
        let number = number.and_then(|holder| holder.owner.parse().ok());
        let kind = match number {
            Some(_) => NUMBER.to_owned(),
            None if foreign => STRING.to_owned(),
            None if lock.kind == LockKind::Lock && is_claim(&name) => CLAIM.to_owned(),
            None => lock.kind.to_string(),
        };
        if number.is_some() {
            holders.clear();
        }
        Found {
            name,
            kind,
            holders,
            available: lock.available,
            limit: lock.limit,
            count: lock.count.or(number),
            lease_ms: lock.lease.map(ms),
            waiters: is_fair.then_some(lock.queue),
            listening: lock.listening,
            foreign,
        }
    }
}

impl From<Holder> for FoundHolder {
    fn from(holder: Holder) -> Self {
        let Holder {
            owner,
            holds,
            lease,
            name,
            purpose,
            held_for,
            ..
        } = holder;
        let (lease_ms, held_for_ms) = (lease.map(ms), held_for.map(ms));
        FoundHolder {
            owner,
            holds,
            lease_ms,
            name,
            purpose,
            held_for_ms,
        }
    }
}

fn is_claim(name: &Name) -> bool {
    let tick = name.text().and_then(|name| name.strip_suffix(":claimed"));
    let time = tick.and_then(|tick| tick.rsplit_once('@'));
    time.is_some_and(|(_, time)| time.parse::<u64>().is_ok())
}

/// What was found, and how many claims were left out. Of all names they are left out, because a job
/// has one for each of its last ticks.
pub(crate) fn without_claims(
    found: impl IntoIterator<Item = LockInfo>,
    pattern: &str,
) -> (Vec<Found>, usize) {
    let (claims, others): (Vec<_>, Vec<_>) = found
        .into_iter()
        .map(Found::from)
        .partition(|found| pattern == EVERY && found.kind == CLAIM);
    (others, claims.len())
}

/// Finds the lock with this name, of any kind. `None` if it is free.
pub(crate) async fn look(client: &Client, name: &Name) -> Result<Option<Found>, Error> {
    let found = Admin::new(client).lock_at(name.bytes()).await?;
    Ok(found.map(Found::from))
}

impl Found {
    /// A semaphore, a latch, or any number. Deleting it by force would let in more than it allows.
    pub(crate) fn is_number(&self) -> bool {
        self.available.is_some() || self.count.is_some()
    }

    pub(crate) fn is_held(&self) -> bool {
        !self.is_idle() && (!self.holders.is_empty() || self.available.is_some())
    }

    /// A semaphore that nobody uses. Redisson does not say who holds permits, so it must have all
    /// of its declared number.
    pub(crate) fn is_idle(&self) -> bool {
        let is_awaited = self.listening.is_some_and(|clients| clients > 0);
        let (Some(available), Some(limit)) = (self.available, self.limit) else {
            return false;
        };
        self.holders.is_empty() && !is_awaited && available >= i64::from(limit)
    }

    /// The library's lock object with this name.
    pub(crate) fn lock(&self, client: &Client, name: &str) -> Lock {
        let kind = match self.kind.as_str() {
            "fair" => Kind::Fair,
            "fenced" => Kind::Fenced,
            "read" => Kind::Read,
            "write" => Kind::Write,
            "string" => Kind::String,
            _ => Kind::Lock,
        };
        lock(client, kind, name)
    }

    /// The first holder, and the number of further ones.
    pub(crate) fn holder(&self) -> String {
        match self.holders.as_slice() {
            [] => String::new(),
            [one] => one.to_string(),
            [first, others @ ..] => format!("{first} +{}", others.len()),
        }
    }

    pub(crate) fn holds(&self) -> u64 {
        self.holders.iter().map(|holder| holder.holds).sum()
    }

    /// The holds as a column: the held permits of all, or the count of a latch.
    pub(crate) fn holds_text(&self) -> String {
        let holds = self.holds();
        match (self.available, self.count) {
            // Redisson does not say who holds permits.
            (Some(available), _) if holds == 0 => match self.limit {
                Some(limit) => format!("{} free", part(available, limit)),
                None => format!("{available} free"),
            },
            (Some(available), _) => format!("{holds} of {}", total(holds, available)),
            (_, Some(count)) => format!("count {count}"),
            _ => holds.to_string(),
        }
    }

    /// The lease as a column.
    pub(crate) fn lease(&self) -> (String, Tone) {
        if self.is_number() && self.lease_ms.is_none() {
            return ("-".to_owned(), Tone::Plain);
        }
        lease(self.lease_ms)
    }

    pub(crate) fn waiters(&self) -> String {
        match (self.waiters, self.listening) {
            (Some(waiters), _) => waiters.to_string(),
            // A client with several waiters subscribes once, so this is a lower bound.
            (None, Some(clients @ 1..)) => format!("{clients}+"),
            (None, Some(0)) => "0".to_owned(),
            (None, None) => "-".to_owned(),
        }
    }
}

/// The name and the purpose if the client published them, or else the owner.
impl fmt::Display for FoundHolder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name.as_deref().unwrap_or(&self.owner))?;
        match &self.purpose {
            Some(purpose) => write!(f, " ({purpose})"),
            None => Ok(()),
        }
    }
}

/// The available permits of a declared number. The number may have been raised since.
pub(crate) fn part(available: i64, limit: u32) -> String {
    format!("{available} of {}", available.max(limit.into()))
}

/// All permits of a semaphore.
pub(crate) fn total(held: u64, available: i64) -> i64 {
    i64::try_from(held)
        .unwrap_or(i64::MAX)
        .saturating_add(available)
}

/// The text of a lease. One that is nearly over or never ends is highlighted.
pub(crate) fn lease(lease_ms: Option<u64>) -> (String, Tone) {
    match lease_ms {
        None => ("no expiry".to_owned(), Tone::Warning),
        Some(left) if left < 3_000 => (short(Duration::from_millis(left)), Tone::Warning),
        Some(left) => (short(Duration::from_millis(left)), Tone::Good),
    }
}

fn ms(span: Duration) -> u64 {
    u64::try_from(span.as_millis()).unwrap_or(u64::MAX)
}

/// A lock of the given kind.
pub(crate) fn lock(client: &Client, kind: Kind, name: &str) -> Lock {
    match kind {
        Kind::Lock => client.lock(name),
        Kind::Fair => client.fair_lock(name),
        Kind::Fenced => client.fenced_lock(name).into(),
        Kind::Spin => client.spin_lock(name),
        Kind::String => client.string_lock(name),
        Kind::Read => client.read_write_lock(name).read().clone(),
        Kind::Write => client.read_write_lock(name).write().clone(),
    }
}
