//! The handshake of a connection: protocol, credentials, name and database.
//!
//! | round | commands | when |
//! | --- | --- | --- |
//! | 1 | HELLO 3 with login and name; database, identity, a script | unless the server is known to refuse HELLO |
//! | 2 | AUTH, CLIENT SETNAME, the role if it matters; what round 1 left open | if HELLO is refused, or is not sent |
//! | 3 | a script with a key | if the server refused the script, which has none |
//! | 4 | scripts that say who runs them, and one with keys of two slots | if the server ran that |
//!
//! Each round is one write and one round trip. A server that refuses HELLO speaks RESP2; one that
//! ends the connection instead, as Twemproxy does, cannot be used. What an earlier connection to
//! the same server has found out is not asked again (`abilities.rs`).
//!
//! The password is checked once on a connection. A refusal of HELLO that concerns the login ends
//! the handshake.

mod exchange;
mod replies;
mod with_keys;

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::BytesMut;
use tokio::runtime::Handle;
use tokio::time::{Duration, Instant};

use self::exchange::{Exchange, ExpectedReply, Step};
use self::replies::{SCRIPT_WITHOUT_KEYS, lacks_login, refuses_hello, role, text};
use super::abilities::{Known, Scripts};
use super::credentials::Credentials;
use super::identity::Identity;
use super::login::{Login, Validity};
use super::protocol::Protocol;
use super::stream::{Reader, Writer};
use crate::call::Value;
use crate::call_error::{CallError, Fault, sort_error_reply};
use crate::endpoint::{Address, Endpoint};

pub(super) struct Handshake {
    pub(super) login: Login,
    pub(super) known: Arc<Known>,
    /// Whether a server that refuses HELLO is refused.
    pub(super) needs_resp3: bool,
    database: Option<u8>,
    /// The client's name in CLIENT LIST.
    name: String,
    /// Whether a server that is not a primary is refused.
    pub(super) primary_only: bool,
    /// Added to the error if the server gives no reply but ends the connection, or sends something
    /// that is none.
    hint: &'static str,
}

/// The result of a handshake.
#[derive(Default)]
pub(super) struct Greeting {
    /// Bytes that were read after the answers.
    pub(super) inbox: BytesMut,
    pub(super) validity: Validity,
    /// How long the server took to answer.
    pub(super) took: Duration,
    pub(super) server: Identity,
    pub(super) protocol: Protocol,
}

impl Handshake {
    pub(super) fn new(endpoint: &Endpoint, name: &str) -> Self {
        let login = Login::Fixed(endpoint.credentials().cloned());
        let (database, name) = (endpoint.database(), name.to_owned());
        Handshake {
            login,
            known: Arc::default(),
            needs_resp3: false,
            database,
            name,
            primary_only: false,
            hint: match endpoint.address() {
                Address::Tcp(_) => {
                    "; does this port want TLS, rediss://? Or is it a proxy that takes no HELLO, \
                     such as Twemproxy?"
                }
                _ => "",
            },
        }
    }

    /// Sends the commands and checks the answers. A provider of credentials is asked on `runtime`.
    pub(super) async fn run(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        runtime: &Handle,
    ) -> Result<Greeting, CallError> {
        let given = self.login.credentials(runtime).await;
        let (credentials, validity) = given.map_err(CallError::NotApplied)?;
        let mut exchange = Exchange::new(reader, writer);
        let mut learned = HandshakeFindings {
            has_login: credentials.is_some(),
            ..HandshakeFindings::default()
        };
        let greeted = self.greet(&mut exchange, credentials.as_ref(), &mut learned);
        // A server or a proxy that refuses a command may repeat its words, including the password.
        let hidden = |error| {
            credentials
                .iter()
                .fold(error, |error, known| known.hidden_in(error))
        };
        greeted.await.map_err(hidden)?;
        Ok(Greeting {
            inbox: exchange.inbox,
            validity,
            took: learned.took,
            server: learned.server,
            protocol: learned.protocol.unwrap_or_default(),
        })
    }

    async fn greet(
        &self,
        exchange: &mut Exchange<'_>,
        credentials: Option<&Credentials>,
        learned: &mut HandshakeFindings,
    ) -> Result<(), CallError> {
        let (protocol, scripts) = self.known.begin();
        let mut steps = self.common(scripts.as_ref());
        if protocol != Some(Protocol::Resp2) {
            steps.insert(0, self.hello(credentials));
            self.round(exchange, &mut steps, learned).await?;
        }
        if learned.protocol != Some(Protocol::Resp3) {
            learned.protocol = Some(Protocol::Resp2);
            steps.splice(0..0, self.in_resp2(credentials));
            self.round(exchange, &mut steps, learned).await?;
            self.known.speaks(Protocol::Resp2);
        }
        if learned.wants_keys {
            self.ask_with_keys(exchange, learned).await?;
        }
        // The role of the server behind this very connection, which another connection could not
        // prove.
        if self.primary_only && learned.role != Some(Value::Text("master".into())) {
            return Err(not_primary(learned.role.as_ref()));
        }
        Ok(())
    }

    /// Sends the commands in one write, and reads their answers. Leaves the commands that must be
    /// sent again after the login.
    async fn round(
        &self,
        exchange: &mut Exchange<'_>,
        steps: &mut Vec<Step>,
        learned: &mut HandshakeFindings,
    ) -> Result<(), CallError> {
        // A server that has refused an optional command does not get it again.
        steps.retain(|step| {
            !step.expected.is_optional() || self.known.refusal(&step.words()).is_none()
        });
        let sent = Instant::now();
        exchange.send(steps).await;
        let says_hello = steps
            .iter()
            .any(|step| step.expected == ExpectedReply::Hello);
        for step in std::mem::take(steps) {
            let reply = exchange.reply().await.map_err(|why| {
                let hint = if exchange.answered { "" } else { self.hint };
                not_connected(&format!("{why}{hint}"))
            })?;
            let login_follows =
                says_hello && learned.has_login && learned.protocol == Some(Protocol::Resp2);
            if login_follows && reply.as_ref().is_err_and(|text| lacks_login(text)) {
                steps.push(step);
                continue;
            }
            if let Err(text) = &reply
                && step.expected.is_optional()
            {
                self.known.refused(&step.words(), text);
            }
            self.settle(step.expected, reply, learned)?;
        }
        learned.took = sent.elapsed();
        Ok(())
    }

    /// The first command of a connection in RESP3.
    fn hello(&self, credentials: Option<&Credentials>) -> Step {
        let mut words = vec!["HELLO", "3"];
        if let Some(credentials) = credentials {
            words.extend(["AUTH", credentials.user(), &credentials.password]);
        }
        words.extend(["SETNAME", &self.name]);
        Step::new(ExpectedReply::Hello, &words)
    }

    /// What HELLO does in RESP3, and what its reply says.
    fn in_resp2(&self, credentials: Option<&Credentials>) -> Vec<Step> {
        let login = credentials.map(|known| known.auth(Protocol::Resp2));
        let mut steps: Vec<_> = login
            .map(|words| Step::new(ExpectedReply::Required, &words))
            .into_iter()
            .collect();
        let name = ["CLIENT", "SETNAME", &self.name];
        steps.push(Step::new(ExpectedReply::Optional, &name));
        if self.primary_only {
            // Not every server allows this one, or INFO.
            steps.push(Step::new(ExpectedReply::Role, &["ROLE"]));
        }
        steps
    }

    /// The commands after the login.
    fn common(&self, scripts: Option<&Scripts>) -> Vec<Step> {
        let mut steps = Vec::new();
        if let Some(database) = self.database {
            let words = ["SELECT", &database.to_string()];
            steps.push(Step::new(ExpectedReply::Required, &words));
        }
        // Not every user has the permission for this command.
        steps.push(Step::new(ExpectedReply::Identity, &["INFO", "server"]));
        if self.primary_only || self.known.has_locks() {
            let words = ["INFO", "replication"];
            steps.push(Step::new(ExpectedReply::Replication, &words));
        }
        // Servers before Redis 7.2 do not know CLIENT SETINFO; others may refuse it to this user.
        for (what, text) in [
            ("LIB-NAME", "leasehold"),
            ("LIB-VER", env!("CARGO_PKG_VERSION")),
        ] {
            let words = ["CLIENT", "SETINFO", what, text];
            steps.push(Step::new(ExpectedReply::Optional, &words));
        }
        if scripts.is_none() && self.known.has_locks() {
            steps.push(Step::new(ExpectedReply::Script, SCRIPT_WITHOUT_KEYS));
        }
        steps
    }

    fn settle(
        &self,
        expected: ExpectedReply,
        reply: Result<Value, String>,
        learned: &mut HandshakeFindings,
    ) -> Result<(), CallError> {
        match (expected, reply) {
            // Before a login or on a full server, this is the answer to any command.
            (_, Err(text)) if text.starts_with("NOAUTH ") => {
                return Err(CallError::Refused(Fault(text)));
            }
            (_, Err(text)) if text.starts_with("ERR max number of clients") => {
                return Err(not_connected(&text));
            }
            (ExpectedReply::Hello, Ok(welcome))
                if welcome.field("proto") == Some(&Value::Int(3)) =>
            {
                learned.role = welcome.field("role").cloned();
                learned.protocol = Some(Protocol::Resp3);
                self.known.speaks(Protocol::Resp3);
            }
            // The server has not changed the protocol.
            (ExpectedReply::Hello, Ok(_)) => learned.protocol = Some(Protocol::Resp2),
            (ExpectedReply::Hello, Err(text)) if refuses_hello(&text) => {
                if self.needs_resp3 {
                    let text = format!("this client needs RESP3, and HELLO is refused: {text}");
                    return Err(CallError::Refused(Fault(text)));
                }
                learned.protocol = Some(Protocol::Resp2);
            }
            (ExpectedReply::Identity, reply) => {
                learned.server = Identity::of(reply.as_ref().ok());
                self.known.met(learned.server.run_id());
            }
            (ExpectedReply::Replication, Ok(info)) => {
                learned.server.replicates(&info);
                learned.role = learned.role.take().or_else(|| role(&info));
            }
            (ExpectedReply::Script, reply) => self.ran_without_keys(&reply, learned),
            (ExpectedReply::ScriptWithKey, reply) => self.ran_with_key(&reply, learned),
            // It may not say.
            (ExpectedReply::WhoRuns, reply) => {
                let run_id = reply.ok().and_then(text);
                learned.ran_by.get_or_insert_default().extend(run_id);
            }
            (ExpectedReply::ScriptWithTwoKeys, Ok(_)) => self.known.takes_several_slots(),
            (ExpectedReply::Role, Ok(reply)) => {
                learned.role = learned.role.take().or_else(|| role(&reply));
            }
            (ExpectedReply::Required, Ok(_))
            | (ExpectedReply::ScriptWithTwoKeys, Err(_))
            | (ExpectedReply::Optional | ExpectedReply::Role | ExpectedReply::Replication, _) => {}
            (ExpectedReply::Hello | ExpectedReply::Required, Err(text)) => {
                return Err(match sort_error_reply(&text) {
                    CallError::Refused(fault) => CallError::Refused(fault),
                    // No call was sent before, so none can have been applied.
                    _ => not_connected(&text),
                });
            }
        }
        Ok(())
    }
}

/// What is known so far.
#[derive(Default)]
struct HandshakeFindings {
    /// Whether there are credentials.
    has_login: bool,
    /// `None` until HELLO is answered.
    protocol: Option<Protocol>,
    role: Option<Value>,
    server: Identity,
    /// Whether the server has refused a script without keys.
    wants_keys: bool,
    /// The run ids of the servers that ran scripts. `None` until one with a key has run.
    ran_by: Option<BTreeSet<String>>,
    /// How long the last round took.
    took: Duration,
}

/// Fails unless ROLE reports a primary.
pub(super) fn primary(role: &Value) -> Result<(), CallError> {
    match role {
        Value::Array(parts) if parts.first() == Some(&Value::Text("master".into())) => Ok(()),
        Value::Array(parts) => Err(not_primary(parts.first())),
        _ => Err(not_connected("the server does not report its role")),
    }
}

fn not_primary(role: Option<&Value>) -> CallError {
    not_connected(&format!(
        "the server is not a primary: its role is {role:?}"
    ))
}

/// An error after which a later attempt may succeed.
pub(super) fn not_connected(why: &str) -> CallError {
    CallError::NotApplied(Fault(why.to_owned()))
}
