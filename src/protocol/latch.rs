//! The count-down latch: a number at the name. It is waited for and never held.

use super::calls::{AcquireArgs, KindCalls};
use super::counter::ReplyKey;
use super::resource::Resource;
use super::script::scripts;
use super::{Call, Publish, lock};

scripts! {
    ASK = "latch_ask" from "latch/ask.lua";
    COUNT = "latch_count" from "latch/count.lua";
    COUNT_DOWN = "latch_count_down" from "shared/replies.lua" "latch/count_down.lua";
    DELETE = "latch_delete" from "latch/delete.lua";
}

/// Only `acquire` is ever called, because there is no hold.
pub(super) static CALLS: KindCalls = KindCalls {
    acquire: ask,
    ..lock::CALLS
};

fn ask(resource: &Resource, _publish: Publish, _args: &AcquireArgs<'_>) -> Call {
    Call::new(&ASK, resource.keys(), [])
}

pub(crate) fn count_down(resource: &Resource, publish: Publish, (reply, kept): ReplyKey) -> Call {
    let args = resource.publish_args(publish).into_iter().chain(kept);
    Call::new(&COUNT_DOWN, [resource.key.clone(), reply], args)
}

pub(crate) fn count(resource: &Resource) -> Call {
    Call::new(&COUNT, resource.only_key(), [])
}

pub(crate) fn delete(resource: &Resource, publish: Publish) -> Call {
    Call::new(&DELETE, resource.only_key(), resource.publish_args(publish))
}
