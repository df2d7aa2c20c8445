//! What the profile of the engine refuses to connections.

use super::server_connection::{Phase, ServerConnection};
use crate::commands::{self, Unusable, Words, is};
use crate::engine::Engine;
use crate::profile::{Refusal, Slots};
use crate::reply::{Bytes, ErrorReply};
use crate::slot;

impl ServerConnection {
    /// Answers a command that the profile refuses. Returns whether it does.
    pub(super) fn is_refused(&self, engine: &Engine, words: Words<'_>) -> bool {
        let profile = engine.rules;
        let answer = match profile.refusal(words) {
            // Permissions are those of a user, who is not known yet.
            Some((_, Refusal::Forbidden)) if !self.with(|state| state.is_authenticated) => {
                return false;
            }
            Some((command, refusal)) => {
                engine.count_refused(self.id, &counted(words));
                match refusal {
                    Refusal::Closed => {
                        self.with(|state| state.end(Phase::Draining));
                        return true;
                    }
                    Refusal::Unknown => unknown(command, words),
                    Refusal::Forbidden => forbidden(command),
                    Refusal::Words(text) => text.into(),
                }
            }
            None if profile.slots == Slots::One && !slot::is_one(commands::keys(words)) => {
                Slots::CROSSSLOT.into()
            }
            None => match profile.without_keys {
                Some(text) if is_script_without_keys(words) => {
                    engine.count_refused(self.id, &format!("{} without keys", counted(words)));
                    text.into()
                }
                _ => return false,
            },
        };
        self.answer(&Err(answer));
        true
    }
}

fn is_script_without_keys(words: Words<'_>) -> bool {
    let [name, _, keys, ..] = words else {
        return false;
    };
    (is(name, "eval") || is(name, "evalsha")) && keys == b"0"
}

/// Commands whose second word is a part of their name.
const CONTAINERS: [&str; 9] = [
    "ACL", "CLIENT", "CLUSTER", "COMMAND", "CONFIG", "FUNCTION", "MODULE", "PUBSUB", "SCRIPT",
];

/// The name of a command, with its subcommand. CLIENT SETINFO sets two things, by two commands.
fn counted(words: Words<'_>) -> String {
    let upper = |word: &Bytes| String::from_utf8_lossy(word).to_ascii_uppercase();
    let parts = match words {
        [client, verb, ..] if is(client, "client") && is(verb, "setinfo") => 3,
        [name, ..] if CONTAINERS.iter().any(|container| is(name, container)) => 2,
        _ => 1,
    };
    words
        .iter()
        .take(parts)
        .map(upper)
        .collect::<Vec<_>>()
        .join(" ")
}

fn unknown(command: &str, words: Words<'_>) -> ErrorReply {
    match command.split_once(' ') {
        None => commands::unusable(&Unusable::Unknown, words),
        Some((name, _)) => {
            let given = String::from_utf8_lossy(&words[1]);
            ErrorReply(format!(
                "ERR unknown subcommand '{given}'. Try {name} HELP."
            ))
        }
    }
}

fn forbidden(command: &str) -> ErrorReply {
    let command = command.to_ascii_lowercase().replace(' ', "|");
    ErrorReply(format!(
        "NOPERM this user has no permissions to run the '{command}' command"
    ))
}
