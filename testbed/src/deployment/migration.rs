//! A slot on its way from one master of a cluster to another, step by step under the test's
//! control.

use super::cluster::{Cluster, LIMIT, done};
use crate::process::resp::Reply;
use crate::process::waiting::wait_until;

/// While a slot is migrating, the source answers for the keys that it still has, and sends clients
/// to the target for others.
#[derive(Debug)]
#[must_use = "a slot stays on its way until the migration is finished or given up"]
pub struct Migration<'a> {
    cluster: &'a Cluster,
    slot: u16,
    from: usize,
    to: usize,
}

impl Cluster {
    /// Moves a slot with all its keys to another owner.
    pub fn migrate(&self, slot: u16, to: usize) {
        self.begin_migration(slot, to).finish();
    }

    pub fn begin_migration(&self, slot: u16, to: usize) -> Migration<'_> {
        let migration = Migration {
            cluster: self,
            slot,
            from: self.owner(slot),
            to,
        };
        let Migration { from, .. } = migration;
        assert_ne!(from, to, "it is there");
        migration.set(to, &["IMPORTING", &self.id(from)]);
        migration.set(from, &["MIGRATING", &self.id(to)]);
        migration
    }

    /// Moves a slot without keys to another owner at once, without a migration.
    pub fn move_empty_slot(&self, slot: u16, to: usize) {
        Migration {
            cluster: self,
            slot,
            from: self.owner(slot),
            to,
        }
        .hand_over();
    }
}

impl Migration<'_> {
    /// Moves at most this many keys. Returns how many were moved.
    pub fn move_keys(&self, at_most: usize) -> usize {
        let (from, to) = (self.cluster.node(self.from), self.cluster.node(self.to));
        let mut connection = from.connection();
        let (slot, count) = (self.slot.to_string(), at_most.to_string());
        let keys = connection.command(&["CLUSTER", "GETKEYSINSLOT", &slot, &count]);
        let keys: Vec<_> = keys
            .expect("answered")
            .array()
            .iter()
            .map(Reply::text)
            .collect();
        if !keys.is_empty() {
            let port = to.port().to_string();
            let mut words = vec!["MIGRATE", "127.0.0.1", &port, "", "0", "5000", "KEYS"];
            words.extend(keys.iter().map(String::as_str));
            let mut moved = String::new();
            // A target that has just become a master refuses for a moment.
            wait_until("the target takes keys", LIMIT, || {
                moved = connection.command(&words).expect("answered").text();
                !moved.contains("CLUSTERDOWN")
            });
            // Keys that have expired in the meantime cannot be moved.
            assert!(["OK", "NOKEY"].contains(&moved.as_str()), "{moved}");
        }
        keys.len()
    }

    /// Moves the rest, and informs all masters.
    pub fn finish(self) {
        while self.move_keys(100) > 0 {}
        self.hand_over();
    }

    /// Leaves the slot with its owner. Keys that were moved stay at the target and are lost for
    /// clients.
    pub fn give_up(self) {
        self.set(self.from, &["STABLE"]);
        self.set(self.to, &["STABLE"]);
    }

    /// Tell the target first, so that the slot always has an owner.
    fn hand_over(self) {
        let id = self.cluster.id(self.to);
        let others = self.cluster.masters();
        let others = others
            .into_iter()
            .filter(|&node| node != self.to && node != self.from);
        for node in [self.to, self.from].into_iter().chain(others) {
            self.set(node, &["NODE", &id]);
        }
        self.cluster.until_masters_agree();
    }

    fn set(&self, node: usize, state: &[&str]) {
        let slot = self.slot.to_string();
        let words = [&["CLUSTER", "SETSLOT", &slot], state].concat();
        done(&self.cluster.node(node).command(&words));
    }
}
