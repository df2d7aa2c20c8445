//! Asks one server on the connection that acquisitions use.

use leasehold::parts::Parts;
use leasehold_transport::{CallError, NodeId, Value};

#[derive(Clone, Copy)]
pub(super) struct Ask<'a> {
    pub(super) parts: &'a Parts,
    pub(super) node: NodeId,
}

impl Ask<'_> {
    pub(super) async fn command(self, words: &[&str]) -> Result<Value, CallError> {
        let words: Vec<&[u8]> = words.iter().map(|word| word.as_bytes()).collect();
        self.parts.command(self.node, &words).await
    }

    /// The reply, if there is one.
    pub(super) async fn reply(self, words: &[&str]) -> Option<Value> {
        self.command(words).await.ok()
    }
}
