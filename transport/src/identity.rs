//! Which server a connection leads to.
//!
//! An address is not a server. Behind a load balancer, after a change in DNS or after a restart,
//! the same address leads to another process with other data. A server reports its *run id* in
//! `INFO server`. If the user lacks the permission for that command, or the server is too busy to
//! answer, only the remote address of the stream is known.
//!
//! A server that is replaced and promoted again is the same run, but may lack writes. Its
//! *replication id* shows that, because each promotion makes another one, and keeps the id before.

use std::net::SocketAddr;
use std::sync::Arc;

use crate::call::Value;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Identity {
    run_id: Option<Arc<str>>,
    /// `None` if the server does not say.
    replication: Option<Replication>,
    /// `None` for a stream without an address, such as a Unix socket.
    pub(super) peer: Option<SocketAddr>,
}

/// What a primary says of the history of its data.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Replication {
    id: Arc<str>,
    /// Whether the primary was a replica before. It may have forgotten that, if it had no replica
    /// for long.
    was_promoted: bool,
}

/// The former replication id of a server that was never promoted.
const NO_FORMER_ID: &str = "0000000000000000000000000000000000000000";

impl Identity {
    /// `info` is the reply to `INFO server`, if there was one.
    pub(super) fn of(info: Option<&Value>) -> Self {
        Identity::of_run(info.and_then(|info| line(info, "run_id:")))
    }

    /// Adds what the reply to `INFO replication` says.
    pub(super) fn replicates(&mut self, info: &Value) {
        let ids = line(info, "master_replid:").zip(line(info, "master_replid2:"));
        self.replication = ids.map(|(id, former)| Replication {
            id: Arc::from(id),
            was_promoted: former != NO_FORMER_ID,
        });
    }

    /// Whether the server may have become a primary after it was a replica.
    pub(super) fn may_have_been_promoted(&self) -> bool {
        self.replication
            .as_ref()
            .is_none_or(|replication| replication.was_promoted)
    }

    /// Whether this is certainly the same run of the same server, and it was not replaced
    /// meanwhile.
    pub(super) fn is_same_as(&self, known: &Identity) -> bool {
        self.run_id.is_some() && self.run_id == known.run_id && !self.is_other_than(known)
    }

    fn was_promoted_since(&self, known: &Identity) -> bool {
        match (&self.replication, &known.replication) {
            (Some(now), Some(before)) => now.was_promoted && now.id != before.id,
            _ => false,
        }
    }

    pub(super) fn run_id(&self) -> Option<&str> {
        self.run_id.as_deref()
    }

    pub(super) fn of_run(run_id: Option<&str>) -> Self {
        Identity {
            run_id: run_id.map(Arc::from),
            ..Identity::default()
        }
    }

    /// Whether this is certainly another server than `known`, or one that was a replica meanwhile.
    pub(super) fn is_other_than(&self, known: &Identity) -> bool {
        match (&self.run_id, &known.run_id) {
            (Some(met), Some(before)) => met != before || self.was_promoted_since(known),
            _ => self.peer.is_some() && known.peer.is_some() && self.peer != known.peer,
        }
    }

    /// Whether this is another server than `known` by its run id. An address may change although
    /// the server stays.
    pub(super) fn has_other_run_id(&self, known: &Identity) -> bool {
        self.run_id.is_some() && known.run_id.is_some() && self.run_id != known.run_id
    }

    /// Adds what another connection has found out about the same server.
    pub(super) fn learn(&mut self, more: &Identity) {
        self.run_id = self.run_id.take().or_else(|| more.run_id.clone());
        self.replication = more.replication.clone().or(self.replication.take());
        self.peer = more.peer.or(self.peer);
    }
}

/// The value of a line of INFO.
pub(super) fn line<'a>(info: &'a Value, name: &str) -> Option<&'a str> {
    let Value::Text(info) = info else { return None };
    info.lines().find_map(|line| line.trim().strip_prefix(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn identity(info: &str, peer: &str) -> Identity {
        Identity {
            peer: peer.parse().ok(),
            ..Identity::of(Some(&Value::Text(info.into())))
        }
    }

    #[test]
    fn servers_are_compared_by_run_id_or_else_by_address() {
        let known = identity(
            "# Server\r\nredis_version:7.0.15\r\nrun_id:ab\r\n",
            "10.0.0.1:6379",
        );
        let others = [
            (
                identity("run_id:ab\r\n", "10.0.0.2:6379"),
                false,
                "reached by another address",
            ),
            (
                identity("run_id:cd\r\n", "10.0.0.1:6379"),
                true,
                "another process there",
            ),
            (identity("", "10.0.0.1:6379"), false, "it does not say"),
            (identity("", "10.0.0.2:6379"), true, "nor is it there"),
            (Identity::default(), false, "nothing is known"),
        ];
        for (met, is_other, why) in others {
            assert_eq!(met.is_other_than(&known), is_other, "{why}");
            assert_eq!(known.is_other_than(&met), is_other, "{why}");
        }
        let mut learnt = identity("", "10.0.0.1:6379");
        learnt.learn(&known);
        assert_eq!(learnt, known);
    }
}
