//! The engine: one keyspace, its scripts, and who listens.
//!
//! # Locking
//!
//! `inner` is held for one command or one script, never across an await. The lock of a port or of a
//! conversation may be taken while it is held (to hand out messages), never the other way round.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
#[cfg(feature = "test-util")]
use std::sync::Weak;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use super::commands::{self, Words};
#[cfg(feature = "test-util")]
use super::front::{ByteLine, Conversation};
use super::lua::Scripts;
use super::number::parse_int;
use super::peer::Peer;
use super::port::{LINES, Port};
use super::reply::{Bytes, Outcome, Reply};
use super::store::Store;
#[cfg(feature = "test-util")]
#[cfg(feature = "test-util")]
use crate::protocol::script_named;
use crate::protocol::{Arg, Call};

/// Whether requests are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activity {
    Runs,
    Paused,
}

/// What a restart leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Restart {
    /// As after a restart with an append-only file.
    WithData,
    /// As after a failover to an empty replica.
    Empty,
}

static NEXT: AtomicU64 = AtomicU64::new(0);

pub(crate) struct Engine {
    /// In the order in which they were made.
    pub(super) number: u64,
    inner: Mutex<Inner>,
    paused: AtomicBool,
    /// Nobody can connect.
    cut: AtomicBool,
}

struct Inner {
    scripts: Scripts,
    /// Who listens to which channel.
    listeners: BTreeMap<Bytes, BTreeSet<u64>>,
    /// The links that were not closed, and the connections by bytes, by number.
    peers: BTreeMap<u64, Peer>,
    peers_made: u64,
    #[cfg(feature = "test-util")]
    bytes: ByBytes,
    scripts_run: BTreeMap<&'static str, u64>,
}

/// What is known of the clients that connect by bytes.
#[cfg(feature = "test-util")]
#[derive(Default)]
struct ByBytes {
    /// The oldest first; who went is left out when somebody looks.
    lines: Vec<Weak<ByteLine>>,
    lines_made: u64,
    password: Option<String>,
}

impl Engine {
    pub(crate) fn new() -> Self {
        let inner = Inner {
            scripts: Scripts::new(Store::new()),
            listeners: BTreeMap::new(),
            peers: BTreeMap::new(),
            peers_made: 0,
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
        inner.send_out();
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
        inner.send_out();
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
        for peer in self.peers() {
            peer.wake();
        }
    }

    /// The server starts again: its script cache and all subscriptions are gone, perhaps its data.
    pub(crate) fn forget(&self, data: Restart) {
        let mut inner = self.inner.lock();
        inner.scripts.forget();
        inner.listeners.clear();
        for peer in inner.peers.values() {
            // LOCKS: engine, then conversation.
            peer.forget();
        }
        let mut store = inner.scripts.store();
        store.listeners.clear();
        if data == Restart::Empty {
            store.clear();
        }
    }

    pub(crate) fn ports(&self) -> Vec<Arc<Port>> {
        let link = |peer: &Peer| match peer {
            Peer::Link(port) => Some(port.clone()),
            #[cfg(feature = "test-util")]
            Peer::Bytes(_) => None,
        };
        self.inner.lock().peers.values().filter_map(link).collect()
    }

    fn peers(&self) -> Vec<Peer> {
        self.inner.lock().peers.values().cloned().collect()
    }

    pub(crate) fn add_port(&self, make: impl FnOnce(u64) -> Arc<Port>) -> Arc<Port> {
        let mut inner = self.inner.lock();
        inner.peers_made += 1;
        let id = inner.peers_made;
        let port = make(id);
        inner.peers.insert(id, Peer::Link(port.clone()));
        if self.cut.load(Ordering::Acquire) {
            port.cut(&LINES);
        }
        port
    }

    /// Breaks all connections; new ones cannot be made.
    pub(crate) fn cut(&self) {
        self.cut.store(true, Ordering::Release);
        for peer in self.peers() {
            peer.cut();
        }
    }

    /// Lets broken connections come back.
    pub(crate) fn heal(&self) {
        self.cut.store(false, Ordering::Release);
        for peer in self.peers() {
            peer.heal();
        }
    }

    /// Forgets a link or a connection, and what it listened to.
    pub(crate) fn remove_peer(&self, id: u64) {
        let mut inner = self.inner.lock();
        inner.peers.remove(&id);
        inner.unlisten_all(id);
    }

    pub(crate) fn listen(&self, id: u64, channels: &[impl AsRef<[u8]>]) {
        let mut inner = self.inner.lock();
        inner.count("subscribe");
        for channel in channels.iter().map(AsRef::as_ref) {
            inner.listeners.entry(channel.to_vec()).or_default().insert(id);
            inner.count_listeners(channel);
        }
    }

    pub(crate) fn unlisten(&self, id: u64, channels: &[impl AsRef<[u8]>]) {
        let mut inner = self.inner.lock();
        inner.count("unsubscribe");
        for channel in channels {
            inner.unlisten(id, channel.as_ref());
        }
    }

    /// The server noticed that a pub/sub connection is gone.
    pub(crate) fn unlisten_all(&self, id: u64) {
        self.inner.lock().unlisten_all(id);
    }

    /// How many links and connections listen to each channel.
    pub(crate) fn listeners(&self) -> BTreeMap<String, usize> {
        let inner = self.inner.lock();
        let name = |channel: &Bytes| String::from_utf8_lossy(channel).into_owned();
        inner.listeners.iter().map(|(channel, ids)| (name(channel), ids.len())).collect()
    }

    pub(crate) fn scripts_run(&self) -> BTreeMap<&'static str, u64> {
        self.inner.lock().scripts_run.clone()
    }
}

#[cfg(feature = "test-util")]
impl Engine {
    /// Begins a conversation by bytes, unless nobody can connect.
    pub(crate) fn accept(
        &self,
        make: impl FnOnce(u64) -> Arc<Conversation>,
    ) -> Option<Arc<Conversation>> {
        let mut inner = self.inner.lock();
        if self.cut.load(Ordering::Acquire) {
            return None;
        }
        inner.peers_made += 1;
        let id = inner.peers_made;
        let conversation = make(id);
        if inner.bytes.password.is_some() {
            // LOCKS: engine, then conversation.
            conversation.require_password();
        }
        inner.peers.insert(id, Peer::Bytes(conversation.clone()));
        Some(conversation)
    }

    pub(crate) fn add_byte_line(&self, make: impl FnOnce(u64) -> Arc<ByteLine>) -> Arc<ByteLine> {
        let mut inner = self.inner.lock();
        inner.bytes.lines.retain(|line| line.strong_count() > 0);
        inner.bytes.lines_made += 1;
        let line = make(inner.bytes.lines_made);
        inner.bytes.lines.push(Arc::downgrade(&line));
        line
    }

    /// The clients that were neither closed nor crashed.
    pub(crate) fn byte_lines(&self) -> Vec<Arc<ByteLine>> {
        let lines: Vec<_> =
            self.inner.lock().bytes.lines.iter().filter_map(Weak::upgrade).collect();
        lines.into_iter().filter(|line| line.is_alive()).collect()
    }

    pub(crate) fn require_password(&self, password: &str) {
        self.inner.lock().bytes.password = Some(password.to_owned());
    }

    pub(crate) fn password(&self) -> Option<String> {
        self.inner.lock().bytes.password.clone()
    }

    /// Counts a command that is about a connection.
    pub(crate) fn count(&self, name: &str) {
        self.inner.lock().count(name);
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // Tasks of connections do not keep the engine, and must not outlive it.
        for peer in self.peers() {
            peer.forget();
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

    /// Hands what was published to the links, in order.
    fn send_out(&mut self) {
        let sent = std::mem::take(&mut self.scripts.store().outbox);
        for message in sent {
            let Some(ids) = self.listeners.get(&message.channel) else { continue };
            for peer in ids.iter().filter_map(|id| self.peers.get(id)) {
                // LOCKS: engine, then port or conversation.
                peer.publish(&message);
            }
        }
    }

    fn unlisten(&mut self, id: u64, channel: &[u8]) {
        if let Some(ids) = self.listeners.get_mut(channel) {
            ids.remove(&id);
            if ids.is_empty() {
                self.listeners.remove(channel);
            }
        }
        self.count_listeners(channel);
    }

    fn unlisten_all(&mut self, id: u64) {
        let channels: Vec<Bytes> = self
            .listeners
            .iter()
            .filter(|(_, ids)| ids.contains(&id))
            .map(|(channel, _)| channel.clone())
            .collect();
        for channel in channels {
            self.unlisten(id, &channel);
        }
    }

    /// PUBLISH answers how many listen; the store is told, as scripts publish too.
    fn count_listeners(&mut self, channel: &[u8]) {
        let mut store = self.scripts.store();
        match self.listeners.get(channel) {
            Some(ids) => store.listeners.insert(channel.to_vec(), ids.len()),
            None => store.listeners.remove(channel),
        };
    }
}

fn arg_bytes(arg: &Arg) -> Bytes {
    match arg {
        Arg::Int(number) => number.to_string().into_bytes(),
        Arg::Text(text) => text.as_bytes().to_vec(),
    }
}
