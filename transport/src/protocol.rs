//! The two protocols of a connection.

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::exhaustive_enums, reason = "there are no others")]
pub enum Protocol {
    /// Messages can come on any connection.
    #[default]
    Resp3,
    /// The server refuses HELLO 3. Every server and every proxy speaks this protocol.
    Resp2,
}
