//! The first words on a connection: RESP3, user and password, name and database in one round trip.

use bytes::BytesMut;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::codec::{Decoder, Incoming};
use super::dial::{Reader, Writer};
use super::encode::command;
use crate::protocol::Value;
use crate::transport::redis::endpoint::Endpoint;
use crate::transport::{CallError, Fault, sort_error_reply};

/// Who connects, and to which database.
#[derive(Clone)]
pub(super) struct Login {
    endpoint: Endpoint,
    /// The name in CLIENT LIST.
    name: String,
}

impl Login {
    pub(super) fn new(endpoint: &Endpoint, name: &str) -> Self {
        Login { endpoint: endpoint.clone(), name: name.to_owned() }
    }

    #[cfg(feature = "fred")]
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Logs in, and returns what was read beyond the answers.
    pub(super) async fn log_in(
        &self,
        reader: &mut Reader,
        writer: &mut Writer,
    ) -> Result<BytesMut, CallError> {
        let (words, answers) = self.words();
        let broken = |error: std::io::Error| not_connected(&error.to_string());
        writer.write_all(&words).await.map_err(broken)?;
        writer.flush().await.map_err(broken)?;
        let (mut decoder, mut inbox) = (Decoder::default(), BytesMut::new());
        let mut number = 0;
        while number < answers.len() {
            match decoder.decode(&mut inbox) {
                Ok(Some(Incoming::Reply(reply))) => {
                    answers[number].judge(reply)?;
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

    fn words(&self) -> (BytesMut, Vec<Answer>) {
        let (mut words, mut answers) = (BytesMut::new(), vec![Answer::Wanted]);
        let mut hello: Vec<&[u8]> = vec![b"HELLO", b"3"];
        if let Some(login) = self.endpoint.login() {
            let user = login.user.as_deref().unwrap_or("default");
            hello.extend([b"AUTH", user.as_bytes(), login.password.as_bytes()]);
        }
        hello.extend([b"SETNAME" as &[u8], self.name.as_bytes()]);
        command(&mut words, &hello);
        if let Some(database) = self.endpoint.database() {
            command(&mut words, &[b"SELECT", database.to_string().as_bytes()]);
            answers.push(Answer::Wanted);
        }
        // Servers before Redis 7.2 do not know these; others may refuse them to this user.
        for (what, text) in [("LIB-NAME", "leasehold"), ("LIB-VER", env!("CARGO_PKG_VERSION"))] {
            command(&mut words, &[b"CLIENT", b"SETINFO", what.as_bytes(), text.as_bytes()]);
            answers.push(Answer::Unimportant);
        }
        (words, answers)
    }
}

#[derive(Clone, Copy)]
enum Answer {
    Wanted,
    Unimportant,
}

impl Answer {
    fn judge(self, reply: Result<Value, String>) -> Result<(), CallError> {
        match (self, reply) {
            (Answer::Wanted, Err(text)) => {
                let text = without_arguments(&text);
                Err(match sort_error_reply(text) {
                    CallError::Refused(fault) => CallError::Refused(fault),
                    // Nothing was asked yet but to be let in.
                    _ => not_connected(text),
                })
            }
            _ => Ok(()),
        }
    }
}

/// A server that does not know HELLO repeats what came with it: the password.
pub(super) fn without_arguments(text: &str) -> &str {
    text.find(", with args").map_or(text, |end| &text[..end])
}

/// It may work later.
pub(super) fn not_connected(why: &str) -> CallError {
    CallError::NotApplied(Fault(why.to_owned()))
}
