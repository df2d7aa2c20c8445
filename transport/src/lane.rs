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
