//! Learns which node serves which slots, when that is in doubt and rarely by itself.
//!
//! Several nodes are asked side by side, and the newest view counts: a node that is cut off answers quickly
//! and wrongly. No call waits for this, and no connection that works is touched, but those of a node that
//! serves no slot any more: it was demoted, or is no member any more. A view that is wrong all the same
//! costs redirects, which say what is right.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Duration, sleep};

use super::Shared;
use super::keyslot::keyslot;
use super::layout::Layout;
use crate::control::{ControlConnection, Deaf};
use crate::endpoint::{Address, Endpoint};
use crate::node::Node;
use crate::pacer::Pacer;
use crate::{CallError, Fault, Lane, Missed, ShardedPubSub};

/// The pause between two looks when nothing casts doubt on the map, give or take jitter.
const EVERY: Duration = Duration::from_secs(10);

/// The pause before a question that follows something new (MOVED): a crowd of redirects is one doubt. It doubles
/// while the answer is the same, up to a third of what a call waits, within these bounds: a failover is followed before
/// the call gives up, and no client asks all the time.
const AT_LEAST: Duration = Duration::from_millis(25);
const AT_MOST: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// How long a node may take for an answer.
const ANSWER_MAX: Duration = Duration::from_millis(500);

/// How many nodes are asked side by side.
const ASKED: usize = 3;

/// Runs until it is dropped.
pub(super) async fn run(shared: Arc<Shared>) {
    let at_most = (shared.setup.timing.command / 3).clamp(AT_MOST[0], AT_MOST[1]);
    let mut pacer = Pacer::new(AT_LEAST, at_most);
    loop {
        tokio::select! {
            biased;
            () = shared.moved.notified() => pacer.begin_anew(),
            () = shared.doubted.notified() => {}
            () = sleep(EVERY.mul_f64(0.8 + 0.4 * fastrand::f64())) => pacer.begin_anew(),
        }
        tokio::select! {
            biased;
            () = pacer.rest() => {}
            () = shared.moved.notified() => {
                pacer.begin_anew();
                pacer.rest().await;
            }
        }
        match discover(&shared).await {
            Ok(Seen::Changed) => pacer.begin_anew(),
            // It is doubted again, by the call or the connection that needs it.
            Ok(Seen::Same) | Err(_) => pacer.nothing_new(),
        }
    }
}

/// The result of a look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Seen {
    Changed,
    Same,
}

/// Asks until some nodes have answered; `Err` if none did.
pub(super) async fn discover(shared: &Arc<Shared>) -> Result<Seen, CallError> {
    let mut asked: Vec<_> = shared.nodes.all();
    fastrand::shuffle(&mut asked);
    // Those that have a connection first: the others are asked only if these say nothing.
    asked.sort_by_key(|(_, node)| node.why_not_connected().is_some());
    let mut best: Option<Layout> = None;
    for some in asked.chunks(ASKED) {
        let answers = futures_util::future::join_all(some.iter().map(|(number, node)| {
            let host = shared.nodes.address(*number).map(|address| address.host);
            ask(shared, node, host.unwrap_or_default())
        }));
        best = answers.await.into_iter().flatten().max_by_key(Layout::rank);
        if best
            .as_ref()
            .is_some_and(|layout| !layout.ranges.is_empty())
        {
            break;
        }
    }
    let layout = match best.filter(|layout| !layout.ranges.is_empty()) {
        Some(layout) => layout,
        None => ask_seeds(shared).await?,
    };
    Ok(apply(shared, layout))
}

async fn ask(shared: &Shared, node: &Node, host: String) -> Option<Layout> {
    let limit = ANSWER_MAX.min(shared.setup.timing.command);
    let question = async {
        let slots: [&[u8]; 2] = [b"CLUSTER", b"SLOTS"];
        let info: [&[u8]; 2] = [b"CLUSTER", b"INFO"];
        let slots = node.command(Lane::Background, &slots);
        let info = node.command(Lane::Background, &info);
        futures_util::future::try_join(slots, info).await
    };
    let (slots, info) = tokio::time::timeout(limit, question).await.ok()?.ok()?;
    Layout::read(&slots, &info, &host, shared.deployment.security())
}

/// The nodes of the URL, and all others that were known: side by side, the first good answer counts.
async fn ask_seeds(shared: &Arc<Shared>) -> Result<Layout, CallError> {
    let known = shared.nodes.all().into_iter().filter_map(|(number, _)| {
        let address = shared.nodes.address(number)?;
        Some(shared.deployment.servers.at(&address))
    });
    let mut seeds: Vec<Endpoint> = shared.deployment.seeds.clone();
    for endpoint in known {
        if !seeds.contains(&endpoint) {
            seeds.push(endpoint);
        }
    }
    let mut answers: FuturesUnordered<_> = seeds
        .iter()
        .map(|endpoint| ask_seed(shared, endpoint))
        .collect();
    let mut failed = CallError::NotApplied(Fault("no node of the cluster is known".into()));
    while let Some(answer) = answers.next().await {
        match answer {
            Ok(layout) if !layout.ranges.is_empty() => return Ok(layout),
            Ok(_) => {
                failed = CallError::NotApplied(Fault("the cluster serves no slot yet".into()));
            }
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

async fn ask_seed(shared: &Arc<Shared>, endpoint: &Endpoint) -> Result<Layout, CallError> {
    let remote = Arc::new(shared.setup.server(endpoint)?);
    let control = ControlConnection::open(&remote, &shared.setup, Arc::new(Deaf)).await?;
    if shared.setup.sharded_pubsub == ShardedPubSub::Auto {
        // As Redisson finds out, once. A server that does not know it says so; silence decides nothing, as
        // releases that are published in another way than their waiters listen for wake nobody.
        let known = match control
            .command(&[b"PUBSUB", b"SHARDNUMSUB"], ANSWER_MAX)
            .await
        {
            Err(CallError::Refused(_)) => false,
            answer => answer.map(|_| true).map_err(CallError::took_nothing)?,
        };
        shared.is_sharded.store(known, Ordering::Relaxed);
    }
    let slots = control.command(&[b"CLUSTER", b"SLOTS"], ANSWER_MAX).await;
    let slots = slots.map_err(CallError::took_nothing)?;
    let info = control.command(&[b"CLUSTER", b"INFO"], ANSWER_MAX).await;
    let info = info.map_err(CallError::took_nothing)?;
    let host = match endpoint.address() {
        Address::Tcp { host, .. } | Address::Tls { host, .. } => host.as_str(),
        Address::Unix { .. } => "",
    };
    let layout = Layout::read(&slots, &info, host, shared.deployment.security());
    layout.ok_or_else(|| {
        let what = "the server describes no cluster, or in a way that is not understood";
        CallError::Refused(Fault(what.into()))
    })
}

/// Takes a view over.
fn apply(shared: &Arc<Shared>, layout: Layout) -> Seen {
    let mut view = shared.last_view.lock();
    // Which slots each former owner has lost.
    let mut lost: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
    for range in layout.ranges {
        let owner = shared.node(&range.address);
        shared.nodes.is_named(owner);
        if let Some(also) = range.also {
            shared.nodes.is_also_at(owner, also);
        }
        for slot in range.first..=range.last {
            shared.map.give(slot, owner);
            let before = std::mem::replace(&mut view[usize::from(slot)], owner);
            if before != owner {
                lost.entry(before).or_default().push(slot);
            }
        }
    }
    let seen = if lost.is_empty() {
        Seen::Same
    } else {
        Seen::Changed
    };
    lost.retain(|before, _| !view.contains(before));
    // LOCKS: the end of a connection wakes callers (F1 of `sync.rs`).
    drop(view);
    let mut failed_over = BTreeSet::new();
    for (before, slots) in lost {
        if shared.retire(before) {
            failed_over.extend(slots);
        }
    }
    if !failed_over.is_empty() {
        // The successor may lack the last writes.
        let concerns = |text: &str| failed_over.contains(&keyslot(text));
        shared.setup.events.primary_changed(&concerns);
        shared.setup.events.missed(Missed::Where(&concerns));
    }
    shared.channels.may_have_moved();
    seen
}

impl Shared {
    /// Gives a node up that serves no slot any more. Its connections end before this returns.
    pub(super) fn retire(&self, number: u32) -> bool {
        let Some(node) = self.nodes.retire(number) else {
            return false;
        };
        let fault = Fault("the node does not serve its slots any more".into());
        node.switch(Err(fault.clone()), &fault);
        true
    }
}
