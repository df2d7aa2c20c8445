//! Groups of keys that can be in one call.
//!
//! A caller passes items with keys, and gets them back in groups. One call can concern all items of a group. On a
//! single server, all keys are in one group. A cluster node takes the keys of all its slots in one call. If one of
//! these slots has moved, the keys are grouped by slot for a while.

use std::collections::BTreeMap;

use crate::cluster;
use crate::transport::{Nodes, Transport};
use crate::{Call, Value};
use crate::{CallError, Group, Lane};

impl Transport {
    /// Like [`call`](Self::call), for a script whose keys may be any keys of one group.
    ///
    /// # Errors
    ///
    /// Fails if no reply of the script arrived.
    pub async fn call_group(
        &self,
        group: Group,
        lane: Lane,
        call: Call,
    ) -> Result<Value, CallError> {
        match self.nodes() {
            Nodes::One(_) => self.call(lane, call).await,
            Nodes::Many(cluster) => Box::pin(cluster.call_group(group, lane, call)).await,
        }
    }

    /// Sends a command other than a script to the node of a group.
    ///
    /// # Errors
    ///
    /// Fails if no reply arrived.
    pub async fn command(
        &self,
        group: Group,
        lane: Lane,
        words: &[&[u8]],
    ) -> Result<Value, CallError> {
        match self.nodes() {
            Nodes::One(node) => node.command(lane, words).await,
            Nodes::Many(cluster) => cluster.command(group, lane, words).await,
        }
    }

    /// The server of a group. In a cluster, this is the node.
    pub fn server_of(&self, group: Group) -> String {
        match self.nodes() {
            Nodes::One(node) => node.server(),
            Nodes::Many(cluster) => cluster.server_of(group),
        }
    }

    /// The present group of a key.
    pub fn group(&self, key: &str) -> Group {
        match self.nodes() {
            Nodes::One(_) => Group::default(),
            Nodes::Many(cluster) => cluster.group(key),
        }
    }

    /// All groups, for a script that searches the keys of a whole node.
    pub fn groups(&self) -> Vec<Group> {
        match self.nodes() {
            Nodes::One(_) => vec![Group::default()],
            Nodes::Many(cluster) => cluster.groups(),
        }
    }

    /// Splits items by the groups of their keys. Items of a group keep their order.
    pub fn grouped<T>(&self, items: Vec<T>, key: impl Fn(&T) -> &str) -> BTreeMap<Group, Vec<T>> {
        let mut groups = BTreeMap::<_, Vec<T>>::new();
        for item in items {
            let group = self.group(key(&item));
            groups.entry(group).or_default().push(item);
        }
        groups
    }

    /// Regroups the items of a group whose call was not applied. The new groups may be asked at once.
    ///
    /// # Errors
    ///
    /// Returns the items if other groups would not help.
    pub fn regrouped<T>(
        &self,
        group: Group,
        items: Vec<T>,
        key: impl Fn(&T) -> &str,
    ) -> Result<Vec<(Group, Vec<T>)>, Vec<T>> {
        // The slot is being moved, so its keys may be on two nodes.
        if group.slot.is_some() && items.len() > 1 {
            let alone = items.into_iter().map(|item| (group, vec![item]));
            return Ok(alone.collect());
        }
        // Some of the keys belong to another node by now.
        if items.iter().any(|item| self.group(key(item)) != group) {
            return Ok(self.grouped(items, key).into_iter().collect());
        }
        Err(items)
    }

    /// Whether one call can write to all these keys atomically.
    pub fn run_as_one<'a>(&self, mut keys: impl Iterator<Item = &'a str>) -> bool {
        match self.nodes() {
            Nodes::One(_) => true,
            Nodes::Many(_) => cluster::are_of_one_slot(&mut keys),
        }
    }
}
