//! The requests of a connection, and the notifications that end them.

use std::fmt;
use std::sync::Arc;

use futures_util::FutureExt as _;
use tokio::sync::oneshot;

use crate::call::{Call, Value};
use crate::call_error::{CallError, Fault};
use crate::pubsub::PubSub;

pub(super) type CallOutcome = Result<Value, CallError>;
pub(super) type SubscribeOutcome = Result<(), CallError>;

#[derive(Debug)]
pub(super) enum ConnectionRequest {
    Call(CallRequest),
    /// A command other than a script, which takes no lock: ROLE, CLUSTER SLOTS, WAIT, AUTH.
    Command(CommandRequest),
    Subscribe(SubscribeRequest),
    Unsubscribe(Arc<str>, PubSub),
    Ping(Option<oneshot::Sender<()>>),
}

#[derive(Debug)]
pub(super) struct CallRequest {
    pub(super) call: Call,
    pub(super) answer: oneshot::Sender<CallOutcome>,
    pub(super) form: ScriptForm,
    pub(super) keys: KeyForm,
}

/// How a call's keys are sent to a cluster node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum KeyForm {
    #[default]
    Plain,
    /// After ASKING, in one request, to the node that is importing their slot.
    Asking,
}

/// A command other than a script, such as AUTH.
pub(super) struct CommandRequest {
    pub(super) words: Vec<Vec<u8>>,
    pub(super) answer: oneshot::Sender<CallOutcome>,
}

/// Does not show the words, because they may contain a password.
impl fmt::Debug for CommandRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CommandRequest").finish_non_exhaustive()
    }
}

/// How a script is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ScriptForm {
    Hash,
    /// The text, because the server does not know the script's hash.
    Text,
}

/// SUBSCRIBE to one channel: a refusal concerns this channel only.
#[derive(Debug)]
pub(super) struct SubscribeRequest {
    pub(super) channel: Arc<str>,
    /// Counts the subscriptions of this channel. An unsubscription ends a generation.
    pub(super) generation: u64,
    /// How many connections were lost before the one that carries the request.
    pub(super) epoch: u64,
    pub(super) pubsub: PubSub,
    /// `None` if the channel is restored after a loss and no caller waits.
    pub(super) answer: Option<oneshot::Sender<SubscribeOutcome>>,
}

impl SubscribeRequest {
    /// No caller waits for the answer.
    pub(super) fn is_restored(&self) -> bool {
        self.answer.is_none()
    }
}

/// The end of a request. It must be delivered while nothing is locked.
#[derive(Debug)]
pub(super) enum Notification {
    Called(oneshot::Sender<CallOutcome>, CallOutcome),
    Subscribed(SubscribeRequest, SubscribeOutcome),
    Interrupted(SubscribeRequest),
    Pong(oneshot::Sender<()>),
}

impl ConnectionRequest {
    /// Whether a request that was not sent may be forgotten. A subscription without a waiter may
    /// not: it restores a channel, or its unsubscription follows.
    pub(super) fn is_abandoned(&self) -> bool {
        match self {
            ConnectionRequest::Call(request) => request.answer.is_closed(),
            ConnectionRequest::Command(request) => request.answer.is_closed(),
            ConnectionRequest::Subscribe(_)
            | ConnectionRequest::Unsubscribe(..)
            | ConnectionRequest::Ping(_) => false,
        }
    }

    /// Whether the request has a timeout in the ledger. Only calls and commands do.
    pub(super) fn is_call(&self) -> bool {
        matches!(
            self,
            ConnectionRequest::Call(_) | ConnectionRequest::Command(_)
        )
    }

    pub(super) fn unanswered(self, error: CallError) -> Option<Notification> {
        match self {
            ConnectionRequest::Call(CallRequest { answer, .. })
            | ConnectionRequest::Command(CommandRequest { answer, .. }) => {
                Some(Notification::Called(answer, Err(error)))
            }
            ConnectionRequest::Subscribe(request) => Some(Notification::Interrupted(request)),
            ConnectionRequest::Unsubscribe(..) | ConnectionRequest::Ping(_) => None,
        }
    }
}

/// Waits for the outcome of a call that was passed to a connection.
pub(super) fn answer(
    answer: oneshot::Receiver<CallOutcome>,
) -> impl Future<Output = CallOutcome> + Send {
    let given_up = |_| {
        Err(CallError::Unknown(Fault(
            "the connection was given up".into(),
        )))
    };
    answer.map(move |outcome| outcome.unwrap_or_else(given_up))
}
