//! Calls that are repeated and must still take effect only once. Each of them carries a reply key,
//! under which Redis keeps the first reply for a while.
//!
//! # Bounds
//!
//! A name has at most as many reply keys as this client ever had such calls in flight at once,
//! because the key of a finished call serves the next one.

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

/// A call sent on an old connection is assumed to be executed within this time, or never.
const LATE: Duration = Duration::from_secs(30);

/// Numbers of reply keys that no call uses at present.
#[derive(Debug, Default)]
pub(crate) struct ReplyKeys(Mutex<Vec<u64>>);

/// The number of a reply key. It belongs to one call until that call ends.
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
    /// Sends one call, and repeats it within a command's timeout if its outcome is unknown.
    pub(crate) async fn call_idempotent<T>(
        &self,
        resource: &Resource,
        call: impl Fn(&Resource, ReplyKey) -> Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        // CANCEL: the next call takes over the key. If the cancelled call arrives later still, it
        // does nothing.
        let key = ReplyKeyNumber::take(self);
        let (name, id) = (&resource.name, format!("{}:{}", self.client_id, key.number));
        // Longer than the last repetition can take, and longer than a first call may be delayed.
        let kept = LATE.max(4 * self.settings.command_timeout);
        let call = call(resource, reply_key(resource, &id, self.next_id(), kept));
        let limit = Instant::now() + self.settings.command_timeout;
        let mut retry = Retry::brief(self.settings.command_timeout).until(limit);
        let failed = |retry: &Retry, error: CallError| {
            // The outcome stays unknown whatever error a repetition returns: the first call may
            // have been executed.
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
                // CANCEL: the call takes effect or it does not. Either way nothing is held.
                self.call(Lane::Caller, call.clone()).await
            };
            let error = match reply {
                Ok(value) => return read(value).map_err(|reply| Error::unexpected(name, &reply)),
                Err(error) => error,
            };
            let paused = retry.pause(error.clone(), outage).await;
            paused.map_err(|error| failed(&retry, error))?;
            // The process may have stalled for so long that Redis no longer keeps the first reply.
            if retry.is_in_doubt() && Instant::now() > limit + self.settings.command_timeout {
                return Err(failed(&retry, error));
            }
        }
    }
}
