//! The handshake of a connection: RESP3, credentials, name and database in one round trip.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::time::{Duration, Instant};

use super::codec::{Decoder, Incoming};
use super::credentials::Credentials;
use super::encode::command;
use super::identity::Identity;
use super::login::{Login, Validity};
use super::stream::{Reader, Writer};
use crate::Value;
use crate::endpoint::{Address, Endpoint};
use crate::{CallError, Fault, sort_error_reply};

#[derive(Clone)]
pub(super) struct Handshake {
    pub(super) login: Login,
    database: Option<u8>,
    /// The client's name in CLIENT LIST.
    name: String,
    /// Whether a replica is refused.
    pub(super) primary_only: bool,
    /// Added to the error if the server gives no reply but ends the connection, or sends something that is none.
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
}

impl Handshake {
    pub(super) fn new(endpoint: &Endpoint, name: &str) -> Self {
        let login = Login::Fixed(endpoint.credentials().cloned());
        let (database, name) = (endpoint.database(), name.to_owned());
        Handshake {
            login,
            database,
            name,
            primary_only: false,
            hint: match endpoint.address() {
                Address::Tcp { .. } => "; does this port want TLS, rediss://?",
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
        let sent = Instant::now();
        let greeted = self.greet(reader, writer, credentials.as_ref()).await;
        // A server or a proxy that refuses a command may repeat its words, including the password.
        let hidden = |error| {
            credentials
                .iter()
                .fold(error, |error, known| known.hidden_in(error))
        };
        let (inbox, server) = greeted.map_err(hidden)?;
        Ok(Greeting {
            inbox,
            validity,
            took: sent.elapsed(),
            server,
        })
    }

    /// Returns the bytes that were read after the answers, and the identity of the server.
    async fn greet(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
        credentials: Option<&Credentials>,
    ) -> Result<(BytesMut, Identity), CallError> {
        let (commands, answers) = self.commands(credentials);
        // A server that closes the connection at once may have sent a reason before.
        let written = match writer.write_all(&commands).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        let (mut decoder, mut inbox) = (Decoder::default(), BytesMut::new());
        let (mut number, mut server) = (0, Identity::default());
        let ended = |number, why: &str| match number {
            0 => not_connected(&format!("{why}{}", self.hint)),
            _ => not_connected(why),
        };
        let broken = |number| move |error: std::io::Error| ended(number, &error.to_string());
        while number < answers.len() {
            match decoder.decode(&mut inbox) {
                Ok(Some(Incoming::Reply(reply))) => {
                    if answers[number] == Expected::Identity {
                        server = Identity::of(reply.as_ref().ok(), None);
                    }
                    self.check(answers[number], reply)?;
                    number += 1;
                }
                Ok(Some(Incoming::Push(_))) => {}
                Ok(None) => {
                    if reader.read_buf(&mut inbox).await.map_err(broken(number))? == 0 {
                        written.map_err(broken(number))?;
                        return Err(ended(number, "the server closed the connection"));
                    }
                }
                Err(malformed) => return Err(ended(number, &malformed.0)),
            }
        }
        Ok((inbox, server))
    }

    fn commands(&self, credentials: Option<&Credentials>) -> (BytesMut, Vec<Expected>) {
        let (mut commands, mut answers) = (BytesMut::new(), vec![Expected::Hello]);
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(credentials) = credentials {
            let (user, password) = (credentials.user(), &credentials.password);
            hello.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME" as &[u8], self.name.as_bytes()]);
        command(&mut commands, &hello);
        if let Some(database) = self.database {
            command(&mut commands, &[b"SELECT", database.to_string().as_bytes()]);
            answers.push(Expected::Required);
        }
        // Not every user has the permission for this command.
        command(&mut commands, &[b"INFO", b"server"]);
        answers.push(Expected::Identity);
        // Servers before Redis 7.2 do not know CLIENT SETINFO; others may refuse it to this user.
        for (what, text) in [
            ("LIB-NAME", "leasehold"),
            ("LIB-VER", env!("CARGO_PKG_VERSION")),
        ] {
            command(
                &mut commands,
                &[b"CLIENT", b"SETINFO", what.as_bytes(), text.as_bytes()],
            );
            answers.push(Expected::Optional);
        }
        (commands, answers)
    }

    fn check(&self, answer: Expected, reply: Result<Value, String>) -> Result<(), CallError> {
        match (answer, reply) {
            (Expected::Hello, Ok(welcome)) => self.check_welcome(&welcome),
            (Expected::Required, Ok(_)) | (Expected::Optional | Expected::Identity, _) => Ok(()),
            (Expected::Hello | Expected::Required, Err(text)) => {
                Err(match sort_error_reply(&text) {
                    // Other codes concern the user, and HELLO can fail for other reasons than the protocol.
                    CallError::Refused(Fault(text))
                        if answer == Expected::Hello
                            && ["ERR ", "NOPROTO "]
                                .iter()
                                .any(|code| text.starts_with(code)) =>
                    {
                        needs_resp3(&format!("HELLO is refused: {text}"))
                    }
                    CallError::Refused(fault) => CallError::Refused(fault),
                    // The login of this connection failed. No earlier login was lost.
                    CallError::NotApplied(fault) if fault.0.starts_with("NOAUTH ") => {
                        CallError::Refused(fault)
                    }
                    // No call was sent before, so none can have been applied.
                    _ => not_connected(&text),
                })
            }
        }
    }

    /// Checks the reply to HELLO. It contains the role of the server behind this very connection, which another
    /// connection could not prove.
    fn check_welcome(&self, welcome: &Value) -> Result<(), CallError> {
        match (welcome.field("proto"), welcome.field("role")) {
            (Some(Value::Int(3)), Some(Value::Text(role))) if role == "master" => Ok(()),
            (Some(Value::Int(3)), _) if !self.primary_only => Ok(()),
            (Some(Value::Int(3)), role) => Err(not_primary(role)),
            _ => Err(needs_resp3("the server does not agree to HELLO 3")),
        }
    }
}

/// The expected reply to a command of the handshake.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Expected {
    Hello,
    Required,
    Optional,
    /// The identity of the server, if this user may ask for it.
    Identity,
}

/// An error for which later attempts would fail, too.
fn needs_resp3(why: &str) -> CallError {
    CallError::Refused(Fault(format!(
        "this client needs RESP3, which servers speak from Redis 6.0 on, and proxies often do not: {why}"
    )))
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
