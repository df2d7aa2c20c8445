//! Asks the sentinels for the primary again and again, and changes the target of the node.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures_util::future::join_all;
use tokio::time::{Duration, Instant, sleep, timeout};

use super::watch::{ANSWER_MAX, Origin, WatchedSentinel};
use super::{EVERY, SentinelState};
use crate::call::Value;
use crate::call_error::{CallError, Fault};
use crate::control::{ControlConnection, Deaf};
use crate::endpoint::Endpoint;
use crate::handshake::not_connected;
use crate::host_port::HostPort;
use crate::identity::line;
use crate::lane::Lane;
use crate::node::Node;

/// The shortest time between two looks, because a failed primary ends many connections at once.
const AT_LEAST: Duration = Duration::from_millis(20);

/// The number of looks between two questions for other sentinels.
const OTHERS: u32 = 10;

/// How long a starting client waits for a majority of the sentinels.
pub(super) const PATIENCE: Duration = ANSWER_MAX;

const REPLICATION: [&[u8]; 2] = [b"INFO", b"replication"];

/// The sentinels at one look, by address.
type Sentinels = BTreeMap<String, WatchedSentinel>;

/// The primary that is the target of the node.
struct Present {
    /// The address that sentinels name.
    address: HostPort,
    /// Where it is reached.
    server: Result<Endpoint, Fault>,
    /// Its replication id. A promoted replica keeps this id as its former one. `None` if the user
    /// lacks the permission.
    replication_id: Option<String>,
    is_identified: bool,
    /// A server that a minority names, and that has turned out not to be the successor.
    refuted: Option<HostPort>,
}

/// Runs until it is dropped.
pub(super) async fn run(shared: Arc<SentinelState>, node: Arc<Node>) {
    let patience = Instant::now() + PATIENCE.min(shared.setup.timing.connect / 3);
    let mut present: Option<Present> = None;
    let mut round = 0_u32;
    loop {
        let sentinels = shared.sentinels.lock().clone();
        let name = shared.deployment.master.as_bytes();
        let answers = join_all(sentinels.iter().map(|sentinel| primary(sentinel, name))).await;
        let mut voters = sentinels
            .values()
            .filter(|sentinel| sentinel.is_voter())
            .count();
        let next = match (most_named(answers.iter().flatten()), &mut present) {
            (Some((address, voices)), _) if 2 * voices > voters => Some(address),
            (Some((address, _)), None) if Instant::now() >= patience => Some(address),
            (_, None) => None,
            (_, Some(present)) => present.successor(&shared, answers.iter().flatten()).await,
        };
        let next = next.map(|address| Present::at(&shared, address));
        match next.filter(|next| !present.as_ref().is_some_and(|at| at.is_same(next))) {
            Some(next) => {
                follow(&shared, &node, &next);
                if present.is_some() {
                    // The order matters. This must come after the switch, because from then on no
                    // reply of the former primary can confirm a hold.
                    shared.setup.events.primary_changed(&|_| true);
                } else {
                    // At the start, learn from any number of sentinels, because some of those in
                    // the URL may not exist any more.
                    voters = 0;
                }
                present = Some(next);
                round = 0;
            }
            None if present.is_none() => unnamed(&shared, &node, answers),
            None => {}
        }
        let mut pause = PATIENCE;
        if let Some(present) = &mut present {
            present.identify(&node, round).await;
            if round.is_multiple_of(OTHERS) {
                learn_others(&shared, &sentinels, voters).await;
            }
            (round, pause) = (round + 1, EVERY);
        }
        tokio::select! {
            biased;
            () = shared.changed.notified() => sleep(AT_LEAST).await,
            () = sleep(pause.mul_f64(0.8 + 0.4 * fastrand::f64())) => {}
        }
    }
}

impl Present {
    fn at(shared: &SentinelState, address: HostPort) -> Self {
        Present {
            server: shared.deployment.server_at(&address),
            address,
            replication_id: None,
            is_identified: false,
            refuted: None,
        }
    }

    /// Whether the client stays at this one. It does if the address map fails for the same server.
    fn is_same(&self, next: &Present) -> bool {
        self.address == next.address && (next.server.is_err() || next.server == self.server)
    }

    /// Asks the primary for its replication id, which changes when the primary restarts.
    async fn identify(&mut self, node: &Node, round: u32) {
        if round.is_multiple_of(OTHERS) {
            self.refuted = None;
        } else if self.is_identified {
            return;
        }
        let info = timeout(ANSWER_MAX, node.command(Lane::Background, &REPLICATION)).await;
        match info {
            Ok(Ok(info)) => {
                self.replication_id = line(&info, "master_replid:").map(str::to_owned);
                self.is_identified = true;
            }
            Ok(Err(CallError::Refused(_))) => self.is_identified = true,
            _ => {}
        }
    }

    /// A server that too few sentinels name, if it proves to be the successor of this one.
    async fn successor<'a>(
        &mut self,
        shared: &SentinelState,
        named: impl Iterator<Item = &'a HostPort>,
    ) -> Option<HostPort> {
        let id = self.replication_id.as_ref()?;
        let (other, _) = most_named(named.filter(|address| **address != self.address))?;
        if self.refuted.as_ref() == Some(&other) {
            return None;
        }
        let former = timeout(ANSWER_MAX, former_id(shared, &other))
            .await
            .ok()
            .flatten();
        if former.as_ref() == Some(id) {
            return Some(other);
        }
        self.refuted = Some(other);
        None
    }
}

/// The former replication id of a server, if it is a primary now.
async fn former_id(shared: &SentinelState, address: &HostPort) -> Option<String> {
    let remote = shared.primary(&shared.deployment.server_at(address)).ok()?;
    let events = Arc::new(Deaf);
    let opened = ControlConnection::open(&remote, &shared.setup, events).await;
    let info = opened.ok()?.command(&REPLICATION, ANSWER_MAX).await.ok()?;
    line(&info, "master_replid2:").map(str::to_owned)
}

/// The server that most of the answering sentinels name, and how many name it.
fn most_named<'a>(named: impl Iterator<Item = &'a HostPort>) -> Option<(HostPort, usize)> {
    let mut voices = BTreeMap::<_, usize>::new();
    named.for_each(|address| *voices.entry(address).or_default() += 1);
    let (most, voices) = voices.into_iter().max_by_key(|(_, voices)| *voices)?;
    Some((most.clone(), voices))
}

/// Switches the node to another primary.
fn follow(shared: &SentinelState, node: &Node, next: &Present) {
    *shared.unnamed.lock() = None;
    let fault = Fault(format!("the primary is {} now", next.address));
    node.switch(shared.primary(&next.server), &fault);
}

/// Stores the fault of each sentinel for callers, while no primary is known.
fn unnamed(shared: &SentinelState, node: &Node, answers: Vec<Result<HostPort, CallError>>) {
    let (mut kind, mut causes): (fn(Fault) -> CallError, _) = (CallError::NotApplied, Vec::new());
    for answer in answers {
        match answer {
            Err(CallError::Refused(Fault(cause))) => {
                kind = CallError::Refused;
                causes.push(cause);
            }
            Err(CallError::NotApplied(Fault(cause)) | CallError::Unknown(Fault(cause))) => {
                causes.push(cause);
            }
            // This sentinel has named a primary, and the others are still missing.
            _ => return,
        }
    }
    let fault = Fault(format!(
        "no sentinel has named the primary yet: {}",
        causes.join("; ")
    ));
    let error = Some(kind(fault.clone()));
    if std::mem::replace(&mut *shared.unnamed.lock(), error.clone()) != error {
        node.switch(Err(fault.clone()), &fault);
    }
}

async fn primary(
    (own, sentinel): (&String, &WatchedSentinel),
    name: &[u8],
) -> Result<HostPort, CallError> {
    let answer = sentinel.ask(&[b"SENTINEL", b"MASTER", name]).await;
    let described = answer.and_then(|reply| {
        address(&reply).ok_or_else(|| not_connected("the reply does not describe the primary"))
    });
    described.map_err(|error| error.reworded(|text| format!("{own}: {text}")))
}

/// Watches the sentinels that most of the answering ones see up, and forgets the others. If too few
/// answer, nothing is learned, because they may be cut off or belong to another deployment.
async fn learn_others(shared: &SentinelState, sentinels: &Sentinels, voters: usize) {
    let question: [&[u8]; 3] = [
        b"SENTINEL",
        b"SENTINELS",
        shared.deployment.master.as_bytes(),
    ];
    let replies = join_all(sentinels.values().map(|sentinel| sentinel.ask(&question))).await;
    let (mut answered, mut named) = (0, BTreeMap::<String, (usize, Option<Endpoint>)>::new());
    for (own, reply) in sentinels.keys().zip(replies) {
        let Ok(Value::Array(others)) = reply else {
            continue;
        };
        answered += 1;
        let up = others.iter().filter_map(seen_up);
        let up = up.filter_map(|other| shared.deployment.sentinel_at(&other).ok());
        let up = up.map(|endpoint| (endpoint.address().to_string(), Some(endpoint)));
        let mut up: BTreeMap<_, _> = up.collect();
        // A sentinel does not list itself.
        up.entry(own.clone()).or_default();
        for (address, endpoint) in up {
            let (voices, known) = named.entry(address).or_default();
            *voices += 1;
            *known = known.take().or(endpoint);
        }
    }
    if 2 * answered <= voters {
        return;
    }
    named.retain(|_, (voices, _)| 2 * *voices > answered);
    let is_kept = |address: &str, sentinel: &WatchedSentinel| {
        sentinel.origin == Origin::Url || named.contains_key(address)
    };
    shared
        .sentinels
        .lock()
        .retain(|address, sentinel| is_kept(address, sentinel));
    for endpoint in named.into_values().filter_map(|(_, endpoint)| endpoint) {
        // Ignore a sentinel that cannot be used, because nobody configured it.
        drop(shared.watch(&endpoint, Origin::OtherSentinels));
    }
}

/// The address of a listed sentinel, unless it is down.
fn seen_up(sentinel: &Value) -> Option<HostPort> {
    if let Some(Value::Text(flags)) = sentinel.field("flags")
        && flags.contains("s_down")
    {
        return None;
    }
    address(sentinel)
}

/// The address in a sentinel's description of a server.
fn address(description: &Value) -> Option<HostPort> {
    let field = |name| match description.field(name) {
        Some(Value::Text(text)) if !text.is_empty() => Some(text),
        _ => None,
    };
    let port = field("port")?.parse().ok().filter(|port| *port != 0)?;
    Some(HostPort::new(field("ip")?, port))
}
