//! Every kind of lock, for tests of behaviour that all of them share.

use leasehold::{Client, Lock};

/// One kind of lock.
#[derive(Clone, Copy, Debug)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "each answers a question that tests ask"
)]
pub struct Kind {
    pub name: &'static str,
    /// Its owner may take it again.
    pub reentrant: bool,
    /// Only one owner at a time holds it.
    pub exclusive: bool,
    /// Redis knows how many nested holds there are.
    pub counted: bool,
    /// A majority of its keys is enough: what is slower is left out of a grant, and released in the
    /// background. Its waiters ask again after a pause, without a place in a queue.
    pub quorum: bool,
    /// The suffix of the name of each key that exists while the lock is held.
    parts: &'static [&'static str],
    make: fn(&Client, &str) -> Lock,
}

impl Kind {
    pub fn lock(&self, client: &Client, name: &str) -> Lock {
        (self.make)(client, name)
    }

    /// One lock, no set of locks.
    pub fn is_single(&self) -> bool {
        self.parts.len() == 1
    }

    /// One lock, whose key is a hash with a field for each holder.
    pub fn has_fields(&self) -> bool {
        self.is_single() && self.name != "string"
    }

    /// How many of its keys are there while it is held, at least.
    pub fn need(&self) -> usize {
        if self.quorum {
            self.parts.len() / 2 + 1
        } else {
            self.parts.len()
        }
    }

    /// How late a waiter may be that asks again: its longest pause, and a moment.
    pub fn late_ms(&self) -> u64 {
        if self.quorum { 250 } else { 150 }
    }

    /// The keys that exist just as long as it is held.
    pub fn keys(&self, name: &str) -> Vec<String> {
        self.parts
            .iter()
            .map(|part| format!("{name}{part}"))
            .collect()
    }
}

const fn kind(name: &'static str, make: fn(&Client, &str) -> Lock) -> Kind {
    let (reentrant, exclusive, counted) = (true, true, true);
    Kind {
        name,
        reentrant,
        exclusive,
        counted,
        quorum: false,
        parts: &[""],
        make,
    }
}

pub const KINDS: [Kind; 11] = [
    kind("lock", |client, name| client.lock(name)),
    kind("fair", |client, name| client.fair_lock(name)),
    kind("fenced", |client, name| client.fenced_lock(name).into()),
    kind("spin", |client, name| client.spin_lock(name)),
    Kind {
        counted: false,
        ..kind("string", |client, name| client.string_lock(name))
    },
    Kind {
        reentrant: false,
        ..kind("non-reentrant", |client, name| {
            client.lock(name).non_reentrant()
        })
    },
    Kind {
        reentrant: false,
        ..kind("non-reentrant fair", |client, name| {
            client.fair_lock(name).non_reentrant()
        })
    },
    kind("write", |client, name| {
        client.read_write_lock(name).write().clone()
    }),
    Kind {
        exclusive: false,
        ..kind("read", |client, name| {
            client.read_write_lock(name).read().clone()
        })
    },
    Kind {
        parts: &[":a", ":b", ":c"],
        ..kind("multi", |client, name| {
            Lock::multi(
                [":c", ":a", ":b"]
                    .map(|part| format!("{name}{part}"))
                    .map(|name| client.lock(name)),
            )
        })
    },
    Kind {
        quorum: true,
        parts: &[":a", ":b", ":c"],
        ..kind("quorum", |client, name| {
            Lock::quorum([":c", ":a", ":b"].map(|part| client.lock(format!("{name}{part}"))))
        })
    },
];
