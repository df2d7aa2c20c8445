//! Every key and channel name, after Redisson's `RedissonObject`.
//!
//! A name that contains a brace is taken as tagged by its user and is left as it is; any other name
//! is put in braces where something is added to it, so that all keys of one lock share a slot.

use std::sync::Arc;

/// Puts `prefix:` before a name, with braces where the name has none.
pub(crate) fn prefixed(prefix: &str, name: &str) -> Arc<str> {
    Arc::from(format!("{prefix}:{}", tagged(name)))
}

/// As [`prefixed`], for a key that nobody but this library reads: with a second colon before a name
/// that has braces, so that `x` and `{x}` do not share it.
pub(crate) fn ours(prefix: &str, name: &str) -> Arc<str> {
    if name.contains('{') { Arc::from(format!("{prefix}::{name}")) } else { prefixed(prefix, name) }
}

/// What stands before the name in the queue of a fair lock, and in the counter of a fenced one.
pub(crate) const FAIR_QUEUE: &str = "redisson_lock_queue";
pub(crate) const FENCE_COUNTER: &str = "redisson_lock_token";

/// The name in braces, if it has none.
pub(crate) fn tagged(name: &str) -> Arc<str> {
    if name.contains('{') { Arc::from(name) } else { Arc::from(format!("{{{name}}}")) }
}

/// Puts `:suffix` behind a name, with braces where the name has none.
pub(crate) fn suffixed(name: &str, suffix: &str) -> Arc<str> {
    Arc::from(format!("{}:{suffix}", tagged(name)))
}

/// The channel of the latch: it adds braces of its own, whatever the name contains.
pub(crate) fn latch_channel(name: &str) -> Arc<str> {
    Arc::from(format!("redisson_countdownlatch__channel__{{{name}}}"))
}

/// The channel of the re-entrant lock (and of fair and fenced ones, as their base).
pub(crate) fn lock_channel(name: &str) -> Arc<str> {
    prefixed("redisson_lock__channel", name)
}

/// Why a name cannot be used, or nothing.
///
/// Redis hashes what stands between the first `{` and the first `}` after it, if that is not
/// empty. A brace that makes no such tag would put the keys of one lock in different slots.
pub(crate) fn slot_fault(name: &str) -> Option<&'static str> {
    let Some(open) = name.find('{') else {
        return name.contains('}').then_some("a closing brace without an opening one");
    };
    match name[open + 1..].find('}') {
        None => Some("an opening brace without a closing one"),
        Some(0) => Some("an empty pair of braces"),
        Some(_) if name[..open].contains('}') => Some("a closing brace before the opening one"),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channel_of_a_plain_and_of_a_tagged_name() {
        assert_eq!(&*lock_channel("orders:42"), "redisson_lock__channel:{orders:42}");
        assert_eq!(&*lock_channel("{shop}:orders:42"), "redisson_lock__channel:{shop}:orders:42");
    }

    #[test]
    fn names_that_would_split_the_slots_are_found() {
        for bad in ["a}b", "a{b", "{}x", "a}b{c}", "{", "}"] {
            assert!(slot_fault(bad).is_some(), "{bad}");
        }
        for good in ["a", "orders:42", "{shop}:orders", "x{y}z", "{a}{b"] {
            assert_eq!(slot_fault(good), None, "{good}");
        }
    }
}
