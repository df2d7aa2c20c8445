//! What goes over the wire: scripts, key names, typed calls and their replies.
//!
//! This layer does no I/O and has no clock and no tasks. A [`Call`] is one run of one script. The
//! session decides when to send it and what its reply means.

pub(crate) mod calls;
pub(crate) mod counter;
pub(crate) mod description;
pub(crate) mod dispatch;
pub(crate) mod existence;
pub(crate) mod fair;
pub(crate) mod fenced;
pub(crate) mod forced;
pub(crate) mod kept;
pub(crate) mod kind;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod permit;
pub(crate) mod read_write;
pub(crate) mod replies;
pub(crate) mod resource;
mod script;
pub(crate) mod semaphore;
mod string;
pub(crate) mod waiters;

use std::sync::Arc;

#[cfg(feature = "test-util")]
pub(crate) use dispatch::all_scripts;
pub(crate) use dispatch::{renew, renewal_of};
pub(crate) use leasehold_transport::{Arg, Args, Call, Keys, Value};
pub(crate) use script::Script;

/// The owner's name on the wire: a field in a hash, a member of a set, the value of a string.
pub(crate) type Field = Arc<str>;

/// The command by which a script publishes: PUBLISH or SPUBLISH.
pub(crate) type Publish = &'static str;

/// A reply that no script of this crate sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected(pub(crate) Value);
