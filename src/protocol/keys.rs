//! Every key and channel name, following Redisson's `RedissonObject`.
//!
//! A name that contains a brace is used as it is, because its user has chosen the hash tag. Any
//! other name is put in braces where a prefix or suffix is added, so that all keys of one lock
//! share a slot.

use std::sync::Arc;

/// How the name of a key or channel is made from the name of its lock.
#[derive(Clone, Copy, Debug)]
pub enum KeyName {
    /// `prefix:{name}`.
    Prefixed(&'static str),
    /// Like [`KeyName::Prefixed`], for a key that only this crate reads: a name that has braces
    /// gets a second colon, so that `x` and `{x}` do not share the key.
    Ours(&'static str),
    /// `{name}`.
    Tagged,
    /// `{name}:suffix`.
    Suffixed(&'static str),
    /// `prefix{name}`, always with braces, whatever the name contains.
    DoubleTagged(&'static str),
}

impl KeyName {
    /// The name for this lock.
    pub fn of(self, name: &str) -> Arc<str> {
        let tagged = if name.contains('{') {
            name.to_owned()
        } else {
            format!("{{{name}}}")
        };
        Arc::from(match self {
            KeyName::Ours(prefix) if name.contains('{') => format!("{prefix}::{name}"),
            KeyName::Ours(prefix) | KeyName::Prefixed(prefix) => format!("{prefix}:{tagged}"),
            KeyName::Tagged => tagged,
            KeyName::Suffixed(suffix) => format!("{tagged}:{suffix}"),
            KeyName::DoubleTagged(prefix) => format!("{prefix}{{{name}}}"),
        })
    }
}

/// True for `{x}`. Keys and channels that are made from this name are those that are made from `x`.
pub(crate) fn is_only_a_tag(name: &str) -> bool {
    let inner = name
        .strip_prefix('{')
        .and_then(|rest| rest.strip_suffix('}'));
    inner.is_some_and(|inner| !inner.contains(['{', '}']))
}

/// The reason why a name cannot be used, if any.
///
/// Redis hashes the text between the first `{` and the first `}` after it, if that is not
/// empty. A brace that makes no such tag would put the keys of one lock in different slots.
pub fn slot_fault(name: &str) -> Option<&'static str> {
    let Some(open) = name.find('{') else {
        return name
            .contains('}')
            .then_some("a closing brace without an opening one");
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
        let channel = KeyName::Prefixed("redisson_lock__channel");
        assert_eq!(
            &*channel.of("orders:42"),
            "redisson_lock__channel:{orders:42}"
        );
        assert_eq!(
            &*channel.of("{shop}:orders:42"),
            "redisson_lock__channel:{shop}:orders:42"
        );
    }

    #[test]
    fn a_name_in_braces_shares_its_keys() {
        let queue = KeyName::Prefixed("redisson_lock_queue");
        for (name, other) in [("x", "{x}"), ("{a}b", "{{a}b}"), ("a{b}", "{a{b}}")] {
            let shares = queue.of(name) == queue.of(other);
            assert_eq!(is_only_a_tag(other), shares, "{other}");
            assert!(!is_only_a_tag(name), "{name}");
        }
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
