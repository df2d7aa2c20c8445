//! The arguments and the replies of calls.

use std::sync::{Arc, OnceLock};

use smallvec::SmallVec;

/// One run of a script.
#[derive(Clone, Debug)]
pub struct Call {
    /// Which script.
    pub script: &'static Script,
    /// Its `KEYS`.
    pub keys: Keys,
    /// Its `ARGV`.
    pub args: Args,
}

impl Call {
    /// A run of this script with these keys and arguments.
    pub fn new(
        script: &'static Script,
        keys: impl IntoIterator<Item = Arc<str>>,
        args: impl IntoIterator<Item = Arg>,
    ) -> Self {
        Call {
            script,
            keys: keys.into_iter().collect(),
            args: args.into_iter().collect(),
        }
    }
}

/// The keys of a call. Those of most calls need no allocation.
pub type Keys = SmallVec<[Arc<str>; 1]>;

/// The arguments of a call. Those of most calls need no allocation.
pub type Args = SmallVec<[Arg; 5]>;

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

// A script. It is sent by its hash, or by its text if the server does not know the hash.

/// The text of a script and its hash.
#[derive(Debug)]
pub struct Script {
    /// A name for humans. It is not sent to the server.
    pub name: &'static str,
    /// What the server runs.
    pub text: &'static str,
    /// True if the script reads keys that it does not declare.
    pub reads_undeclared_keys: bool,
    /// True if the script takes what others may hold.
    pub takes: bool,
    sha1: OnceLock<String>,
}

impl Script {
    /// A script with this name and text.
    pub const fn new(name: &'static str, text: &'static str) -> Self {
        Script {
            name,
            text,
            reads_undeclared_keys: false,
            takes: false,
            sha1: OnceLock::new(),
        }
    }

    /// Marks a script that reads keys that it does not declare, in the same slot.
    ///
    /// While a slot moves from one node to another, its keys are spread over both. The source
    /// refuses access to a key that has moved. The target treats a key that has not arrived as
    /// missing, so a marked script is not sent there.
    #[must_use = "it returns the script with its mark"]
    pub const fn reads_undeclared_keys(mut self) -> Self {
        self.reads_undeclared_keys = true;
        self
    }

    /// Marks a script that takes what others may hold. It is not sent to a server that has just
    /// become the primary (`grace.rs`).
    #[must_use = "it returns the script with its mark"]
    pub const fn takes(mut self) -> Self {
        self.takes = true;
        self
    }

    /// True if both are the same script.
    pub fn is(&self, other: &Script) -> bool {
        std::ptr::eq(self, other)
    }

    /// The hash by which EVALSHA knows this script: 40 lower-case hex digits.
    pub fn sha1(&self) -> &str {
        self.sha1.get_or_init(|| hash(self.text))
    }
}

fn hash(text: &str) -> String {
    sha1_smol::Sha1::from(text).digest().to_string()
}
