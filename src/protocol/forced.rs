//! Holds that are ended by force: whether that happened, and the message to their client.
//!
//! The scripts of the forced releases publish the message: `shared/tell_clients.lua`, and for permits with ids
//! `permit/tell_holders.lua`.

use std::sync::Arc;

use super::keys::KeyName;
use super::{Unexpected, Value};
use crate::client_id::ClientId;

/// The prefix of the channels. The scripts have the same one.
const CLIENT: &str = "leasehold_client";

/// How many hex digits of its client begin the id of a permit. `tell_holders.lua` has the same number.
const DIGITS: usize = 8;

/// The channels on which a client hears of its holds that were ended by force: of permits with ids, and of all others.
///
/// The id of a permit is 16 bytes, as in Redisson, and does not name the whole client. So clients whose uuids begin with
/// the same digits share the first channel.
pub(crate) fn channels(client: ClientId) -> [Arc<str>; 2] {
    let client = client.to_string();
    [&client[..DIGITS], &client].map(|of| KeyName::Prefixed(CLIENT).of(of))
}

/// What a message says, if it came on the channel of a client: the key of a hold that was ended,
/// [who was given a lock](super::lock::given), or a [message to a waiter](super::fair::for_waiter) of a fair lock.
pub(crate) fn text_to_client<'a>(channel: &str, payload: &'a [u8]) -> Option<&'a str> {
    is_of_a_client(channel).then(|| str::from_utf8(payload).unwrap_or_default())
}

/// True for a channel of [`channels`].
pub(crate) fn is_of_a_client(channel: &str) -> bool {
    channel.starts_with(CLIENT)
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
