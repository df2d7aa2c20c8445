//! The node that serves a key, and how often its connection has changed.

/// Identifies the connection that carries the calls for a key on one lane. While the epoch stays
/// the same, so does the connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Epoch {
    /// How many connections the lane's node has lost.
    pub connection: u64,
    pub(crate) node: u32,
    /// How often the node that gets calls for the key's slot has changed.
    pub(crate) served: u32,
}

/// A node of the deployment, by its number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId(pub(crate) u32);
