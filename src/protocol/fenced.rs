//! The fenced lock: a lock, and a counter from which each acquisition gets its token.

use super::calls::{AcquireArgs, KindCalls};
use super::resource::Resource;
use super::script::scripts;
use super::{Call, Publish, lock};

scripts! {
    ACQUIRE = "fenced_acquire" from "shared/lease.lua" "fenced/acquire.lua", takes;
}

pub(super) static CALLS: KindCalls = KindCalls {
    acquire,
    ..lock::CALLS
};

fn acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    Call::new(&ACQUIRE, resource.keys(), args.owner_and_lease())
}
