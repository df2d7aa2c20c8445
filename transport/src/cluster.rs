//! A cluster: each key belongs to one of 16,384 slots, and each slot to one node. Slots can move to
//! other nodes.
//!
//! | file | what it is |
//! | --- | --- |
//! | `map` | which node serves a slot |
//! | `nodes` | the nodes, each with connections of its own |
//! | `calls` | calls, which follow redirects |
//! | `layout`, `discovery` | the assignment of slots to nodes, as the nodes report it |
//! | `channels` | subscriptions, each at the node that serves the slot of its channel |
//!
//! # One sick node
//!
//! A node that fails does not disturb the others, because nodes share no connection, no queue and
//! no pause. Calls read the map without waiting. A separate task updates it (`discovery.rs`).
//!
//! # Keys of several slots
//!
//! A node accepts keys of one slot in a call, and while the slot is being moved, only keys that it
//! still has. Renewals and polls concern many keys and need no atomicity. So they are one call for
//! each key. The calls to a node leave in few writes.

mod calls;
mod channels;
mod discovery;
mod layout;
mod map;
mod nodes;

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use resp_rs::cluster::hash_slot;
use tokio::sync::Notify;
use tokio::time::{Instant, timeout_at};

use self::channels::Channels;
use self::map::SlotMap;
use self::nodes::KnownNodes;
use super::deployment::Deployment;
use super::endpoint::Endpoint;
use super::grace::Former;
use super::host_port::HostPort;
use super::keyslot::{SLOTS, keyslot};
use super::node::Node;
use super::request::{CallOutcome, KeyForm};
use super::setup::{IfUnreachable, Setup};
use super::task::AbortOnDrop;
use crate::call::Call;
use crate::call_error::{CallError, Fault};
use crate::lane::Lane;
use crate::lane::{Epoch, NodeId};
use crate::pubsub::{PubSub, ShardedPubSub};
use crate::sync::Mutex;

pub(crate) struct Cluster {
    pub(super) shared: Arc<ClusterState>,
    tasks: [AbortOnDrop<()>; 2],
}

pub(super) struct ClusterState {
    deployment: Deployment,
    setup: Setup,
    map: Arc<SlotMap>,
    /// The owner of each slot in the last layout. Redirects that came since are not in it.
    last_view: Mutex<Vec<u32>>,
    nodes: KnownNodes,
    channels: Channels,
    /// Notified when the map may be wrong: a node was lost, or refuses calls.
    doubted: Arc<Notify>,
    /// Notified when the map was wrong: a redirect came.
    moved: Notify,
    /// Whether sharded channels are used. With [`ShardedPubSub::Auto`], the servers decide.
    is_sharded: AtomicBool,
}

impl Cluster {
    pub(super) async fn connect(
        deployment: Deployment,
        setup: Setup,
        if_unreachable: IfUnreachable,
    ) -> Result<Self, CallError> {
        // Report an invalid URL before anything is sent.
        let seeds = &deployment.endpoints;
        seeds
            .iter()
            .try_for_each(|seed| setup.server(seed).map(drop))?;
        if if_unreachable == IfUnreachable::Fail {
            setup.first_resolved(seeds).await;
        }
        let (own, limit) = (
            setup.runtimes.own.clone(),
            Instant::now() + setup.timing.connect,
        );
        let is_sharded = AtomicBool::new(setup.sharded_pubsub == ShardedPubSub::On);
        let shared = Arc::new(ClusterState {
            deployment,
            setup,
            map: Arc::new(SlotMap::new()),
            last_view: Mutex::new(vec![0; SLOTS]),
            nodes: KnownNodes::default(),
            channels: Channels::default(),
            doubted: Arc::default(),
            moved: Notify::new(),
            is_sharded,
        });
        // Later than each attempt, whose error says more.
        let late = limit + discovery::ANSWER_MAX;
        let first = timeout_at(late, discovery::discover(&shared)).await;
        let late = || CallError::NotApplied(Fault("no node has described the cluster".into()));
        match first.unwrap_or_else(|_| Err(late())) {
            Ok(_) => {}
            Err(CallError::NotApplied(_)) if if_unreachable == IfUnreachable::RetryLater => {}
            Err(error) => return Err(error),
        }
        // CANCEL: dropping this value ends the tasks and closes the connections.
        let tasks = [
            AbortOnDrop(own.spawn(discovery::run(shared.clone()))),
            AbortOnDrop(own.spawn(channels::run(shared.clone()))),
        ];
        let cluster = Cluster { shared, tasks };
        if if_unreachable == IfUnreachable::Fail {
            cluster.shared.first_connections(limit).await?;
        }
        Ok(cluster)
    }

    pub(super) async fn call_node(&self, node: NodeId, lane: Lane, call: Call) -> CallOutcome {
        let (node, keys) = (self.node(node)?, KeyForm::Plain);
        self.shared.ask(&node, lane, call, keys, None).await
    }

    /// Fails if the node was retired.
    pub(super) fn node(&self, node: NodeId) -> Result<Arc<Node>, CallError> {
        self.shared.nodes.get(node.0).ok_or_else(retired)
    }

    pub(super) fn node_of(&self, key: &[u8]) -> NodeId {
        let slot = hash_slot(key);
        let node = self.shared.map.owner(slot).unwrap_or_default();
        NodeId(node)
    }

    pub(super) fn all_nodes(&self) -> Vec<NodeId> {
        let owners = self.shared.map.owners().into_iter();
        owners.map(NodeId).collect()
    }

    pub(super) fn epoch(&self, lane: Lane, key: &str) -> Epoch {
        let slot = keyslot(key);
        let served = self.shared.map.changes(slot);
        let node = self.shared.map.owner(slot).unwrap_or_default();
        let connection = self
            .shared
            .nodes
            .get(node)
            .map_or(0, |node| node.epoch(lane));
        Epoch {
            connection,
            node,
            served,
        }
    }

    pub(super) async fn subscribe(&self, channel: &Arc<str>, key: &str) -> Result<(), CallError> {
        channels::subscribe(&self.shared, channel, self.shared.pubsub(channel, key)).await
    }

    pub(super) fn unsubscribe(&self, channel: &Arc<str>) {
        channels::unsubscribe(&self.shared, channel);
    }

    pub(super) fn server(&self) -> String {
        self.shared.deployment.to_string()
    }

    /// Whether the layout is known, and all connections to its nodes are open now.
    pub(super) fn is_connected(&self) -> bool {
        let mut named = self.shared.nodes.named().into_iter().peekable();
        named.peek().is_some() && named.all(|node| node.is_connected())
    }

    pub(super) fn reconnects(&self) -> u64 {
        self.shared.nodes.reconnects()
    }

    pub(super) async fn close(&self) {
        self.tasks.iter().for_each(|task| task.0.abort());
        let nodes = self.shared.nodes.all();
        futures_util::future::join_all(nodes.iter().map(|(_, node)| node.close())).await;
    }
}

impl fmt::Debug for Cluster {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster")
            .field("deployment", &self.server())
            .field("nodes", &self.shared.nodes.all())
            .finish_non_exhaustive()
    }
}

impl ClusterState {
    /// The node at an address that the node `by` has named.
    fn node_at(&self, address: &HostPort, by: u32) -> Result<u32, CallError> {
        let mut address = address.clone();
        if address.host.is_empty()
            && let Some(endpoint) = self.nodes.endpoint(by)
        {
            address.host = endpoint.host_port().host;
        }
        let endpoint = self
            .deployment
            .server_at(&address)
            .map_err(CallError::NotApplied)?;
        let number = self.node(&endpoint, || Former::Unknown);
        if let Some(surplus) = self.nodes.record_redirect(number) {
            self.retire(surplus);
        }
        Ok(number)
    }

    /// The node that is reached there. Its connections are opened if it is new. `former` says who
    /// served its slots before.
    fn node(&self, endpoint: &Endpoint, former: impl FnOnce() -> Former) -> u32 {
        if let Some(number) = self.nodes.at(endpoint) {
            return number;
        }
        // Before the table of the nodes is locked, where this may look.
        let former = former();
        self.nodes.at_or_else(endpoint, |number| {
            let remote = self.setup.server(endpoint).map(Arc::new).map_err(|error| {
                Fault(format!(
                    "a node at an address that cannot be used: {error:?}"
                ))
            });
            let setup = Setup {
                events: Arc::new(channels::OfNode::new(number, self)),
                ..self.setup.clone()
            };
            Node::open(remote, former, setup, self.doubted.clone())
        })
    }

    pub(super) fn pubsub(&self, channel: &str, key: &str) -> PubSub {
        // A script may publish to a sharded channel only in the shard of its keys. Scripts on any
        // key publish to a channel that belongs to none.
        let is_sharded = !key.is_empty()
            && self.is_sharded.load(Ordering::Relaxed)
            && keyslot(channel) == keyslot(key);
        if is_sharded {
            PubSub::Sharded
        } else {
            PubSub::Plain
        }
    }

    /// Waits until a connection to each node was tried. Fails if there is no connection at all.
    async fn first_connections(&self, limit: Instant) -> Result<(), CallError> {
        let nodes = self.nodes.all();
        let all = nodes.iter().map(|(_, node)| node.first_attempts());
        drop(timeout_at(limit, futures_util::future::join_all(all)).await);
        let missing = nodes.iter().map(|(_, node)| node.why_not_connected());
        match missing.collect::<Option<Vec<_>>>() {
            Some(errors) => Err(errors.into_iter().next().unwrap_or_else(retired)),
            None => Ok(()),
        }
    }
}

fn retired() -> CallError {
    CallError::NotApplied(Fault("the node does not serve the slot any more".into()))
}
