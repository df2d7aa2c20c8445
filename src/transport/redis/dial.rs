//! How a server is reached: a stream of bytes there and back, whatever carries it.

use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use crate::config::endpoint::{Address, Endpoint};
use crate::transport::CallError;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// So that a router which forgets silent connections does not forget ours.
pub(super) const KEEPALIVE: Duration = Duration::from_secs(10);

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
    Memory(Arc<dyn Fn() -> io::Result<(Reader, Writer)> + Send + Sync>),
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
    pub(super) async fn connect(&self) -> io::Result<(Reader, Writer)> {
        match self {
            Dial::Tcp { host, port } => {
                let (reader, writer) = tcp(host, *port).await?.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            #[cfg(feature = "tls")]
            Dial::Tls { host, port, tls } => {
                let stream = tls.connect(tcp(host, *port).await?).await?;
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

async fn tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    // An IPv6 address has brackets in a URL, and none where names are resolved.
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let stream = TcpStream::connect((host, port)).await?;
    stream.set_nodelay(true)?;
    let keepalive = TcpKeepalive::new().with_time(KEEPALIVE).with_interval(KEEPALIVE / 2);
    SockRef::from(&stream).set_tcp_keepalive(&keepalive)?;
    Ok(stream)
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
