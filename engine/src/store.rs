//! The keyspace: values with deadlines, and the messages that the last command published.
//!
//! # Invariants
//!
//! - **STORE-1** No collection in the map is empty.
//! - **STORE-2** An expired key is never visible: every access goes through [`Store::entry`], which
//!   removes expired keys. There is no background task, so expiries are exact under paused time.
//! - **STORE-3** Time stands still while a command or a script runs, as in Redis.
//!
//! # Bounds
//!
//! As many keys as callers create. An expired key is removed when it is next accessed or listed.

use std::collections::BTreeMap;
use std::time::Duration;

use super::clock::Clock;
use super::data::{Data, Kind};
use super::random::Lrand48;
use super::reply::{Bytes, ErrorReply};
use super::server_run::ServerRun;

pub(crate) const WRONG_TYPE: &str =
    "WRONGTYPE Operation against a key holding the wrong kind of value";

#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) data: Data,
    /// In epoch milliseconds: the last moment at which the key exists.
    pub(crate) expires_at: Option<i64>,
}

/// All keys with their values and deadlines.
pub(crate) type Keys = BTreeMap<Bytes, Entry>;

/// A channel. A plain one and a sharded one of the same name have nothing in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Channel {
    pub(crate) is_sharded: bool,
    pub(crate) name: Bytes,
}

/// A published message that is still to be sent.
#[derive(Clone, Debug)]
pub(crate) struct Message {
    pub(crate) channel: Channel,
    pub(crate) payload: Bytes,
}

#[derive(Debug)]
pub(crate) struct Store {
    keys: Keys,
    clock: Clock,
    now_us: i64,
    /// The number of subscribers of each channel.
    pub(crate) subscribers: BTreeMap<Channel, usize>,
    pub(crate) outbox: Vec<Message>,
    /// How often each command ran, also within scripts. Names in lower case.
    pub(crate) commands_run: BTreeMap<String, u64>,
    /// The commands that scripts may not use.
    pub(crate) not_in_scripts: &'static [&'static str],
    /// The keys that the running script may use, if it may not use others.
    pub(crate) declared: Option<Declared>,
    random: Lrand48,
    run: ServerRun,
}

/// The keys that the caller of a script has declared, and the words for others.
#[derive(Debug)]
pub(crate) struct Declared {
    pub(crate) keys: Vec<Bytes>,
    pub(crate) refusal: &'static str,
}

impl Store {
    pub(crate) fn new() -> Self {
        let clock = Clock::new();
        let now_us = clock.now_us();
        Store {
            keys: BTreeMap::new(),
            clock,
            now_us,
            subscribers: BTreeMap::new(),
            outbox: Vec::new(),
            commands_run: BTreeMap::new(),
            not_in_scripts: &[],
            declared: None,
            random: Lrand48::default(),
            run: ServerRun::of_old(now_us),
        }
    }

    /// Another server takes over, which has run for as long.
    pub(crate) fn is_another(&mut self) {
        self.run = self.run.of_another();
    }

    /// Another run of the server begins.
    pub(crate) fn runs_anew(&mut self) {
        self.run = ServerRun::from(self.clock.now_us());
    }

    pub(crate) fn run_id(&self) -> String {
        self.run.id()
    }

    pub(crate) fn info(&self, section: Option<&[u8]>) -> String {
        self.run.info(self.now_us, section)
    }

    /// A number below `below`. Every engine returns the same sequence.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a part of a count"
    )]
    pub(crate) fn draw(&mut self, below: usize) -> usize {
        (self.random.next_part() * below as f64) as usize
    }

    /// Starts a command or a script. Time stands still until the next one.
    pub(crate) fn tick(&mut self) {
        self.now_us = self.clock.now_us();
    }

    pub(crate) fn jump_clock(&mut self, by: Duration) {
        self.clock.jump(by);
        self.tick();
    }

    pub(crate) fn now_us(&self) -> i64 {
        self.now_us
    }

    pub(crate) fn now_ms(&self) -> i64 {
        self.now_us / 1000
    }

    pub(crate) fn entry(&mut self, key: &[u8]) -> Option<&mut Entry> {
        let now = self.now_ms();
        let gone = self
            .keys
            .get(key)
            .is_some_and(|entry| is_expired(entry, now));
        if gone {
            self.keys.remove(key);
        }
        self.keys.get_mut(key)
    }

    /// The value of a key, if it exists and has this type.
    pub(crate) fn find<K: Kind>(&mut self, key: &[u8]) -> Result<Option<&mut K>, ErrorReply> {
        match self.entry(key) {
            None => Ok(None),
            Some(entry) => match K::of(&mut entry.data) {
                Some(found) => Ok(Some(found)),
                None => Err(WRONG_TYPE.into()),
            },
        }
    }

    /// The value of a key. Creates an empty value if there is none, which the caller must fill
    /// (STORE-1).
    pub(crate) fn make<K: Kind>(&mut self, key: &[u8]) -> Result<&mut K, ErrorReply> {
        if self.entry(key).is_none() {
            self.put(key, K::default().wrap(), None);
        }
        Ok(self.find(key)?.expect("BUG: the key was just made"))
    }

    pub(crate) fn put(&mut self, key: &[u8], data: Data, expires_at: Option<i64>) {
        self.keys.insert(key.to_vec(), Entry { data, expires_at });
    }

    /// True if the key existed.
    pub(crate) fn remove(&mut self, key: &[u8]) -> bool {
        let there = self.entry(key).is_some();
        self.keys.remove(key);
        there
    }

    /// Removes a key whose last element was taken (STORE-1).
    pub(crate) fn prune(&mut self, key: &[u8]) {
        if self
            .keys
            .get(key)
            .is_some_and(|entry| entry.data.is_empty())
        {
            self.keys.remove(key);
        }
    }

    pub(crate) fn copy(&self) -> Keys {
        self.keys.clone()
    }

    pub(crate) fn replace(&mut self, keys: Keys) {
        self.keys = keys;
    }

    /// Every key that has not expired, by name.
    pub(crate) fn live(&mut self) -> impl Iterator<Item = (&Bytes, &mut Entry)> {
        let now = self.now_ms();
        self.keys.retain(|_, entry| !is_expired(entry, now));
        self.keys.iter_mut()
    }
}

fn is_expired(entry: &Entry, now: i64) -> bool {
    entry.expires_at.is_some_and(|deadline| now > deadline)
}
