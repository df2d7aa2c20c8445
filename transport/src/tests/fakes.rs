//! The servers of a deployment, in this process. A function of the test decides what each address
//! answers.

use std::io;

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex, split};

use super::memory::{WELCOME, command, usual};
use super::*;
use crate::deployment::Deployment;
use crate::dial::StreamDialer;

/// What an address answers to a command, or to an attempt to connect (which has no words).
pub(super) enum Answer {
    Reply(String),
    /// No reply. The connection stays open.
    Silence,
    /// The connection ends, or is refused.
    End,
}

type Answers = dyn FnMut(&str, &[String]) -> Answer + Send;

#[derive(Clone)]
pub(super) struct Fakes(Arc<Mutex<Inside>>);

struct Inside {
    answers: Box<Answers>,
    /// The address of each attempt to connect.
    dialled: Vec<String>,
    /// Whether the function also answers the question for scripts.
    is_strict: bool,
}

impl Fakes {
    pub(super) fn new(answers: impl FnMut(&str, &[String]) -> Answer + Send + 'static) -> Self {
        let answers: Box<Answers> = Box::new(answers);
        Fakes(Arc::new(Mutex::new(Inside {
            answers,
            dialled: Vec::new(),
            is_strict: false,
        })))
    }

    /// Makes the function answer the question for scripts as well.
    pub(super) fn strict(self) -> Self {
        self.0.lock().is_strict = true;
        self
    }

    /// The addresses that were connected to, each once.
    pub(super) fn all_dialled(&self) -> Vec<String> {
        let mut all = self.0.lock().dialled.clone();
        all.sort();
        all.dedup();
        all
    }

    pub(super) fn forget_dialled(&self) {
        self.0.lock().dialled.clear();
    }

    /// How often this address was connected to.
    pub(super) fn dialled(&self, address: &str) -> usize {
        self.0
            .lock()
            .dialled
            .iter()
            .filter(|other| *other == address)
            .count()
    }

    /// Connects to a deployment of these servers. All tasks run on the runtime of the test.
    pub(super) async fn open(
        &self,
        url: &str,
        if_unreachable: IfUnreachable,
    ) -> Result<(Transport, Arc<Recorder>), CallError> {
        self.open_by(url, if_unreachable, None).await
    }

    /// The same with an address map.
    pub(super) async fn open_by(
        &self,
        url: &str,
        if_unreachable: IfUnreachable,
        address_map: Option<AddressMap>,
    ) -> Result<(Transport, Arc<Recorder>), CallError> {
        let events = Arc::<Recorder>::default();
        let setup = Setup {
            streams: Some(self.streams()),
            ..setup(TIMING, events.clone(), &Handle::current())
        };
        let mut deployment = Deployment::parse(url).unwrap();
        if let Some(map) = address_map {
            deployment = deployment.mapped_by(map).unwrap();
        }
        let transport = Transport::connect(deployment, setup, if_unreachable);
        Ok((transport.await?, events))
    }

    /// One of these servers.
    pub(super) fn remote(&self, url: &str) -> Remote {
        let endpoint = Endpoint::parse(url).unwrap();
        Remote::new(self.streams().to(&endpoint), &endpoint, NAME)
    }

    pub(super) fn streams(&self) -> StreamDialer {
        let fakes = self.clone();
        StreamDialer::new(move |address| fakes.dial(address).map(split))
    }

    fn dial(&self, address: &str) -> io::Result<DuplexStream> {
        self.0.lock().dialled.push(address.to_owned());
        if let Answer::End = self.answer(address, &[]) {
            return Err(io::ErrorKind::ConnectionRefused.into());
        }
        let (ours, theirs) = duplex(1 << 16);
        drop(Handle::current().spawn(self.clone().serve(address.to_owned(), theirs)));
        Ok(ours)
    }

    pub(super) fn answer(&self, address: &str, words: &[String]) -> Answer {
        if words.starts_with(&["EVALSHA".to_owned(), "0".repeat(40)]) && !self.0.lock().is_strict {
            return Answer::Reply("-NOSCRIPT No matching script.\r\n".to_owned());
        }
        (self.0.lock().answers)(address, words)
    }

    async fn serve(self, address: String, mut stream: DuplexStream) -> io::Result<()> {
        let mut inbox = BytesMut::new();
        loop {
            while let Some((words, length)) = command(&inbox) {
                inbox.advance(length);
                match self.answer(&address, &words) {
                    Answer::Reply(text) => stream.write_all(text.as_bytes()).await?,
                    Answer::Silence => {}
                    Answer::End => return Ok(()),
                }
            }
            if stream.read_buf(&mut inbox).await? == 0 {
                return Ok(());
            }
        }
    }
}

/// The answers of a primary whose scripts all return nil.
pub(super) fn as_usual(words: &[String]) -> Answer {
    if words.is_empty() {
        return Answer::Silence;
    }
    let word = |at: usize| words.get(at).map_or("", String::as_str);
    Answer::Reply(match (word(0), word(1)) {
        ("HELLO", _) => WELCOME.to_owned(),
        ("CLIENT" | "AUTH" | "SELECT", _) => "+OK\r\n".to_owned(),
        ("ROLE", _) => "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n".to_owned(),
        ("PUBSUB", _) => "*0\r\n".to_owned(),
        ("PING", "") => "+PONG\r\n".to_owned(),
        _ => String::from_utf8(usual(words)).unwrap(),
    })
}

pub(super) fn bulk(text: &str) -> String {
    format!("${}\r\n{text}\r\n", text.len())
}

pub(super) fn array(items: &[String]) -> String {
    format!("*{}\r\n{}", items.len(), items.concat())
}
