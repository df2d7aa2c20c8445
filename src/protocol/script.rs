//! The scripts: one `.lua` file each, sent by hash and loaded on demand.

use std::sync::OnceLock;

/// The text of a script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    #[cfg_attr(not(feature = "embedded"), expect(dead_code, reason = "the engine counts by name"))]
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    sha1: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Script { name, text, sha1: OnceLock::new() }
    }

    /// The name by which EVALSHA knows this script: 40 lower-case hex digits.
    pub(crate) fn sha1(&self) -> &str {
        self.sha1.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal;)*) => {
        $(pub(crate) static $constant: Script =
            Script::new($name, include_str!(concat!("lua/", $name, ".lua")));)*

        /// Every script, for the tests that compare engines.
        #[cfg(feature = "test-util")]
        pub(crate) static ALL: &[&Script] = &[$(&$constant),*];
    };
}

scripts! {
    KEYS_EXIST = "keys_exist";
    LOCK_ACQUIRE = "lock_acquire";
    LOCK_FORCE_RELEASE = "lock_force_release";
    LOCK_INSPECT = "lock_inspect";
    LOCK_REENTER = "lock_reenter";
    LOCK_RELEASE = "lock_release";
    LOCK_RENEW = "lock_renew";
    LOCK_TAKE_OVER = "lock_take_over";
}

/// [`LOCK_RENEW`] with a fault, for the tests that must find it.
#[cfg(feature = "test-util")]
pub(crate) static MUTANT_RENEW: Script =
    Script::new("mutant_renew", include_str!("lua/mutant_renew.lua"));
