//! The questions to a server that refuses scripts without keys.
//!
//! Such a server may be a proxy. In front of a cluster, the nodes behind it refuse keys of several
//! slots. In front of servers that know nothing of each other, the one of the first key runs a
//! script for all of them, and would give out locks that are held on another. Such a proxy is
//! refused.

use std::collections::BTreeSet;

use super::exchange::{Exchange, ExpectedReply, Step};
use super::replies::{SCRIPT_WITH_KEY, WithoutKeys, with_key, without_keys};
use super::{Handshake, HandshakeFindings};
use crate::abilities::Scripts;
use crate::call::Value;
use crate::call_error::{CallError, Fault};

/// Returns the run id of the server that runs it. `nil` if this user may not see it.
const WHO_RUNS: &str = "local info = redis.pcall('info', 'server') \
     return type(info) == 'string' and string.match(info, 'run_id:(%x+)')";

/// By chance, so many keys are all on the same one of two equal servers once in 32,768 times.
const KEYS: u32 = 16;

/// Its keys are of two slots.
const SCRIPT_WITH_TWO_KEYS: &[&str] = &[
    "EVAL",
    "local key = KEYS[1] return redis.call('exists', key)",
    "2",
    "leasehold_ping:0",
    "leasehold_ping:1",
];

impl Handshake {
    pub(super) fn ran_without_keys(
        &self,
        reply: &Result<Value, String>,
        learned: &mut HandshakeFindings,
    ) {
        match without_keys(reply) {
            WithoutKeys::Runs => {
                self.known.runs(Scripts::Any);
                self.known.takes_several_slots();
            }
            WithoutKeys::Refused => {
                learned.wants_keys = true;
                // Until it has run a script with keys of several slots.
                self.known.takes_one_slot_only();
            }
            WithoutKeys::Unknown => {}
        }
    }

    pub(super) fn ran_with_key(
        &self,
        reply: &Result<Value, String>,
        learned: &mut HandshakeFindings,
    ) {
        learned.ran_by = reply.is_ok().then(BTreeSet::new);
        if let Some(scripts) = with_key(reply) {
            self.known.runs(scripts);
        }
    }

    /// Asks for the scripts of a server that refuses those without keys.
    pub(super) async fn ask_with_keys(
        &self,
        exchange: &mut Exchange<'_>,
        learned: &mut HandshakeFindings,
    ) -> Result<(), CallError> {
        let mut steps = vec![Step::new(ExpectedReply::ScriptWithKey, SCRIPT_WITH_KEY)];
        self.round(exchange, &mut steps, learned).await?;
        if learned.ran_by.is_none() {
            return Ok(());
        }
        let ask = |number| {
            let key = format!("leasehold_ping:{number}");
            Step::new(ExpectedReply::WhoRuns, &["EVAL", WHO_RUNS, "1", &key])
        };
        let mut steps: Vec<_> = (0..KEYS).map(ask).collect();
        steps.push(Step::new(
            ExpectedReply::ScriptWithTwoKeys,
            SCRIPT_WITH_TWO_KEYS,
        ));
        self.round(exchange, &mut steps, learned).await?;
        if self.known.takes_keys_of_one_slot() {
            return Ok(());
        }
        if learned.ran_by.as_ref().is_some_and(|ids| ids.len() == 1) {
            return Ok(());
        }
        Err(CallError::Refused(Fault(
            "the proxy chooses one of several servers by the first key of a script, as Envoy does: \
             connect to one server, or to a cluster"
                .into(),
        )))
    }
}
