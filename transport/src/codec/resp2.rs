//! Tells messages from replies on a connection with subscriptions in RESP2.
//!
//! Both are arrays. On such a connection, the server takes only SUBSCRIBE, UNSUBSCRIBE and PING. So
//! an array of three whose first word names a push is one. The reply to PING is a text before the
//! first subscription, and an array of two after it. jedis-mock confirms a subscription with three
//! parts for each channel so far, in one array.

use super::Incoming;
use crate::call::Value;

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
        Value::Array(items) => Incoming::Reply(Ok(match pong(&items) {
            Some(pong) => Value::Text(pong.to_owned()),
            None => Value::Array(items),
        })),
        other => Incoming::Reply(Ok(other)),
    }
}

/// The text of a reply to PING that is an array. miniredis sends one on a connection with
/// subscriptions in RESP3 as well.
pub(crate) fn pong(items: &[Value]) -> Option<&str> {
    match items {
        [Value::Text(word), Value::Text(number)] if word == "pong" => {
            Some(if number.is_empty() { "PONG" } else { number })
        }
        _ => None,
    }
}

fn is_push(items: &[Value]) -> bool {
    let kind = match items {
        [Value::Text(kind), _, _, ..] if items.len().is_multiple_of(3) => kind.as_str(),
        _ => return false,
    };
    KINDS.contains(&kind) && (items.len() == 3 || kind == "subscribe")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_array_of_a_push_is_one_and_others_are_replies() {
        let texts = |words: &str| {
            let texts = words.split(' ').map(|word| Value::Text(word.into()));
            Value::Array(texts.collect())
        };
        for push in [
            "subscribe a 1",
            "message a x",
            "subscribe a 1 subscribe b 2",
        ] {
            assert!(matches!(named(texts(push)), Incoming::Push(_)), "{push}");
        }
        for reply in [
            "pong x",
            "a b c",
            "message a x message b x",
            "subscribe a 1 subscribe",
        ] {
            assert!(matches!(named(texts(reply)), Incoming::Reply(_)), "{reply}");
        }
    }
}
