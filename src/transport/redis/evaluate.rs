//! One script call as a command of `fred`.

use std::pin::Pin;

use fred::clients::Client;
use fred::interfaces::ClientLike as _;
use fred::types::config::Options;
use fred::types::{ClusterHash, CustomCommand, Value as Argument};
use tokio::time::Duration;

use super::reply;
use super::wire::Outcome;
use crate::protocol::{Arg, Call};
use crate::transport::CallError;

/// Boxed: futures of `fred` have several kilobytes, and many calls may wait at a time.
pub(super) type Sending = Pin<Box<dyn Future<Output = Outcome> + Send>>;

/// Runs a script that the server knows by its hash; `None` stands for the whole time-out.
///
/// It is sent by the first poll.
pub(super) fn eval_sha(client: &Client, call: &Call, limit: Option<Duration>) -> Sending {
    send(client, "EVALSHA", arguments(call.script.sha1(), call), limit)
}

/// Runs a script and lets the server keep it.
pub(super) fn eval(client: &Client, call: &Call, limit: Duration) -> Sending {
    send(client, "EVAL", arguments(call.script.text, call), Some(limit))
}

/// The server does not have the script, and has not run it.
pub(super) fn not_loaded(outcome: &Outcome) -> bool {
    matches!(outcome, Err(CallError::NotApplied(fault)) if fault.0.starts_with("NOSCRIPT"))
}

#[expect(clippy::large_futures, reason = "boxed once, with what waits for it")]
fn send(
    client: &Client,
    command: &'static str,
    arguments: Vec<Argument>,
    limit: Option<Duration>,
) -> Sending {
    let client = client.clone();
    let command = CustomCommand::new_static(command, ClusterHash::Random, false);
    match limit {
        None => {
            Box::pin(async move { reply::outcome(client.custom_raw(command, arguments).await) })
        }
        Some(limit) => {
            let options = Options { timeout: Some(limit), ..Options::default() };
            let client = client.with_options(&options);
            Box::pin(async move { reply::outcome(client.custom_raw(command, arguments).await) })
        }
    }
}

/// The arguments of EVAL and EVALSHA.
fn arguments(script: &'static str, call: &Call) -> Vec<Argument> {
    let mut arguments = Vec::with_capacity(2 + call.keys.len() + call.args.len());
    arguments.push(Argument::from_static_str(script));
    let keys = i64::try_from(call.keys.len()).expect("BUG: more keys than memory");
    arguments.push(Argument::Integer(keys));
    arguments.extend(call.keys.iter().map(|key| Argument::from(key.as_ref())));
    arguments.extend(call.args.iter().map(|argument| match argument {
        Arg::Int(number) => Argument::Integer(*number),
        Arg::Text(text) => Argument::from(text.as_ref()),
    }));
    arguments
}
