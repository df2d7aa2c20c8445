//! What a server would send instead of fred.

use fred::types::{Message, Resp3Frame};

/// The reply to a subscription.
pub(crate) fn confirmation(kind: &str, channel: &str) -> Resp3Frame {
    let count = Resp3Frame::Number {
        data: 0,
        attributes: None,
    };
    push([text(kind.as_bytes()), text(channel.as_bytes()), count])
}

/// A message, as a server would send it.
pub(crate) fn as_push(message: &Message) -> Resp3Frame {
    let payload = message.value.as_bytes().unwrap_or_default();
    push([
        text(b"message"),
        text(message.channel.as_bytes()),
        text(payload),
    ])
}

fn push(parts: [Resp3Frame; 3]) -> Resp3Frame {
    Resp3Frame::Push {
        data: parts.into(),
        attributes: None,
    }
}

fn text(bytes: &[u8]) -> Resp3Frame {
    Resp3Frame::BlobString {
        data: bytes.to_vec().into(),
        attributes: None,
    }
}
