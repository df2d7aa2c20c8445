//! What is locked: a checked name and what it is called in Redis.

use std::sync::Arc;

use crate::config::ConfigError;
use crate::protocol::keys;

/// The longest name, in bytes. Longer ones are refused: every key and channel repeats the name.
pub(crate) const NAME_MAX: usize = 1024;

/// One lock, by all its names.
#[derive(Debug)]
pub(crate) struct Place {
    /// The name as its user gave it.
    pub(crate) name: Arc<str>,
    /// The key of the lock hash.
    pub(crate) key: Arc<str>,
    /// Where its release is published.
    pub(crate) channel: Arc<str>,
}

impl Place {
    pub(crate) fn lock(prefix: &str, name: &str) -> Result<Arc<Place>, ConfigError> {
        let refuse = |reason: String| {
            let name = name.chars().take(64).collect();
            Err(ConfigError::Name { name, reason })
        };
        if name.is_empty() {
            return refuse("it is empty".into());
        }
        let key = format!("{prefix}{name}");
        if key.len() > NAME_MAX {
            let length = key.len();
            return refuse(format!("it has {length} bytes with its prefix, at most {NAME_MAX}"));
        }
        if let Some(fault) = keys::slot_fault(&key) {
            return refuse(format!("{fault} would put its keys in different cluster slots"));
        }
        let channel = keys::lock_channel(&key);
        Ok(Arc::new(Place { name: Arc::from(name), key: Arc::from(key), channel }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_is_refused_with_its_reason() {
        for (name, reason) in [
            ("", "empty"),
            ("a}b", "closing brace"),
            ("a{b", "opening brace"),
            ("{}x", "empty pair"),
            (&*"n".repeat(NAME_MAX + 1), "1025 bytes with its prefix, at most 1024"),
        ] {
            let error = Place::lock("", name).expect_err(name).to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Place::lock("", &"n".repeat(NAME_MAX)).is_ok());
    }

    #[test]
    fn a_prefix_comes_before_the_braces() {
        let place = Place::lock("app:", "orders").expect("a good name");
        assert_eq!(&*place.name, "orders");
        assert_eq!(&*place.key, "app:orders");
        assert_eq!(&*place.channel, "redisson_lock__channel:{app:orders}");
    }
}
