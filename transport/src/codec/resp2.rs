//! Tells messages from replies on a connection with subscriptions in RESP2.
//!
//! Both are arrays. On such a connection, the server takes only SUBSCRIBE, UNSUBSCRIBE and PING. So an array of three
//! whose first word names a push is one. The reply to PING is a text before the first subscription, and an array of two
//! after it.

use super::Incoming;
use crate::Value;

const KINDS: [&str; 6] = [
    "message",
    "smessage",
    "subscribe",
    "ssubscribe",
    "unsubscribe",
    "sunsubscribe",
];

pub(super) fn named(reply: Value) -> Incoming {
    match reply {
        Value::Array(items) if is_push(&items) => Incoming::Push(items),
        Value::Array(items) => Incoming::Reply(Ok(match items.as_slice() {
            [Value::Text(pong), Value::Text(number)] if pong == "pong" => {
                Value::Text(if number.is_empty() { "PONG" } else { number }.to_owned())
            }
            _ => Value::Array(items),
        })),
        other => Incoming::Reply(Ok(other)),
    }
}

fn is_push(items: &[Value]) -> bool {
    matches!(items, [Value::Text(kind), _, _] if KINDS.contains(&kind.as_str()))
}
