//! The engine: one keyspace, its scripts, its clients and their subscriptions.
//!
//! # Locking
//!
//! `inner` is held for one command or one script, never across an await. Locks of connections may
//! be taken while it is held, to deliver messages, but not the other way round.

mod scripts;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;

use super::commands::{self, Words};
use super::faults::{Activity, Restart};
use super::lua::Scripts;
use super::profile::Profile;
use super::replicas::Replicas;
use super::reply::Outcome;
use super::resp_server::{Link, ServerConnection};
use super::store::{Channel, Keys, Store};

/// A Redis server in memory, for the clients of one process.
///
/// Clients that share an engine see the same keys, like processes that share a server. When its
/// last reference is gone, so are its data and its connections.
pub struct Engine {
    inner: Mutex<Inner>,
    paused: AtomicBool,
    /// No client can connect.
    cut: AtomicBool,
    /// So many replies to scripts arrive before any is lost.
    kept_replies: AtomicU32,
    /// So many replies to scripts are lost.
    lost_replies: AtomicU32,
    /// What it refuses.
    pub(crate) rules: Profile,
    /// Whether connections begin as those of a server do.
    wants_handshake: bool,
}

struct Inner {
    /// How much later replies and messages arrive.
    delay: Duration,
    replicas: Replicas,
    scripts: Scripts,
    /// The ids of the connections that are subscribed to a channel.
    subscribers: BTreeMap<Channel, BTreeSet<u64>>,
    /// By connection id.
    connections: BTreeMap<u64, Arc<ServerConnection>>,
    connections_made: u64,
    /// The clients, oldest first. Dropped clients are removed when the next one is added.
    links: Vec<Weak<Link>>,
    links_made: u64,
    password: Option<String>,
    /// How often clients ran each script, by SHA-1.
    scripts_run: BTreeMap<String, u64>,
    rules: Profile,
    /// The scripts with the flag for undeclared keys, by SHA-1.
    flagged: BTreeSet<String>,
    /// How often each connection sent a command that the profile refuses.
    refused: BTreeMap<(u64, String), u64>,
}

impl Engine {
    /// Makes an empty engine.
    pub fn new() -> Arc<Self> {
        Self::make(None)
    }

    /// Makes an empty engine that refuses what another server refuses. Its connections speak RESP2
    /// until HELLO asks for RESP3, as those of a server do.
    pub fn with_profile(profile: Profile) -> Arc<Self> {
        Self::make(Some(profile))
    }

    fn make(profile: Option<Profile>) -> Arc<Self> {
        let rules = profile.unwrap_or(Profile::REDIS);
        let mut store = Store::new();
        store.not_in_scripts = rules.not_in_scripts;
        let inner = Inner {
            delay: Duration::ZERO,
            replicas: Replicas::new(),
            scripts: Scripts::new(store),
            subscribers: BTreeMap::new(),
            connections: BTreeMap::new(),
            connections_made: 0,
            links: Vec::new(),
            links_made: 0,
            password: None,
            scripts_run: BTreeMap::new(),
            flagged: BTreeSet::new(),
            rules,
            refused: BTreeMap::new(),
        };
        Arc::new(Engine {
            inner: Mutex::new(inner),
            paused: AtomicBool::new(false),
            cut: AtomicBool::new(false),
            kept_replies: AtomicU32::new(0),
            lost_replies: AtomicU32::new(0),
            rules,
            wants_handshake: profile.is_some(),
        })
    }

    /// Runs one command of a client. The clock stands still while it runs.
    pub(crate) fn execute(&self, words: Words<'_>) -> Outcome {
        let mut inner = self.inner.lock();
        let outcome = inner.command(words);
        inner.deliver_published();
        outcome
    }

    pub(crate) fn with_store<R>(&self, job: impl FnOnce(&mut Store) -> R) -> R {
        let inner = self.inner.lock();
        let mut store = inner.scripts.store();
        store.tick();
        job(&mut store)
    }

    /// Deletes a key without a message, as if a failover had gone to a replica without it. Returns
    /// whether the key existed.
    pub fn remove(&self, key: &[u8]) -> bool {
        self.with_store(|store| store.remove(key))
    }

    /// Moves only the server's clock, so that keys expire early.
    pub fn jump_clock(&self, by: Duration) {
        self.with_store(|store| store.jump_clock(by));
    }

    pub(crate) fn activity(&self) -> Activity {
        if self.paused.load(Ordering::Acquire) {
            Activity::Paused
        } else {
            Activity::Runs
        }
    }

    fn set_activity(&self, activity: Activity) {
        self.paused
            .store(activity == Activity::Paused, Ordering::Release);
        self.wake_connections();
        self.clients()
            .iter()
            .for_each(|link| link.back.notify_waiters());
    }

    pub(crate) fn wake_connections(&self) {
        self.connections()
            .iter()
            .for_each(|connection| connection.wake());
    }

    /// Executes no request until [`resume`](Self::resume). Requests are kept.
    pub fn pause(&self) {
        self.set_activity(Activity::Paused);
    }

    /// Executes the kept requests, and continues.
    pub fn resume(&self) {
        self.set_activity(Activity::Runs);
    }

    /// Sets how many replicas have each write as soon as it is made: so many WAIT reports.
    /// Default: 1.
    ///
    /// With 0, the replicas keep the keys that they have now, until the number is raised again.
    pub fn set_replicas(&self, following: u32) {
        let keys = self.with_store(|store| store.copy());
        self.inner.lock().replicas.follow(following, keys);
        // Some may wait for copies.
        self.wake_connections();
    }

    pub(crate) fn replicas(&self) -> u32 {
        self.inner.lock().replicas.following
    }

    /// Breaks all connections. Later ones lead to a replica, another server: it has the keys of the
    /// primary, or those that it had when the replicas stopped following
    /// ([`set_replicas`](Self::set_replicas)).
    pub fn fail_over(&self) {
        let behind = self.inner.lock().replicas.behind.clone();
        self.run_anew(behind, Store::is_another);
    }

    /// Breaks all connections, which can be made again at once. Empties the script cache, and with
    /// [`Restart::Empty`] also the keyspace.
    pub fn restart(&self, data: Restart) {
        self.run_anew((data == Restart::Empty).then(Keys::new), Store::runs_anew);
    }

    /// Ends this run of the server and begins another one, with these keys if they are given. The
    /// script cache and all subscriptions are gone.
    fn run_anew(&self, keys: Option<Keys>, begin: fn(&mut Store)) {
        self.cut();
        let mut inner = self.inner.lock();
        inner.scripts.forget();
        inner.subscribers.clear();
        for connection in inner.connections.values() {
            // LOCKS: engine, then connection.
            connection.abort();
        }
        let mut store = inner.scripts.store();
        store.subscribers.clear();
        begin(&mut store);
        if let Some(keys) = keys {
            store.replace(keys);
        }
        drop(store);
        drop(inner);
        self.heal();
    }

    /// The id of this run of the server, as INFO has it.
    pub(crate) fn run_id(&self) -> String {
        self.with_store(|store| store.run_id())
    }

    pub(crate) fn info(&self, section: Option<&[u8]>) -> String {
        self.with_store(|store| store.info(section))
    }

    /// The next script that a client runs gets no reply: its connection breaks. Each call counts
    /// for one script.
    pub fn lose_next_reply(&self) {
        self.lost_replies.fetch_add(1, Ordering::AcqRel);
    }

    /// As [`lose_next_reply`](Self::lose_next_reply), but so many other replies to scripts arrive
    /// first.
    pub fn lose_reply_after(&self, kept: u32) {
        self.kept_replies.store(kept, Ordering::Release);
        self.lose_next_reply();
    }

    /// True if the reply to a script that just ran is lost.
    pub(crate) fn loses_this_reply(&self) -> bool {
        let takes_one = |left: &AtomicU32| {
            let one_less = |left: u32| left.checked_sub(1);
            left.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_less)
                .is_ok()
        };
        !takes_one(&self.kept_replies) && takes_one(&self.lost_replies)
    }

    /// All replies and messages arrive this much later, also those of later connections.
    pub fn delay(&self, by: Duration) {
        self.inner.lock().delay = by;
        self.clients().iter().for_each(|link| link.delay(by));
    }

    fn connections(&self) -> Vec<Arc<ServerConnection>> {
        self.inner.lock().connections.values().cloned().collect()
    }

    /// Breaks all connections and refuses new ones until [`heal`](Self::heal). The keys do not
    /// change.
    pub fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        self.connections()
            .iter()
            .for_each(|connection| connection.cut());
    }

    /// Allows connections again.
    pub fn heal(&self) {
        self.cut.store(false, Ordering::Release);
        self.clients()
            .iter()
            .for_each(|link| link.back.notify_waiters());
    }

    /// Removes a connection and its subscriptions.
    pub(crate) fn remove_connection(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.connections.remove(&id);
        inner.unsubscribe_all(id);
    }

    pub(crate) fn subscribe(&self, id: u64, channels: &[Channel]) {
        let mut inner = self.inner.lock();
        for channel in channels {
            inner
                .subscribers
                .entry(channel.clone())
                .or_default()
                .insert(id);
            inner.count_subscribers(channel);
        }
    }

    pub(crate) fn unsubscribe(&self, id: u64, channels: &[Channel]) {
        let mut inner = self.inner.lock();
        for channel in channels {
            inner.unsubscribe(id, channel);
        }
    }

    /// The number of subscribed connections of each channel, plain or sharded.
    pub fn listeners(&self) -> BTreeMap<String, usize> {
        let mut listeners = BTreeMap::new();
        for (channel, ids) in &self.inner.lock().subscribers {
            let name = String::from_utf8_lossy(&channel.name).into_owned();
            *listeners.entry(name).or_default() += ids.len();
        }
        listeners
    }

    /// How often clients ran each script, by SHA-1.
    pub fn scripts_run(&self) -> BTreeMap<String, u64> {
        self.inner.lock().scripts_run.clone()
    }

    /// Accepts a connection, unless no client can connect.
    pub(crate) fn accept(
        &self,
        make: impl FnOnce(u64) -> Arc<ServerConnection>,
    ) -> Option<Arc<ServerConnection>> {
        let mut inner = self.inner.lock();
        if self.cut.load(Ordering::Acquire) {
            return None;
        }
        inner.connections_made += 1;
        let id = inner.connections_made;
        let connection = make(id);
        if self.wants_handshake {
            // LOCKS: engine, then connection.
            connection.expect_handshake();
        }
        if inner.password.is_some() {
            // LOCKS: engine, then connection.
            connection.require_password();
        }
        inner.connections.insert(id, connection.clone());
        Some(connection)
    }

    pub(crate) fn add_link(&self) -> Arc<Link> {
        let mut inner = self.inner.lock();
        inner.links.retain(|link| link.strong_count() > 0);
        inner.links_made += 1;
        let link = Arc::new(Link::new(inner.links_made));
        link.delay(inner.delay);
        inner.links.push(Arc::downgrade(&link));
        link
    }

    /// The clients that were not dropped and have not crashed.
    pub(crate) fn clients(&self) -> Vec<Arc<Link>> {
        let links: Vec<_> = self
            .inner
            .lock()
            .links
            .iter()
            .filter_map(Weak::upgrade)
            .collect();
        links.into_iter().filter(|link| link.is_alive()).collect()
    }

    /// Requires this password of new connections.
    pub fn require_password(&self, password: &str) {
        self.inner.lock().password = Some(password.to_owned());
    }

    pub(crate) fn password(&self) -> Option<String> {
        self.inner.lock().password.clone()
    }

    /// The profile, if the engine was [made with one](Self::with_profile).
    pub fn profile(&self) -> Option<Profile> {
        self.wants_handshake.then_some(self.rules)
    }

    /// Counts a command that the profile refuses.
    pub(crate) fn count_refused(&self, connection: u64, command: &str) {
        let mut inner = self.inner.lock();
        let key = (connection, command.to_owned());
        *inner.refused.entry(key).or_insert(0) += 1;
    }

    /// How often each connection sent a command that the profile refuses. Connections have the
    /// numbers of CLIENT ID.
    pub fn refused(&self) -> BTreeMap<(u64, String), u64> {
        self.inner.lock().refused.clone()
    }

    /// Counts a command that concerns a connection.
    pub(crate) fn count(&self, name: &str) {
        self.inner.lock().count(name);
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keys = self.with_store(|store| store.live().count());
        let clients = self.clients().len();
        f.debug_struct("Engine")
            .field("keys", &keys)
            .field("clients", &clients)
            .finish()
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Connection tasks hold no reference to the engine and must not outlive it.
        self.connections()
            .iter()
            .for_each(|connection| connection.abort());
    }
}

impl Inner {
    fn command(&mut self, words: Words<'_>) -> Outcome {
        self.scripts.store().tick();
        match words {
            [] => Err("ERR empty command".into()),
            [name, ..] if commands::is(name, "eval") => self.eval(words, "eval"),
            [name, ..] if commands::is(name, "evalsha") => self.eval(words, "evalsha"),
            [name, ..] if commands::is(name, "script") => self.script(words),
            _ => commands::run(&mut self.scripts.store(), words)
                .unwrap_or_else(|why| Err(commands::unusable(&why, words))),
        }
    }

    fn count(&self, name: &str) {
        *self
            .scripts
            .store()
            .commands_run
            .entry(name.to_owned())
            .or_insert(0) += 1;
    }

    /// Sends published messages to the subscribed connections, in order.
    fn deliver_published(&mut self) {
        let sent = std::mem::take(&mut self.scripts.store().outbox);
        for message in sent {
            let Some(ids) = self.subscribers.get(&message.channel) else {
                continue;
            };
            for connection in ids.iter().filter_map(|id| self.connections.get(id)) {
                // LOCKS: engine, then connection.
                connection.publish(&message);
            }
        }
    }

    fn unsubscribe(&mut self, id: u64, channel: &Channel) {
        if let Some(ids) = self.subscribers.get_mut(channel) {
            ids.remove(&id);
            if ids.is_empty() {
                self.subscribers.remove(channel);
            }
        }
        self.count_subscribers(channel);
    }

    fn unsubscribe_all(&mut self, id: u64) {
        let channels: Vec<Channel> = self
            .subscribers
            .iter()
            .filter(|(_, ids)| ids.contains(&id))
            .map(|(channel, _)| channel.clone())
            .collect();
        for channel in channels {
            self.unsubscribe(id, &channel);
        }
    }

    /// Tells the store the number of subscribers, which PUBLISH returns, also in scripts.
    fn count_subscribers(&mut self, channel: &Channel) {
        let mut store = self.scripts.store();
        match self.subscribers.get(channel) {
            Some(ids) => store.subscribers.insert(channel.clone(), ids.len()),
            None => store.subscribers.remove(channel),
        };
    }
}
