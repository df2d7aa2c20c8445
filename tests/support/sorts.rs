//! Every sort of lock, for tests of what all of them do.
#![allow(dead_code, reason = "no test binary uses all of it")]
#![allow(unreachable_pub, reason = "the same file serves several test binaries")]
#![allow(clippy::allow_attributes, reason = "whether something is unused depends on the binary")]

use leasehold::{Client, Lock};

/// One sort of lock.
#[derive(Clone, Copy, Debug)]
pub struct Sort {
    pub name: &'static str,
    /// Its owner may take it again.
    pub reentrant: bool,
    /// Only one owner at a time holds it.
    pub exclusive: bool,
    /// Redis knows how many nested holds there are.
    pub counted: bool,
    /// What is put behind the name for each key that exists while it is held.
    parts: &'static [&'static str],
    make: fn(&Client, &str) -> Lock,
}

impl Sort {
    pub fn lock(&self, client: &Client, name: &str) -> Lock {
        (self.make)(client, name)
    }

    /// The keys that exist just as long as it is held.
    pub fn keys(&self, name: &str) -> Vec<String> {
        self.parts.iter().map(|part| format!("{name}{part}")).collect()
    }
}

const fn sort(name: &'static str, make: fn(&Client, &str) -> Lock) -> Sort {
    Sort { name, reentrant: true, exclusive: true, counted: true, parts: &[""], make }
}

pub const SORTS: [Sort; 10] = [
    sort("lock", |client, name| client.lock(name)),
    sort("fair", |client, name| client.fair_lock(name)),
    sort("fenced", |client, name| client.fenced_lock(name)),
    sort("spin", |client, name| client.spin_lock(name)),
    Sort { counted: false, ..sort("string", |client, name| client.string_lock(name)) },
    Sort {
        reentrant: false,
        ..sort("non-reentrant", |client, name| client.non_reentrant_lock(name))
    },
    Sort {
        reentrant: false,
        ..sort("non-reentrant fair", |client, name| client.fair_lock(name).non_reentrant())
    },
    sort("write", |client, name| {
        std::mem::replace(client.read_write_lock(name).write(), client.lock(name))
    }),
    Sort {
        exclusive: false,
        ..sort("read", |client, name| {
            std::mem::replace(client.read_write_lock(name).read(), client.lock(name))
        })
    },
    Sort {
        parts: &[":a", ":b", ":c"],
        ..sort("multi", |client, name| {
            client.multi_lock([":c", ":a", ":b"].map(|part| format!("{name}{part}")))
        })
    },
];
