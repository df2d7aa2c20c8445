//! Takes several locks by one call: all of them or none.

use super::calls::call;
use super::replies::{Acquired, acquired};
use super::script::Script;
use super::{Arg, Call, Unexpected, Value, fenced, lock, read_write, string};

/// The scripts that [`ACQUIRE`] can run, in the order in which it counts them.
static CALLED: [&Script; 4] = [
    &lock::ACQUIRE,
    &fenced::ACQUIRE,
    &string::ACQUIRE,
    &read_write::WRITE_ACQUIRE,
];

/// A script that calls others. Their texts precede its own, as functions of KEYS and ARGV.
macro_rules! calling {
    ($name:literal from $file:literal: $($function:literal = $called:literal)*) => {
        Script::new($name, concat!(
            include_str!("shared/lease.lua"),
            $("local function ", $function, "(KEYS, ARGV)\n", include_str!($called), "end\n",)*
            include_str!($file),
        ))
        .takes()
    };
}

pub(crate) static ACQUIRE: Script = calling!(
    "multi_acquire" from "multi/acquire.lua":
    "lock_acquire" = "lock/acquire.lua"
    "fenced_acquire" = "fenced/acquire.lua"
    "string_acquire" = "string/acquire.lua"
    "write_acquire" = "read_write/write_acquire.lua"
);

#[cfg(feature = "test-util")]
pub(super) static SCRIPTS: &[&Script] = &[&ACQUIRE];

/// The number of a script in [`ACQUIRE`], if that can run it.
fn number(script: &Script) -> Option<i64> {
    let index = CALLED.iter().position(|called| called.is(script))?;
    i64::try_from(index + 1).ok()
}

/// One call that takes all of these locks or none. `None` if it cannot ask for one of them.
pub(crate) fn acquire(questions: &[Call]) -> Option<Call> {
    let (mut keys, mut args) = (vec![], vec![]);
    for question in questions {
        let [owner, lease] = question.args.as_slice() else {
            return None;
        };
        keys.extend_from_slice(&question.keys);
        args.extend([
            Arg::Int(number(question.script)?),
            owner.clone(),
            lease.clone(),
        ]);
    }
    Some(call(&ACQUIRE, keys, args))
}

/// The reply of [`acquire`]: the token of each lock, if it has one. `None` if another owner holds
/// one of the locks.
pub(crate) fn tokens(reply: Value, locks: usize) -> Result<Option<Vec<Option<i64>>>, Unexpected> {
    let answers = match reply {
        Value::Int(number) if usize::try_from(number).is_ok_and(|at| (1..=locks).contains(&at)) => {
            return Ok(None);
        }
        Value::Array(answers) => answers,
        other => return Err(Unexpected(other)),
    };
    let token = |reply: &Value| match acquired(reply.clone()) {
        Ok(Acquired::Yes(token)) => Some(token),
        Ok(_) | Err(_) => None,
    };
    let tokens = match answers.split_first() {
        Some((Value::Int(count), answers)) if answers.len() == locks => answers
            .iter()
            .map(token)
            .collect::<Option<_>>()
            .filter(|_| usize::try_from(*count) == Ok(locks)),
        _ => None,
    };
    tokens.map(Some).ok_or(Unexpected(Value::Array(answers)))
}
