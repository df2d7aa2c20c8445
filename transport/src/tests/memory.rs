//! A server in this process. A test sees every byte and every write, and decides how many bytes the
//! kernel takes, when a reply comes, and how a connection ends. The server answers within the write
//! that completes a command, so that with paused time everything is repeatable.

use std::collections::VecDeque;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::{Buf as _, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::fakes::{array, bulk};
use super::*;
use crate::connection::{Carries, Connection};
use crate::credentials::Provider;
use crate::login::Login;

/// The answer to HELLO of a server that has reached `maxclients`.
const FULL: &[u8] = b"-ERR max number of clients reached\r\n";

/// The numbers of a client's first connections.
pub(super) const PRIMARY_CONNECTION: usize = 0;
pub(super) const CALLER: usize = 1;
pub(super) const MESSAGES: usize = 2;

/// A function that answers a command after the handshake.
pub(super) type Answers = dyn FnMut(&[String]) -> Vec<u8> + Send;

/// A server in memory. Its connections are in the order in which they were opened: primary
/// connection, caller's lane, messages, and then those that replace them.
#[derive(Clone, Default)]
pub(super) struct MemoryServer(Arc<Mutex<Shared>>);

#[derive(Default)]
struct Shared {
    sockets: Vec<Socket>,
    /// Answers the commands of later connections.
    answers: Option<Arc<Mutex<Answers>>>,
    refuses: bool,
    /// How many connections were attempted.
    dials: usize,
    /// New connections are accepted and never answered.
    is_silent: bool,
    /// The limit of simultaneous connections. Zero for no limit.
    places: usize,
    /// The run id in the reply to INFO. If empty, INFO fails.
    run_id: String,
    /// After this many bytes of answers, a new connection ends in this way.
    short: Option<(usize, Ending)>,
    /// The answer of new connections to HELLO, if not [`WELCOME`].
    welcome: Option<Vec<u8>>,
    /// Whether new connections speak RESP2.
    is_old: bool,
    /// Sent to new connections directly after the handshake.
    greeting: Vec<u8>,
}

/// The answer of a primary to HELLO.
pub(super) const WELCOME: &str = "%2\r\n$5\r\nproto\r\n:3\r\n$4\r\nrole\r\n$6\r\nmaster\r\n";

/// One connection as both sides see it.
#[derive(Clone)]
pub(super) struct Socket(Arc<Mutex<State>>);

pub(super) struct State {
    /// Commands after the handshake.
    pub(super) commands: Vec<Vec<String>>,
    /// Every byte that was taken after the handshake.
    pub(super) taken: Vec<u8>,
    /// How many writes were taken.
    pub(super) writes: usize,
    /// How many more bytes are taken.
    pub(super) room: usize,
    /// How many more bytes are answered.
    pub(super) replies: usize,
    /// Whether a write that finds no room is an error.
    pub(super) breaks: bool,
    /// How many of the two halves the client has not dropped.
    pub(super) halves: usize,
    /// True if the server takes every byte and runs no command.
    pub(super) deaf: bool,
    run_id: String,
    /// In RESP2, whether the connection takes only subscriptions and PING.
    resp2: Option<Carries>,
    logged_in: bool,
    welcome: Option<Vec<u8>>,
    greeting: Vec<u8>,
    partial: Vec<u8>,
    /// Output for the client. Only the first `replies` bytes are delivered.
    outgoing: VecDeque<u8>,
    ended: Option<Ending>,
    /// How the connection ends after the last of the `replies` bytes.
    ended_after: Option<Ending>,
    answers: Option<Arc<Mutex<Answers>>>,
    reader: Option<Waker>,
    writer: Option<Waker>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    Closed,
    Reset,
}

impl MemoryServer {
    /// A server that answers nil to every script.
    pub(super) fn new() -> Self {
        MemoryServer::default()
    }

    pub(super) fn answering(answers: impl FnMut(&[String]) -> Vec<u8> + Send + 'static) -> Self {
        let memory = MemoryServer::new();
        memory.0.lock().answers = Some(Arc::new(Mutex::new(answers)));
        memory
    }

    pub(super) fn dialer(&self) -> StreamDialer {
        let shared = self.0.clone();
        StreamDialer::new(move |_| {
            let mut shared = shared.lock();
            shared.dials += 1;
            if shared.refuses {
                return Err(io::ErrorKind::ConnectionRefused.into());
            }
            let socket = Socket::new(shared.answers.clone());
            let has_place =
                |state: &mut State| state.halves > 0 && state.welcome.as_deref() != Some(FULL);
            let taken = shared
                .sockets
                .iter()
                .filter(|socket| socket.at(has_place))
                .count();
            let is_full = shared.places > 0 && taken >= shared.places;
            socket.at(|state| {
                state.greeting.clone_from(&shared.greeting);
                state.welcome.clone_from(&shared.welcome);
                state.run_id.clone_from(&shared.run_id);
                state.resp2 = shared.is_old.then_some(Carries::Calls);
                if is_full {
                    state.welcome = Some(FULL.into());
                }
                state.replies = if shared.is_silent { 0 } else { usize::MAX };
            });
            if let Some((replies, ending)) = shared.short {
                socket.at(|state| (state.replies, state.ended_after) = (replies, Some(ending)));
            }
            shared.sockets.push(socket.clone());
            Ok((Half(socket.clone()), Half(socket)))
        })
    }

    pub(super) fn dials(&self) -> usize {
        self.0.lock().dials
    }

    /// New connections are accepted and never answered.
    pub(super) fn falls_silent(&self) {
        self.0.lock().is_silent = true;
    }

    /// New connections are answered again.
    pub(super) fn answers_again(&self) {
        self.0.lock().is_silent = false;
    }

    /// Limits the number of simultaneous connections.
    pub(super) fn has_places(&self, places: usize) {
        self.0.lock().places = places;
    }

    /// Gives the server this run id, as if the process was another one.
    pub(super) fn with_run_id(self, run_id: &str) -> Self {
        self.0.lock().run_id = run_id.to_owned();
        self
    }

    /// Makes the server refuse HELLO, and speak RESP2.
    pub(super) fn in_resp2(self) -> Self {
        self.welcome("-ERR unknown command 'HELLO'\r\n");
        self.0.lock().is_old = true;
        self
    }

    /// The connections that the client has not dropped.
    pub(super) fn living(&self) -> Vec<Socket> {
        let sockets = self.sockets().into_iter();
        sockets
            .filter(|socket| socket.at(|state| state.halves > 0))
            .collect()
    }

    pub(super) fn remote(&self) -> Remote {
        MemoryServer::remote_by(&self.dialer())
    }

    /// A remote with this dialer, which may lead to several servers.
    pub(super) fn remote_by(dialer: &StreamDialer) -> Remote {
        let endpoint = Endpoint::parse("redis://memory").unwrap();
        Remote::new(dialer.to(&endpoint), &endpoint, NAME)
    }

    /// New connections are refused.
    pub(super) fn refuse(&self) {
        self.0.lock().refuses = true;
    }

    /// New connections are accepted again.
    pub(super) fn accept(&self) {
        self.0.lock().refuses = false;
    }

    /// Sets the answer of new connections to HELLO.
    pub(super) fn welcome(&self, answer: &str) {
        self.0.lock().welcome = Some(answer.into());
    }

    /// Sends this to new connections directly after their handshake.
    pub(super) fn greet(&self, bytes: &[u8]) {
        self.0.lock().greeting = bytes.to_vec();
    }

    /// Ends new connections after this many bytes of answers.
    pub(super) fn short(&self, replies: usize, ending: Ending) {
        self.0.lock().short = Some((replies, ending));
    }

    pub(super) fn sockets(&self) -> Vec<Socket> {
        self.0.lock().sockets.clone()
    }

    pub(super) fn socket(&self, number: usize) -> Socket {
        self.0.lock().sockets[number].clone()
    }

    pub(super) fn newest(&self) -> Socket {
        self.0.lock().sockets.last().unwrap().clone()
    }
}

impl Socket {
    fn new(answers: Option<Arc<Mutex<Answers>>>) -> Self {
        Socket(Arc::new(Mutex::new(State {
            commands: Vec::new(),
            taken: Vec::new(),
            writes: 0,
            room: usize::MAX,
            replies: usize::MAX,
            breaks: false,
            halves: 2,
            deaf: false,
            run_id: String::new(),
            resp2: None,
            logged_in: false,
            welcome: None,
            greeting: Vec::new(),
            partial: Vec::new(),
            outgoing: VecDeque::new(),
            ended: None,
            ended_after: None,
            answers,
            reader: None,
            writer: None,
        })))
    }

    /// Reads or changes the state.
    pub(super) fn at<T>(&self, look: impl FnOnce(&mut State) -> T) -> T {
        let (seen, wakers) = {
            let mut state = self.0.lock();
            (look(&mut state), [state.reader.take(), state.writer.take()])
        };
        wakers.into_iter().flatten().for_each(Waker::wake);
        seen
    }

    /// Sends these bytes to the client, without a request.
    pub(super) fn say(&self, bytes: &[u8]) {
        self.at(|state| state.outgoing.extend(bytes));
    }

    /// Ends the connection after the output that is not held back.
    pub(super) fn end(&self, ending: Ending) {
        self.at(|state| state.ended = Some(ending));
    }

    /// The names of the commands that were received.
    pub(super) fn names(&self) -> Vec<String> {
        self.at(|state| {
            state
                .commands
                .iter()
                .map(|words| words[0].clone())
                .collect()
        })
    }
}

impl State {
    fn take(&mut self, bytes: &[u8]) {
        self.writes += 1;
        if self.deaf {
            return;
        }
        self.partial.extend_from_slice(bytes);
        if self.logged_in {
            self.taken.extend_from_slice(bytes);
        }
        while let Some((words, length)) = command(&self.partial) {
            self.partial.drain(..length);
            let answer = match words[0].as_str() {
                "INFO" if self.run_id.is_empty() => b"-NOPERM no permission\r\n".to_vec(),
                "INFO" => {
                    let text = format!("# Server\r\nrun_id:{}\r\nrole:master\r\n", self.run_id);
                    format!("${}\r\n{text}\r\n", text.len()).into_bytes()
                }
                "HELLO" => self.welcome.clone().unwrap_or_else(|| WELCOME.into()),
                "CLIENT" | "SELECT" => {
                    // `LIB-VER` is set by the last command of the handshake.
                    if words.get(2).is_some_and(|word| word == "LIB-VER") {
                        self.logged_in = true;
                        self.writes = 0;
                        [b"+OK\r\n", &self.greeting[..]].concat()
                    } else {
                        b"+OK\r\n".to_vec()
                    }
                }
                _ => {
                    self.commands.push(words.clone());
                    let answer = self
                        .resp2
                        .and_then(|carries| self.subscribed(carries, &words));
                    answer.unwrap_or_else(|| match &self.answers {
                        Some(answers) => answers.lock()(&words),
                        None => usual(&words),
                    })
                }
            };
            self.outgoing.extend(answer);
        }
    }
}

impl State {
    /// The answer of a server that speaks RESP2 to a command about subscriptions, or on a
    /// connection with some.
    fn subscribed(&mut self, carries: Carries, words: &[String]) -> Option<Vec<u8>> {
        let kind = words[0].to_lowercase();
        let answer = if kind.ends_with("subscribe") {
            self.resp2 = Some(Carries::Subscriptions);
            array(&[bulk(&kind), bulk(&words[1]), ":1\r\n".to_owned()])
        } else if carries == Carries::Calls {
            return None;
        } else if kind == "ping" {
            let number = words.get(1).map_or("", String::as_str);
            array(&[bulk("pong"), bulk(number)])
        } else {
            format!("-ERR Can't execute '{kind}': only SUBSCRIBE and PING are allowed\r\n")
        };
        Some(answer.into_bytes())
    }
}

/// The answers of a server whose scripts all return nil.
pub(super) fn usual(words: &[String]) -> Vec<u8> {
    match words[0].as_str() {
        "PING" => words.get(1).map_or_else(
            || b"+PONG\r\n".to_vec(),
            |number| format!("${}\r\n{number}\r\n", number.len()).into_bytes(),
        ),
        kind @ ("SUBSCRIBE" | "UNSUBSCRIBE") => {
            let kind = kind.to_lowercase();
            let (channel, length) = (&words[1], words[1].len());
            let size = kind.len();
            format!(">3\r\n${size}\r\n{kind}\r\n${length}\r\n{channel}\r\n:1\r\n").into_bytes()
        }
        _ => b"_\r\n".to_vec(),
    }
}

/// Like [`usual`], but a script returns its last argument.
pub(super) fn echo(words: &[String]) -> Vec<u8> {
    match words[0].as_str() {
        "EVALSHA" | "EVAL" => {
            let last = words.last().unwrap();
            format!("${}\r\n{last}\r\n", last.len()).into_bytes()
        }
        _ => usual(words),
    }
}

/// The first whole command and its length.
pub(super) fn command(bytes: &[u8]) -> Option<(Vec<String>, usize)> {
    let mut at = 0;
    let header = |at: &mut usize| {
        let length = bytes[*at..].windows(2).position(|end| end == b"\r\n")?;
        let number = std::str::from_utf8(&bytes[*at + 1..*at + length]).unwrap();
        *at += length + 2;
        Some(number.parse::<usize>().unwrap())
    };
    let mut words = Vec::new();
    for _ in 0..header(&mut at)? {
        let length = header(&mut at)?;
        let word = bytes.get(at..at + length)?;
        bytes.get(at + length + 1)?;
        words.push(String::from_utf8(word.to_vec()).unwrap());
        at += length + 2;
    }
    Some((words, at))
}

/// One half of the client's end of the stream.
struct Half(Socket);

impl Drop for Half {
    fn drop(&mut self) {
        self.0.0.lock().halves -= 1;
    }
}

impl AsyncRead for Half {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let state = &mut *self.0.0.lock();
        let length = buffer
            .remaining()
            .min(state.outgoing.len())
            .min(state.replies);
        if length > 0 {
            state.replies -= length;
            let said: BytesMut = state.outgoing.drain(..length).collect();
            buffer.put_slice(said.chunk());
            return Poll::Ready(Ok(()));
        }
        if state.replies == 0 {
            state.ended = state.ended.or(state.ended_after);
        }
        match state.ended {
            Some(Ending::Closed) => Poll::Ready(Ok(())),
            Some(Ending::Reset) => Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())),
            None => {
                state.reader = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

impl AsyncWrite for Half {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let (length, reader) = {
            let state = &mut *self.0.0.lock();
            let length = bytes.len().min(state.room);
            if state.ended.is_some() || length == 0 && state.breaks {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            if length == 0 {
                state.writer = Some(cx.waker().clone());
                return Poll::Pending;
            }
            state.room -= length;
            state.take(&bytes[..length]);
            (length, state.reader.take())
        };
        if let Some(reader) = reader {
            reader.wake();
        }
        Poll::Ready(Ok(length))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// A transport to that server that runs entirely on the test's runtime.
pub(super) struct MemoryTestbed {
    pub(super) redis: Arc<Node>,
    pub(super) events: Arc<Recorder>,
    pub(super) server: MemoryServer,
}

impl MemoryTestbed {
    pub(super) async fn new(server: MemoryServer) -> Self {
        MemoryTestbed::open(server).await.unwrap()
    }

    pub(super) async fn open(server: MemoryServer) -> Result<Self, CallError> {
        MemoryTestbed::open_by(server, None).await
    }

    pub(super) async fn open_by(
        server: MemoryServer,
        provider: Option<Provider>,
    ) -> Result<Self, CallError> {
        let mut node = server.remote();
        if let Some(provider) = provider {
            node.handshake.login = Login::Provider(provider);
        }
        MemoryTestbed::of(server, node, (TIMING, IfUnreachable::Fail)).await
    }

    pub(super) async fn of(
        server: MemoryServer,
        remote: Remote,
        (timing, if_unreachable): (Timing, IfUnreachable),
    ) -> Result<Self, CallError> {
        let (events, own) = (Arc::<Recorder>::default(), Handle::current());
        let redis = connect_to(remote, timing, events.clone(), &own, if_unreachable);
        Ok(MemoryTestbed {
            redis: Arc::new(redis.await?),
            events,
            server,
        })
    }

    /// The current connection of the caller's lane, once there is one.
    pub(super) async fn caller(&self) -> Arc<Connection> {
        let slot = self.redis.shared.slot(Lane::Caller);
        until("the caller's lane is up", || slot.connection().is_ok()).await;
        slot.connection().unwrap()
    }

    /// Starts a call on the caller's lane, and polls it once.
    pub(super) fn started(&self, call: Call) -> Pending {
        let redis = self.redis.clone();
        let mut call: Pending = Box::pin(async move { redis.call(Lane::Caller, call).await });
        let mut context = Context::from_waker(Waker::noop());
        assert!(call.as_mut().poll(&mut context).is_pending());
        call
    }
}

pub(super) type Pending = Pin<Box<dyn Future<Output = Result<Value, CallError>> + Send>>;
