//! What a client learns about its servers.

use std::sync::Arc;
use std::time::Duration;

use super::Client;
use crate::error::Error;
use crate::protocol::existence;

/// The key that [`Client::ping`] names if it must name one. It never exists.
const PING: &str = "leasehold_ping";

impl Client {
    /// Checks that this client can send lock calls now. Use it for a readiness probe.
    ///
    /// The server runs a script that does nothing, on the connection that acquisitions use. The
    /// script touches no key, unless the server refuses scripts without one: then it asks whether
    /// `leasehold_ping` exists, after the prefix of keys. So a success does not show whether the
    /// server accepts writes, or which keys the user may access.
    ///
    /// # Redis cost
    ///
    /// 1 round trip.
    ///
    /// # Cancel safety
    ///
    /// Cancel safe.
    ///
    /// # Errors
    ///
    /// - [`Error::Unavailable`]: there is no connection, or the server is not ready.
    /// - [`Error::Unknown`]: no reply came within the command timeout.
    /// - [`Error::Protocol`]: the user has no right to run scripts.
    /// - [`Error::Closed`] or [`Error::Forked`]: the client was shut down, or made before a fork.
    pub async fn ping(&self) -> Result<(), Error> {
        let (name, calls) = (Arc::from("ping"), self.handle.calls());
        let ask = async |keys: Vec<_>| {
            let number = keys.len();
            let call = existence::keys_exist(keys);
            calls
                .ask(&name, call, |reply| existence::missing(reply, number))
                .await
        };
        let key: Arc<str> = Arc::from(format!("{}{PING}", calls.settings.key_prefix));
        let keys = if calls.transport.wants_keys() {
            vec![key]
        } else {
            vec![]
        };
        ask(keys).await.map(drop)
    }

    /// An error if a server refuses to wait for the copies that this client asks for.
    pub(super) async fn may_wait_for_copies(&self) -> Result<(), Error> {
        let calls = self.handle.calls();
        let asked = calls.may_wait_for_copies().await;
        asked.map_err(|error| {
            let server = Arc::from(calls.transport.server());
            Error::from_call(&server, Duration::ZERO, error)
        })
    }
}
