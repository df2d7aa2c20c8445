//! What a server can do, as learned at the start of a connection.

use tokio::time::{Duration, Instant};

use crate::sync::Mutex;

/// How long the protocol of a server is remembered. After that, HELLO is sent again, because the server may have been
/// upgraded, or another one may answer at its address.
const REMEMBERED: Duration = Duration::from_secs(10 * 60);

/// What the server of one connection can do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Abilities {
    pub(super) protocol: Protocol,
}

/// The protocol of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Protocol {
    #[default]
    Resp3,
    /// The server refuses HELLO 3. Every server and every proxy speaks this protocol.
    Resp2,
}

/// The protocol of a server, as the last connection learned it.
#[derive(Default)]
pub(super) struct KnownProtocol(Mutex<Option<(Protocol, Instant)>>);

impl KnownProtocol {
    /// `None` if no connection has learned it for a while.
    pub(super) fn get(&self) -> Option<Protocol> {
        let known = *self.0.lock();
        known.and_then(|(protocol, since)| (since.elapsed() < REMEMBERED).then_some(protocol))
    }

    pub(super) fn learn(&self, protocol: Protocol) {
        *self.0.lock() = Some((protocol, Instant::now()));
    }

    pub(super) fn forget(&self) {
        *self.0.lock() = None;
    }
}
