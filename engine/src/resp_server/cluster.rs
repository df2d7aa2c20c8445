//! The engine as the only node of a cluster.

use crate::commands::{Words, is, wrong_arity};
use crate::engine::Engine;
use crate::reply::{ErrorReply, Outcome, Reply};

/// The last slot.
const LAST: i64 = 16_383;
/// The port that a URL has without a number. Whatever address a client dials, it reaches this node.
const PORT: i64 = 6379;
const INFO: &str = "\
    cluster_enabled:1\r\ncluster_state:ok\r\ncluster_slots_assigned:16384\r\n\
    cluster_slots_ok:16384\r\ncluster_known_nodes:1\r\ncluster_size:1\r\n\
    cluster_current_epoch:1\r\n";

pub(super) fn cluster(engine: &Engine, words: Words<'_>) -> Outcome {
    if !engine.rules.is_cluster {
        return Err("ERR This instance has cluster support disabled".into());
    }
    let text = |text: &str| Ok(Reply::Bulk(text.as_bytes().to_vec()));
    let list = |parts: Vec<Outcome>| Ok(Reply::Array(parts));
    let number = |number| Ok(Reply::Int(number));
    match &words[1..] {
        [] => Err(wrong_arity("cluster")),
        [verb] if is(verb, "info") => text(INFO),
        // A node that does not know its own address names none: it is where the client has asked.
        [verb] if is(verb, "slots") => {
            let node = list(vec![Ok(Reply::Nil), number(PORT), text(&engine.run_id())]);
            list(vec![list(vec![number(0), number(LAST), node])])
        }
        [verb] if is(verb, "shards") => {
            let node = list(vec![
                text("id"),
                text(&engine.run_id()),
                text("port"),
                number(PORT),
                text("endpoint"),
                Ok(Reply::Nil),
                text("role"),
                text("master"),
                text("health"),
                text("online"),
            ]);
            list(vec![list(vec![
                text("slots"),
                list(vec![number(0), number(LAST)]),
                text("nodes"),
                list(vec![node]),
            ])])
        }
        [verb, ..] => Err(ErrorReply(format!(
            "ERR unknown subcommand '{}'. Try CLUSTER HELP.",
            String::from_utf8_lossy(verb)
        ))),
    }
}
