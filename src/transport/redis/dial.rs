//! How a server is reached: a stream of bytes there and back, whatever carries it.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::FuturesUnordered;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::Handle;
use tokio::time::sleep;

use super::supervisor::Task;
use crate::transport::CallError;
use crate::transport::redis::endpoint::{Address, Endpoint};

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// So that a router which forgets silent connections does not forget ours.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);

/// How long an address of a name may be silent before the next one is tried beside it.
const SILENT_MAX: Duration = Duration::from_millis(250);

/// Makes streams to one server.
#[derive(Clone)]
pub(crate) enum Dial {
    Tcp {
        host: String,
        port: u16,
    },
    #[cfg(feature = "tls")]
    Tls {
        host: String,
        port: u16,
        tls: super::tls::Tls,
    },
    #[cfg(unix)]
    Unix(std::path::PathBuf),
    /// By a client that has streams of its own: `Dial::connect` has none.
    #[cfg(feature = "fred")]
    Fred(super::fred::Pattern),
    /// In this process.
    #[cfg(any(test, feature = "test-util"))]
    Memory(std::sync::Arc<dyn Fn() -> io::Result<(Reader, Writer)> + Send + Sync>),
}

impl Dial {
    pub(crate) fn to(endpoint: &Endpoint) -> Result<Self, CallError> {
        match endpoint.address() {
            Address::Tcp { host, port } => Ok(Dial::Tcp { host: host.clone(), port: *port }),
            #[cfg(feature = "tls")]
            Address::Tls { host, port } => {
                let tls = super::tls::Tls::with_system_roots(host)?;
                Ok(Dial::Tls { host: host.clone(), port: *port, tls })
            }
            #[cfg(not(feature = "tls"))]
            Address::Tls { .. } => Err(refused("rediss:// needs the feature `tls`")),
            #[cfg(unix)]
            Address::Unix { path } => Ok(Dial::Unix(path.clone())),
            #[cfg(not(unix))]
            Address::Unix { .. } => Err(refused("no Unix sockets on this platform")),
        }
    }

    /// Resolves and connects. Time is limited by whoever waits.
    ///
    /// Names are resolved by a blocking thread of `names`: those of the caller's runtime may all be
    /// taken, even by tasks that wait for this connection.
    pub(super) async fn connect(&self, names: &Handle) -> io::Result<(Reader, Writer)> {
        match self {
            Dial::Tcp { host, port } => {
                let (reader, writer) = tcp(host, *port, names).await?.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            #[cfg(feature = "tls")]
            Dial::Tls { host, port, tls } => {
                let stream = tls.connect(tcp(host, *port, names).await?).await?;
                let (reader, writer) = super::tls::split(stream);
                Ok((Box::new(reader), Box::new(writer)))
            }
            #[cfg(unix)]
            Dial::Unix(path) => {
                let (reader, writer) = tokio::net::UnixStream::connect(path).await?.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            #[cfg(feature = "fred")]
            Dial::Fred(_) => Err(io::ErrorKind::Unsupported.into()),
            #[cfg(any(test, feature = "test-util"))]
            Dial::Memory(dial) => dial(),
        }
    }
}

async fn tcp(host: &str, port: u16, names: &Handle) -> io::Result<TcpStream> {
    // An IPv6 address has brackets in a URL, and none where names are resolved.
    let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
    let resolve = async move { lookup_host((host, port)).await.map(Vec::from_iter) };
    let addresses = (&mut Task(names.spawn(resolve)).0).await??;
    let stream = connect_first(addresses.into_iter()).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 2);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
}

/// Connects to the first address that answers. One after the other, a dead one would use up the time
/// for all of them.
pub(super) async fn connect_first(
    mut addresses: impl Iterator<Item = SocketAddr>,
) -> io::Result<TcpStream> {
    let mut connecting = FuturesUnordered::new();
    let mut error = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    loop {
        let next = addresses.next();
        let is_last = next.is_none();
        connecting.extend(next.map(TcpStream::connect));
        tokio::select! {
            biased;
            outcome = connecting.next() => match outcome {
                Some(Ok(stream)) => return Ok(stream),
                Some(Err(failed)) => error = failed,
                None => return Err(error),
            },
            () = sleep(SILENT_MAX), if !is_last => {}
        }
    }
}

#[cfg(any(not(feature = "tls"), not(unix)))]
fn refused(text: &str) -> CallError {
    CallError::Refused(crate::transport::Fault(text.to_owned()))
}

impl fmt::Debug for Dial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Dial::Tcp { .. } => "Tcp",
            #[cfg(feature = "tls")]
            Dial::Tls { .. } => "Tls",
            #[cfg(unix)]
            Dial::Unix(_) => "Unix",
            #[cfg(feature = "fred")]
            Dial::Fred(_) => "Fred",
            #[cfg(any(test, feature = "test-util"))]
            Dial::Memory(_) => "Memory",
        })
    }
}
