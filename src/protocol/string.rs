//! The string lock: one key, set by `SET NX PX`, with the owner as its value.

use std::time::Duration;

use super::calls::{AcquireArgs, Force, KindCalls, ms};
use super::resource::Resource;
use super::script::scripts;
use super::{Arg, Call, Field, Publish, lock};

scripts! {
    ACQUIRE = "string_acquire" from "shared/lease.lua" "string/acquire.lua", takes;
    EXTEND = "string_extend" from "shared/lease.lua" "string/extend.lua";
    FORCE_RELEASE = "string_force_release" from "shared/tell_clients.lua"
        "string/force_release.lua";
    INSPECT = "string_inspect" from "shared/clock.lua" "shared/may.lua" "description/described.lua"
        "string/inspect.lua", reads_undeclared_keys;
    RELEASE = "string_release" from "string/release.lua";
    RENEW = "string_renew" from "shared/lease.lua" "string/renew.lua";
}

pub(super) static CALLS: KindCalls = KindCalls {
    acquire,
    reenter,
    release,
    force_release,
    inspect: &INSPECT,
    renewal: &RENEW,
    ..lock::CALLS
};

fn acquire(resource: &Resource, _publish: Publish, args: &AcquireArgs<'_>) -> Call {
    Call::new(&ACQUIRE, resource.keys(), args.owner_and_lease())
}

fn reenter(resource: &Resource, field: &Field, lease: Duration, _count: u32) -> Call {
    Call::new(&EXTEND, resource.keys(), [field.clone().into(), ms(lease)])
}

fn release(resource: &Resource, _publish: Publish, count: u32, field: &Field) -> Call {
    Call::new(
        &RELEASE,
        resource.keys(),
        [Arg::Int(count.into()), field.clone().into()],
    )
}

fn force_release(resource: &Resource, _publish: Publish, force: Force<'_>) -> Call {
    Call::new(&FORCE_RELEASE, resource.only_key(), force.args())
}
