//! Who waits for a lock.

use super::kind::Kind;
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Publish, Unexpected, Value};

scripts! {
    WAITERS = "lock_waiters" from "shared/clock.lua" "shared/may.lua" "waiters/listening.lua"
        "waiters/waiters.lua";
}

/// How many owners of a queue are returned.
const MOST: i64 = 1000;

/// Who waits for a lock, as far as Redis knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub(crate) listening: Option<u64>,
    pub(crate) queue: Vec<String>,
}

/// The subcommand of PUBSUB that counts the subscribers of such channels.
pub fn numsub(publish: Publish) -> &'static str {
    if publish == "SPUBLISH" {
        "SHARDNUMSUB"
    } else {
        "NUMSUB"
    }
}

pub(crate) fn waiters(resource: &Resource, publish: Publish) -> Call {
    let is_fair = resource.kind == Kind::Fair;
    let extra_keys = resource.keys().skip(1).filter(|_| is_fair);
    let keys = resource.only_key().into_iter().chain(extra_keys);
    // Each waiter of a fair lock has its own channel.
    let shares_one = resource.kind.wait_mode().listens() && !is_fair;
    let channel = if shares_one {
        Arg::Text(resource.channel().clone())
    } else {
        Arg::from("")
    };
    Call::new(
        &WAITERS,
        keys,
        [Arg::from(numsub(publish)), channel, Arg::Int(MOST)],
    )
}

/// The reply of [`waiters`].
pub(crate) fn waiting(reply: Value) -> Result<Waiting, Unexpected> {
    let queue = |owners: &[Value]| owners.iter().map(owner).collect::<Option<Vec<_>>>();
    let waiting = match &reply {
        Value::Array(parts) => match parts.as_slice() {
            [Value::Int(listening), owners @ ..] => queue(owners).map(|queue| Waiting {
                listening: u64::try_from(*listening).ok(),
                queue,
            }),
            _ => None,
        },
        _ => None,
    };
    waiting.ok_or(Unexpected(reply))
}

fn owner(value: &Value) -> Option<String> {
    match value {
        Value::Text(owner) => Some(owner.clone()),
        _ => None,
    }
}
