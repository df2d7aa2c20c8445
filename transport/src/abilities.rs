//! What the servers of a client can do. No other file remembers anything about a server.
//!
//! | ability | learned from | asked |
//! | --- | --- | --- |
//! | protocol | the reply to HELLO | by the first connection, and after [`REMEMBERED`] |
//! | scripts | EVALSHA without keys, sent with HELLO; if refused, EVAL with a key | the same |
//! | messages | a refused SUBSCRIBE | by the first waiter |
//! | messages within a shard | PUBSUB SHARDNUMSUB | by the first look at the layout of a cluster |
//! | undeclared keys | a refused search for locks | by the first search |
//! | keys of several slots | a refused script | by the first script with many keys; with the scripts, if those without keys are refused |
//! | other commands | an error that says that the command is unknown, or not permitted | when they are first needed |
//!
//! All connections of a client to one address share what they have learned. All but the protocol is
//! forgotten when a connection meets a server with another run id there.
//!
//! # Bounds
//!
//! An entry for each server in use, and at most [`SERVERS_MAX`] others. The commands in an entry
//! are those that this library sends.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::time::{Duration, Instant};

use super::endpoint::Endpoint;
use super::host_port::HostPort;
use super::protocol::Protocol;
use super::redirect::Redirect;
use super::request::CallOutcome;
use crate::call::Call;
use crate::call_error::{CallError, Fault, sort_error_reply};
use crate::sync::Mutex;

/// How long the protocol and the scripts of a server are remembered for new connections. After
/// that, the next one asks again, because the server may have been upgraded, or another one may
/// answer at its address.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// How long a command that this user may not run is not sent again. The user may get the right.
/// Without the commands that only look at the server every lock works, so they are not tried again.
const FORBIDDEN: Duration = Duration::from_secs(60);

/// The number of entries beyond which those of servers that are not in use are dropped.
const SERVERS_MAX: usize = 256;

/// Commands whose second word is a part of their name.
const CONTAINERS: [&str; 7] = [
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "PUBSUB", "SENTINEL",
];

/// Commands that only look at the server.
const LOOKING: [&str; 4] = ["ACL", "CLIENT", "COMMAND", "CONFIG"];

/// Commands that show failovers and tell servers apart. A missing right concerns the words that
/// were refused, and no others.
const VITAL: [&str; 4] = ["CLUSTER", "INFO", "ROLE", "SENTINEL"];

/// What is known about the servers of a client, by the address at which each is reached.
#[derive(Clone, Default)]
pub struct Servers(Arc<Mutex<HashMap<HostPort, Arc<Known>>>>);

/// What is known about the server at one address. Its connections share this.
#[derive(Default)]
pub(super) struct Known {
    learned: Mutex<ServerFacts>,
    /// Whether it is a server with locks, and not a sentinel.
    has_locks: AtomicBool,
    /// Whether some scripts are refused. Each call looks at this.
    refuses_scripts: AtomicBool,
}

#[derive(Default)]
struct ServerFacts {
    run_id: Option<Arc<str>>,
    /// When a handshake has asked for the protocol and the scripts.
    asked: Option<Instant>,
    /// When each command was refused.
    refused: BTreeMap<String, Instant>,
    abilities: Abilities,
}

/// What a server can do. `None` and empty: nothing is known, so it counts as able.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Abilities {
    /// The protocol of its connections.
    pub protocol: Option<Protocol>,
    /// Which scripts it runs.
    pub scripts: Option<Scripts>,
    /// The error with which it refused SUBSCRIBE, if it did.
    pub no_messages: Option<Fault>,
    /// Whether it has SPUBLISH and SSUBSCRIBE.
    pub sharded_messages: Option<bool>,
    /// Whether it refused a script that found its keys itself.
    pub declared_keys_only: bool,
    /// Whether it refused a call about keys of several slots, as a proxy of a cluster does.
    pub one_slot_only: bool,
    /// The commands that it does not know, or that this user may not run, and its errors.
    pub refused: BTreeMap<String, Fault>,
}

/// The scripts that a server runs.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are no others")]
pub enum Scripts {
    /// Every script.
    Any,
    /// Only scripts that name a key.
    WithKeys,
    /// None. This is its error.
    None(Fault),
}

impl Abilities {
    /// The reason if the server does not run the scripts of this library.
    pub fn why_no_scripts(&self) -> Option<String> {
        match &self.scripts {
            Some(Scripts::None(fault)) => Some(format!("the server refuses scripts: {fault}")),
            _ => None,
        }
    }
}

impl Servers {
    /// The entry of the server that is reached there.
    pub(super) fn at(&self, endpoint: &Endpoint) -> Arc<Known> {
        let mut all = self.0.lock();
        if all.len() >= SERVERS_MAX {
            all.retain(|_, known| is_in_use(known));
        }
        all.entry(endpoint.host_port()).or_default().clone()
    }

    /// Whether this is true of a server with locks that is in use.
    pub(super) fn any(&self, holds: impl Fn(&Abilities) -> bool) -> bool {
        self.find(|abilities| holds(abilities).then_some(()))
            .is_some()
    }

    /// What is found in the abilities of a server with locks that is in use.
    pub(super) fn find<T>(&self, find: impl Fn(&Abilities) -> Option<T>) -> Option<T> {
        let all = self.0.lock();
        let mut used = all
            .values()
            .filter(|known| is_in_use(known) && known.has_locks());
        used.find_map(|known| find(&known.learned.lock().abilities))
    }
}

fn is_in_use(known: &Arc<Known>) -> bool {
    Arc::strong_count(known) > 1
}

impl Known {
    pub(super) fn gets_scripts(&self) {
        self.has_locks.store(true, Ordering::Relaxed);
    }

    pub(super) fn has_locks(&self) -> bool {
        self.has_locks.load(Ordering::Relaxed)
    }

    pub(super) fn abilities(&self) -> Abilities {
        self.learned.lock().abilities.clone()
    }

    /// Called before a handshake, which must ask for what is `None`. Until it has been told, the
    /// others go by what is known.
    pub(super) fn begin(&self) -> (Option<Protocol>, Option<Scripts>) {
        let mut learned = self.learned.lock();
        let is_old = |asked: Instant| asked.elapsed() >= REMEMBERED;
        if learned.asked.is_some_and(is_old) {
            learned.asked = None;
            return (None, None);
        }
        let Abilities {
            protocol, scripts, ..
        } = &learned.abilities;
        (*protocol, scripts.clone())
    }

    /// A connection has reached the server with this run id. What was known about another one does
    /// not count.
    pub(super) fn met(&self, run_id: Option<&str>) {
        let mut learned = self.learned.lock();
        let Some(met) = run_id else { return };
        if learned.run_id.as_deref().is_some_and(|known| known != met) {
            let protocol = learned.abilities.protocol;
            *learned = ServerFacts {
                asked: learned.asked,
                ..ServerFacts::default()
            };
            learned.abilities.protocol = protocol;
        }
        learned.run_id.get_or_insert_with(|| Arc::from(met));
    }

    pub(super) fn speaks(&self, protocol: Protocol) {
        let mut learned = self.learned.lock();
        learned.asked.get_or_insert_with(Instant::now);
        learned.abilities.protocol = Some(protocol);
    }

    pub(super) fn runs(&self, scripts: Scripts) {
        let refuses = scripts != Scripts::Any;
        self.learned.lock().abilities.scripts = Some(scripts);
        self.refuses_scripts.store(refuses, Ordering::Relaxed);
    }

    /// Fails if the server is known to refuse the script of the call.
    pub(super) fn check_call(&self, call: &Call) -> Result<(), CallError> {
        if !self.refuses_scripts.load(Ordering::Relaxed) {
            return Ok(());
        }
        let abilities = &self.learned.lock().abilities;
        let reason = abilities.why_no_scripts().or_else(|| {
            let lacks_key = call.keys.is_empty() && abilities.scripts == Some(Scripts::WithKeys);
            lacks_key.then(|| "the server refuses scripts without keys".to_owned())
        });
        reason.map_or(Ok(()), |reason| Err(CallError::Refused(Fault(reason))))
    }

    /// The server has refused a subscription. If that concerns neither this user nor this node, it
    /// has no messages.
    pub(super) fn subscription_refused(&self, error: &CallError) {
        if let CallError::Refused(fault) = error
            && !fault.is_missing_right()
            && Redirect::of(error).is_none()
        {
            let no_messages = &mut self.learned.lock().abilities.no_messages;
            no_messages.get_or_insert_with(|| fault.clone());
        }
    }

    /// Whether the server has messages within a shard, by its answer to PUBSUB SHARDNUMSUB. Without
    /// an answer, nothing is decided: if releases were published in another way than waiters
    /// subscribe, no waiter would wake.
    pub(super) fn has_sharded_messages(&self, answer: CallOutcome) -> Result<bool, CallError> {
        let has = match answer {
            // The user may get the right.
            Err(CallError::Refused(fault)) if fault.is_missing_right() => return Ok(false),
            Err(CallError::Refused(_)) => false,
            answer => answer.map(|_| true).map_err(CallError::took_nothing)?,
        };
        self.learned.lock().abilities.sharded_messages = Some(has);
        Ok(has)
    }

    /// The server has refused a script that finds its keys itself. Unless this user lacks a right,
    /// it does so always.
    pub(super) fn search_refused(&self, fault: &Fault) {
        if !fault.is_missing_right() {
            self.learned.lock().abilities.declared_keys_only = true;
        }
    }

    pub(super) fn takes_one_slot_only(&self) {
        self.learned.lock().abilities.one_slot_only = true;
    }

    pub(super) fn takes_several_slots(&self) {
        self.learned.lock().abilities.one_slot_only = false;
    }

    pub(super) fn takes_keys_of_one_slot(&self) -> bool {
        self.learned.lock().abilities.one_slot_only
    }

    /// Notes the error in reply to a command, if it concerns the command as such.
    pub(super) fn refused(&self, words: &[&[u8]], error: &str) {
        let fault = Fault(error.to_owned());
        let is_missing_right = fault.is_missing_right();
        if is_about_the_command(error) || is_missing_right {
            let name = if is_missing_right {
                name_for_rights(words)
            } else {
                name(words)
            };
            let mut learned = self.learned.lock();
            learned.refused.insert(name.clone(), Instant::now());
            learned.abilities.refused.insert(name, fault);
        }
    }

    /// The error that a command would get, if the server has given it before.
    pub(super) fn refusal(&self, words: &[&[u8]]) -> Option<CallError> {
        let learned = self.learned.lock();
        [name(words), name_for_rights(words)]
            .iter()
            .find_map(|name| {
                let fault = learned.abilities.refused.get(name)?;
                let is_over = learned.refused.get(name)?.elapsed() >= FORBIDDEN;
                let is_tried_again = fault.is_missing_right() && is_over && !only_looks(name);
                (!is_tried_again).then(|| sort_error_reply(&fault.0))
            })
    }
}

/// Whether an error says that the server does not have the command, by the patterns of Redis,
/// proxies and vendors.
pub(super) fn is_about_the_command(error: &str) -> bool {
    let text = error.to_lowercase();
    let patterns = [
        "unknown command",
        "unknown subcommand",
        "not supported",
        "support disabled",
    ];
    text.starts_with("err ") && patterns.iter().any(|pattern| text.contains(pattern))
}

/// The name of a command, with its subcommand, and without any argument. CLIENT SETINFO sets two
/// things, by two commands.
pub(super) fn name(words: &[&[u8]]) -> String {
    let upper = |word: &&[u8]| String::from_utf8_lossy(word).to_ascii_uppercase();
    let all: Vec<_> = words.iter().take(3).map(upper).collect();
    let parts = match &all[..] {
        [client, verb, ..] if client == "CLIENT" && verb == "SETINFO" => 3,
        [first, ..] if CONTAINERS.contains(&first.as_str()) => 2,
        _ => 1,
    };
    all[..parts.min(all.len())].join(" ")
}

fn only_looks(name: &str) -> bool {
    let first = name.split(' ').next();
    first.is_some_and(|first| LOOKING.contains(&first))
}

/// The words that a missing right concerns.
fn name_for_rights(words: &[&[u8]]) -> String {
    let is_vital = VITAL
        .iter()
        .any(|vital| words[0].eq_ignore_ascii_case(vital.as_bytes()));
    if is_vital {
        String::from_utf8_lossy(&words.join(&b' ')).to_ascii_uppercase()
    } else {
        name(words)
    }
}

impl fmt::Debug for Servers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Servers").finish_non_exhaustive()
    }
}

/// The question whether a server has messages within a shard. Redisson asks in this way as well.
pub(super) const SHARDED_MESSAGES: [&[u8]; 2] = [b"PUBSUB", b"SHARDNUMSUB"];

/// Whether another node of the cluster serves the key.
pub(super) fn is_redirect(error: &str) -> bool {
    error.starts_with("MOVED ") || error.starts_with("ASK ")
}

/// Whether only a node of a cluster gives such an error.
pub(super) fn is_of_a_cluster(error: &str) -> bool {
    is_redirect(error) || error.starts_with("CROSSSLOT ")
}

/// Whether an error says that no script is run whose text is as ours. This is the pattern of a
/// proxy of Alibaba Tair, which reads the text of scripts.
pub(super) fn refuses_our_scripts(error: &str) -> bool {
    error.starts_with("ERR bad lua script")
}

/// Whether an error repeats the words of a command that the server does not know.
pub(super) fn repeats_the_command(error: &str) -> bool {
    error.starts_with("ERR unknown command")
}
