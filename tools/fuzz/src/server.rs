//! A server in memory. It replies like a real one, except for the wrong replies that it is told to
//! send.
//!
//! Scripts run on an embedded engine. All other replies were recorded from Redis 7.0 and Valkey 9.1
//! (`recorded/`).

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::BytesMut;
use leasehold::EmbeddedRedis;
use leasehold::test_util::{ErrorReply, Reply};
use resp_rs::resp3::{Frame, parse_frame};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

use crate::junk::{Step, line};

/// The replies of one server program, by command.
type Recorded = [(&'static str, &'static [u8]); 16];

macro_rules! recorded {
    ($program:literal) => {
        [
            (
                "CLUSTER INFO",
                include_bytes!(concat!("../recorded/cluster_cinfo-", $program, ".resp")),
            ),
            (
                "CLUSTER SLOTS",
                include_bytes!(concat!("../recorded/cluster_slots-", $program, ".resp")),
            ),
            (
                "CONFIG GET append",
                include_bytes!(concat!("../recorded/config_append-", $program, ".resp")),
            ),
            (
                "CONFIG GET cluster",
                include_bytes!(concat!("../recorded/config_cluster-", $program, ".resp")),
            ),
            (
                "CONFIG GET min",
                include_bytes!(concat!("../recorded/config_min-", $program, ".resp")),
            ),
            (
                "CONFIG GET save",
                include_bytes!(concat!("../recorded/config_save-", $program, ".resp")),
            ),
            (
                "HELLO",
                include_bytes!(concat!("../recorded/hello-", $program, ".resp")),
            ),
            (
                "INFO",
                include_bytes!(concat!("../recorded/info-", $program, ".resp")),
            ),
            (
                "PUBSUB SHARDNUMSUB",
                include_bytes!(concat!("../recorded/shardnumsub-", $program, ".resp")),
            ),
            (
                "ROLE",
                include_bytes!(concat!("../recorded/role-", $program, ".resp")),
            ),
            (
                "SENTINEL CKQUORUM",
                include_bytes!(concat!("../recorded/sentinel_ckquorum-", $program, ".resp")),
            ),
            (
                "SENTINEL MASTER",
                include_bytes!(concat!("../recorded/sentinel_master-", $program, ".resp")),
            ),
            (
                "SENTINEL SENTINELS",
                include_bytes!(concat!(
                    "../recorded/sentinel_sentinels-",
                    $program,
                    ".resp"
                )),
            ),
            (
                "TIME",
                include_bytes!(concat!("../recorded/time-", $program, ".resp")),
            ),
            ("CLIENT", b"+OK\r\n"),
            ("SELECT", b"+OK\r\n"),
        ]
    };
}

const REDIS: Recorded = recorded!("redis-7.0");
const VALKEY: Recorded = recorded!("valkey-9.1");

/// One server, or all servers of a deployment.
#[derive(Clone, Debug)]
pub(crate) struct FakeServer {
    engine: EmbeddedRedis,
    recorded: &'static Recorded,
    steps: Arc<Mutex<VecDeque<Step>>>,
    /// The number of bytes sent at once.
    piece: usize,
    /// Whether it refuses HELLO, and speaks RESP2.
    pub(crate) is_old: bool,
}

impl FakeServer {
    #[expect(clippy::fn_params_excessive_bools, reason = "read from an input")]
    pub(crate) fn new(is_valkey: bool, steps: Vec<Step>, piece: usize) -> Self {
        FakeServer {
            engine: EmbeddedRedis::new(),
            recorded: if is_valkey { &VALKEY } else { &REDIS },
            steps: Arc::new(Mutex::new(steps.into())),
            piece: piece.max(1),
            is_old: false,
        }
    }

    /// Opens a connection to the server.
    #[expect(clippy::unnecessary_wraps, reason = "a dialler may fail")]
    pub(crate) fn dial(&self) -> io::Result<DuplexStream> {
        let (client, own) = duplex(64 * 1024);
        drop(tokio::runtime::Handle::current().spawn(self.clone().serve(own)));
        Ok(client)
    }

    /// From now on, all replies are correct.
    pub(crate) fn recover(&self) {
        self.steps
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clear();
    }

    async fn serve(self, mut stream: DuplexStream) -> io::Result<()> {
        let (mut inbox, mut subscribed) = (BytesMut::new(), false);
        loop {
            while let Ok((request, rest)) = parse_frame(inbox.clone().freeze()) {
                inbox = BytesMut::from(&rest[..]);
                let (bytes, goes_on) = self.sent(self.answer(&words(request), &mut subscribed));
                for piece in bytes.chunks(self.piece) {
                    stream.write_all(piece).await?;
                    if self.piece < 1024 {
                        tokio::task::yield_now().await;
                    }
                }
                if !goes_on {
                    return Ok(());
                }
            }
            if stream.read_buf(&mut inbox).await? == 0 {
                return Ok(());
            }
        }
    }

    /// The bytes to send for a reply, and whether the connection stays open.
    fn sent(&self, answer: Vec<u8>) -> (Vec<u8>, bool) {
        let mut steps = self.steps.lock().unwrap_or_else(PoisonError::into_inner);
        match steps.front_mut() {
            None => (answer, true),
            Some(step) if step.after > 0 => {
                step.after -= 1;
                (answer, true)
            }
            Some(_) => {
                let step = steps.pop_front().expect("there is one");
                drop(steps);
                step.junk.apply(answer)
            }
        }
    }

    fn answer(&self, words: &[Vec<u8>], subscribed: &mut bool) -> Vec<u8> {
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let asked = words.iter().take(3).map(text).collect::<Vec<_>>().join(" ");
        if self.is_old && asked.starts_with("HELLO") {
            return b"-NOPROTO unsupported protocol version\r\n".to_vec();
        }
        if let Some((_, answer)) = self
            .recorded
            .iter()
            .find(|(start, _)| asked.starts_with(start))
        {
            return answer.to_vec();
        }
        let mut out = Vec::new();
        match words.first().map(Vec::as_slice).unwrap_or_default() {
            verb @ (b"SUBSCRIBE" | b"SSUBSCRIBE" | b"UNSUBSCRIBE" | b"SUNSUBSCRIBE") => {
                *subscribed = self.is_old;
                for channel in &words[1..] {
                    line(&mut out, if self.is_old { b'*' } else { b'>' }, b"3");
                    bulk(&mut out, &verb.to_ascii_lowercase());
                    bulk(&mut out, channel);
                    line(&mut out, b':', b"1");
                }
            }
            b"PING" if *subscribed => {
                line(&mut out, b'*', b"2");
                bulk(&mut out, b"pong");
                bulk(&mut out, words.get(1).map_or(b"", Vec::as_slice));
            }
            b"EVAL" if contains(&words[1], b"DRYRUN") => {
                let questions = questions(&words[3..]);
                line(&mut out, b'*', questions.to_string().as_bytes());
                out.extend(b":1\r\n".repeat(questions));
            }
            b"ASKING" | b"AUTH" | b"READONLY" => line(&mut out, b'+', b"OK"),
            b"WAIT" => line(&mut out, b':', b"1"),
            _ => encode(&mut out, &self.engine.command(words)),
        }
        out
    }
}

fn words(request: Frame) -> Vec<Vec<u8>> {
    let Frame::Array(Some(items)) = request else {
        return Vec::new();
    };
    let word = |item| {
        if let Frame::BulkString(Some(word)) = item {
            word.to_vec()
        } else {
            Vec::new()
        }
    };
    items.into_iter().map(word).collect()
}

fn contains(text: &[u8], part: &[u8]) -> bool {
    text.windows(part.len()).any(|window| window == part)
}

/// The number of commands in a flat list, in which each command is preceded by its number of words.
fn questions(mut words: &[Vec<u8>]) -> usize {
    let mut number = 0;
    while let [length, rest @ ..] = words {
        let length: usize = str::from_utf8(length)
            .ok()
            .and_then(|text| text.parse().ok())
            .unwrap_or(0);
        words = rest.get(length..).unwrap_or_default();
        number += 1;
    }
    number
}

fn bulk(out: &mut Vec<u8>, text: &[u8]) {
    line(out, b'$', text.len().to_string().as_bytes());
    out.extend_from_slice(text);
    out.extend_from_slice(b"\r\n");
}

fn encode(out: &mut Vec<u8>, outcome: &Result<Reply, ErrorReply>) {
    match outcome {
        Err(ErrorReply(text)) => line(out, b'-', text.replace(['\r', '\n'], " ").as_bytes()),
        Ok(Reply::Nil) => line(out, b'_', b""),
        Ok(Reply::Int(number)) => line(out, b':', number.to_string().as_bytes()),
        Ok(Reply::Status(text)) => line(out, b'+', text.as_bytes()),
        Ok(Reply::Bulk(text)) => bulk(out, text),
        Ok(Reply::Array(items)) => {
            line(out, b'*', items.len().to_string().as_bytes());
            for item in items {
                encode(out, item);
            }
        }
    }
}
