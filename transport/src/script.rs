//! A script. It is sent by its hash, or by its text if the server does not know the hash.

use std::sync::OnceLock;

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
