//! The fenced lock: a lock, and a counter from which each acquisition gets its token.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, Calls, call, ms};
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Publish, Unexpected, Value, lock};

scripts! {
    ACQUIRE = "fenced_acquire" from "shared/lease.lua" "fenced/acquire.lua", takes;
    GET = "fenced_get" from "fenced/admits.lua" "fenced/get.lua";
    SET = "fenced_set" from "fenced/admits.lua" "fenced/set.lua";
    TAKE_OVER = "fenced_take_over" from "shared/lease.lua" "fenced/take_over.lua";
}

pub(super) static CALLS: Calls = Calls {
    acquire,
    take_over,
    ..lock::CALLS
};

fn acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    call(&ACQUIRE, resource.keys(), args.owner_and_lease())
}

fn take_over(resource: &Resource, from: &Field, owner: &Field, lease: Duration) -> Call {
    let args = vec![from.clone().into(), owner.clone().into(), ms(lease)];
    call(&TAKE_OVER, resource.keys(), args)
}

/// Sets a value unless a holder with a later token was there. The highest token is kept at `fence`. A `keep` of zero is
/// for ever.
pub(crate) fn set(key: Arc<str>, fence: Arc<str>, token: i64, value: &str, keep: Duration) -> Call {
    let args = vec![Arg::Int(token), Arg::from(value), ms(keep)];
    call(&SET, vec![key, fence], args)
}

/// Shuts earlier tokens out, and reads a value.
pub(crate) fn get(key: Arc<str>, fence: Arc<str>, token: i64, keep: Duration) -> Call {
    call(&GET, vec![key, fence], vec![Arg::Int(token), ms(keep)])
}

/// The reply of [`get`].
pub(crate) enum Found {
    /// A later token was there.
    Stale,
    /// The value, if there is one.
    Value(Option<String>),
}

pub(crate) fn found(reply: Value) -> Result<Found, Unexpected> {
    match reply {
        Value::Int(0) => Ok(Found::Stale),
        Value::Array(mut values) if values.len() <= 1 => match values.pop() {
            None => Ok(Found::Value(None)),
            Some(Value::Text(value)) => Ok(Found::Value(Some(value))),
            Some(other) => Err(Unexpected(other)),
        },
        other => Err(Unexpected(other)),
    }
}
