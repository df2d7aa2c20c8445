//! What is locked: a checked name of one kind, with its keys and channel in Redis.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, OnceLock};

use super::kind::{KeyName, Kind, SEMAPHORE_LIMIT, slot_fault};
use crate::error::ConfigError;
use crate::sync::hash_of;

/// The longest name in bytes. Every key and channel repeats the name, so longer ones are refused.
pub(crate) const NAME_MAX: usize = 1024;

/// One name of one kind.
#[derive(Clone, Debug)]
pub struct Resource {
    /// The name as the user gave it.
    pub name: Arc<str>,
    /// Its kind.
    pub kind: Kind,
    /// Whether its owner may take it again while holding it.
    pub(crate) reentrant: bool,
    /// The key at the name itself.
    pub key: Arc<str>,
    /// The extra keys, in the order in which the scripts of the kind take them.
    pub extra_keys: Box<[Arc<str>]>,
    /// The channel of its releases. Made when it is needed first: by a waiter, or by the release.
    channel: OnceLock<Arc<str>>,
    queue: QueueName,
}

/// The name of a local queue. The kind is part of it, because kinds may share a Redis key.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct QueueName {
    kind: Kind,
    key: Arc<str>,
    /// Made once, because each acquisition looks its queue up several times.
    hash: u64,
}

impl QueueName {
    fn new(kind: Kind, key: &Arc<str>) -> Self {
        QueueName {
            kind,
            key: key.clone(),
            hash: hash_of(&(kind, key)),
        }
    }
}

impl Hash for QueueName {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.hash);
    }
}

impl Resource {
    /// Checks the name.
    ///
    /// # Errors
    ///
    /// [`ConfigError::Name`].
    pub fn new(kind: Kind, prefix: &str, name: &str) -> Result<Resource, ConfigError> {
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
            return refuse(format!(
                "it has {length} bytes with its prefix, at most {NAME_MAX}"
            ));
        }
        // A string lock has only one key, so braces do not matter.
        if let Some(fault) = slot_fault(&key).filter(|_| kind != Kind::String) {
            let whose = match prefix {
                "" => String::new(),
                prefix => format!(", with the prefix `{prefix}`,"),
            };
            return refuse(format!(
                "{fault}{whose} would put its keys in different cluster slots"
            ));
        }
        let extra_keys = kind.extra_keys(&key);
        let key: Arc<str> = Arc::from(key);
        let name = if prefix.is_empty() {
            key.clone()
        } else {
            Arc::from(name)
        };
        Ok(Resource {
            name,
            kind,
            reentrant: true,
            queue: QueueName::new(kind, &key),
            key,
            extra_keys,
            channel: OnceLock::new(),
        })
    }

    /// The channel of its releases.
    pub fn channel(&self) -> &Arc<str> {
        self.channel.get_or_init(|| self.kind.channel(&self.key))
    }

    /// Looks at the channel of its releases. Keeps no text that is not there yet.
    pub(crate) fn looks_at_channel<T>(&self, look: impl FnOnce(&str) -> T) -> T {
        match self.channel.get() {
            Some(channel) => look(channel),
            None => look(&self.kind.channel(&self.key)),
        }
    }

    /// The channel on which the waiter with this field is notified.
    pub fn channel_of(&self, field: &str) -> Arc<str> {
        match self.kind {
            Kind::Fair => Arc::from(format!("{}:{field}", self.channel())),
            _ => self.channel().clone(),
        }
    }

    /// The local queue of its waiters.
    pub(crate) fn queue_name(&self) -> &QueueName {
        &self.queue
    }

    /// The local queue of the readers, which come in directly after this writer.
    pub(crate) fn queue_of_readers(&self) -> Option<QueueName> {
        (self.kind == Kind::Write).then(|| QueueName::new(Kind::Read, &self.key))
    }

    /// The key of the limit that was applied last to a semaphore. Not one of the extra keys: calls
    /// that do not concern a limit do without it.
    pub(crate) fn limit_key(&self) -> Arc<str> {
        KeyName::Ours(SEMAPHORE_LIMIT).of(&self.key)
    }

    /// The key that keeps the reply to a request, so that the request can be repeated.
    pub fn reply_key(&self, id: &str) -> Arc<str> {
        Arc::from(format!(
            "{}:{id}",
            KeyName::Prefixed("leasehold_reply").of(&self.key)
        ))
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
            (
                &*"n".repeat(NAME_MAX + 1),
                "1025 bytes with its prefix, at most 1024",
            ),
        ] {
            let error = Resource::new(Kind::Lock, "", name)
                .expect_err(name)
                .to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Resource::new(Kind::Lock, "", &"n".repeat(NAME_MAX)).is_ok());
    }

    #[test]
    fn a_prefix_comes_before_the_braces() {
        let resource = Resource::new(Kind::Lock, "app:", "orders").expect("a good name");
        assert_eq!(&*resource.name, "orders");
        assert_eq!(&*resource.key, "app:orders");
        assert_eq!(&**resource.channel(), "redisson_lock__channel:{app:orders}");
    }

    #[test]
    fn every_key_has_the_name_that_redisson_uses() {
        let names = |kind, name| {
            let resource = Resource::new(kind, "", name).expect("a good name");
            let extra_keys: Vec<_> = resource
                .extra_keys
                .iter()
                .map(ToString::to_string)
                .collect();
            (resource.channel().to_string(), extra_keys.join(" "))
        };
        for (kind, name, channel, extra_keys) in [
            (
                Kind::Fair,
                "a",
                "redisson_lock__channel:{a}",
                "redisson_lock_queue:{a} redisson_lock_timeout:{a}",
            ),
            (
                Kind::Fenced,
                "{t}:a",
                "redisson_lock__channel:{t}:a",
                "redisson_lock_token:{t}:a",
            ),
            (Kind::Read, "a", "redisson_rwlock:{a}", "{a}"),
            (Kind::Write, "{t}:a", "redisson_rwlock:{t}:a", "{t}:a"),
            (
                Kind::Semaphore,
                "a",
                "redisson_sc:{a}",
                "leasehold_semaphore:{a}",
            ),
            (
                Kind::Semaphore,
                "{a}",
                "redisson_sc:{a}",
                "leasehold_semaphore::{a}",
            ),
            (
                Kind::Semaphore,
                "{t}:a",
                "redisson_sc:{t}:a",
                "leasehold_semaphore::{t}:a",
            ),
            (Kind::Permit, "a", "redisson_sc:{a}", "{a}:timeout"),
            (Kind::Permit, "{t}:a", "redisson_sc:{t}:a", "{t}:a:timeout"),
            (
                Kind::Latch,
                "a",
                "redisson_countdownlatch__channel__{a}",
                "",
            ),
            (
                Kind::Latch,
                "{t}:a",
                "redisson_countdownlatch__channel__{{t}:a}",
                "",
            ),
        ] {
            assert_eq!(
                names(kind, name),
                (channel.to_owned(), extra_keys.to_owned())
            );
        }
    }
}
