//! What goes over the wire: scripts, key names, typed calls and their replies.
//!
//! This layer does no I/O and has no clock and no tasks. A [`Call`] is one run of one script; the
//! session decides when to send it and what an answer means.

pub(crate) mod calls;
pub(crate) mod counts;
pub(crate) mod keys;
pub(crate) mod kind;
pub(crate) mod place;
#[cfg(test)]
pub(crate) mod plain;
pub(crate) mod replies;
pub(crate) mod scan;
pub(crate) mod script;

use std::sync::Arc;

pub(crate) use script::Script;

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

/// A reply that a script of ours never gives.
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
