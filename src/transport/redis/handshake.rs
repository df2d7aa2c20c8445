//! The handshake of a connection: RESP3, credentials, name and database in one round trip.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::codec::{Decoder, Incoming};
use super::encode::command;
use super::stream::{Reader, Writer};
use crate::protocol::Value;
use crate::transport::redis::endpoint::Endpoint;
use crate::transport::{CallError, Fault, sort_error_reply};

#[derive(Clone)]
pub(super) struct Handshake {
    endpoint: Endpoint,
    /// The name in CLIENT LIST.
    name: String,
    /// Whether a replica is refused.
    primary_only: bool,
}

impl Handshake {
    pub(super) fn new(endpoint: &Endpoint, name: &str) -> Self {
        Handshake { endpoint: endpoint.clone(), name: name.to_owned(), primary_only: false }
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

    /// Sends the commands and checks the answers. Returns the bytes that were read beyond them.
    pub(super) async fn run(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<BytesMut, CallError> {
        let (commands, answers) = self.commands();
        let broken = |error: std::io::Error| not_connected(&error.to_string());
        writer.write_all(&commands).await.map_err(broken)?;
        writer.flush().await.map_err(broken)?;
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
                        return Err(not_connected("the server closed the connection"));
                    }
                }
                Err(malformed) => return Err(not_connected(&malformed.0)),
            }
        }
        Ok(inbox)
    }

    fn commands(&self) -> (BytesMut, Vec<Answer>) {
        let (mut commands, mut answers) = (BytesMut::new(), vec![Answer::Required]);
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(credentials) = self.endpoint.credentials() {
            let user = credentials.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH", user.as_bytes(), credentials.password.as_bytes()]);
        }
        hello.extend([b"SETNAME" as &[u8], self.name.as_bytes()]);
        command(&mut commands, &hello);
        if let Some(database) = self.endpoint.database() {
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

/// A server that does not know HELLO repeats its arguments, and so the password.
pub(super) fn without_arguments(text: &str) -> &str {
    text.find(", with args").map_or(text, |end| &text[..end])
}

/// A later attempt may succeed.
pub(super) fn not_connected(why: &str) -> CallError {
    CallError::NotApplied(Fault(why.to_owned()))
}
