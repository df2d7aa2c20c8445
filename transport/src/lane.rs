//! The connections of a node, and what each carries.

/// The connection that carries a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Driven by the caller's runtime. This is the fastest lane for a call whose caller waits.
    Caller,
    /// Driven by the library's own thread. Renewals and releases use this lane, so that a blocked
    /// runtime of the caller does not delay them.
    Background,
}

/// What a connection is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Calls(Lane),
    Messages,
}

// The node that serves a key, and how often its connection has changed.

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
