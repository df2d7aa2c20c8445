//! A connection that the client `fred` makes, for programs that configure their Redis through it.
//!
//! `fred` writes and reads in a task of its own. Here it is one connection as any other: opened
//! once, used until it is lost, thrown away. It repeats nothing and reconnects to nothing. The driver
//! takes requests out of the ledger, gives each to `fred`, and brings what that says back as what a
//! server would have sent: hub, line and supervisor know no difference.
//!
//! # Limits
//!
//! - What `fred` was given may have been sent: without a reply it is *unknown*, also if it never left.
//! - One system call for each request: `fred` flushes each script.
//! - `fred` answers SUBSCRIBE before it is written, and gives a refusal to whichever command waits at
//!   that time. So each SUBSCRIBE is followed by a PING with a token: its answer confirms, an error in
//!   its place refuses, and both what is refused and a foreign token end the connection, as replies
//!   and commands no longer belong together.
//! - It drops messages that nobody takes in time: then [`Sink::missed`] is called.
//!
//! # Bounds
//!
//! Two tasks, ours and that of `fred`, which ends with ours. One boxed future for each request whose
//! reply is to come; [`MESSAGES`] messages.

use std::collections::VecDeque;
use std::fmt;
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, EventInterface as _, PubsubInterface as _};
use fred::socket2::TcpKeepalive;
use fred::types::config::{
    Blocking, Config, ConnectionConfig, PerformanceConfig, ServerConfig, TcpConfig,
};
use fred::types::{ClusterHash, CustomCommand, Message, Resp3Frame, RespVersion, Value as Word};
use futures::future::{MaybeDone, join, maybe_done};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Duration;

use super::codec::Incoming;
use super::connection::Connection;
use super::dial::{Dial, KEEPALIVE};
use super::hub::Hub;
use super::ledger::{Form, Request};
use super::login::{not_connected, without_arguments};
use super::supervisor::{Role, Task};
use crate::error::ConfigError;
use crate::protocol::{Arg, Call, Value};
use crate::transport::redis::endpoint::{Address, Endpoint};
use crate::transport::{CallError, Fault, Sink, sort_error_reply};

/// Events that `fred` keeps for a slow reader: it has a buffer of this size for each kind of them.
const EVENTS: usize = 32;

/// As many on a connection for messages.
const MESSAGES: usize = 8_192;

/// Makes clients as this one is: of its configuration and its resolver.
#[derive(Clone)]
pub(crate) struct Pattern(Client);

/// A client of `fred` that is connected.
pub(super) struct Peer {
    client: Client,
    /// Ends when the connection does.
    router: Task<Result<(), Error>>,
    messages: Receiver<Message>,
}

impl Pattern {
    /// Checks that it is about one server; says which.
    pub(crate) fn of(client: &Client) -> Result<(Dial, Endpoint), ConfigError> {
        let config = client.client_config();
        let address = match &config.server {
            ServerConfig::Centralized { server } => {
                let (host, port) = (server.host.to_string(), server.port);
                if config.uses_tls() {
                    Address::Tls { host, port }
                } else {
                    Address::Tcp { host, port }
                }
            }
            #[cfg(unix)]
            ServerConfig::Unix { path } => Address::Unix { path: path.clone() },
            ServerConfig::Sentinel { .. } | ServerConfig::Clustered { .. } => {
                let reason = "Sentinel and Cluster are not supported by this version; \
                              give one server as `ServerConfig::Centralized`";
                return Err(ConfigError::Fred { reason });
            }
        };
        let endpoint = Endpoint::without_login(address, config.database);
        Ok((Dial::Fred(Pattern(client.clone())), endpoint))
    }

    /// Connects and logs in. Time is limited by whoever waits; no step takes longer than `limit`.
    pub(super) async fn open(
        &self,
        role: Role,
        limit: Duration,
        name: &str,
    ) -> Result<Peer, CallError> {
        // Messages and the answers to PING come on one connection.
        let version = RespVersion::RESP3;
        let config = Config {
            fail_fast: true,
            blocking: Blocking::Block,
            version,
            ..self.0.client_config()
        };
        let performance = PerformanceConfig {
            broadcast_channel_capacity: if role == Role::Messages { MESSAGES } else { EVENTS },
            ..PerformanceConfig::default()
        };
        let client = Client::new(config, Some(performance), Some(connection(limit)), None);
        client.inner().set_resolver(self.0.inner().get_resolver().await).await;
        let (messages, mut up) = (client.message_rx(), client.reconnect_rx());
        let mut router = Task(client.connect());
        tokio::select! {
            biased;
            _ = up.recv() => {}
            ended = &mut router.0 => return Err(match ended {
                Ok(Err(error)) => not_let_in(&error),
                _ => not_connected("the task of fred ended"),
            }),
        }
        // fred takes a connection that is closed during the login for a good one, and the name is
        // wanted anyway. A server may refuse the name.
        match send(&client, "CLIENT", vec!["SETNAME".into(), name.into()]).await {
            Ok(_) => Ok(Peer { client, router, messages }),
            Err(fault) => Err(not_connected(&fault.0)),
        }
    }
}

fn connection(limit: Duration) -> ConnectionConfig {
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 2);
    ConnectionConfig {
        connection_timeout: limit,
        // HELLO, AUTH, SELECT: they hold up everything else on the connection.
        internal_command_timeout: limit,
        // A script is sent once. The session decides whether to repeat it.
        max_command_attempts: 1,
        // A bounded queue can end the client for good when the connection dies.
        max_command_buffer_len: 0,
        // fred fails the connection if CLIENT SETNAME fails; ours may fail.
        auto_client_setname: false,
        tcp: TcpConfig { nodelay: Some(true), keepalive: Some(keepalive), ..TcpConfig::default() },
        ..ConnectionConfig::default()
    }
}

/// Sorts the error of a connection attempt: `fred` mixes its own with answers to HELLO and SELECT.
fn not_let_in(error: &Error) -> CallError {
    let text = without_arguments(error.details());
    let is_reply = text.split_once(' ').is_some_and(|(code, _)| {
        code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
    });
    match error.kind() {
        ErrorKind::Auth => CallError::Refused(Fault(text.to_owned())),
        ErrorKind::Unknown | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand if is_reply => {
            sort_error_reply(text)
        }
        _ => not_connected(text),
    }
}

/// Carries requests to `fred` and back until the connection is of no use, and says why.
pub(super) async fn drive(
    connection: Arc<Connection>,
    peer: Peer,
    hub: Arc<Hub>,
    sink: Arc<dyn Sink>,
) -> Fault {
    let Peer { client, mut router, mut messages } = peer;
    let mut talk = Talk { client, asked: VecDeque::new(), tokens: 0 };
    tokio::select! {
        biased;
        // First, so that what was answered before the end is told.
        fault = poll_fn(|cx| talk.poll(cx, &connection, &hub, &*sink)) => fault,
        () = deliver(&mut messages, &*sink) => Fault("fred ended".into()),
        ended = &mut router.0 => match ended {
            Ok(Err(error)) => lost(&error),
            Ok(Ok(())) | Err(_) => Fault("the task of fred ended".into()),
        },
    }
}

/// Brings messages to the sink. Ends with the client.
async fn deliver(messages: &mut Receiver<Message>, sink: &dyn Sink) {
    loop {
        match messages.recv().await {
            Ok(message) => {
                sink.message(&message.channel, message.value.as_bytes().unwrap_or_default());
            }
            Err(RecvError::Lagged(_)) => sink.missed(),
            Err(RecvError::Closed) => return,
        }
    }
}

struct Talk {
    client: Client,
    /// In the order of the ledger, which is that of the wire.
    asked: VecDeque<Asked>,
    /// Of the PINGs.
    tokens: u64,
}

/// A request that `fred` has, and what a server would answer. An error is the end.
struct Asked {
    subscribes: Option<Arc<str>>,
    answer: MaybeDone<Coming>,
}

/// Boxed: futures of `fred` have several kilobytes.
type Coming = Pin<Box<dyn Future<Output = Result<Incoming, Fault>> + Send>>;

impl Talk {
    /// Ready when the connection is of no use any more.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        hub: &Hub,
        sink: &dyn Sink,
    ) -> Poll<Fault> {
        while let Poll::Ready(mut asked) = connection.poll_take(cx, |request| self.ask(request)) {
            // The first poll sends it.
            let _ = Pin::new(&mut asked.answer).poll(cx);
            self.asked.push_back(asked);
        }
        while let Some(Asked { subscribes, answer }) = self.asked.front_mut() {
            let mut answer = Pin::new(answer);
            ready!(answer.as_mut().poll(cx));
            let incoming = match answer.take_output().expect("BUG: an answer is taken once") {
                Ok(incoming) => incoming,
                Err(fault) => return Poll::Ready(fault),
            };
            let refusal = match (subscribes.take(), &incoming) {
                (Some(channel), Incoming::Reply(Err(text))) => Some((channel, text.clone())),
                _ => None,
            };
            self.asked.pop_front();
            if let Some((channel, text)) = &refusal
                && let CallError::Refused(_) = sort_error_reply(text)
            {
                // It would be refused on the next connection, too, and end that.
                hub.unsubscribe(channel);
            }
            if let Err(fault) = connection.hear(incoming, hub, sink) {
                return Poll::Ready(fault);
            }
            if let Some((_, text)) = refusal {
                return Poll::Ready(Fault(text));
            }
        }
        Poll::Pending
    }

    #[expect(clippy::large_futures, reason = "each is boxed here")]
    fn ask(&mut self, request: &Request) -> Asked {
        self.tokens += 1;
        let (client, token) = (self.client.clone(), self.tokens.to_string());
        let mut subscribes = None;
        let answer: Coming = match request {
            Request::Run(run) => {
                let (command, script) = if run.form == Form::Text {
                    ("EVAL", run.call.script.text)
                } else {
                    ("EVALSHA", run.call.script.sha1())
                };
                let words = words(script, &run.call);
                Box::pin(async move { send(&client, command, words).await.map(Incoming::Reply) })
            }
            Request::Ping(_) => {
                Box::pin(async move { ping(&client, token).await.map(Incoming::Reply) })
            }
            Request::Listen(listen) => {
                let channel = subscribes.insert(listen.channel.clone()).clone();
                Box::pin(async move {
                    // Both in one poll: an error that comes when nobody waits for an answer is
                    // dropped, so the PING must be there before the server can refuse.
                    let order = client.subscribe(channel.to_string());
                    let (given, pong) = join(order, ping(&client, token)).await;
                    given.map_err(|error| lost(&error))?;
                    Ok(match pong? {
                        Ok(_) => confirmed("subscribe", &channel),
                        refused => Incoming::Reply(refused),
                    })
                })
            }
            Request::Unlisten(channel) => {
                let channel = channel.clone();
                Box::pin(async move {
                    let gone = client.unsubscribe(channel.to_string()).await;
                    gone.map_err(|error| lost(&error))?;
                    Ok(confirmed("unsubscribe", &channel))
                })
            }
        };
        Asked { subscribes, answer: maybe_done(answer) }
    }
}

fn confirmed(kind: &str, channel: &str) -> Incoming {
    Incoming::Push(vec![Value::Text(kind.into()), Value::Text(channel.into()), Value::Int(0)])
}

/// `Ok`: our token, so everything that was sent before has been answered; or an error answer.
async fn ping(client: &Client, token: String) -> Result<Answer, Fault> {
    match send(client, "PING", vec![token.as_str().into()]).await? {
        Ok(Value::Text(text)) if text == token => Ok(Ok(Value::Nil)),
        Ok(_) => Err(Fault("answers no longer belong to their commands".into())),
        Err(text) => Ok(Err(text)),
    }
}

/// An answer of the server. Commands are sent raw, so that it is never mistaken for an error of `fred`.
type Answer = Result<Value, String>;

async fn send(client: &Client, command: &'static str, words: Vec<Word>) -> Result<Answer, Fault> {
    let command = CustomCommand::new_static(command, ClusterHash::Random, false);
    Box::pin(client.custom_raw(command, words)).await.map(value).map_err(|error| lost(&error))
}

fn lost(error: &Error) -> Fault {
    Fault(format!("the connection was lost: {error}"))
}

/// The words of EVAL and EVALSHA.
fn words(script: &'static str, call: &Call) -> Vec<Word> {
    let mut words = Vec::with_capacity(2 + call.keys.len() + call.args.len());
    words.push(Word::from_static_str(script));
    words.push(call.keys.len().to_string().into());
    words.extend(call.keys.iter().map(|key| Word::from(key.as_ref())));
    words.extend(call.args.iter().map(|argument| match argument {
        Arg::Int(number) => Word::Integer(*number),
        Arg::Text(text) => Word::from(text.as_ref()),
    }));
    words
}

/// The text of an error answer, if the frame is one or holds one.
fn value(frame: Resp3Frame) -> Answer {
    // Copied: a slice would keep the whole read buffer alive.
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let all = |items: Vec<Resp3Frame>| items.into_iter().map(value).collect::<Result<_, _>>();
    Ok(match frame {
        Resp3Frame::Number { data, .. } => Value::Int(data),
        // Hello is only ever sent by a client.
        Resp3Frame::Null | Resp3Frame::Hello { .. } => Value::Nil,
        Resp3Frame::BlobString { data, .. }
        | Resp3Frame::SimpleString { data, .. }
        | Resp3Frame::VerbatimString { data, .. }
        | Resp3Frame::BigNumber { data, .. }
        | Resp3Frame::ChunkedString(data) => Value::Text(text(&data)),
        Resp3Frame::Array { data, .. } | Resp3Frame::Push { data, .. } => Value::Array(all(data)?),
        Resp3Frame::Set { data, .. } => Value::Array(all(data.into_iter().collect())?),
        Resp3Frame::Map { data, .. } => {
            Value::Array(all(data.into_iter().flat_map(|(key, item)| [key, item]).collect())?)
        }
        Resp3Frame::Boolean { data, .. } => Value::Int(data.into()),
        Resp3Frame::Double { data, .. } => Value::Text(data.to_string()),
        Resp3Frame::SimpleError { data, .. } => return Err(data.to_string()),
        Resp3Frame::BlobError { data, .. } => return Err(text(&data)),
    })
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Its configuration has the password.
        f.write_str("Pattern")
    }
}
