//! What is locked: a checked name, its sort, and what all of it is called in Redis.

use std::sync::Arc;

use super::keys;
use super::kind::Kind;
use crate::error::ConfigError;

/// The longest name, in bytes. Longer ones are refused: every key and channel repeats the name.
pub(crate) const NAME_MAX: usize = 1024;

/// One lock, by all its names.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// The name as its user gave it.
    pub(crate) name: Arc<str>,
    pub(crate) kind: Kind,
    /// Whether it may be taken again while it is held.
    pub(crate) reentrant: bool,
    /// The key at the name itself.
    pub(crate) key: Arc<str>,
    /// Keys that belong to it, in the order in which the scripts of the kind take them.
    pub(crate) beside: Box<[Arc<str>]>,
    /// Where its release is published.
    pub(crate) channel: Arc<str>,
    /// Names it within one client, where kinds may share a key. The prefix is the kind's name, so that no
    /// name reads like the room of another one.
    pub(crate) room: Arc<str>,
    /// The room of the writers that this reader lets go first.
    pub(crate) yields_to: Option<Arc<str>>,
}

impl Place {
    pub(crate) fn new(kind: Kind, prefix: &str, name: &str) -> Result<Place, ConfigError> {
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
        // A string lock is one key: nothing is put in braces with it.
        if let Some(fault) = keys::slot_fault(&key).filter(|_| kind != Kind::String) {
            let whose = match prefix {
                "" => String::new(),
                prefix => format!(", with the prefix `{prefix}`,"),
            };
            return refuse(format!("{fault}{whose} would put its keys in different cluster slots"));
        }
        let (beside, channel) = (beside(kind, &key), channel(kind, &key));
        let key: Arc<str> = Arc::from(key);
        let room = room(kind, &key);
        Ok(Place {
            name: Arc::from(name),
            kind,
            reentrant: true,
            key,
            beside,
            channel,
            room,
            yields_to: None,
        })
    }

    /// Where a waiter of this field is told of its turn.
    pub(crate) fn channel_of(&self, field: &str) -> Arc<str> {
        match self.kind {
            Kind::Fair => Arc::from(format!("{}:{field}", self.channel)),
            _ => self.channel.clone(),
        }
    }

    /// The room of the readers that let this writer go first.
    pub(crate) fn room_behind(&self) -> Option<Arc<str>> {
        (self.kind == Kind::Write).then(|| yielding_room(&self.key))
    }

    /// The room of the readers that do not, but come in with the next turn after this writer.
    pub(crate) fn room_of_readers(&self) -> Option<Arc<str>> {
        (self.kind == Kind::Write).then(|| room(Kind::Read, &self.key))
    }

    /// Lets writers of the same client go first. Readers that do not are not to wait behind it: they
    /// have a room of their own.
    pub(crate) fn prefer_writers(&mut self) {
        self.yields_to = Some(room(Kind::Write, &self.key));
        self.room = yielding_room(&self.key);
    }

    /// Keeps the reply to one request, so that it can be repeated. No other request has its name.
    pub(crate) fn reply_key(&self, request: &str) -> Arc<str> {
        Arc::from(format!("{}:{request}", keys::prefixed("leasehold_reply", &self.key)))
    }
}

fn room(kind: Kind, key: &str) -> Arc<str> {
    Arc::from(format!("{kind} {key}"))
}

fn yielding_room(key: &str) -> Arc<str> {
    Arc::from(format!("yielding {} {key}", Kind::Read))
}

fn channel(kind: Kind, key: &str) -> Arc<str> {
    match kind {
        Kind::Lock | Kind::Spin | Kind::Fair | Kind::Fenced | Kind::String => {
            keys::lock_channel(key)
        }
        Kind::Read | Kind::Write => keys::prefixed("redisson_rwlock", key),
        Kind::Semaphore | Kind::Permit => keys::prefixed("redisson_sc", key),
        Kind::Latch => keys::latch_channel(key),
    }
}

fn beside(kind: Kind, key: &str) -> Box<[Arc<str>]> {
    match kind {
        Kind::Lock | Kind::Spin | Kind::String | Kind::Latch => Box::default(),
        Kind::Fair => Box::new([
            keys::prefixed(keys::FAIR_QUEUE, key),
            keys::prefixed("redisson_lock_timeout", key),
        ]),
        Kind::Fenced => Box::new([keys::prefixed(keys::FENCE_COUNTER, key)]),
        Kind::Read | Kind::Write => Box::new([keys::tagged(key)]),
        Kind::Semaphore => Box::new([keys::ours("leasehold_semaphore", key)]),
        Kind::Permit => Box::new([keys::suffixed(key, "timeout")]),
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
            let error = Place::new(Kind::Lock, "", name).expect_err(name).to_string();
            assert!(error.contains(reason), "{error}");
        }
        assert!(Place::new(Kind::Lock, "", &"n".repeat(NAME_MAX)).is_ok());
    }

    #[test]
    fn a_prefix_comes_before_the_braces() {
        let place = Place::new(Kind::Lock, "app:", "orders").expect("a good name");
        assert_eq!(&*place.name, "orders");
        assert_eq!(&*place.key, "app:orders");
        assert_eq!(&*place.channel, "redisson_lock__channel:{app:orders}");
    }

    #[test]
    fn every_key_is_called_as_redisson_calls_it() {
        let names = |kind, name| {
            let place = Place::new(kind, "", name).expect("a good name");
            let beside: Vec<_> = place.beside.iter().map(ToString::to_string).collect();
            (place.channel.to_string(), beside.join(" "))
        };
        for (kind, name, channel, beside) in [
            (
                Kind::Fair,
                "a",
                "redisson_lock__channel:{a}",
                "redisson_lock_queue:{a} redisson_lock_timeout:{a}",
            ),
            (Kind::Fenced, "{t}:a", "redisson_lock__channel:{t}:a", "redisson_lock_token:{t}:a"),
            (Kind::Read, "a", "redisson_rwlock:{a}", "{a}"),
            (Kind::Write, "{t}:a", "redisson_rwlock:{t}:a", "{t}:a"),
            (Kind::Semaphore, "a", "redisson_sc:{a}", "leasehold_semaphore:{a}"),
            (Kind::Semaphore, "{a}", "redisson_sc:{a}", "leasehold_semaphore::{a}"),
            (Kind::Semaphore, "{t}:a", "redisson_sc:{t}:a", "leasehold_semaphore::{t}:a"),
            (Kind::Permit, "a", "redisson_sc:{a}", "{a}:timeout"),
            (Kind::Permit, "{t}:a", "redisson_sc:{t}:a", "{t}:a:timeout"),
            (Kind::Latch, "a", "redisson_countdownlatch__channel__{a}", ""),
            (Kind::Latch, "{t}:a", "redisson_countdownlatch__channel__{{t}:a}", ""),
        ] {
            assert_eq!(names(kind, name), (channel.to_owned(), beside.to_owned()));
        }
    }
}
