//! Calls that must take effect once, although they are repeated: they bring a key that keeps the
//! first reply for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Session;
use super::retry::Retry;
use crate::error::Error;
use crate::protocol::resource::Resource;
use crate::protocol::{Call, Unexpected, Value};
use crate::transport::{CallError, Fault, Lane};

/// A call in an old connection is taken to be executed within this, or never.
const LATE: Duration = Duration::from_secs(30);

impl Session {
    /// Where the reply of one request is kept, and for how long: beyond the last repetition, and beyond
    /// a first call that comes late.
    pub(crate) fn reply_key(&self, resource: &Resource) -> (Arc<str>, Duration) {
        let request = resource.field(self.client_id, self.next_id(), 1);
        (resource.reply_key(&request), LATE.max(4 * self.settings.command_timeout))
    }

    /// One call, repeated within a command's time-out if its outcome is not known.
    pub(crate) async fn call_idempotent<T>(
        &self,
        name: &Arc<str>,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let limit = Instant::now() + self.settings.command_timeout;
        let mut retry = Retry::brief(self.settings.command_timeout).until(limit);
        let failed = |retry: &Retry, error| {
            let error = if retry.is_in_doubt() { still_unknown(error) } else { error };
            Error::from_call(name, Duration::ZERO, error)
        };
        loop {
            let outage = self.subscriptions.outage();
            let reply = if self.is_closed() {
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

/// Whatever a repetition says, but for a reply of the script: the first call may have been applied.
fn still_unknown(error: CallError) -> CallError {
    CallError::Unknown(match error {
        CallError::NotApplied(fault) | CallError::Unknown(fault) | CallError::Refused(fault) => {
            fault
        }
        CallError::NotDurable { .. } => Fault("too few copies".into()),
        CallError::Closed => Fault("the client was closed".into()),
    })
}
