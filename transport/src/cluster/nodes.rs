//! The nodes of a cluster that this client has met, by number and by address.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::sync::Mutex;

use crate::endpoint::Endpoint;
use crate::host_port::HostPort;
use crate::identity::Identity;
use crate::node::Node;

/// The most nodes to keep that no layout names. A joining node will soon be named.
const UNNAMED_MAX: usize = 16;

#[derive(Default)]
pub(super) struct KnownNodes {
    table: Mutex<NodeTable>,
    /// The number of reconnects of retired nodes.
    reconnects: AtomicU64,
}

#[derive(Default)]
struct NodeTable {
    /// The node with number n is at index n - 1. Numbers are never reused, because epochs identify
    /// nodes by them.
    nodes: Vec<Option<Member>>,
    /// The numbers of nodes by the address at which they are reached (`address_map.rs` says why). A
    /// node may have several: its host name and its IP address.
    addresses: HashMap<HostPort, u32>,
    /// The nodes that only redirects have named, the newest last.
    unnamed: VecDeque<u32>,
}

#[derive(Clone)]
struct Member {
    node: Arc<Node>,
    endpoint: Endpoint,
    /// Its name in the last layout that had the node. `None` until then.
    named: Option<String>,
}

impl KnownNodes {
    /// The node with this number. `None` for zero, or if the node was retired.
    pub(super) fn get(&self, number: u32) -> Option<Arc<Node>> {
        self.table
            .lock()
            .member(number)
            .map(|member| member.node.clone())
    }

    pub(super) fn endpoint(&self, number: u32) -> Option<Endpoint> {
        self.table
            .lock()
            .member(number)
            .map(|member| member.endpoint.clone())
    }

    /// The number of the node that is reached there. `None` if it is unknown.
    pub(super) fn at(&self, endpoint: &Endpoint) -> Option<u32> {
        let table = self.table.lock();
        table.addresses.get(&endpoint.host_port()).copied()
    }

    /// The number of the node that is reached there. Makes the node if it is unknown.
    pub(super) fn at_or_else(&self, endpoint: &Endpoint, make: impl FnOnce(u32) -> Node) -> u32 {
        let address = endpoint.host_port();
        let mut table = self.table.lock();
        if let Some(number) = table.addresses.get(&address) {
            return *number;
        }
        let number = u32::try_from(table.nodes.len() + 1).expect("BUG: more nodes than numbers");
        let node = Arc::new(make(number));
        table.nodes.push(Some(Member {
            node,
            endpoint: endpoint.clone(),
            named: None,
        }));
        table.addresses.insert(address, number);
        number
    }

    /// Records how a layout names this node.
    pub(super) fn record_name(&self, number: u32, name: &str) {
        let mut table = self.table.lock();
        if let Some(member) = table.member_mut(number)
            && member.named.replace(name.to_owned()).is_none()
        {
            table.unnamed.retain(|other| *other != number);
        }
    }

    /// The server that a layout named so before, perhaps at another address.
    pub(super) fn identity(&self, name: &str) -> Option<Identity> {
        let table = self.table.lock();
        let mut members = table.nodes.iter().flatten();
        let member = members.find(|member| member.named.as_deref() == Some(name))?;
        member.node.identity()
    }

    /// Records that a redirect led to this node. Returns a node to retire if there are too many
    /// that no layout names. Otherwise, a server that answers with ever new addresses would make
    /// the client connect to all of them.
    pub(super) fn record_redirect(&self, number: u32) -> Option<u32> {
        let mut table = self.table.lock();
        if table.member(number)?.named.is_some() || table.unnamed.contains(&number) {
            return None;
        }
        table.unnamed.push_back(number);
        (table.unnamed.len() > UNNAMED_MAX).then(|| table.unnamed.pop_front())?
    }

    /// Adds another address of a node.
    pub(super) fn add_address(&self, number: u32, address: HostPort) {
        self.table.lock().addresses.insert(address, number);
    }

    pub(super) fn all(&self) -> Vec<(u32, Arc<Node>)> {
        let table = self.table.lock();
        let numbers = (1..).zip(&table.nodes);
        numbers
            .filter_map(|(number, node)| Some((number, node.as_ref()?.node.clone())))
            .collect()
    }

    /// The nodes that a layout names.
    pub(super) fn named(&self) -> Vec<Arc<Node>> {
        let table = self.table.lock();
        let members = table.nodes.iter().flatten();
        members
            .filter(|member| member.named.is_some())
            .map(|member| member.node.clone())
            .collect()
    }

    /// Removes a node. If it comes back, it gets a new number.
    pub(super) fn retire(&self, number: u32) -> Option<Arc<Node>> {
        let mut table = self.table.lock();
        table.addresses.retain(|_, other| *other != number);
        table.unnamed.retain(|other| *other != number);
        let member = index(number).and_then(|at| table.nodes.get_mut(at)?.take())?;
        self.reconnects
            .fetch_add(member.node.reconnects(), Ordering::Relaxed);
        Some(member.node)
    }

    pub(super) fn reconnects(&self) -> u64 {
        let living: u64 = self.all().iter().map(|(_, node)| node.reconnects()).sum();
        living + self.reconnects.load(Ordering::Relaxed)
    }
}

impl NodeTable {
    fn member(&self, number: u32) -> Option<&Member> {
        self.nodes.get(index(number)?)?.as_ref()
    }

    fn member_mut(&mut self, number: u32) -> Option<&mut Member> {
        self.nodes.get_mut(index(number)?)?.as_mut()
    }
}

fn index(number: u32) -> Option<usize> {
    usize::try_from(number).ok()?.checked_sub(1)
}
