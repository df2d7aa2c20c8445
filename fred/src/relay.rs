//! A stream to a server through the client `fred`.
//!
//! `fred` gives no access to its stream of bytes, so a task plays the server at the other end of a
//! pipe. It reads the commands of a connection, passes each to a client of `fred`, and writes back
//! the replies and messages. To the connection, its ledger and its handshake, this looks like any
//! other server. The client of `fred` connects once. It repeats no command and never reconnects.
//!
//! # Limits
//!
//! - A command that the pipe has taken may have been sent. Without a reply it is *unknown*, even if
//!   it was never sent.
//! - `fred` flushes each command, which costs one system call each.
//! - `fred` confirms SUBSCRIBE before it is written, and hands a later refusal to any command that
//!   is waiting. So each SUBSCRIBE is sent with a numbered PING. Its reply confirms the channel; an
//!   error instead is the refusal. After a refusal, replies no longer match commands, and the
//!   stream ends.
//! - The server must speak RESP3. In RESP2, `fred` takes every array that begins with `message` for
//!   a message, on all connections. A reply of a script that looks like one would be lost, and the
//!   replies after it would be shifted.
//! - `fred` drops messages that are not taken in time. Then the stream ends, and the next
//!   connection reports that messages may have been missed.
//!
//! # Bounds
//!
//! Two tasks, ours and that of `fred`, which ends with ours. One boxed future for each command
//! without a reply; [`MESSAGES`] messages; [`PIPE`] bytes each way.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::convert::Infallible;
use std::future::{pending, poll_fn};
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Bytes, BytesMut};
use fred::clients::Client;
use fred::error::{Error, ErrorKind};
use fred::interfaces::{ClientLike as _, EventInterface as _, PubsubInterface as _};
use fred::socket2::TcpKeepalive;
use fred::types::config::{Blocking, Config, ConnectionConfig, PerformanceConfig, TcpConfig};
use fred::types::{ClusterHash, CustomCommand, Message, Resp3Frame, RespVersion};
use futures_util::future::{MaybeDone, join, maybe_done};
use leasehold_transport::{AbortOnDrop, StreamDialer, without_secret};
use redis_protocol::resp3::decode::complete::decode_bytes_mut;
use redis_protocol::resp3::encode::complete::extend_encode;
use redis_protocol::resp3::types::Resp3Frame as _;
use tokio::io::{
    AsyncRead, AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, ReadBuf, ReadHalf, WriteHalf,
    duplex, split,
};
use tokio::runtime::Handle;
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Duration;

use crate::frames::{as_push, confirmation};

/// How many messages and other events `fred` queues for a slow reader. It reserves room for all of
/// them.
const MESSAGES: usize = 1_024;

const PIPE: usize = 64 * 1024;

/// Keeps routers from dropping idle connections, as on the sockets of the transport.
const KEEPALIVE: Duration = Duration::from_secs(10);

/// `fred` must not give up first, because the supervisor limits the time of an attempt to connect.
const UNLIMITED: Duration = Duration::from_secs(60 * 60);

/// A dialer that opens streams with the configuration and resolver of `pattern`, on the runtime on
/// which a stream is opened.
pub(crate) fn dialer(pattern: &Client) -> StreamDialer {
    let pattern = pattern.clone();
    let dialer = StreamDialer::new(move |_| {
        let (ours, theirs) = duplex(PIPE);
        let (pipe, writer) = split(ours);
        let task = AbortOnDrop(Handle::current().spawn(serve(pattern.clone(), theirs)));
        Ok((FredReader { pipe, task }, writer))
    });
    dialer.in_resp3_only()
}

/// Reads what the server sent, and finally the reason why the stream ended. Dropping it ends the
/// task.
struct FredReader {
    pipe: ReadHalf<DuplexStream>,
    task: AbortOnDrop<io::Error>,
}

impl AsyncRead for FredReader {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        ready!(Pin::new(&mut self.pipe).poll_read(cx, buffer))?;
        if buffer.filled().len() > before {
            return Poll::Ready(Ok(()));
        }
        let ended = ready!(Pin::new(&mut self.task.0).poll(cx));
        Poll::Ready(Err(ended.unwrap_or_else(io::Error::other)))
    }
}

/// Why the stream ends.
struct Ended {
    why: String,
    /// Whether `why` is an error reply of the server, which must be delivered before the end.
    is_refusal: bool,
}

impl From<Error> for Ended {
    fn from(error: Error) -> Self {
        Ended::because(error.to_string())
    }
}

impl From<io::Error> for Ended {
    fn from(error: io::Error) -> Self {
        Ended::because(error.to_string())
    }
}

impl Ended {
    fn because(why: impl Into<String>) -> Self {
        Ended {
            why: why.into(),
            is_refusal: false,
        }
    }

    /// The server answered this error.
    fn refused(why: String) -> Self {
        Ended {
            why,
            is_refusal: true,
        }
    }
}

/// Plays the server at the other end of the pipe. Returns why that ended.
async fn serve(pattern: Client, pipe: DuplexStream) -> io::Error {
    let (commands, mut replies) = split(pipe);
    let Err(Ended { why, is_refusal }) = relay(&pattern, commands, &mut replies).await;
    if is_refusal {
        let refusal = Resp3Frame::SimpleError {
            data: why.clone().into(),
            attributes: None,
        };
        // The connection may be gone.
        drop(write(&mut replies, &refusal).await);
    }
    io::Error::other(why)
}

async fn relay(
    pattern: &Client,
    mut commands: ReadHalf<DuplexStream>,
    replies: &mut WriteHalf<DuplexStream>,
) -> Result<Infallible, Ended> {
    let (client, mut router, mut messages) = connect(pattern).await?;
    let mut inbox = BytesMut::new();
    let (mut answers, mut number) = (VecDeque::new(), 0_u64);
    loop {
        tokio::select! {
            biased;
            answer = first(&mut answers) => write(replies, &answer?).await?,
            message = messages.recv() => match message {
                Ok(message) => write(replies, &as_push(&message)).await?,
                Err(RecvError::Lagged(_)) => return Err(Ended::because("fred dropped messages")),
                Err(RecvError::Closed) => return Err(Ended::because("fred ended")),
            },
            read = commands.read_buf(&mut inbox) => {
                if read? == 0 {
                    return Err(Ended::because("the connection was given up"));
                }
                while let Some(words) = next_command(&mut inbox)? {
                    number += 1;
                    let mut answer = Box::pin(maybe_done(answer(client.clone(), words, number)));
                    // Poll once before the next command is read: the first poll hands the command
                    // to fred, which keeps the order.
                    poll_fn(|cx| Poll::Ready(answer.as_mut().poll(cx).is_ready())).await;
                    answers.push_back(answer);
                }
            }
            // Keep this branch last, so that replies that arrived before the end are delivered.
            ended = &mut router.0 => match ended {
                Ok(Err(error)) => return Err(error.into()),
                Ok(Ok(())) | Err(_) => return Err(Ended::because("the task of fred ended")),
            },
        }
    }
}

/// The client, the task of its connection, and the incoming messages.
type Connected = (Client, AbortOnDrop<Result<(), Error>>, Receiver<Message>);

/// Connects and logs in. If the server refuses that, the refusal is the reply to the first command.
async fn connect(pattern: &Client) -> Result<Connected, Ended> {
    let config = Config {
        fail_fast: true,
        blocking: Blocking::Block,
        // Messages and replies come on one connection.
        version: RespVersion::RESP3,
        database: None,
        ..pattern.client_config()
    };
    let secret = config.password.clone().unwrap_or_default();
    let performance = PerformanceConfig {
        broadcast_channel_capacity: MESSAGES,
        ..PerformanceConfig::default()
    };
    let client = Client::new(config, Some(performance), Some(connection()), None);
    let resolver = pattern.inner().get_resolver().await;
    client.inner().set_resolver(resolver).await;
    let (messages, mut up) = (client.message_rx(), client.reconnect_rx());
    let mut router = AbortOnDrop(client.connect());
    tokio::select! {
        biased;
        // fred reports success even if the connection was closed during its handshake. Our own
        // handshake detects that.
        _ = up.recv() => Ok((client, router, messages)),
        ended = &mut router.0 => Err(match ended {
            Ok(Err(error)) => {
                let text = without_secret(error.details(), &secret);
                if is_reply(&error) { Ended::refused(text) } else {
                    Ended::because(text)
                }
            }
            Ok(Ok(())) | Err(_) => Ended::because("the task of fred ended"),
        }),
    }
}

fn connection() -> ConnectionConfig {
    let keepalive = TcpKeepalive::new()
        .with_time(KEEPALIVE)
        .with_interval(KEEPALIVE / 2);
    ConnectionConfig {
        connection_timeout: UNLIMITED,
        internal_command_timeout: UNLIMITED,
        // A script is sent once. The session decides whether to repeat it.
        max_command_attempts: 1,
        // A bounded queue can end the client for good when the connection dies.
        max_command_buffer_len: 0,
        auto_client_setname: false,
        tcp: TcpConfig {
            nodelay: Some(true),
            keepalive: Some(keepalive),
            ..TcpConfig::default()
        },
        ..ConnectionConfig::default()
    }
}

/// Whether the error of an attempt to connect is a reply of the server. `fred` mixes its own errors
/// with those.
fn is_reply(error: &Error) -> bool {
    let has_code = error.details().split_once(' ').is_some_and(|(code, _)| {
        code.len() > 1 && code.bytes().all(|byte| byte.is_ascii_uppercase())
    });
    match error.kind() {
        ErrorKind::Auth => true,
        ErrorKind::Unknown | ErrorKind::InvalidArgument | ErrorKind::InvalidCommand => has_code,
        _ => false,
    }
}

/// The next whole command in the buffer. Its words are bytes: a key need not be UTF-8.
fn next_command(inbox: &mut BytesMut) -> Result<Option<Vec<Bytes>>, Ended> {
    let word = |word| match word {
        Resp3Frame::BlobString { data, .. } => data,
        _ => unreachable!("BUG: a word is a string"),
    };
    match decode_bytes_mut(inbox) {
        Ok(Some((Resp3Frame::Array { data: words, .. }, ..))) => {
            Ok(Some(words.into_iter().map(word).collect()))
        }
        Ok(None) => Ok(None),
        Ok(Some(_)) => Err(Ended::because("a command is an array")),
        Err(error) => Err(Ended::because(error.to_string())),
    }
}

type Sent<F> = Pin<Box<MaybeDone<F>>>;

/// The reply to the oldest command. Pending if no command is waiting.
async fn first<F>(answers: &mut VecDeque<Sent<F>>) -> Result<Resp3Frame, Ended>
where
    F: Future<Output = Result<Resp3Frame, Ended>>,
{
    let Some(answer) = answers.front_mut() else {
        return pending().await;
    };
    answer.as_mut().await;
    let reply = answer.as_mut().take_output();
    answers.pop_front();
    reply.expect("BUG: a reply is taken once")
}

/// The reply of the server to a command.
async fn answer(client: Client, words: Vec<Bytes>, number: u64) -> Result<Resp3Frame, Ended> {
    let (command, arguments) = words.split_first().expect("BUG: a command has a name");
    match (&**command, arguments) {
        (b"SUBSCRIBE", [channel]) => {
            let channel = as_text(channel);
            // Both in one poll: fred drops an error that comes while no command waits for a reply,
            // so the PING must be there before the server can refuse.
            let number = number.to_string();
            let asked = [Bytes::from(number.clone())];
            let asked = send(&client, b"PING", &asked);
            let (subscribed, reply) = join(client.subscribe(&*channel), asked).await;
            subscribed?;
            let reply = reply?;
            let text = reply.as_str().unwrap_or_default();
            match &reply {
                _ if text == number => Ok(confirmation("subscribe", &channel)),
                Resp3Frame::SimpleError { .. } | Resp3Frame::BlobError { .. } => {
                    Err(Ended::refused(text.to_owned()))
                }
                _ => Err(Ended::because("replies no longer belong to their commands")),
            }
        }
        (b"UNSUBSCRIBE", [channel]) => {
            let channel = as_text(channel);
            client.unsubscribe(&*channel).await?;
            Ok(confirmation("unsubscribe", &channel))
        }
        _ => Ok(send(&client, command, arguments).await?),
    }
}

/// Sends a command without parsing its reply, so that an error reply is not mistaken for an error
/// of `fred`.
async fn send(client: &Client, command: &[u8], arguments: &[Bytes]) -> Result<Resp3Frame, Error> {
    let command = CustomCommand::new(&*as_text(command), ClusterHash::Random, false);
    client.custom_raw(command, arguments.to_vec()).await
}

/// The names of commands and channels.
fn as_text(bytes: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(bytes)
}

async fn write(replies: &mut WriteHalf<DuplexStream>, frame: &Resp3Frame) -> io::Result<()> {
    let mut bytes = BytesMut::new();
    extend_encode(&mut bytes, frame, false).map_err(io::Error::other)?;
    replies.write_all(&bytes).await
}
