//! The calls of a resource, by its kind. Only this file names the protocol of every kind.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{self, AcquireArgs, Force, KindCalls, NewField, may_be_field};
use super::kind::Kind;
use super::permit::ID_LENGTH;
use super::resource::Resource;
use super::script::Script;
use super::{
    Arg, Call, Field, Publish, fair, fenced, latch, lock, permit, read_write, semaphore, string,
};
#[cfg(feature = "test-util")]
use super::{counter, description, existence, kept, waiters};

/// Which keys an inspection declares. Some servers refuse keys that a script does not declare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Declared {
    All,
    /// The description may be in another slot.
    OfTheLock,
}

fn calls_of(kind: Kind) -> &'static KindCalls {
    match kind {
        Kind::Lock | Kind::Spin => &lock::CALLS,
        Kind::Fair => &fair::CALLS,
        Kind::Fenced => &fenced::CALLS,
        Kind::Read => &read_write::READ_CALLS,
        Kind::Write => &read_write::WRITE_CALLS,
        Kind::String => &string::CALLS,
        Kind::Semaphore => &semaphore::CALLS,
        Kind::Permit => &permit::CALLS,
        Kind::Latch => &latch::CALLS,
    }
}

impl Resource {
    /// A field that no other acquisition ever uses, made from an unused number.
    pub(crate) fn field(&self, new_field: NewField<'_>) -> Arc<str> {
        (calls_of(self.kind).field)(new_field)
    }

    /// True if a hold of this kind may have this field.
    pub(crate) fn may_be_field(&self, text: &str) -> bool {
        may_be_field(self.kind, text)
    }

    /// How many entries a hold has in Redis. If it has several, some of them may be lost alone.
    pub(crate) fn entries(&self, field: &str) -> usize {
        if self.kind == Kind::Permit {
            field.len() / ID_LENGTH
        } else {
            1
        }
    }

    pub(crate) fn acquire(&self, publish: Publish, args: &AcquireArgs<'_>) -> Call {
        (calls_of(self.kind).acquire)(self, publish, args)
    }

    /// Raises the count of a hold to `count` and extends its lease to at least `lease`.
    pub(crate) fn reenter(&self, field: &Field, lease: Duration, count: u32) -> Call {
        (calls_of(self.kind).reenter)(self, field, lease, count)
    }

    /// Lowers the count to `count`. Zero ends the hold, and a wait in Redis.
    pub(crate) fn release(&self, publish: Publish, count: u32, field: &Field) -> Call {
        (calls_of(self.kind).release)(self, publish, count, field)
    }

    /// Ends every hold, or only those of one owner.
    pub(crate) fn force_release(&self, publish: Publish, force: Force<'_>) -> Call {
        (calls_of(self.kind).force_release)(self, publish, force)
    }

    pub(crate) fn inspect(&self, keys: Declared) -> Call {
        let described = self.description_key();
        let declared = described.iter().filter(|_| keys == Declared::All).cloned();
        let keys = self.only_key().into_iter().chain(declared);
        let args = described.iter().cloned().map(Arg::Text);
        Call::new(calls_of(self.kind).inspect, keys, args)
    }
}

/// The script that renews holds of a kind. Kinds with the same script can share a call.
pub(crate) fn renewal_of(kind: Kind) -> &'static Script {
    calls_of(kind).renewal
}

/// One call that renews many holds for one lease, if their kinds share a script: resource and owner
/// of each.
pub(crate) fn renew(kind: Kind, lease: Duration, holds: &[(&Resource, &Field)]) -> Call {
    calls::renew(calls_of(kind), lease, holds)
}

/// All scripts, for tests that compare engines.
#[cfg(feature = "test-util")]
pub(crate) fn all_scripts() -> impl Iterator<Item = &'static Script> {
    let kinds = [
        lock::SCRIPTS,
        fair::SCRIPTS,
        fenced::SCRIPTS,
        kept::SCRIPTS,
        read_write::SCRIPTS,
        string::SCRIPTS,
        semaphore::SCRIPTS,
        permit::SCRIPTS,
        latch::SCRIPTS,
        counter::SCRIPTS,
        description::SCRIPTS,
        existence::SCRIPTS,
        waiters::SCRIPTS,
    ];
    kinds.into_iter().flatten().copied()
}

#[cfg(all(test, feature = "test-util"))]
mod tests {
    use super::all_scripts;

    /// All of them wait for the grace of a new primary, and nothing else does.
    #[test]
    fn scripts_that_take_something_are_marked() {
        for script in all_scripts() {
            let takes = script.name.ends_with("_acquire") || script.name == "semaphore_drain";
            assert_eq!(script.takes, takes, "{}", script.name);
        }
    }

    /// They look at the keys of other readers of a read/write lock, and at descriptions.
    #[test]
    fn scripts_that_read_undeclared_keys_are_marked() {
        let parts = [
            include_str!("read_write/read_holds.lua"),
            include_str!("description/described.lua"),
        ];
        for script in all_scripts() {
            let reads = parts.iter().any(|part| script.text.contains(part));
            assert_eq!(script.reads_undeclared_keys, reads, "{}", script.name);
            let is_flagged = script
                .text
                .starts_with("--!df flags=allow-undeclared-keys\n");
            assert_eq!(is_flagged, reads, "{}", script.name);
        }
    }
}
