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

    /// The number by which [`MULTI_ACQUIRE`] knows this script, if it is one of those.
    pub(crate) fn number_in_multi(&self) -> Option<i64> {
        let index = IN_MULTI.iter().position(|script| script.is(self))?;
        i64::try_from(index + 1).ok()
    }

    /// Whether the two are the same script.
    pub(crate) fn is(&self, other: &Script) -> bool {
        std::ptr::eq(self, other)
    }

    /// The name by which EVALSHA knows this script: 40 lower-case hex digits.
    pub(crate) fn sha1(&self) -> &str {
        self.sha1.get_or_init(|| sha1_smol::Sha1::from(self.text).digest().to_string())
    }
}

macro_rules! scripts {
    ($($constant:ident = $name:literal $(after $($shared:literal)+)?;)*) => {
        $(pub(crate) static $constant: Script = Script::new($name, concat!(
            $($(include_str!(concat!("lua/", $shared, ".lua")),)+)?
            include_str!(concat!("lua/", $name, ".lua")),
        ));)*

        /// Every script, for the tests that compare engines.
        #[cfg(feature = "test-util")]
        pub(crate) static ALL: &[&Script] = &[&MULTI_ACQUIRE, $(&$constant),*];
    };
}

// A script that stands before another is local functions for it.
scripts! {
    COUNT_SET = "count_set";
    FAIR_ACQUIRE = "fair_acquire" after "clock" "fair_queue";
    FAIR_BEAT = "fair_beat" after "clock" "fair_queue" "full_server";
    FAIR_FORCE_RELEASE = "fair_force_release" after "clock" "fair_queue";
    FAIR_RELEASE = "fair_release" after "clock" "fair_queue";
    FENCED_ACQUIRE = "fenced_acquire";
    FENCED_SET = "fenced_set";
    FENCED_TAKE_OVER = "fenced_take_over" after "lease";
    KEYS_EXIST = "keys_exist";
    LATCH_ASK = "latch_ask";
    LATCH_COUNT = "latch_count";
    LATCH_COUNT_DOWN = "latch_count_down";
    LATCH_DELETE = "latch_delete";
    LOCKS_SCAN = "locks_scan";
    LOCK_ACQUIRE = "lock_acquire";
    LOCK_FORCE_RELEASE = "lock_force_release";
    LOCK_INSPECT = "lock_inspect";
    LOCK_REENTER = "lock_reenter" after "lease";
    LOCK_RELEASE = "lock_release";
    LOCK_RENEW = "lock_renew" after "lease";
    LOCK_TAKE_OVER = "lock_take_over" after "lease";
    PERMIT_ACQUIRE = "permit_acquire" after "clock" "give_back" "permit_holds";
    PERMIT_COUNT = "permit_count" after "clock" "give_back" "permit_holds";
    PERMIT_EXPIRE = "permit_expire";
    PERMIT_LEASE = "permit_lease" after "clock" "give_back" "permit_holds";
    PERMIT_RELEASE = "permit_release" after "clock" "give_back" "permit_holds";
    PERMIT_RENEW = "permit_renew" after "clock" "give_back" "permit_holds" "full_server";
    PERMIT_RESIZE = "permit_resize" after "clock" "give_back" "permit_holds" "full_server";
    PERMIT_UPDATE = "permit_update" after "clock" "give_back" "permit_holds";
    READ_ACQUIRE = "read_acquire";
    READ_EXTEND = "read_extend" after "lease";
    READ_RELEASE = "read_release" after "read_holds";
    READ_RENEW = "read_renew" after "lease";
    READ_TAKE_OVER = "read_take_over" after "lease";
    RW_FORCE_RELEASE = "rw_force_release";
    SEMAPHORE_ACQUIRE = "semaphore_acquire" after "clock" "give_back" "semaphore_holds";
    SEMAPHORE_ADD = "semaphore_add" after "full_server";
    SEMAPHORE_AVAILABLE = "semaphore_available" after "clock" "give_back" "semaphore_holds";
    SEMAPHORE_DRAIN = "semaphore_drain" after "clock" "give_back" "semaphore_holds";
    SEMAPHORE_KEEP = "semaphore_keep";
    SEMAPHORE_RELEASE = "semaphore_release" after "clock" "give_back" "semaphore_holds";
    SEMAPHORE_RENEW = "semaphore_renew" after "clock" "full_server";
    STRING_ACQUIRE = "string_acquire";
    STRING_EXTEND = "string_extend" after "lease";
    STRING_FORCE_RELEASE = "string_force_release";
    STRING_INSPECT = "string_inspect";
    STRING_RELEASE = "string_release";
    STRING_RENEW = "string_renew" after "lease";
    STRING_TAKE_OVER = "string_take_over" after "lease";
    WRITE_ACQUIRE = "write_acquire";
    WRITE_RELEASE = "write_release" after "read_holds";
}

/// What [`MULTI_ACQUIRE`] can run, in the order in which it counts them.
static IN_MULTI: [&Script; 4] = [&LOCK_ACQUIRE, &FENCED_ACQUIRE, &STRING_ACQUIRE, &WRITE_ACQUIRE];

/// A script that calls others: they stand before it as functions of KEYS and ARGV.
macro_rules! calling {
    ($name:literal: $($called:literal)*) => {
        Script::new($name, concat!(
            $("local function ", $called, "(KEYS, ARGV)\n",
            include_str!(concat!("lua/", $called, ".lua")), "end\n",)*
            include_str!(concat!("lua/", $name, ".lua")),
        ))
    };
}

/// Several locks at once, or none.
pub(crate) static MULTI_ACQUIRE: Script = calling!(
    "multi_acquire": "lock_acquire" "fenced_acquire" "string_acquire" "write_acquire"
);

/// The name of the script with this hash.
#[cfg(feature = "test-util")]
pub(crate) fn named(sha1: &str) -> Option<&'static str> {
    ALL.iter().find(|script| script.sha1() == sha1).map(|script| script.name)
}
