//! The engine: one keyspace, its scripts, its clients and their subscriptions.
//!
//! # Locking
//!
//! `inner` is held for one command or one script, never across an await. The locks of a client may be
//! taken while it is held (to deliver messages), never the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
#[cfg(feature = "test-util")]
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crate::sync::Mutex;

use super::commands::{self, Words};
use super::connections::{Connections, ROLES};
use super::engine_client::EngineClient;
use super::faults::{Activity, Restart};
use super::lua::Scripts;
use super::number::parse_int;
use super::reply::{Bytes, Outcome, Reply};
#[cfg(feature = "test-util")]
use super::resp_server::{ByteClient, ServerConnection};
use super::store::Store;
#[cfg(feature = "test-util")]
#[cfg(feature = "test-util")]
use crate::protocol::script_named;
use crate::protocol::{Arg, Call};

static NEXT: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Engine {
    /// Numbers engines in the order in which they were made.
    pub(super) number: u64,
    inner: Mutex<Inner>,
    paused: AtomicBool,
    /// No client can connect.
    cut: AtomicBool,
}

struct Inner {
    scripts: Scripts,
    /// The ids of the clients that are subscribed to a channel.
    subscribers: BTreeMap<Bytes, BTreeSet<u64>>,
    /// The clients that were not closed, by id.
    clients: BTreeMap<u64, EngineClient>,
    clients_made: u64,
    #[cfg(feature = "test-util")]
    bytes: ByBytes,
    scripts_run: BTreeMap<&'static str, u64>,
}

/// The clients that connect by bytes.
#[cfg(feature = "test-util")]
#[derive(Default)]
struct ByBytes {
    /// The oldest first. Dropped clients are removed when the next one is added.
    clients: Vec<Weak<ByteClient>>,
    clients_made: u64,
    password: Option<String>,
}

impl Engine {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            scripts: Scripts::new(Store::new()),
            subscribers: BTreeMap::new(),
            clients: BTreeMap::new(),
            clients_made: 0,
            #[cfg(feature = "test-util")]
            bytes: ByBytes::default(),
            scripts_run: BTreeMap::new(),
        };
        Engine {
            number: NEXT.fetch_add(1, Ordering::Relaxed),
            inner: Mutex::new(inner),
            paused: AtomicBool::new(false),
            cut: AtomicBool::new(false),
        }
    }

    /// Runs one command of a client, at one moment of the clock.
    pub(crate) fn command(&self, words: Words<'_>) -> Outcome {
        let mut inner = self.inner.lock();
        let outcome = inner.command(words);
        inner.deliver_published();
        outcome
    }

    /// Runs a script by its hash and, if the cache has lost it, by its text.
    pub(crate) fn call(&self, call: &Call) -> Outcome {
        let keys: Vec<Bytes> = call.keys.iter().map(|key| key.as_bytes().to_vec()).collect();
        let args: Vec<Bytes> = call.args.iter().map(arg_bytes).collect();
        let mut inner = self.inner.lock();
        inner.scripts.store().tick();
        *inner.scripts_run.entry(call.script.name).or_insert(0) += 1;
        inner.count("evalsha");
        let outcome = if inner.scripts.is_loaded(call.script.sha1()) {
            inner.scripts.run(call.script.sha1(), &keys, &args)
        } else {
            inner.count("eval");
            let loaded = inner.scripts.load(call.script.text.as_bytes());
            loaded.and_then(|sha1| inner.scripts.run(&sha1, &keys, &args))
        };
        inner.deliver_published();
        outcome
    }

    pub(crate) fn with_store<R>(&self, job: impl FnOnce(&mut Store) -> R) -> R {
        let inner = self.inner.lock();
        let mut store = inner.scripts.store();
        store.tick();
        job(&mut store)
    }

    pub(crate) fn jump_clock(&self, by: Duration) {
        self.with_store(|store| store.jump_clock(by));
    }

    pub(crate) fn activity(&self) -> Activity {
        if self.paused.load(Ordering::Acquire) { Activity::Paused } else { Activity::Runs }
    }

    pub(crate) fn set_activity(&self, activity: Activity) {
        self.paused.store(activity == Activity::Paused, Ordering::Release);
        for client in self.clients() {
            client.wake();
        }
    }

    /// The server starts again: its script cache and all subscriptions are gone, perhaps its data.
    pub(crate) fn forget(&self, data: Restart) {
        let mut inner = self.inner.lock();
        inner.scripts.forget();
        inner.subscribers.clear();
        for client in inner.clients.values() {
            // LOCKS: engine, then client.
            client.forget();
        }
        let mut store = inner.scripts.store();
        store.subscribers.clear();
        if data == Restart::Empty {
            store.clear();
        }
    }

    pub(crate) fn clients_by_calls(&self) -> Vec<Arc<Connections>> {
        let by_calls = |client: &EngineClient| match client {
            EngineClient::Calls(connections) => Some(connections.clone()),
            #[cfg(feature = "test-util")]
            EngineClient::Bytes(_) => None,
        };
        self.inner.lock().clients.values().filter_map(by_calls).collect()
    }

    fn clients(&self) -> Vec<EngineClient> {
        self.inner.lock().clients.values().cloned().collect()
    }

    pub(crate) fn add_client(
        &self,
        make: impl FnOnce(u64) -> Arc<Connections>,
    ) -> Arc<Connections> {
        let mut inner = self.inner.lock();
        inner.clients_made += 1;
        let id = inner.clients_made;
        let connections = make(id);
        inner.clients.insert(id, EngineClient::Calls(connections.clone()));
        if self.cut.load(Ordering::Acquire) {
            connections.cut(&ROLES);
        }
        connections
    }

    /// Breaks all connections; no client can connect.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        for client in self.clients() {
            client.cut();
        }
    }

    /// Lets broken connections come back.
    pub(crate) fn heal(&self) {
        self.cut.store(false, Ordering::Release);
        for client in self.clients() {
            client.heal();
        }
    }

    /// Forgets a client and its subscriptions.
    pub(crate) fn remove_client(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.clients.remove(&id);
        inner.unsubscribe_all(id);
    }

    pub(crate) fn subscribe(&self, id: u64, channels: &[impl AsRef<[u8]>]) {
        let mut inner = self.inner.lock();
        inner.count("subscribe");
        for channel in channels.iter().map(AsRef::as_ref) {
            inner.subscribers.entry(channel.to_vec()).or_default().insert(id);
            inner.count_subscribers(channel);
        }
    }

    pub(crate) fn unsubscribe(&self, id: u64, channels: &[impl AsRef<[u8]>]) {
        let mut inner = self.inner.lock();
        inner.count("unsubscribe");
        for channel in channels {
            inner.unsubscribe(id, channel.as_ref());
        }
    }

    /// The server noticed that a pub/sub connection is gone.
    pub(crate) fn unsubscribe_all(&self, id: u64) {
        self.inner.lock().unsubscribe_all(id);
    }

    /// How many clients are subscribed to each channel.
    pub(crate) fn subscribers(&self) -> BTreeMap<String, usize> {
        let inner = self.inner.lock();
        let name = |channel: &Bytes| String::from_utf8_lossy(channel).into_owned();
        inner.subscribers.iter().map(|(channel, ids)| (name(channel), ids.len())).collect()
    }

    pub(crate) fn scripts_run(&self) -> BTreeMap<&'static str, u64> {
        self.inner.lock().scripts_run.clone()
    }
}

#[cfg(feature = "test-util")]
impl Engine {
    /// Accepts a connection by bytes, unless no client can connect.
    pub(crate) fn accept(
        &self,
        make: impl FnOnce(u64) -> Arc<ServerConnection>,
    ) -> Option<Arc<ServerConnection>> {
        let mut inner = self.inner.lock();
        if self.cut.load(Ordering::Acquire) {
            return None;
        }
        inner.clients_made += 1;
        let id = inner.clients_made;
        let connection = make(id);
        if inner.bytes.password.is_some() {
            // LOCKS: engine, then connection.
            connection.require_password();
        }
        inner.clients.insert(id, EngineClient::Bytes(connection.clone()));
        Some(connection)
    }

    pub(crate) fn add_byte_client(
        &self,
        make: impl FnOnce(u64) -> Arc<ByteClient>,
    ) -> Arc<ByteClient> {
        let mut inner = self.inner.lock();
        inner.bytes.clients.retain(|client| client.strong_count() > 0);
        inner.bytes.clients_made += 1;
        let client = make(inner.bytes.clients_made);
        inner.bytes.clients.push(Arc::downgrade(&client));
        client
    }

    /// The clients that were neither closed nor crashed.
    pub(crate) fn byte_clients(&self) -> Vec<Arc<ByteClient>> {
        let clients: Vec<_> =
            self.inner.lock().bytes.clients.iter().filter_map(Weak::upgrade).collect();
        clients.into_iter().filter(|client| client.is_alive()).collect()
    }

    pub(crate) fn require_password(&self, password: &str) {
        self.inner.lock().bytes.password = Some(password.to_owned());
    }

    pub(crate) fn password(&self) -> Option<String> {
        self.inner.lock().bytes.password.clone()
    }

    /// Counts a command that concerns a connection.
    pub(crate) fn count(&self, name: &str) {
        self.inner.lock().count(name);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Tasks of connections do not own the engine, and must not outlive it.
        for client in self.clients() {
            client.forget();
        }
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

    fn eval(&mut self, words: Words<'_>, name: &str) -> Outcome {
        let [_, script, number, rest @ ..] = words else { return Err(commands::wrong_arity(name)) };
        let number = parse_int(number).ok_or("ERR value is not an integer or out of range")?;
        if number < 0 {
            return Err("ERR Number of keys can't be negative".into());
        }
        let (keys, args) = usize::try_from(number)
            .ok()
            .and_then(|number| rest.split_at_checked(number))
            .ok_or("ERR Number of keys can't be greater than number of args")?;
        self.count(name);
        let sha1 = if name == "eval" {
            self.scripts.load(script)?
        } else {
            String::from_utf8_lossy(script).to_ascii_lowercase()
        };
        #[cfg(feature = "test-util")]
        if let Some(name) = script_named(&sha1).filter(|_| self.scripts.is_loaded(&sha1)) {
            *self.scripts_run.entry(name).or_insert(0) += 1;
        }
        self.scripts.run(&sha1, keys, args)
    }

    fn script(&mut self, words: Words<'_>) -> Outcome {
        match &words[1..] {
            [] => Err(commands::wrong_arity("script")),
            [verb, text] if commands::is(verb, "load") => {
                Ok(Reply::Bulk(self.scripts.load(text)?.into_bytes()))
            }
            [verb, hashes @ ..] if commands::is(verb, "exists") && !hashes.is_empty() => {
                let loaded = hashes.iter().map(|hash| {
                    let sha1 = String::from_utf8_lossy(hash).to_ascii_lowercase();
                    Ok(Reply::from(self.scripts.is_loaded(&sha1)))
                });
                Ok(Reply::Array(loaded.collect()))
            }
            [verb, ..] if commands::is(verb, "flush") => {
                self.scripts.forget();
                Ok(Reply::ok())
            }
            [verb, ..] => {
                let verb = String::from_utf8_lossy(verb);
                let text = format!("ERR unknown subcommand '{verb}'. Try SCRIPT HELP.");
                Err(text.as_str().into())
            }
        }
    }

    fn count(&self, name: &str) {
        *self.scripts.store().commands_run.entry(name.to_owned()).or_insert(0) += 1;
    }

    /// Hands published messages to the subscribed clients, in order.
    fn deliver_published(&mut self) {
        let sent = std::mem::take(&mut self.scripts.store().outbox);
        for message in sent {
            let Some(ids) = self.subscribers.get(&message.channel) else { continue };
            for client in ids.iter().filter_map(|id| self.clients.get(id)) {
                // LOCKS: engine, then client.
                client.publish(&message);
            }
        }
    }

    fn unsubscribe(&mut self, id: u64, channel: &[u8]) {
        if let Some(ids) = self.subscribers.get_mut(channel) {
            ids.remove(&id);
            if ids.is_empty() {
                self.subscribers.remove(channel);
            }
        }
        self.count_subscribers(channel);
    }

    fn unsubscribe_all(&mut self, id: u64) {
        let channels: Vec<Bytes> = self
            .subscribers
            .iter()
            .filter(|(_, ids)| ids.contains(&id))
            .map(|(channel, _)| channel.clone())
            .collect();
        for channel in channels {
            self.unsubscribe(id, &channel);
        }
    }

    /// Tells the store how many clients are subscribed: PUBLISH answers that, also in scripts.
    fn count_subscribers(&mut self, channel: &[u8]) {
        let mut store = self.scripts.store();
        match self.subscribers.get(channel) {
            Some(ids) => store.subscribers.insert(channel.to_vec(), ids.len()),
            None => store.subscribers.remove(channel),
        };
    }
}

fn arg_bytes(arg: &Arg) -> Bytes {
    match arg {
        Arg::Int(number) => number.to_string().into_bytes(),
        Arg::Text(text) => text.as_bytes().to_vec(),
    }
}
