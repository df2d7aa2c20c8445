//! Which scripts a server refuses. The client learns it when it needs it, but a fresh client has needed nothing yet.

use super::ask::Ask;
use crate::transport::{CallError, Fault, NodeId, Scripts, Transport};

/// Read by no lock.
const KEY: &str = "leasehold_ping";

/// The first line is for Dragonfly, as in the scripts that do the same.
const WITH_UNDECLARED: &str = "--!df flags=allow-undeclared-keys\n\
     return redis.call('exists', KEYS[1], ARGV[1])";
const WITHOUT_COMMANDS: &str = "return 0";

/// How many hash tags are tried to find a key on a node.
const TAGS: u32 = 1000;

/// Asks whether one script may have keys of several slots, and keys that are not declared. The transport notes a refusal.
pub(super) async fn ask_for_limits(ask: Ask<'_>) {
    let transport = &ask.session.calls.transport;
    if matches!(
        transport.abilities(ask.node).scripts,
        Some(Scripts::None(_))
    ) {
        return;
    }
    let key = |tag: u32, end: &str| {
        let prefix = &ask.session.calls.settings.key_prefix;
        format!("{prefix}{KEY}:{{{tag}}}{end}")
    };
    let (one, other) = (key(0, ""), key(1, ""));
    let slots = async {
        if transport.takes_many_keys()
            && refused(
                ask,
                &[WITHOUT_COMMANDS, "2", &one, &other],
                &[WITHOUT_COMMANDS, "1", &one],
            )
            .await
            .is_some()
        {
            transport.note_one_slot_only();
        }
    };
    let undeclared = async {
        let Some(tag) = tag_on(transport, ask.node, |tag| key(tag, "")) else {
            return;
        };
        let (one, other) = (key(tag, ""), key(tag, ":undeclared"));
        let without = [WITH_UNDECLARED, "1", &one, &other];
        let with = [WITH_UNDECLARED, "2", &one, &other, &other];
        if !transport.abilities(ask.node).declared_keys_only
            && let Some(fault) = refused(ask, &without, &with).await
        {
            transport.note_search_refused(ask.node, &fault);
        }
    };
    tokio::join!(slots, undeclared);
}

/// A hash tag that leads to the node.
fn tag_on(transport: &Transport, node: NodeId, key: impl Fn(u32) -> String) -> Option<u32> {
    (0..TAGS).find(|&tag| transport.node_of(&key(tag)) == node)
}

/// The error if the server refuses the first script but runs the second one, so that the difference is the reason.
async fn refused(ask: Ask<'_>, first: &[&str], second: &[&str]) -> Option<Fault> {
    let eval = async |words: &[&str]| ask.command(&[&["EVAL"], words].concat()).await;
    match eval(first).await {
        Err(CallError::Refused(fault)) if eval(second).await.is_ok() => Some(fault),
        _ => None,
    }
}
