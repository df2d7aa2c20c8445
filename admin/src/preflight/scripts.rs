//! Which scripts a server refuses. The client learns it when it needs it, but a fresh client has
//! needed nothing yet.

use std::sync::Arc;

use leasehold::parts::Parts;
use leasehold_transport::{Arg, Call, CallError, Fault, Lane, NodeId, Script, Scripts, Transport};

use super::ask::Ask;

/// Read by no lock.
const KEY: &str = "leasehold_ping";

/// The first line is for Dragonfly, as in the scripts that do the same.
static WITH_UNDECLARED: Script = Script::new(
    "preflight_undeclared",
    "--!df flags=allow-undeclared-keys\nreturn redis.call('exists', KEYS[1], ARGV[1])\n",
);

static WITH_KEYS: Script = Script::new("preflight_keys", "return redis.call('exists', KEYS[1])\n");

/// How many hash tags are tried to find a key on a node.
const TAGS: u32 = 1000;

/// Asks whether one script may have keys of several slots, and keys that are not declared. The
/// transport notes a refusal.
pub(super) async fn ask_for_limits(ask: Ask<'_>) {
    let (parts, transport) = (ask.parts, ask.parts.transport());
    let abilities = transport.abilities(ask.node);
    if matches!(abilities.scripts, Some(Scripts::None(_))) {
        return;
    }
    let key = |tag: u32, end: &str| -> Arc<str> {
        let prefix = parts.key_prefix();
        Arc::from(format!("{prefix}{KEY}:{{{tag}}}{end}"))
    };
    let (one, other) = (key(0, ""), key(1, ""));
    let slots = async {
        let call = |keys: Vec<Arc<str>>| Call::new(&WITH_KEYS, keys, []);
        let several = call(vec![one.clone(), other]);
        let fault = if transport.takes_many_keys() {
            refused(parts, several, call(vec![one])).await
        } else {
            None
        };
        if fault.is_some() {
            transport.note_one_slot_only();
        }
    };
    let undeclared = async {
        let Some(tag) = tag_on(transport, ask.node, |tag| key(tag, "")) else {
            return;
        };
        let (one, other) = (key(tag, ""), key(tag, ":undeclared"));
        let call = |keys: &[&Arc<str>]| {
            Call::new(
                &WITH_UNDECLARED,
                keys.iter().map(|key| Arc::clone(key)),
                [Arg::Text(other.clone())],
            )
        };
        if !abilities.declared_keys_only
            && let Some(fault) = refused(parts, call(&[&one]), call(&[&one, &other])).await
        {
            transport.note_search_refused(ask.node, &fault);
        }
    };
    tokio::join!(slots, undeclared);
}

/// A hash tag that leads to the node.
fn tag_on(transport: &Transport, node: NodeId, key: impl Fn(u32) -> Arc<str>) -> Option<u32> {
    (0..TAGS).find(|&tag| transport.node_of(&key(tag)) == node)
}

/// The error if the server refuses the first call but runs the second one, so that the difference
/// is the reason.
async fn refused(parts: &Parts, first: Call, second: Call) -> Option<Fault> {
    match parts.call(Lane::Caller, first).await {
        Err(CallError::Refused(fault)) => {
            let runs = parts.call(Lane::Caller, second).await.is_ok();
            runs.then_some(fault)
        }
        _ => None,
    }
}
