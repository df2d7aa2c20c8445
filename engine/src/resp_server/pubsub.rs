//! Subscriptions of a connection, to plain and to sharded channels.

use super::encode::{self, Protocol};
use super::server_connection::{ServerConnection, State};
use crate::commands::{Words, wrong_arity};
use crate::engine::Engine;
use crate::reply::{Bytes, ErrorReply};
use crate::store::Channel;

/// The commands for one sort of channels.
#[derive(Clone, Copy)]
pub(super) struct Verb {
    is_sharded: bool,
    subscribe: &'static str,
    unsubscribe: &'static str,
}

impl Verb {
    pub(super) const PLAIN: Verb = Verb {
        is_sharded: false,
        subscribe: "subscribe",
        unsubscribe: "unsubscribe",
    };
    pub(super) const SHARDED: Verb = Verb {
        is_sharded: true,
        subscribe: "ssubscribe",
        unsubscribe: "sunsubscribe",
    };

    fn channels(self, names: &[Bytes]) -> Vec<Channel> {
        let channel = |name: &Bytes| Channel {
            is_sharded: self.is_sharded,
            name: name.clone(),
        };
        names.iter().map(channel).collect()
    }

    fn count(self, state: &State) -> usize {
        let ours = |channel: &&Channel| channel.is_sharded == self.is_sharded;
        state.channels.iter().filter(ours).count()
    }
}

/// Whether a RESP2 connection with subscriptions accepts this command.
pub(super) fn is_allowed(name: &[u8]) -> bool {
    let allowed = [
        "ssubscribe",
        "sunsubscribe",
        "subscribe",
        "unsubscribe",
        "ping",
        "quit",
    ];
    allowed.iter().any(|allowed| allowed.as_bytes() == name)
}

pub(super) fn not_now(name: &[u8]) -> ErrorReply {
    ErrorReply(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are \
         allowed in this context",
        String::from_utf8_lossy(name)
    ))
}

impl ServerConnection {
    /// In RESP2 a reply looks like a message, so a connection with subscriptions carries no other
    /// calls.
    pub(super) fn listens_only(&self) -> bool {
        self.with(|state| state.protocol == Protocol::Resp2 && !state.channels.is_empty())
    }

    pub(super) fn pong(&self, engine: &Engine, words: Words<'_>) {
        engine.count("ping");
        match words {
            [_] => self.with(|state| state.send(|out, _| encode::pong(out, b""))),
            [_, text] => self.with(|state| state.send(|out, _| encode::pong(out, text))),
            _ => self.answer(&Err(wrong_arity("ping"))),
        }
    }

    pub(super) fn subscribe(&self, engine: &Engine, verb: Verb, words: Words<'_>) {
        if words.len() == 1 {
            return self.answer(&Err(wrong_arity(verb.subscribe)));
        }
        engine.count(verb.subscribe);
        let channels = verb.channels(&words[1..]);
        // Before the engine knows about the subscription: no message may precede the confirmation.
        self.with(|state| {
            for channel in &channels {
                state.channels.insert(channel.clone());
                let count = verb.count(state);
                state.send(|out, protocol| {
                    encode::confirmation(out, protocol, verb.subscribe, Some(&channel.name), count);
                });
            }
        });
        engine.subscribe(self.id, &channels);
    }

    /// Unsubscribes from these channels, or from all of their sort if there are none.
    pub(super) fn unsubscribe(&self, engine: &Engine, verb: Verb, words: Words<'_>) {
        engine.count(verb.unsubscribe);
        let left = if words.len() > 1 {
            verb.channels(&words[1..])
        } else {
            self.with(|state| {
                let channels = state.channels.iter();
                let ours = channels.filter(|channel| channel.is_sharded == verb.is_sharded);
                ours.cloned().collect()
            })
        };
        // No message arrives from here on, because none may follow the confirmation.
        engine.unsubscribe(self.id, &left);
        let confirm = |state: &mut State, name: Option<&[u8]>| {
            let count = verb.count(state);
            state.send(|out, protocol| {
                encode::confirmation(out, protocol, verb.unsubscribe, name, count);
            });
        };
        self.with(|state| {
            for channel in &left {
                state.channels.remove(channel);
                confirm(state, Some(&channel.name));
            }
            if left.is_empty() {
                confirm(state, None);
            }
        });
    }
}
