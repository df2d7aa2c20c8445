//! A client that only knows bytes.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::runtime::Handle;
use tokio::time::timeout;

use super::{ConnectionControl, Engine, LinkControl};
use crate::{Dialer, ReadHalf, WriteHalf};

pub(super) struct Raw {
    pub(super) reader: ReadHalf,
    pub(super) writer: WriteHalf,
}

/// Waits long enough for everything that needs no timer.
pub(super) async fn settle() {
    for _ in 0..200 {
        tokio::task::yield_now().await;
    }
}

pub(super) fn client(redis: &Arc<Engine>) -> (Dialer, LinkControl) {
    let dialer = redis.dialer(&Handle::current());
    (dialer, redis.links().pop().expect("just made"))
}

/// The newest connection.
pub(super) fn newest(control: &LinkControl) -> ConnectionControl {
    control.connections().pop().expect("a connection")
}

/// The bytes of a command.
pub(super) fn frame(words: &[&str]) -> Vec<u8> {
    let word = |word: &&str| format!("${}\r\n{word}\r\n", word.len());
    let words: Vec<String> = std::iter::once(format!("*{}\r\n", words.len()))
        .chain(words.iter().map(word))
        .collect();
    words.concat().into_bytes()
}

impl Raw {
    pub(super) fn dial(dialer: &Dialer) -> io::Result<Raw> {
        let (reader, writer) = dialer.dial()?;
        Ok(Raw { reader, writer })
    }

    /// Connects and completes the handshake.
    pub(super) async fn connect(dialer: &Dialer) -> Raw {
        let mut raw = Raw::dial(dialer).expect("a connection");
        raw.send(&["HELLO", "3"]).await;
        let welcome = raw.frame_end("modules\r\n*0\r\n").await;
        assert!(welcome.starts_with("%7\r\n"), "{welcome}");
        raw
    }

    pub(super) async fn send(&mut self, words: &[&str]) {
        self.send_bytes(&frame(words)).await;
    }

    pub(super) async fn send_bytes(&mut self, bytes: &[u8]) {
        // The connection may be gone.
        drop(self.writer.write_all(bytes).await);
    }

    /// Reads a reply of known length.
    pub(super) async fn hears(&mut self, expected: &str) {
        let mut heard = vec![0; expected.len()];
        let read = timeout(Duration::from_secs(60), self.reader.read_exact(&mut heard)).await;
        let heard = String::from_utf8_lossy(&heard);
        assert!(
            matches!(read, Ok(Ok(_))),
            "{read:?} instead of {expected:?}: {heard:?}"
        );
        assert_eq!(heard, expected);
    }

    pub(super) async fn asks(&mut self, words: &[&str], expected: &str) {
        self.send(words).await;
        self.hears(expected).await;
    }

    /// Reads up to a known end.
    pub(super) async fn frame_end(&mut self, end: &str) -> String {
        let mut heard = String::new();
        while !heard.ends_with(end) {
            let byte = self.reader.read_u8().await.expect("the rest of an answer");
            heard.push(char::from(byte));
        }
        heard
    }

    /// Reads up to the end of the connection.
    pub(super) async fn rest(&mut self) -> Vec<u8> {
        let mut heard = Vec::new();
        // A reset is an end as well.
        drop(self.reader.read_to_end(&mut heard).await);
        heard
    }

    /// The bytes that come within a millisecond.
    pub(super) async fn soon(&mut self) -> Vec<u8> {
        let mut heard = vec![0; 64 * 1024];
        let read = timeout(Duration::from_millis(1), self.reader.read(&mut heard)).await;
        heard.truncate(read.map_or(0, |read| read.unwrap_or(0)));
        heard
    }
}
