//! A look at one key, and the forced release of a lock whose key is no text.

use std::sync::Arc;

use leasehold::parts::{self, Kind, Parts, Resource};
use leasehold::{ConfigError, Error};
use leasehold_transport::{Arg, Call, CallError, Lane, Script, Value};

use super::scan::{self, Look};
use super::search::Search;
use super::{LockInfo, LockKind, mark_own, span};
use crate::scripts::scripts;

scripts! {
    KEY_FREE = "key_free" from [parts::TYPE_OF_LUA, include_str!("key_free.lua")];
    STRING_LOOK = "string_look" from [include_str!("string_look.lua")];
}

/// What is at a key.
pub(crate) async fn look_at(parts: &Parts, key: &[u8]) -> Result<Option<LockInfo>, Error> {
    let mut found = Key::new(parts, key).find().await?;
    if let Some(lock) = &mut found {
        mark_own(parts, lock);
    }
    Ok(found)
}

/// Frees a lock at a key that is no text, if this owner holds it.
pub(crate) async fn force_unlock_at(parts: &Parts, key: &[u8], owner: &str) -> Result<bool, Error> {
    let key = Key::new(parts, key);
    if let Some(text) = key.text {
        let allowed = "bytes that are no UTF-8; other names have a lock with `force_unlock_of`";
        return Err(ConfigError::OutOfRange {
            what: "key",
            given: text.to_owned(),
            allowed: allowed.to_owned(),
        }
        .into());
    }
    match key.reply(key.run(&KEY_FREE, vec![Arg::from(owner)]).await)? {
        Value::Int(1) => Ok(true),
        Value::Int(0) => Ok(false),
        Value::Int(-1) => Err(Error::NotOwner {
            name: Arc::from(key.shown),
        }),
        other => Err(parts::unexpected(&key.shown, other)),
    }
}

struct Key<'a> {
    parts: &'a Parts,
    bytes: &'a [u8],
    /// `None` if it is not UTF-8.
    text: Option<&'a str>,
    /// For errors.
    shown: String,
}

impl<'a> Key<'a> {
    fn new(parts: &'a Parts, bytes: &'a [u8]) -> Self {
        Key {
            parts,
            bytes,
            text: str::from_utf8(bytes).ok(),
            shown: String::from_utf8_lossy(bytes).into_owned(),
        }
    }

    /// A lock as a search lists it, or any string.
    async fn find(&self) -> Result<Option<LockInfo>, Error> {
        if let Some(lock) = self.lock().await? {
            return Ok(Some(lock));
        }
        match self.string().await {
            Ok(string) => Ok(string),
            // It may have been taken since, as a lock of another kind.
            Err(error) => self.lock().await?.map_or(Err(error), |lock| Ok(Some(lock))),
        }
    }

    /// A lock as a search lists it.
    async fn lock(&self) -> Result<Option<LockInfo>, Error> {
        let search = Search::new(self.parts, self.shown.clone());
        if let Some(text) = self.text {
            return Box::pin(search.look(&Arc::from(text))).await;
        }
        let (script, args) = scan::look_at_bytes(search.publish);
        match scan::looked(&self.reply(self.run(script, args).await)?) {
            Look::Lock(found) => Ok(Some(found)),
            Look::Data | Look::Again(_) => Ok(None),
        }
    }

    /// Any string. Fails if the key has another type.
    async fn string(&self) -> Result<Option<LockInfo>, Error> {
        if let Some(text) = self.text {
            // Refuses a key that is empty or too long.
            Resource::new(Kind::String, "", text)?;
        }
        let reply = self.reply(self.run(&STRING_LOOK, vec![]).await)?;
        let Value::Array(found) = &reply else {
            return match reply {
                Value::Nil => Ok(None),
                other => Err(parts::unexpected(&self.shown, other)),
            };
        };
        let [Value::Int(left), Value::Text(owner)] = found.as_slice() else {
            return Err(parts::unexpected(&self.shown, reply));
        };
        let lease = span(*left);
        Ok(Some(LockInfo {
            lease,
            holders: vec![scan::holder(owner, 1, lease)],
            ..LockInfo::new(self.bytes.to_vec(), LockKind::Foreign)
        }))
    }

    /// Runs a script on the key.
    async fn run(&self, script: &'static Script, args: Vec<Arg>) -> Result<Value, CallError> {
        if let Some(text) = self.text {
            let keys = vec![Arc::from(text)];
            let call = Call::new(script, keys, args);
            return self.parts.call(Lane::Caller, call).await;
        }
        // The keys of a call are texts.
        let args: Vec<Arc<str>> = args
            .into_iter()
            .map(|arg| match arg {
                Arg::Int(number) => Arc::from(number.to_string()),
                Arg::Text(text) => text,
            })
            .collect();
        let mut words: Vec<&[u8]> = vec![b"EVAL", script.text.as_bytes(), b"1", self.bytes];
        words.extend(args.iter().map(|arg| arg.as_bytes()));
        let node = self.parts.transport().node_of_bytes(self.bytes);
        self.parts.command(node, &words).await
    }

    fn reply(&self, reply: Result<Value, CallError>) -> Result<Value, Error> {
        reply.map_err(|error| parts::error(&self.shown, error))
    }
}
