//! Learns which node serves which slots: when the map is in doubt, and otherwise rarely.
//!
//! Several nodes are asked at once, and the newest view wins, because a node that is cut off
//! answers quickly but with an old view. No call waits for this. Working connections stay, except
//! those to a node that serves no slot any more, because it was demoted or left the cluster. If the
//! view is wrong nevertheless, calls are redirected, and the redirects correct the map.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use tokio::time::{Duration, Instant, sleep};

use super::ClusterState;
use super::layout::{Layout, Range};
use crate::abilities::SHARDED_MESSAGES;
use crate::call_error::{CallError, Fault};
use crate::control::{ControlConnection, Deaf};
use crate::endpoint::Endpoint;
use crate::events::Missed;
use crate::grace::Former;
use crate::host_port::HostPort;
use crate::keyslot::keyslot;
use crate::lane::Lane;
use crate::node::Node;
use crate::pacer::Pacer;
use crate::pubsub::ShardedPubSub;

/// The pause between two updates while nothing casts doubt on the map, apart from jitter.
const EVERY: Duration = Duration::from_secs(10);

/// The pause before an update after news (MOVED), so that many redirects cause one update. It
/// doubles while the answer stays the same, up to a third of the time limit of a call, within these
/// bounds. So a client notices a failover before its calls time out, and does not ask all the time.
const AT_LEAST: Duration = Duration::from_millis(25);
const AT_MOST: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(1)];

/// A doubt after so long without one is news.
const CALM: Duration = Duration::from_secs(1);

/// How long a node may take for an answer.
pub(super) const ANSWER_MAX: Duration = Duration::from_millis(500);

/// How many nodes are asked at once.
const ASKED: usize = 3;

/// Runs until it is dropped.
pub(super) async fn run(shared: Arc<ClusterState>) {
    let at_most = (shared.setup.timing.command / 3).clamp(AT_MOST[0], AT_MOST[1]);
    let mut pacer = Pacer::new(AT_LEAST, at_most).eager_for(shared.setup.timing.eager());
    let mut asked = Instant::now();
    loop {
        tokio::select! {
            biased;
            () = shared.moved.notified() => pacer.begin_anew(),
            // A node was lost a moment ago.
            () = shared.doubted.notified() => if asked.elapsed() > CALM {
                pacer.begin_anew();
            },
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
        asked = Instant::now();
        match discover(&shared).await {
            Ok(MapUpdate::Changed) => pacer.begin_anew(),
            // The next call or connection that fails will cast doubt on the map again.
            Ok(MapUpdate::Same) => pacer.nothing_new(),
            // No node answers, so no failover can be seen. Each question is an attempt to connect
            // to each node.
            Err(_) => pacer.slow_down(AT_MOST[1]),
        }
    }
}

/// The result of an update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MapUpdate {
    Changed,
    Same,
}

/// Asks nodes until some have answered. Fails if none did.
pub(super) async fn discover(shared: &Arc<ClusterState>) -> Result<MapUpdate, CallError> {
    let mut asked: Vec<_> = shared.nodes.all();
    fastrand::shuffle(&mut asked);
    // Nodes with a connection come first. The others are asked only if none of these answers.
    asked.sort_by_key(|(_, node)| node.why_not_connected().is_some());
    let mut best: Option<Layout> = None;
    for some in asked.chunks(ASKED) {
        let answers = futures_util::future::join_all(some.iter().map(|(number, node)| {
            let endpoint = shared.nodes.endpoint(*number);
            let host = endpoint.map(|endpoint| endpoint.host_port().host);
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
    apply(shared, layout)
}

async fn ask(shared: &ClusterState, node: &Node, host: String) -> Option<Layout> {
    let limit = ANSWER_MAX.min(shared.setup.timing.command);
    let question = async {
        let slots: [&[u8]; 2] = [b"CLUSTER", b"SLOTS"];
        let info: [&[u8]; 2] = [b"CLUSTER", b"INFO"];
        let slots = node.command(Lane::Background, &slots);
        let info = node.command(Lane::Background, &info);
        futures_util::future::try_join(slots, info).await
    };
    let (slots, info) = tokio::time::timeout(limit, question).await.ok()?.ok()?;
    Layout::read(&slots, &info, &host, shared.deployment.security)
}

/// Asks the nodes of the URL and all other known nodes at once. The first good answer wins.
async fn ask_seeds(shared: &Arc<ClusterState>) -> Result<Layout, CallError> {
    let known = shared.nodes.all().into_iter();
    let known = known.filter_map(|(number, _)| shared.nodes.endpoint(number));
    let mut seeds = shared.deployment.endpoints.clone();
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

async fn ask_seed(shared: &Arc<ClusterState>, endpoint: &Endpoint) -> Result<Layout, CallError> {
    let remote = Arc::new(shared.setup.server(endpoint)?);
    let control = ControlConnection::open(&remote, &shared.setup, Arc::new(Deaf)).await?;
    if shared.setup.sharded_pubsub == ShardedPubSub::Auto {
        let is_sharded = has_sharded_messages(&control).await?;
        shared.is_sharded.store(is_sharded, Ordering::Relaxed);
    }
    let slots = control.command(&[b"CLUSTER", b"SLOTS"], ANSWER_MAX).await;
    let slots = slots.map_err(CallError::took_nothing)?;
    let info = control.command(&[b"CLUSTER", b"INFO"], ANSWER_MAX).await;
    let info = info.map_err(CallError::took_nothing)?;
    let host = endpoint.host_port().host;
    let layout = Layout::read(&slots, &info, &host, shared.deployment.security);
    layout.ok_or_else(|| {
        let what = "the server describes no cluster, or in a way that is not understood";
        CallError::Refused(Fault(what.into()))
    })
}

/// A server that does not know the command says so.
async fn has_sharded_messages(control: &ControlConnection) -> Result<bool, CallError> {
    let known = control.known();
    if let Some(has) = known.abilities().sharded_messages {
        return Ok(has);
    }
    known.has_sharded_messages(control.command(&SHARDED_MESSAGES, ANSWER_MAX).await)
}

/// A node, and its other address if it has one. The address map may know only one of the two, but
/// certificates contain the first.
fn owner(shared: &ClusterState, range: &Range) -> Result<(Endpoint, Option<HostPort>), Fault> {
    let named = shared.deployment.server_at(&range.address)?;
    let also = range.also.as_ref();
    let also = also.map(|also| shared.deployment.server_at(also));
    Ok(match also {
        Some(Ok(also)) if also.is_mapped() && !named.is_mapped() => {
            let other = named.host_port();
            (also.announced_as(&range.address), Some(other))
        }
        Some(Ok(also)) => (named, Some(also.host_port())),
        Some(Err(_)) | None => (named, None),
    })
}

/// Updates the map to a view. Slots keep their owner if the address map fails for the new one.
///
/// The map changes before a former owner is retired: the calls that its end fails are repeated at
/// once, and must find the new owner.
fn apply(shared: &Arc<ClusterState>, layout: Layout) -> Result<MapUpdate, CallError> {
    // LOCKS: the address map is foreign code, so it is asked before `view` is locked.
    let owners: Vec<_> = layout
        .ranges
        .iter()
        .map(|range| owner(shared, range))
        .collect();
    if let Some(Err(fault)) = owners.first()
        && owners.iter().all(Result::is_err)
    {
        return Err(CallError::NotApplied(fault.clone()));
    }
    let mut view = shared.last_view.lock();
    // The slots that each former owner has lost.
    let mut lost: BTreeMap<u32, Vec<u16>> = BTreeMap::new();
    for (range, owner) in layout.ranges.into_iter().zip(owners) {
        let Ok((endpoint, also)) = owner else {
            continue;
        };
        let owner = shared.node(&endpoint, || match shared.map.owner(range.first) {
            None => Former::Nobody,
            Some(_) => match shared.nodes.identity(&range.id) {
                Some(known) => Former::Known(known),
                None => Former::Unknown,
            },
        });
        shared.nodes.record_name(owner, &range.id);
        if let Some(also) = also {
            shared.nodes.add_address(owner, also);
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
        MapUpdate::Same
    } else {
        MapUpdate::Changed
    };
    lost.retain(|before, _| !view.contains(before));
    // LOCKS: release `view` first, because the end of a connection wakes callers (FOREIGN-1 of
    // `sync.rs`).
    drop(view);
    let mut failed_over = BTreeSet::new();
    for (before, slots) in lost {
        if shared.retire(before) {
            failed_over.extend(slots);
        }
    }
    if !failed_over.is_empty() {
        // The new owner may lack the last writes. Report that only now, after `retire`, so that no
        // reply of a former owner can confirm a hold any more.
        let concerns = |text: &str| failed_over.contains(&keyslot(text));
        shared.setup.events.primary_changed(&concerns);
        shared.setup.events.missed(Missed::Where(&concerns));
    }
    shared.channels.may_have_moved();
    Ok(seen)
}

impl ClusterState {
    /// Gives up a node that serves no slot any more. Its connections end before this returns.
    pub(super) fn retire(&self, number: u32) -> bool {
        let Some(node) = self.nodes.retire(number) else {
            return false;
        };
        let fault = Fault("the node does not serve its slots any more".into());
        node.switch(Err(fault.clone()), &fault);
        true
    }
}
