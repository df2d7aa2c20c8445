//! Scripts with one fault each, for the tests that must find it.
//!
//! A faulty script is the real one with one piece of its text replaced, so that it cannot fall behind.

use std::sync::LazyLock;

use super::script::{
    self, FAIR_ACQUIRE, FAIR_RELEASE, FENCED_TAKE_OVER, LOCK_RELEASE, LOCK_RENEW, READ_ACQUIRE,
    READ_RENEW, STRING_RELEASE, STRING_RENEW, WRITE_RELEASE,
};
use super::{Call, Script};
use crate::mutant::{Mutant, Mutants};

struct Fault {
    mutant: Mutant,
    script: &'static Script,
    right: &'static str,
    wrong: &'static str,
}

static FAULTS: [Fault; 12] = [
    Fault {
        mutant: Mutant::RenewWithoutOwnerTest,
        script: &LOCK_RENEW,
        right: "redis.call('hexists', key, ARGV[2 * i - 1]) == 1",
        wrong: "redis.call('hset', key, ARGV[2 * i - 1], 1)",
    },
    Fault {
        mutant: Mutant::PlaceOfLeaverKept,
        script: &FAIR_RELEASE,
        right: "redis.call('zrem', deadlines, owner) == 1",
        wrong: "false",
    },
    Fault {
        mutant: Mutant::ZeroWaitPasses,
        script: &FAIR_ACQUIRE,
        right: "(not head or head == owner) then\n  if head then",
        wrong: "(not head or head == owner or line == 0) then\n  if head == owner then",
    },
    Fault {
        mutant: Mutant::NextUntold,
        script: &FAIR_RELEASE,
        right: "redis.pcall(publish, channel .. ':' .. head, '0')",
        wrong: "0",
    },
    Fault {
        mutant: Mutant::TokenTakenOver,
        script: &FENCED_TAKE_OVER,
        right: "redis.call('incr', counter)",
        wrong: "tonumber(redis.call('get', counter))",
    },
    Fault {
        mutant: Mutant::CounterEnds,
        script: &LOCK_RELEASE,
        right: "local told = ",
        wrong: "redis.call('del', 'redisson_lock_token:{' .. key .. '}')\nlocal told = ",
    },
    Fault {
        mutant: Mutant::ReleaseUntold,
        script: &LOCK_RELEASE,
        right: "redis.pcall(publish, channel, '0')",
        wrong: "0",
    },
    Fault {
        mutant: Mutant::ReadRenewsHashOnly,
        script: &READ_RENEW,
        right: "and redis.call('pexpire', KEYS[i + 1], lease_ms) == 0 then",
        wrong: "and false then",
    },
    Fault {
        mutant: Mutant::DowngradeEndsReads,
        script: &WRITE_RELEASE,
        right: "if readers_left(key, KEYS[2], lease_ms) then",
        wrong: "if false then",
    },
    Fault {
        mutant: Mutant::ReaderPassesWriter,
        script: &READ_ACQUIRE,
        right: "mode ~= 'read' and redis.call('hexists', key, owner) == 0",
        wrong: "false",
    },
    Fault {
        mutant: Mutant::StringReleaseBlind,
        script: &STRING_RELEASE,
        right: "redis.call('get', KEYS[1]) ~= ARGV[2]",
        wrong: "redis.call('exists', KEYS[1]) == 0",
    },
    Fault {
        mutant: Mutant::StringRenewBlind,
        script: &STRING_RENEW,
        right: "redis.call('get', key) == ARGV[2 * i - 1]",
        wrong: "redis.call('exists', key) == 1",
    },
];

static SCRIPTS: LazyLock<Vec<Script>> = LazyLock::new(|| {
    let faulty = |fault: &Fault| {
        let text = fault.script.text.replacen(fault.right, fault.wrong, 1);
        // Once for each fault and process: scripts are for ever.
        Script::new(fault.script.name, Box::leak(text.into_boxed_str()))
    };
    FAULTS.iter().map(faulty).collect()
});

/// The call, with the fault of a mutant if there is one in its script.
pub(crate) fn spoil(mutants: Mutants, call: Call) -> Call {
    let faulty = |fault: &Fault| mutants.has(fault.mutant) && fault.script.is(call.script);
    match FAULTS.iter().position(faulty) {
        Some(index) => Call { script: &SCRIPTS[index], ..call },
        None => Call { script: script::with_fault(mutants, call.script), ..call },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_fault_is_at_one_place_of_its_script() {
        for fault in &FAULTS {
            let places = fault.script.text.matches(fault.right).count();
            assert_eq!(places, 1, "{:?}", fault.mutant);
        }
    }
}
