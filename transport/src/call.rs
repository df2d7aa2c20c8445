//! The arguments and the replies of calls.

use std::sync::Arc;

use crate::script::Script;

/// One run of a script.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which script.
    pub script: &'static Script,
    /// Its `KEYS`.
    pub keys: Vec<Arc<str>>,
    /// Its `ARGV`.
    pub args: Vec<Arg>,
}

/// One argument of a script. Numbers travel as decimal text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Arg {
    /// A number.
    Int(i64),
    /// A text.
    Text(Arc<str>),
}

/// A reply of Redis that is not an error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// No value.
    Nil,
    /// A number.
    Int(i64),
    /// A text.
    Text(String),
    /// Several values. A map becomes its names and values in turn.
    Array(Vec<Value>),
}

impl Value {
    /// The value after a name, in a map or in an array of alternating names and values.
    pub fn field(&self, name: &str) -> Option<&Value> {
        let Value::Array(items) = self else {
            return None;
        };
        items.chunks_exact(2).find_map(|pair| match pair {
            [Value::Text(key), value] if key == name => Some(value),
            _ => None,
        })
    }
}

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
