//! A look at one key, and the forced release of a lock whose key is no text.

use std::str::Utf8Error;
use std::sync::Arc;

use super::search::Search;
use super::{LockInfo, LockKind};
use crate::error::{ConfigError, Error};
use crate::protocol::forced::{Forced, forced};
use crate::protocol::kind::Kind;
use crate::protocol::replies::{Inspected, seen};
use crate::protocol::resource::Resource;
use crate::protocol::scan::bytes::{self, OnBytes};
use crate::protocol::scan::{Look, looked};
use crate::protocol::{Arg, Value};
use crate::session::Handle;
use crate::session::calls::{Calls, understood};
use crate::stats::count;
use crate::transport::CallError;

/// What is at a key.
pub(crate) async fn look_at(handle: &Handle, key: &[u8]) -> Result<Option<LockInfo>, Error> {
    let key = Key::new(handle, key);
    if let Some(lock) = key.lock().await? {
        return Ok(Some(lock));
    }
    match key.string().await {
        Ok(seen) => Ok(seen.map(|seen| key.foreign(seen))),
        // It may have been taken since, as a lock of another kind.
        Err(error) => key.lock().await?.map_or(Err(error), |lock| Ok(Some(lock))),
    }
}

/// Frees a lock at a key that is no text, if this owner holds it.
pub(crate) async fn force_unlock_at(
    handle: &Handle,
    key: &[u8],
    owner: &str,
) -> Result<bool, Error> {
    let key = Key::new(handle, key);
    if let Ok(text) = key.text {
        let allowed = "bytes that are no UTF-8; other names have a lock with `force_unlock_of`";
        return Err(ConfigError::out_of_range("key", text, allowed).into());
    }
    let reply = key.eval(bytes::free(owner)).await;
    match understood(&key.shown, reply, forced)? {
        Forced::Freed => Ok(true),
        Forced::WasFree => Ok(false),
        Forced::HeldByAnother => Err(Error::NotOwner { name: key.shown }),
    }
}

struct Key<'a> {
    calls: &'a Calls,
    bytes: &'a [u8],
    text: Result<&'a str, Utf8Error>,
    /// For errors.
    shown: Arc<str>,
}

impl<'a> Key<'a> {
    fn new(handle: &'a Handle, bytes: &'a [u8]) -> Self {
        Key {
            calls: handle.calls(),
            bytes,
            text: str::from_utf8(bytes),
            shown: Arc::from(String::from_utf8_lossy(bytes)),
        }
    }

    /// A lock as a search lists it.
    async fn lock(&self) -> Result<Option<LockInfo>, Error> {
        let search = Search::new(self.calls, self.shown.clone());
        let found = if self.text.is_ok() {
            Box::pin(search.look(&self.shown)).await?
        } else {
            let reply = self.eval(bytes::look(search.publish)).await;
            match understood(&self.shown, reply, |reply| Ok(looked(&reply)))? {
                Look::Lock(found) => Some(found),
                Look::Data | Look::Again(_) => None,
            }
        };
        Ok(found.map(LockInfo::from))
    }

    /// Any string. Fails if the key has another type.
    async fn string(&self) -> Result<Option<Inspected>, Error> {
        let reply = match self.text {
            Ok(text) => {
                let call = self
                    .calls
                    .inspect_call(&Resource::new(Kind::String, "", text)?);
                return self.calls.ask(&self.shown, call, seen).await;
            }
            Err(_) => self.eval(bytes::string()).await,
        };
        understood(&self.shown, reply, seen)
    }

    fn foreign(&self, seen: Inspected) -> LockInfo {
        LockInfo {
            key: self.shown.to_string(),
            bytes: self.bytes.to_vec(),
            kind: LockKind::Foreign,
            holders: seen.holders,
            available: None,
            limit: None,
            count: None,
            lease: seen.left,
            queue: 0,
            listening: None,
        }
    }

    /// Runs a script on the bytes of the key.
    async fn eval(&self, (script, args): OnBytes) -> Result<Value, CallError> {
        if self.calls.life.is_closed() {
            return Err(CallError::Closed);
        }
        count(&self.calls.counters.calls);
        let args: Vec<Arc<str>> = args
            .into_iter()
            .map(|arg| match arg {
                Arg::Int(number) => Arc::from(number.to_string()),
                Arg::Text(text) => text,
            })
            .collect();
        let mut words: Vec<&[u8]> = vec![b"EVAL", script.text.as_bytes(), b"1", self.bytes];
        words.extend(args.iter().map(|arg| arg.as_bytes()));
        let node = self.calls.transport.node_of_bytes(self.bytes);
        self.calls.command(node, &words).await
    }
}
