//! The handshake of a connection: RESP3, credentials, name and database in one round trip.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;

use super::codec::{Decoder, Incoming, without_arguments};
use super::credentials::{Credentials, Provider};
use super::encode::command;
use super::login::{Login, Validity};
use super::stream::{Reader, Writer};
use crate::protocol::Value;
use crate::transport::redis::endpoint::Endpoint;
use crate::transport::{CallError, Fault, sort_error_reply};

#[derive(Clone)]
pub(super) struct Handshake {
    login: Login,
    database: Option<u8>,
    /// The name in CLIENT LIST.
    name: String,
    /// Whether a replica is refused.
    primary_only: bool,
}

/// What is known of a connection after the handshake.
pub(super) struct Greeting {
    /// Bytes that were read beyond the answers.
    pub(super) inbox: BytesMut,
    pub(super) validity: Validity,
}

impl Handshake {
    pub(super) fn new(endpoint: &Endpoint, name: &str) -> Self {
        let login = Login::Fixed(endpoint.credentials().cloned());
        let (database, name) = (endpoint.database(), name.to_owned());
        Handshake { login, database, name, primary_only: false }
    }

    /// Asks a provider at each login.
    pub(super) fn log_in_by(&mut self, provider: Provider) {
        self.login = Login::Provider(provider);
    }

    pub(super) fn login(&self) -> &Login {
        &self.login
    }

    pub(super) fn primary_only(&mut self) {
        self.primary_only = true;
    }

    pub(super) fn is_primary_only(&self) -> bool {
        self.primary_only
    }

    #[cfg(feature = "fred")]
    pub(super) fn name(&self) -> &str {
        &self.name
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
        let (commands, answers) = self.commands(credentials.as_ref());
        let broken = |error: std::io::Error| not_connected(&error.to_string());
        // A server that closes the connection at once may have said why before.
        let written = match writer.write_all(&commands).await {
            Ok(()) => writer.flush().await,
            failed => failed,
        };
        let (mut decoder, mut inbox) = (Decoder::default(), BytesMut::new());
        let mut number = 0;
        while number < answers.len() {
            match decoder.decode(&mut inbox) {
                Ok(Some(Incoming::Reply(reply))) => {
                    answers[number].check(reply)?;
                    number += 1;
                }
                Ok(Some(Incoming::Push(_))) => {}
                Ok(None) => {
                    if reader.read_buf(&mut inbox).await.map_err(broken)? == 0 {
                        written.map_err(broken)?;
                        return Err(not_connected("the server closed the connection"));
                    }
                }
                Err(malformed) => return Err(not_connected(&malformed.0)),
            }
        }
        Ok(Greeting { inbox, validity })
    }

    fn commands(&self, credentials: Option<&Credentials>) -> (BytesMut, Vec<Answer>) {
        let (mut commands, mut answers) = (BytesMut::new(), vec![Answer::Required]);
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(credentials) = credentials {
            let (user, password) = (credentials.user(), &credentials.password);
            hello.extend([b"AUTH", user.as_bytes(), password.as_bytes()]);
        }
        hello.extend([b"SETNAME" as &[u8], self.name.as_bytes()]);
        command(&mut commands, &hello);
        if let Some(database) = self.database {
            command(&mut commands, &[b"SELECT", database.to_string().as_bytes()]);
            answers.push(Answer::Required);
        }
        // Servers before Redis 7.2 do not know CLIENT SETINFO; others may refuse it to this user.
        for (what, text) in [("LIB-NAME", "leasehold"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            command(&mut commands, &[b"CLIENT", b"SETINFO", what.as_bytes(), text.as_bytes()]);
            answers.push(Answer::Optional);
        }
        if self.primary_only {
            // On this very connection: a role that was asked for on another one says nothing.
            command(&mut commands, &[b"ROLE"]);
            answers.push(Answer::Primary);
        }
        (commands, answers)
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Required,
    Optional,
    /// The server must be a primary.
    Primary,
}

impl Answer {
    fn check(self, reply: Result<Value, String>) -> Result<(), CallError> {
        match (self, reply) {
            (Answer::Primary, Ok(role)) => primary(&role),
            (Answer::Required | Answer::Primary, Err(text)) => {
                let text = without_arguments(&text);
                Err(match sort_error_reply(text) {
                    CallError::Refused(fault) => CallError::Refused(fault),
                    // No call was sent yet.
                    _ => not_connected(text),
                })
            }
            (Answer::Required, Ok(_)) | (Answer::Optional, _) => Ok(()),
        }
    }
}

/// What ROLE answers: an error unless the server is a primary.
pub(super) fn primary(role: &Value) -> Result<(), CallError> {
    match role {
        Value::Array(parts) if parts.first() == Some(&Value::Text("master".into())) => Ok(()),
        Value::Array(parts) => {
            let role = parts.first();
            Err(not_connected(&format!("the server is not a primary: its role is {role:?}")))
        }
        _ => Err(not_connected("the server does not say its role")),
    }
}

/// A later attempt may succeed.
pub(super) fn not_connected(why: &str) -> CallError {
    CallError::NotApplied(Fault(why.to_owned()))
}
