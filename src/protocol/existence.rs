//! Which of many keys exist, for the safety poll.

use std::sync::Arc;

use super::script::scripts;
use super::{Call, Unexpected, Value};

scripts! {
    KEYS_EXIST = "keys_exist" from "existence/keys_exist.lua";
}

/// Asks which of these keys are missing.
pub(crate) fn keys_exist(keys: Vec<Arc<str>>) -> Call {
    Call::new(&KEYS_EXIST, keys, [])
}

/// The reply of [`keys_exist`]: the indices of the missing keys.
pub(crate) fn missing(reply: Value, keys: usize) -> Result<Vec<usize>, Unexpected> {
    let index = |number: &Value| match number {
        Value::Int(number) => usize::try_from(*number)
            .ok()?
            .checked_sub(1)
            .filter(|at| *at < keys),
        _ => None,
    };
    let indices = match &reply {
        Value::Array(numbers) => numbers.iter().map(index).collect(),
        _ => None,
    };
    indices.ok_or(Unexpected(reply))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn numbers(numbers: &[i64]) -> Value {
        Value::Array(numbers.iter().copied().map(Value::Int).collect())
    }

    #[test]
    fn keys_are_counted_from_one() {
        assert_eq!(missing(numbers(&[1, 3]), 3), Ok(vec![0, 2]));
        assert_eq!(missing(numbers(&[]), 0), Ok(vec![]));
    }

    #[test]
    fn a_reply_of_the_wrong_shape_is_refused() {
        for number in [0, -1, 4] {
            assert!(missing(numbers(&[number]), 3).is_err(), "{number}");
        }
        assert!(missing(Value::Int(3), 3).is_err());
    }
}
