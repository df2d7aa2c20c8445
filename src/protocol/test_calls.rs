//! Calls of the plain lock by key and owner, for tests.

use std::sync::Arc;
use std::time::Duration;

use super::Call;
use super::calls::{AcquireArgs, Queueing};
use super::kind::Kind;
use super::resource::Resource;

fn resource(key: &str) -> Resource {
    Resource::new(Kind::Lock, "", key).expect("a good name")
}

pub(crate) fn acquire(key: &str, owner: &Arc<str>, lease: Duration) -> Call {
    let queueing = Queueing::Not;
    let ask = AcquireArgs {
        field: owner,
        lease,
        queueing,
        claim: Duration::ZERO,
        writer: None,
    };
    resource(key).acquire("PUBLISH", &ask)
}

pub(crate) fn release(key: &str, holds: u32, owner: &Arc<str>) -> Call {
    resource(key).release("PUBLISH", holds, owner)
}
