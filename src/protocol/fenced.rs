//! The fenced lock: a lock, and a counter from which each acquisition gets its token.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{AcquireArgs, Calls, call, ms};
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Publish, lock};

scripts! {
    ACQUIRE = "fenced_acquire" from "fenced/acquire.lua";
    SET = "fenced_set" from "fenced/set.lua";
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

/// Sets a value unless a writer with a later token has set it. The highest token is kept at
/// `fence`.
pub(crate) fn set(key: Arc<str>, fence: Arc<str>, token: i64, value: &str) -> Call {
    call(
        &SET,
        vec![key, fence],
        vec![Arg::Int(token), Arg::from(value)],
    )
}
