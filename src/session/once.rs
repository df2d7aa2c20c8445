//! Calls that must take effect once, although they are repeated: they bring a key that keeps the
//! first reply for a while.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::Session;
use crate::error::Error;
use crate::protocol::place::Place;
use crate::protocol::{Call, Unexpected, Value};
use crate::transport::{CallError, Fault, Lane};

/// The pause before a call whose outcome is not known is repeated.
const REPEAT_PAUSE: Duration = Duration::from_millis(10);

/// A call in an old connection is taken to be executed within this, or never.
const LATE: Duration = Duration::from_secs(30);

impl Session {
    /// Where the reply of one request is kept, and for how long: beyond the last repetition, and beyond
    /// a first call that comes late.
    pub(crate) fn reply_kept(&self, place: &Place) -> (Arc<str>, Duration) {
        let request = place.field(self.client_id, self.next_id(), 1);
        (place.reply_key(&request), LATE.max(4 * self.settings.command_timeout))
    }

    /// One call, repeated within a command's time-out if its outcome is not known.
    pub(crate) async fn call_once<T>(
        &self,
        name: &Arc<str>,
        call: Call,
        read: impl Fn(Value) -> Result<T, Unexpected>,
    ) -> Result<T, Error> {
        let repeat_until = Instant::now() + self.settings.command_timeout;
        let mut in_doubt = false;
        loop {
            let outage = self.wakes.outage();
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
            in_doubt |= matches!(error, CallError::Unknown(_));
            let passes = matches!(error, CallError::NotApplied(_) | CallError::Unknown(_));
            let left = repeat_until.saturating_duration_since(Instant::now());
            let error = if in_doubt { still_unknown(error) } else { error };
            if !passes || left.is_zero() {
                return Err(Error::from_call(name, Duration::ZERO, error));
            }
            let pause = if in_doubt { left.min(REPEAT_PAUSE) } else { left };
            outage.over_within(pause).await;
            // The process may have stalled until the first reply is not kept any more.
            if in_doubt && Instant::now() > repeat_until + self.settings.command_timeout {
                return Err(Error::from_call(name, Duration::ZERO, error));
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
        CallError::Closed => Fault("the client was closed".into()),
    })
}
