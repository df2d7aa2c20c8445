//! Holds that are ended by force: whether that happened, and the message to their client.
//!
//! The scripts of the forced releases publish the message: `shared/tell_clients.lua`, and for
//! permits with ids `permit/tell_holders.lua`.

use std::sync::Arc;

use super::description::{self, fitting};
use super::kind::KeyName;
use super::lock::{self, HandedOver};
use super::{Unexpected, Value};
use crate::client_id::ClientId;
use crate::lease::ForcedRelease;

/// The prefix of the channels. The scripts have the same one.
const CLIENT: &str = "leasehold_client";

/// How many hex digits of its client begin the id of a permit. `tell_holders.lua` has the same
/// number.
const DIGITS: usize = 8;

/// The channels on which a client hears of its holds that were ended by force: of permits with ids,
/// and of all others.
///
/// The id of a permit is 16 bytes, as in Redisson, and does not name the whole client. So clients
/// whose uuids begin with the same digits share the first channel.
pub(crate) fn channels(client: ClientId) -> [Arc<str>; 2] {
    let client = client.to_string();
    [&client[..DIGITS], &client].map(|of| KeyName::Prefixed(CLIENT).of(of))
}

/// A message on the channel of a client. It begins with a word for its kind, and ends with the only
/// part that contains a name. So a name is never read as anything else, whatever it looks like.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ToClient<'a> {
    /// A release has handed a lock over to a waiter. With the channel of the lock.
    HandedOver(&'a str, HandedOver<'a>),
    /// For a waiter of a fair lock: its channel, and the message.
    ForWaiter(&'a str, &'a str),
    /// The key of a hold that was ended, by whom and why.
    Forced(&'a str, ForcedRelease),
}

/// The note of a forced release, for the message.
pub(crate) fn note(by: &str, reason: &str) -> Arc<str> {
    description::text(Some(by), Some(reason))
}

/// Reads a message on the channel of a client. `None` if this version does not know it.
pub(crate) fn to_client(payload: &[u8]) -> Option<ToClient<'_>> {
    let (word, rest) = str::from_utf8(payload).ok()?.split_once(' ')?;
    match word {
        "\0granted" => {
            lock::handed_over(rest).map(|(channel, to)| ToClient::HandedOver(channel, to))
        }
        "\0for" => {
            let (message, channel) = rest.split_once(' ')?;
            Some(ToClient::ForWaiter(channel, message))
        }
        "\0forced" => {
            let mut parts = rest.splitn(3, '\n');
            let (by, reason) = (fitting(parts.next())?, fitting(parts.next())?);
            Some(ToClient::Forced(
                parts.next()?,
                ForcedRelease { by, reason },
            ))
        }
        _ => None,
    }
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn forced(key: &str) -> ToClient<'_> {
        let [by, reason] = ["ann@pod", "it hangs"].map(str::to_owned);
        ToClient::Forced(key, ForcedRelease { by, reason })
    }

    #[test]
    fn messages_are_read_as_the_scripts_write_them() {
        let given = HandedOver {
            field: "uuid:17",
            attempt: 3,
            lease: Duration::from_secs(2),
        };
        for (message, meant) in [
            (
                "\0granted 3 2000 uuid:17 channel:{a b}",
                ToClient::HandedOver("channel:{a b}", given),
            ),
            (
                "\0for 60000 channel:{a b}:uuid:17",
                ToClient::ForWaiter("channel:{a b}:uuid:17", "60000"),
            ),
            ("\0forced ann@pod\nit hangs\na b", forced("a b")),
        ] {
            assert_eq!(to_client(message.as_bytes()), Some(meant), "{message:?}");
        }
    }

    #[test]
    fn a_name_is_only_ever_a_name() {
        for name in [
            "",
            " ",
            "x",
            "a b\nc",
            "\0granted 3 2000 uuid:17 channel:{x}",
            "\0for 60000 channel:{x}:uuid:17",
            "\0forced \0forced x",
            " \0for 1 x",
            "\n\0for 1 x",
            "ü",
        ] {
            let note = note("ann@pod", "it hangs");
            let message = format!("\0forced {note}\n{name}");
            let read = to_client(message.as_bytes());
            assert_eq!(read, Some(forced(name)), "{name:?}");
            for before in ["\0granted 3 2000 uuid:17 ", "\0for 60000 "] {
                let message = format!("{before}{name}");
                let (ToClient::HandedOver(channel, _) | ToClient::ForWaiter(channel, _)) =
                    to_client(message.as_bytes()).expect(name)
                else {
                    panic!("{message:?}");
                };
                assert_eq!(channel, name);
            }
        }
    }

    #[test]
    fn other_messages_say_nothing() {
        for message in [
            "",
            "x",
            "granted 3 2 f c",
            "forced x",
            "\0granted 3 2 f",
            "\0granted x 2 f c",
            "\0for 60000",
            "\0forced",
            "\0forcedx y",
            "\0forced x",
            "\0forced ann\nit hangs",
            "\0forced \nit hangs\nx",
            "\0forced ann\n\nx",
            "\0forced ann\n\x1b[31m\nx",
        ] {
            assert_eq!(to_client(message.as_bytes()), None, "{message:?}");
        }
        assert_eq!(to_client(b"\0forced a\nb\n\xff"), None, "no name");
    }
}
