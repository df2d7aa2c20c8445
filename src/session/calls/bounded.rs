//! Calls whose client runs on a runtime that may stand still.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::Either;
use tokio::runtime::Handle;

use super::Calls;
use crate::timer::{timeout, why_silent};
use crate::transport::{CallError, Fault};

/// Added to the timeout of a command, which the client itself applies if its runtime runs.
const GRACE: Duration = Duration::from_millis(500);

/// A runtime that does not run a task within this time stands still.
const RESPONSE_MAX: Duration = Duration::from_millis(250);

/// The runtime in which a client was made. It reads the replies to its calls.
#[derive(Debug)]
pub(crate) struct MadeIn {
    pub(crate) runtime: Handle,
    /// The client has no thread of its own. If this runtime stands still, nothing of the client ends a call.
    pub(crate) runs_all: bool,
}

impl Calls {
    /// Waits for a reply, and no longer than the timeout of a command if the client's runtime stands still.
    pub(super) fn bounded<T>(
        &self,
        reply: impl Future<Output = Result<T, CallError>>,
    ) -> impl Future<Output = Result<T, CallError>> {
        if !self.made_in.runs_all {
            return Either::Left(reply);
        }
        Either::Right(Box::pin(async move {
            let limit = self.settings.command_timeout;
            let mut reply = pin!(reply);
            loop {
                if let Ok(reply) = timeout(limit + GRACE, &mut reply).await {
                    return reply;
                }
                let why = self.why_silent().await;
                if !why.is_empty() {
                    let text = format!("no answer within {} ms{why}", limit.as_millis());
                    return Err(CallError::Unknown(Fault(text)));
                }
            }
        }))
    }

    /// The error of a call that gets no reply.
    pub(in crate::session) async fn lost(&self, what: &str) -> CallError {
        CallError::Unknown(Fault(format!("{what}{}", self.why_silent().await)))
    }

    pub(crate) async fn why_silent(&self) -> &'static str {
        why_silent(&self.made_in.runtime, RESPONSE_MAX).await
    }
}
