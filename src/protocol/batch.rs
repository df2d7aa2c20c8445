//! Several calls as one: what is sent, and what each of them is told.

use std::sync::Arc;

use super::script::BATCH;
use super::{Arg, Call, Unexpected, Value};

/// Whether a call can be part of a batch.
pub(crate) fn takes(call: &Call) -> bool {
    call.keys.len() == 1 && call.script.number_in_batch().is_some()
}

/// One call that runs all of these in their order; `None` if one of them cannot be part of it.
pub(crate) fn batch<'a>(calls: impl Iterator<Item = &'a Call>) -> Option<Call> {
    let (mut keys, mut args): (Vec<Arc<str>>, _) = (Vec::new(), Vec::new());
    for call in calls {
        let [key] = call.keys.as_slice() else { return None };
        keys.push(key.clone());
        args.push(Arg::Int(call.script.number_in_batch()?));
        args.extend_from_slice(&call.args);
    }
    Some(Call { script: &BATCH, keys, args })
}

/// What each call is told, in their order: a reply, or the text of an error.
pub(crate) fn replies(
    reply: Value,
    calls: usize,
) -> Result<impl Iterator<Item = Result<Value, String>>, Unexpected> {
    let Value::Array(all) = reply else { return Err(Unexpected(reply)) };
    let told = |reply: &Value| match reply {
        Value::Nil | Value::Int(_) => true,
        Value::Array(error) => matches!(error.as_slice(), [Value::Text(_)]),
        Value::Text(_) => false,
    };
    let counted = match all.first() {
        Some(Value::Int(count)) => usize::try_from(*count) == Ok(calls),
        _ => false,
    };
    if !counted || all.len() != calls + 1 || !all.iter().all(told) {
        return Err(Unexpected(Value::Array(all)));
    }
    Ok(all.into_iter().skip(1).map(|reply| match reply {
        Value::Array(error) => Err(error.into_iter().find_map(text).unwrap_or_default()),
        reply => Ok(reply),
    }))
}

fn text(value: Value) -> Option<String> {
    match value {
        Value::Text(text) => Some(text),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
