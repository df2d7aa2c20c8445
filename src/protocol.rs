//! What goes over the wire: scripts, key names, typed calls and their replies.
//!
//! This layer does no I/O and has no clock and no tasks. A [`Call`] is one run of one script. The
//! session decides when to send it and what its reply means.

pub(crate) mod calls;
pub(crate) mod counter;
pub(crate) mod description;
mod dispatch;
pub(crate) mod existence;
pub(crate) mod fair;
pub(crate) mod fenced;
pub(crate) mod keys;
pub(crate) mod kind;
pub(crate) mod latch;
pub(crate) mod lock;
pub(crate) mod multi;
pub(crate) mod permit;
mod read_write;
pub(crate) mod replies;
pub(crate) mod resource;
pub(crate) mod rights;
pub(crate) mod scan;
mod script;
pub(crate) mod semaphore;
mod string;
#[cfg(test)]
pub(crate) mod test_calls;
pub(crate) mod waiters;

use std::sync::Arc;

#[cfg(feature = "test-util")]
pub(crate) use dispatch::all_scripts;
pub(crate) use dispatch::{renew, renewal_of};
pub(crate) use script::Script;

/// The owner's name on the wire: a field in a hash, a member of a set, the value of a string.
pub(crate) type Field = Arc<str>;

/// The command by which a script publishes: PUBLISH or SPUBLISH.
pub(crate) type Publish = &'static str;

/// One run of a script.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) script: &'static Script,
    pub(crate) keys: Vec<Arc<str>>,
    pub(crate) args: Vec<Arg>,
}

/// One argument of a script. Numbers travel as decimal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Arg {
    Int(i64),
    Text(Arc<str>),
}

/// A reply of Redis that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Value {
    Nil,
    Int(i64),
    Text(String),
    Array(Vec<Value>),
}

impl Value {
    /// The value behind a name, in a map or in an array of alternating names and values.
    pub(crate) fn field(&self, name: &str) -> Option<&Value> {
        let Value::Array(items) = self else {
            return None;
        };
        items.chunks_exact(2).find_map(|pair| match pair {
            [Value::Text(key), value] if key == name => Some(value),
            _ => None,
        })
    }
}

/// A reply that no script of this crate sends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Unexpected(pub(crate) Value);

impl From<&str> for Arg {
    fn from(text: &str) -> Self {
        Arg::Text(Arc::from(text))
    }
}

impl From<Arc<str>> for Arg {
    fn from(text: Arc<str>) -> Self {
        Arg::Text(text)
    }
}

impl From<i64> for Arg {
    fn from(number: i64) -> Self {
        Arg::Int(number)
    }
}
