//! The commands that concern the connection. The engine runs all others.

use tokio::time::Instant;

use super::cluster::cluster;
use super::encode::{self, Protocol};
use super::pubsub::{self, Verb};
use super::server_connection::{Phase, ServerConnection};
use super::waits::{NO_INTEGER, Wait};
use crate::commands::{Words, is, wrong_arity};
use crate::engine::Engine;
use crate::faults::Faults;
use crate::number::parse_int;
use crate::profile::Hello;
use crate::reply::{Bytes, ErrorReply, Outcome, Reply};

const USER: &[u8] = b"default";
const NO_AUTH: &str = "NOAUTH Authentication required.";
const NO_AUTH_HELLO: &str = "NOAUTH HELLO must be called with the client already authenticated, \
     otherwise the HELLO AUTH <user> <pass> option can be used to authenticate the client and \
     select the RESP protocol version at the same time";
const NO_PASSWORD: &str = "ERR AUTH <password> called without any password configured for the \
     default user. Are you sure your configuration is correct?";
const WRONG_PASSWORD: &str = "WRONGPASS invalid username-password pair or user is disabled.";
const NAME: &str = "ERR Client names cannot contain spaces, newlines or special characters.";
const LOADING: &str = "LOADING Redis is loading the dataset in memory";

impl ServerConnection {
    /// Runs one command and sends its reply.
    pub(super) fn run(&self, engine: &Engine, words: Words<'_>) {
        let Some(name) = words.first() else { return };
        let name = name.to_ascii_lowercase();
        if self.is_refused(engine, words) {
            return;
        }
        let is_authenticated = self.with(|state| state.is_authenticated);
        match name.as_slice() {
            _ if self.listens_only() && !pubsub::is_allowed(&name) => {
                self.answer(&Err(pubsub::not_now(&name)));
            }
            b"hello" => self.hello(engine, words),
            b"auth" => self.answer_counted(engine, "auth", &self.auth(engine, words)),
            b"quit" => {
                self.answer_counted(engine, "quit", &Ok(Reply::ok()));
                self.with(|state| state.end(Phase::Draining));
            }
            b"ping" if !is_authenticated && engine.rules.pings_before_login => {
                self.answer(&engine.execute(words));
            }
            _ if !is_authenticated => self.answer(&Err(NO_AUTH.into())),
            b"ping" if self.listens_only() => self.pong(engine, words),
            b"client" => self.answer_counted(engine, "client", &self.client(words)),
            b"select" => self.answer_counted(engine, "select", &select(words)),
            b"cluster" => self.answer_counted(engine, "cluster", &cluster(engine, words)),
            b"info" => {
                let info = engine.info(words.get(1).map(Vec::as_slice)).into_bytes();
                self.answer_counted(engine, "info", &Ok(Reply::Bulk(info)));
            }
            b"role" => {
                let role = [Ok(Reply::Bulk(b"master".to_vec())), Ok(Reply::Int(0))];
                let replicas = Ok(Reply::Array(Vec::new()));
                let role = role.into_iter().chain([replicas]).collect();
                self.answer_counted(engine, "role", &Ok(Reply::Array(role)));
            }
            b"wait" => self.begin_wait(engine, words),
            b"subscribe" => self.subscribe(engine, Verb::PLAIN, words),
            b"ssubscribe" => self.subscribe(engine, Verb::SHARDED, words),
            b"unsubscribe" => self.unsubscribe(engine, Verb::PLAIN, words),
            b"sunsubscribe" => self.unsubscribe(engine, Verb::SHARDED, words),
            b"eval" | b"evalsha" if self.is_due(|faults| faults.refuse) => {
                self.answer(&Err(LOADING.into()));
            }
            b"eval" | b"evalsha" if self.is_due(|faults| faults.garble) => {
                let garbled = |_| Reply::Status("garbled".to_owned());
                self.answer(&engine.execute(words).map(garbled));
            }
            b"eval" | b"evalsha" => {
                let outcome = engine.execute(words);
                if ran(&outcome) && engine.loses_this_reply() {
                    self.cut();
                } else {
                    self.answer(&outcome);
                }
            }
            _ => self.answer(&engine.execute(words)),
        }
    }

    fn answer_counted(&self, engine: &Engine, name: &str, outcome: &Outcome) {
        engine.count(name);
        self.answer(outcome);
    }

    fn is_due(&self, part: impl FnOnce(&Faults) -> f64) -> bool {
        self.stream.with(|duplex, _| {
            let part = part(duplex.faults());
            duplex.chance(part)
        })
    }

    fn hello(&self, engine: &Engine, words: Words<'_>) {
        engine.count("hello");
        let mode = if engine.rules.is_cluster {
            "cluster"
        } else {
            "standalone"
        };
        match self.negotiate(engine, words) {
            Err(error) => self.answer(&Err(error)),
            Ok(()) => self.with(|state| {
                state.send(|out, protocol| encode::welcome(out, protocol, self.id, mode));
            }),
        }
    }

    fn negotiate(&self, engine: &Engine, words: Words<'_>) -> Result<(), ErrorReply> {
        let protocol = match words.get(1).map(|number| parse_int(number)) {
            None => None,
            Some(Some(2)) => Some(Protocol::Resp2),
            Some(Some(3)) => match engine.rules.hello {
                Hello::Resp3 => Some(Protocol::Resp3),
                Hello::Resp2 => Some(Protocol::Resp2),
                Hello::Refused(words) => {
                    engine.count_refused(self.id, "HELLO 3");
                    return Err(words.into());
                }
            },
            Some(Some(_)) => return Err("NOPROTO unsupported protocol version".into()),
            Some(None) => {
                return Err("ERR Protocol version is not an integer or out of range".into());
            }
        };
        let mut options = words.get(2..).unwrap_or_default();
        let mut name = None;
        while let [option, rest @ ..] = options {
            options = match rest {
                [user, password, rest @ ..] if is(option, "auth") => {
                    self.authenticate(engine, user, password)?;
                    rest
                }
                [given, rest @ ..] if is(option, "setname") => {
                    name = Some(valid_name(given)?);
                    rest
                }
                _ => {
                    let option = String::from_utf8_lossy(option);
                    return Err(ErrorReply(format!(
                        "ERR Syntax error in HELLO option '{option}'"
                    )));
                }
            };
        }
        self.with(|state| {
            if !state.is_authenticated {
                return Err(NO_AUTH_HELLO.into());
            }
            if let Some(name) = name {
                state.name = name;
            }
            if let Some(protocol) = protocol {
                state.protocol = protocol;
            }
            Ok(())
        })
    }

    fn auth(&self, engine: &Engine, words: Words<'_>) -> Outcome {
        match words {
            [_] => return Err(wrong_arity("auth")),
            [_, _] if engine.password().is_none() => return Err(NO_PASSWORD.into()),
            [_, password] => self.authenticate(engine, USER, password)?,
            [_, user, password] => self.authenticate(engine, user, password)?,
            _ => return Err("ERR syntax error".into()),
        }
        Ok(Reply::ok())
    }

    /// There is one user. If no password is set, every password is accepted.
    fn authenticate(
        &self,
        engine: &Engine,
        user: &[u8],
        password: &[u8],
    ) -> Result<(), ErrorReply> {
        let right = engine
            .password()
            .is_none_or(|right| right.as_bytes() == password);
        if user != USER || !right {
            return Err(WRONG_PASSWORD.into());
        }
        let login_ends = engine.rules.login_lasts.map(|lasts| Instant::now() + lasts);
        self.with(|state| {
            state.is_authenticated = true;
            state.login_ends = login_ends;
        });
        // The task waits for the end of the former login.
        self.wake();
        Ok(())
    }

    fn client(&self, words: Words<'_>) -> Outcome {
        match &words[1..] {
            [] => Err(wrong_arity("client")),
            [verb] if is(verb, "id") => Ok(Reply::Int(self.id.cast_signed())),
            [verb] if is(verb, "getname") => {
                let name = self.with(|state| state.name.clone());
                Ok(if name.is_empty() {
                    Reply::Nil
                } else {
                    Reply::Bulk(name)
                })
            }
            [verb, name] if is(verb, "setname") => {
                let name = valid_name(name)?;
                self.with(|state| state.name = name);
                Ok(Reply::ok())
            }
            [verb, what, _] if is(verb, "setinfo") => {
                if is(what, "lib-name") || is(what, "lib-ver") {
                    return Ok(Reply::ok());
                }
                let what = String::from_utf8_lossy(what);
                Err(ErrorReply(format!("ERR Unrecognized option '{what}'")))
            }
            [verb, ..] => {
                let verb = String::from_utf8_lossy(verb);
                Err(ErrorReply(format!(
                    "ERR unknown subcommand '{verb}'. Try CLIENT HELP."
                )))
            }
        }
    }

    /// Replies at once if there are enough copies. Otherwise the task of the connection waits for
    /// them.
    fn begin_wait(&self, engine: &Engine, words: Words<'_>) {
        engine.count("wait");
        if words.len() != 3 {
            return self.answer(&Err(wrong_arity("wait")));
        }
        match Wait::of(words) {
            Ok(wait) => self.with(|state| state.wait = Some(wait)),
            Err(text) => self.answer(&Err(text.into())),
        }
        self.end_wait(engine);
    }

    /// Replies if the wait is over.
    pub(super) fn end_wait(&self, engine: &Engine) {
        let replicas = engine.replicas();
        let over = self.with(|state| state.wait.take_if(|wait| wait.is_over(replicas)));
        if over.is_some() {
            self.answer(&Ok(Reply::Int(replicas.into())));
        }
    }
}

/// False if the server does not know the script.
fn ran(outcome: &Outcome) -> bool {
    !matches!(outcome, Err(ErrorReply(text)) if text.starts_with("NOSCRIPT"))
}

fn select(words: Words<'_>) -> Outcome {
    match words {
        [_, number] => match parse_int(number) {
            Some(0) => Ok(Reply::ok()),
            // The engine has one keyspace.
            Some(_) => Err("ERR DB index is out of range".into()),
            None => Err(NO_INTEGER.into()),
        },
        _ => Err(wrong_arity("select")),
    }
}

fn valid_name(name: &[u8]) -> Result<Bytes, ErrorReply> {
    if name.iter().all(u8::is_ascii_graphic) {
        Ok(name.to_vec())
    } else {
        Err(NAME.into())
    }
}
