//! A connection that the client `fred` makes, for programs that configure their Redis through it.
//!
//! `fred` writes and reads in a task of its own. Here a client of `fred` is one connection as any
//! other: opened once, used until it is lost, thrown away. It repeats nothing and reconnects to nothing.
//! The driver takes requests out of the ledger, gives each to `fred`, and turns its answer into the
//! frame that a server would have sent: registry, slot and supervisor see no difference.
//!
//! # Limits
//!
//! - A request that `fred` took may have been sent: without a reply it is *unknown*, also if it never
//!   left.
//! - One system call for each request: `fred` flushes each script.
//! - `fred` answers SUBSCRIBE before it is written, and gives a refusal to any command that waits at
//!   that time. So each SUBSCRIBE is followed by a PING with a number: its answer confirms, an error in
//!   its place refuses. A refusal and a foreign number both end the connection, as replies and commands
//!   no longer belong together.
//! - `fred` drops messages that are not taken in time: then [`TransportEvents::missed`] is called.
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

use fred::bytes_utils::Str;
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, EventInterface as _, PubsubInterface as _};
use fred::socket2::TcpKeepalive;
use fred::types::config::{
    Blocking, Config, ConnectionConfig, PerformanceConfig, ServerConfig, TcpConfig,
};
use fred::types::{ClusterHash, CustomCommand, Message, Resp3Frame, RespVersion, Value as Word};
use futures_util::future::{MaybeDone, join, maybe_done};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Duration;

use super::codec::Incoming;
use super::connection::Connection;
use super::credentials::without_secret;
use super::endpoint::{Address, Endpoint};
use super::handshake::not_connected;
use super::identity::Identity;
use super::request::{Request, ScriptForm};
use super::stream::KEEPALIVE;
use super::subscriptions::SubscriptionRegistry;
use super::task::AbortOnDrop;
use crate::error::ConfigError;
use crate::protocol::{Arg, Call, Value};
use crate::transport::{CallError, Fault, Missed, Role, TransportEvents, sort_error_reply};

/// How many events `fred` keeps for a slow reader, of each kind.
const EVENTS: usize = 32;

/// The same on the connection for messages.
const MESSAGES: usize = 8_192;

/// A client whose configuration and resolver the connections take over.
#[derive(Clone)]
pub(crate) struct FredTemplate(Client);

/// A client of `fred` that is connected.
pub(super) struct FredClient {
    client: Client,
    /// Ends when the connection does.
    router: AbortOnDrop<Result<(), Error>>,
    messages: Receiver<Message>,
    pub(super) server: Identity,
}

impl FredTemplate {
    /// Takes the client of a single server, and says which server.
    pub(crate) fn of(client: &Client) -> Result<(Self, Endpoint), ConfigError> {
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
        Ok((
            FredTemplate(client.clone()),
            Endpoint::without_credentials(address, config.database),
        ))
    }

    /// Connects and authenticates. The caller limits the time; no step takes longer than `limit`.
    pub(super) async fn open(
        &self,
        role: Role,
        limit: Duration,
        name: &str,
    ) -> Result<FredClient, CallError> {
        // Messages and the answers to PING come on one connection.
        let version = RespVersion::RESP3;
        let config = Config {
            fail_fast: true,
            blocking: Blocking::Block,
            version,
            ..self.0.client_config()
        };
        let performance = PerformanceConfig {
            broadcast_channel_capacity: if role == Role::Messages {
                MESSAGES
            } else {
                EVENTS
            },
            ..PerformanceConfig::default()
        };
        let client = Client::new(config, Some(performance), Some(connection(limit)), None);
        client
            .inner()
            .set_resolver(self.0.inner().get_resolver().await)
            .await;
        let (messages, mut up) = (client.message_rx(), client.reconnect_rx());
        let mut router = AbortOnDrop(client.connect());
        tokio::select! {
            biased;
            _ = up.recv() => {}
            ended = &mut router.0 => return Err(match ended {
                Ok(Err(error)) => refused(&error).reworded(|text| {
                    let secret = self.0.client_config().password.unwrap_or_default();
                    without_secret(&text, &secret)
                }),
                _ => not_connected("the task of fred ended"),
            }),
        }
        // fred takes a connection that is closed during the handshake for a good one, and the name is
        // wanted anyway. A server may refuse the name.
        match send(&client, "CLIENT", vec!["SETNAME".into(), name.into()]).await {
            Ok(_) => {}
            Err(fault) => return Err(not_connected(&fault.0)),
        }
        // Not every user may ask for it.
        let info = send(&client, "INFO", vec!["server".into()]).await;
        let info = info.map_err(|fault| not_connected(&fault.0))?;
        let server = Identity::of(info.ok().as_ref(), None);
        Ok(FredClient {
            client,
            router,
            messages,
            server,
        })
    }
}

fn connection(limit: Duration) -> ConnectionConfig {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 2);
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
        tcp: TcpConfig {
            nodelay: Some(true),
            keepalive: Some(keepalive),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

/// Sorts the error of a connection attempt: `fred` mixes its own with answers to HELLO and SELECT.
fn refused(error: &Error) -> CallError {
    let text = error.details();
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
    client: FredClient,
    registry: Arc<SubscriptionRegistry>,
    events: Arc<dyn TransportEvents>,
) -> Fault {
    let FredClient {
        client,
        mut router,
        mut messages,
        ..
    } = client;
    let mut driver = Driver {
        client,
        in_flight: VecDeque::new(),
        pings: 0,
    };
    tokio::select! {
        biased;
        // First, so that answers that came before the end are delivered.
        fault = poll_fn(|cx| driver.poll(cx, &connection, &registry, &*events)) => fault,
        () = deliver(&mut messages, &*events) => Fault("fred ended".into()),
        ended = &mut router.0 => match ended {
            Ok(Err(error)) => lost(&error),
            Ok(Ok(())) | Err(_) => Fault("the task of fred ended".into()),
        },
    }
}

/// Reports messages. Ends with the client.
async fn deliver(messages: &mut Receiver<Message>, events: &dyn TransportEvents) {
    loop {
        match messages.recv().await {
            Ok(message) => {
                events.message(
                    &message.channel,
                    message.value.as_bytes().unwrap_or_default(),
                );
            }
            Err(RecvError::Lagged(_)) => events.missed(Missed::All),
            Err(RecvError::Closed) => return,
        }
    }
}

struct Driver {
    client: Client,
    /// In the order of the ledger, in which `fred` writes.
    in_flight: VecDeque<InFlight>,
    /// Numbers the PINGs.
    pings: u64,
}

/// A request that `fred` took, and the frame that a server would answer. An error ends the connection.
struct InFlight {
    subscribes: Option<Arc<str>>,
    answer: MaybeDone<Answering>,
}

/// Boxed: futures of `fred` have several kilobytes.
type Answering = Pin<Box<dyn Future<Output = Result<Incoming, Fault>> + Send>>;

impl Driver {
    /// Ready when the connection is of no use any more.
    fn poll(
        &mut self,
        cx: &mut Context<'_>,
        connection: &Connection,
        registry: &SubscriptionRegistry,
        events: &dyn TransportEvents,
    ) -> Poll<Fault> {
        while let Poll::Ready(mut request) = connection.poll_take(cx, |request| self.send(request))
        {
            // The first poll sends it.
            let _ = Pin::new(&mut request.answer).poll(cx);
            self.in_flight.push_back(request);
        }
        while let Some(InFlight { subscribes, answer }) = self.in_flight.front_mut() {
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
            self.in_flight.pop_front();
            if let Some((channel, text)) = &refusal
                && let CallError::Refused(_) = sort_error_reply(text)
            {
                // The next connection would be refused the channel, too, and end.
                registry.unsubscribe(channel);
            }
            if let Err(fault) = connection.receive(incoming, registry, events) {
                return Poll::Ready(fault);
            }
            if let Some((_, text)) = refusal {
                return Poll::Ready(Fault(text));
            }
        }
        Poll::Pending
    }

    #[expect(clippy::large_futures, reason = "each is boxed here")]
    fn send(&mut self, request: &Request) -> InFlight {
        self.pings += 1;
        let (client, number) = (self.client.clone(), self.pings.to_string());
        let mut subscribes = None;
        let answer: Answering = match request {
            Request::Call(request) => {
                let (command, script) = if request.form == ScriptForm::Text {
                    ("EVAL", request.call.script.text)
                } else {
                    ("EVALSHA", request.call.script.sha1())
                };
                let words = words(script, &request.call);
                Box::pin(async move { send(&client, command, words).await.map(Incoming::Reply) })
            }
            Request::Ping(_) => {
                Box::pin(async move { ping(&client, number).await.map(Incoming::Reply) })
            }
            Request::Subscribe(request) => {
                let channel = subscribes.insert(request.channel.clone()).clone();
                Box::pin(async move {
                    // Both in one poll: fred drops an error that comes while no command waits for an
                    // answer, so the PING must be there before the server can refuse.
                    let outcome = client.subscribe(channel.to_string());
                    let (outcome, pong) = join(outcome, ping(&client, number)).await;
                    outcome.map_err(|error| lost(&error))?;
                    Ok(match pong? {
                        Ok(_) => confirmed("subscribe", &channel),
                        refused => Incoming::Reply(refused),
                    })
                })
            }
            Request::Command(request) => {
                let mut words = request
                    .words
                    .iter()
                    .map(|word| String::from_utf8_lossy(word));
                let command = words.next().unwrap_or_default().into_owned();
                let words = words.map(|word| word.as_ref().into()).collect();
                Box::pin(async move {
                    let reply = send(&client, command, words).await;
                    reply.map(Incoming::Reply)
                })
            }
            // Sharded channels are a cluster's, which fred is not asked for.
            Request::Unsubscribe(channel, _) => {
                let channel = channel.clone();
                Box::pin(async move {
                    let gone = client.unsubscribe(channel.to_string()).await;
                    gone.map_err(|error| lost(&error))?;
                    Ok(confirmed("unsubscribe", &channel))
                })
            }
        };
        InFlight {
            subscribes,
            answer: maybe_done(answer),
        }
    }
}

fn confirmed(kind: &str, channel: &str) -> Incoming {
    Incoming::Push(vec![
        Value::Text(kind.into()),
        Value::Text(channel.into()),
        Value::Int(0),
    ])
}

/// `Ok`: our number, so every earlier command has been answered; or an error answer.
async fn ping(client: &Client, number: String) -> Result<Answer, Fault> {
    match send(client, "PING", vec![number.as_str().into()]).await? {
        Ok(Value::Text(text)) if text == number => Ok(Ok(Value::Text("PONG".into()))),
        Ok(_) => Err(Fault("answers no longer belong to their commands".into())),
        Err(text) => Ok(Err(text)),
    }
}

/// An answer of the server. Commands are sent raw: an answer is never mistaken for an error of `fred`.
type Answer = Result<Value, String>;

async fn send(client: &Client, command: impl Into<Str>, words: Vec<Word>) -> Result<Answer, Fault> {
    let command = CustomCommand::new(command, ClusterHash::Random, false);
    Box::pin(client.custom_raw(command, words))
        .await
        .map(value)
        .map_err(|error| lost(&error))
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
        Resp3Frame::Map { data, .. } => Value::Array(all(data
            .into_iter()
            .flat_map(|(key, item)| [key, item])
            .collect())?),
        Resp3Frame::Boolean { data, .. } => Value::Int(data.into()),
        Resp3Frame::Double { data, .. } => Value::Text(data.to_string()),
        Resp3Frame::SimpleError { data, .. } => return Err(data.to_string()),
        Resp3Frame::BlobError { data, .. } => return Err(text(&data)),
    })
}

impl fmt::Debug for FredTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The configuration has the password.
        f.write_str("FredTemplate")
    }
}
