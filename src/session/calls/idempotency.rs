//! Calls that must take effect once, although they are repeated: they bring a key that keeps the
//! first reply for a while.
//!
//! # Bounds
//!
//! A name has at most as many reply keys as this client ever had such calls under way at once: the key of a
//! call that has ended serves the next one.

use std::time::Duration;

use tokio::time::Instant;

use super::Calls;
use crate::error::Error;
use crate::protocol::counter::{ReplyKey, reply_key};
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value};
use crate::session::retry::Retry;
use crate::sync::Mutex;
use crate::transport::{CallError, Lane};

/// A call in an old connection is taken to be executed within this, or never.
const LATE: Duration = Duration::from_secs(30);

/// Numbers of reply keys that serve no call at present.
#[derive(Debug, Default)]
pub(crate) struct ReplyKeys(Mutex<Vec<u64>>);

/// The number of a reply key, which is one call's own until it ends.
struct ReplyKeyNumber<'a> {
    free: &'a ReplyKeys,
    number: u64,
}

impl<'a> ReplyKeyNumber<'a> {
    fn take(calls: &'a Calls) -> Self {
        let free = &calls.reply_keys;
        let number = free.0.lock().pop().unwrap_or_else(|| calls.next_id());
        ReplyKeyNumber { free, number }
    }
}

impl Drop for ReplyKeyNumber<'_> {
    fn drop(&mut self) {
        self.free.0.lock().push(self.number);
    }
}

impl Calls {
    /// One call, repeated within a command's time-out if its outcome is not known.
    pub(crate) async fn call_idempotent<T>(
        &self,
        resource: &Resource,
        call: impl Fn(&Resource, ReplyKey) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        // CANCEL: the next call takes its key over. If the call comes after that, it does nothing.
        let key = ReplyKeyNumber::take(self);
        let (name, id) = (&resource.name, format!("{}:{}", self.client_id, key.number));
        // Beyond the last repetition, and beyond a first call that comes late.
        let kept = LATE.max(4 * self.settings.command_timeout);
        let call = call(resource, reply_key(resource, &id, self.next_id(), kept));
        let limit = Instant::now() + self.settings.command_timeout;
        let mut retry = Retry::brief(self.settings.command_timeout).until(limit);
        let failed = |retry: &Retry, error: CallError| {
            // Whatever a repetition says, but for a reply of the script: the first call may have been applied.
            let in_doubt = retry.is_in_doubt();
            let error = if in_doubt {
                CallError::Unknown(error.into_fault())
            } else {
                error
            };
            Error::from_call(name, Duration::ZERO, error)
        };
        loop {
            let outage = self.outages.next();
            let reply = if self.life.is_closed() {
                Err(CallError::Closed)
            } else {
                // CANCEL: it is done or it is not; nothing of it is held.
                self.call(Lane::Caller, call.clone()).await
            };
            let error = match reply {
                Ok(value) => return read(value).map_err(|reply| Error::unexpected(name, &reply)),
                Err(error) => error,
            };
            let paused = retry.pause(error.clone(), outage).await;
            paused.map_err(|error| failed(&retry, error))?;
            // The process may have stalled until the first reply is not kept any more.
            if retry.is_in_doubt() && Instant::now() > limit + self.settings.command_timeout {
                return Err(failed(&retry, error));
            }
        }
    }
}
