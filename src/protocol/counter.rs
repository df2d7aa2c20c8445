//! What semaphores and latches share: a number at the name, and stored replies, so that a change of
//! the number can be repeated.

use std::sync::Arc;
use std::time::Duration;

use super::calls::ms;
use super::kind::Kind;
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Keys, Publish, Unexpected, Value};

scripts! {
    SET = "count_set" from "shared/replies.lua" "shared/count_set.lua";
}

/// The key that keeps the reply to a request, with the number of the request and how long the reply
/// is kept.
pub(crate) type ReplyKey = (Arc<str>, [Arg; 2]);

/// Makes a reply key. Requests that use the same key must have increasing numbers.
pub(crate) fn reply_key(resource: &Resource, id: &str, request: u64, kept: Duration) -> ReplyKey {
    (
        resource.reply_key(id),
        [Arg::Int(request.cast_signed()), ms(kept)],
    )
}

/// The keys of the number and of the stored reply; for a semaphore those of its holds and its
/// limit, too.
pub(super) fn keys_with_reply(resource: &Resource, reply: Arc<str>) -> Keys {
    let holds = resource.extra_keys.iter().cloned();
    let limit = (resource.kind != Kind::Latch).then(|| resource.limit_key());
    [resource.key.clone(), reply]
        .into_iter()
        .chain(holds)
        .chain(limit)
        .collect()
}

/// Sets a number that does not exist yet and publishes `message`. The number expires after `life`,
/// if given.
pub(crate) fn set(
    resource: &Resource,
    publish: Publish,
    number: i64,
    message: &str,
    life: Option<Duration>,
    (reply, [request, kept]): ReplyKey,
) -> Call {
    let life = ms(life.unwrap_or_default());
    let numbers = [Arg::Int(number), Arg::from(message), request, kept, life];
    let args = resource.publish_args(publish).into_iter().chain(numbers);
    Call::new(&SET, keys_with_reply(resource, reply), args)
}

pub(crate) fn number(reply: Value) -> Result<i64, Unexpected> {
    match reply {
        Value::Int(number) => Ok(number),
        other => Err(Unexpected(other)),
    }
}
