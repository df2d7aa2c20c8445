//! The scripts: one `.lua` file each, sent by hash and loaded on demand.

use std::sync::OnceLock;

/// The text of a script and its hash.
#[derive(Debug)]
pub(crate) struct Script {
    #[cfg_attr(
        not(any(test, feature = "embedded")),
        expect(dead_code, reason = "the engine counts by name")
    )]
    pub(crate) name: &'static str,
    pub(crate) text: &'static str,
    sha1: OnceLock<String>,
}

impl Script {
    pub(crate) const fn new(name: &'static str, text: &'static str) -> Self {
        Script { name, text, sha1: OnceLock::new() }
    }

    /// The number by which [`BATCH`] knows this script, if it is one of those.
    pub(crate) fn number_in_batch(&self) -> Option<i64> {
        let index = IN_BATCH.iter().position(|script| std::ptr::eq(*script, self))?;
        i64::try_from(index + 1).ok()
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

/// What [`BATCH`] can run, in the order in which it counts them.
static IN_BATCH: [&Script; 4] = [&LOCK_ACQUIRE, &LOCK_REENTER, &LOCK_RELEASE, &LOCK_TAKE_OVER];

macro_rules! batch {
    ($($name:literal)*) => {
        concat!(
            $("local function ", $name, "(KEYS, ARGV)\n",
            include_str!(concat!("lua/", $name, ".lua")), "end\n",)*
            include_str!("lua/batch.lua")
        )
    };
}

/// Several calls in one; made of the texts of the scripts themselves.
pub(crate) static BATCH: Script =
    Script::new("batch", batch!("lock_acquire" "lock_reenter" "lock_release" "lock_take_over"));

/// [`LOCK_RENEW`] with a fault, for the tests that must find it.
#[cfg(feature = "test-util")]
pub(crate) static MUTANT_RENEW: Script =
    Script::new("mutant_renew", include_str!("lua/mutant_renew.lua"));
