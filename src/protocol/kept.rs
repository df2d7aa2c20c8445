//! A string that is written once, and then kept for a while.

use std::sync::Arc;
use std::time::Duration;

use super::calls::ms;
use super::script::scripts;
use super::{Arg, Call, Unexpected, Value};

scripts! {
    KEEP = "kept" from "kept/keep.lua";
}

/// Writes the value unless there is one.
pub(crate) fn keep(key: Arc<str>, value: &str, keep: Duration) -> Call {
    Call::new(&KEEP, [key], [Arg::from(value), ms(keep)])
}

/// Reads the value.
pub(crate) fn get(key: Arc<str>) -> Call {
    keep(key, "", Duration::ZERO)
}

/// The reply: the value that was there.
pub(crate) fn there(reply: Value) -> Result<Option<String>, Unexpected> {
    match reply {
        Value::Nil => Ok(None),
        Value::Text(value) => Ok(Some(value)),
        other => Err(Unexpected(other)),
    }
}
