//! The questions to a server that refuses scripts without keys.
//!
//! Such a server may be a proxy in front of several servers, of which each knows some of the keys. The proxy chooses one
//! by the first key of a script. So each call names one lock (`Known::may_route_by_key`), and all keys of a lock must be on
//! one server. They have one hash tag.

use std::collections::BTreeSet;

use super::exchange::{Exchange, Expected, Step};
use super::replies::{SCRIPT_WITH_KEY, WithoutKeys, with_key, without_keys};
use super::{GreetError, Handshake, Learned};
use crate::abilities::Scripts;
use crate::{CallError, Fault, Value};

/// Returns the run id of the server that runs it. `nil` if this user may not see it.
const WHO_RUNS: &str = "local info = redis.pcall('info', 'server') \
     return type(info) == 'string' and string.match(info, 'run_id:(%x+)')";

/// By chance, so many keys are all on the same one of two equal servers once in 32,768 times.
const KEYS_OF_ONE_TAG: u32 = 16;

impl Handshake {
    pub(super) fn ran_without_keys(&self, reply: &Result<Value, String>, learned: &mut Learned) {
        match without_keys(reply) {
            WithoutKeys::Runs => {
                self.known.runs(Scripts::Any);
                self.known.routes_without_keys();
            }
            WithoutKeys::Refused => {
                learned.wants_keys = true;
                self.known.may_route_by_key();
            }
            WithoutKeys::Unknown => {}
        }
    }

    pub(super) fn ran_with_key(&self, reply: &Result<Value, String>, learned: &mut Learned) {
        learned.ran_by = reply.is_ok().then(BTreeSet::new);
        if let Some(scripts) = with_key(reply) {
            self.known.runs(scripts);
        }
    }

    /// Asks for the scripts of a server that refuses those without keys. A proxy that spreads the keys of one lock is
    /// refused.
    pub(super) async fn ask_with_keys(
        &self,
        exchange: &mut Exchange<'_>,
        learned: &mut Learned,
    ) -> Result<(), GreetError> {
        let mut steps = vec![Step::new(Expected::ScriptWithKey, SCRIPT_WITH_KEY)];
        self.round(exchange, &mut steps, learned).await?;
        if learned.ran_by.is_none() {
            return Ok(());
        }
        let ask = |number| {
            let key = format!("{{leasehold_ping}}:{number}");
            Step::new(Expected::WhoRuns, &["EVAL", WHO_RUNS, "1", &key])
        };
        let mut steps = (0..KEYS_OF_ONE_TAG).map(ask).collect();
        self.round(exchange, &mut steps, learned).await?;
        if learned.ran_by.as_ref().is_some_and(|ids| ids.len() > 1) {
            return Err(GreetError::Call(CallError::Refused(Fault(
                "the proxy leads keys with one hash tag to several servers: let it hash the part in braces only \
                 (Envoy: enable_hashtagging)"
                    .into(),
            ))));
        }
        Ok(())
    }
}
