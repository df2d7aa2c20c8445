//! Who is connected to the engine: a link by calls, or a connection by bytes.

use std::sync::Arc;

#[cfg(feature = "test-util")]
use super::front::Conversation;
use super::port::{LINES, Port};
use super::store::Message;

#[derive(Clone)]
pub(crate) enum Peer {
    Link(Arc<Port>),
    #[cfg(feature = "test-util")]
    Bytes(Arc<Conversation>),
}

impl Peer {
    /// A message for this one left the server.
    pub(crate) fn publish(&self, message: &Message) {
        match self {
            Peer::Link(port) => port.publish(message),
            #[cfg(feature = "test-util")]
            Peer::Bytes(conversation) => conversation.publish(message),
        }
    }

    /// The engine was paused or goes on.
    pub(crate) fn wake(&self) {
        match self {
            Peer::Link(port) => port.wake(),
            #[cfg(feature = "test-util")]
            Peer::Bytes(conversation) => conversation.wake(),
        }
    }

    /// Breaks what connects it.
    pub(crate) fn cut(&self) {
        match self {
            Peer::Link(port) => port.cut(&LINES),
            #[cfg(feature = "test-util")]
            Peer::Bytes(conversation) => conversation.cut(),
        }
    }

    /// A link comes back by itself; bytes are for their client to dial again.
    pub(crate) fn heal(&self) {
        match self {
            Peer::Link(port) => port.heal(&LINES),
            #[cfg(feature = "test-util")]
            Peer::Bytes(_) => {}
        }
    }

    /// The server is gone, or has begun anew: it knows nothing of this connection any more.
    pub(crate) fn forget(&self) {
        match self {
            Peer::Link(_) => {}
            #[cfg(feature = "test-util")]
            Peer::Bytes(conversation) => conversation.hang_up(),
        }
    }
}
