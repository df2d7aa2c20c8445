//! Holds that are ended by force: whether that happened, and the message to their client.
//!
//! The scripts of the forced releases publish the message: `shared/tell_clients.lua`.

use std::sync::Arc;

use super::keys::KeyName;
use super::{Unexpected, Value};
use crate::client_id::ClientId;

/// The prefix of the channel. `tell_clients.lua` has the same one.
const CLIENT: &str = "leasehold_client";

/// The channel on which a client hears of its holds that were ended by force.
pub(crate) fn channel(client: ClientId) -> Arc<str> {
    KeyName::Prefixed(CLIENT).of(&client.to_string())
}

/// The key that a message is about, if it came on the channel of a client.
pub(crate) fn key_of<'a>(channel: &str, payload: &'a [u8]) -> Option<&'a str> {
    let is_ours = channel.starts_with(CLIENT);
    is_ours.then(|| str::from_utf8(payload).unwrap_or_default())
}

/// The reply to a forced release.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Forced {
    Freed,
    WasFree,
    /// Another owner than the given one holds the lock.
    HeldByAnother,
}

pub(crate) fn forced(reply: Value) -> Result<Forced, Unexpected> {
    match reply {
        Value::Int(1) => Ok(Forced::Freed),
        Value::Int(0) => Ok(Forced::WasFree),
        Value::Int(-1) => Ok(Forced::HeldByAnother),
        other => Err(Unexpected(other)),
    }
}
