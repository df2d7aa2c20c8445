//! How a server is reached: by TCP, TLS, a Unix socket, in memory, or through `fred`.

use std::fmt;
use std::io;

use tokio::runtime::Handle;

use super::stream::{Reader, Writer, tcp};
use crate::transport::CallError;
use crate::transport::redis::endpoint::{Address, Endpoint};

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
    /// The client `fred` opens its own streams: [`Dial::connect`] does not.
    #[cfg(feature = "fred")]
    Fred(super::fred::FredTemplate),
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

    /// Resolves and connects. The caller limits the time.
    ///
    /// Hosts are resolved on `resolver`: the blocking threads of the caller's runtime may all be taken,
    /// even by tasks that wait for this connection.
    pub(super) async fn connect(&self, resolver: &Handle) -> io::Result<(Reader, Writer)> {
        match self {
            Dial::Tcp { host, port } => {
                let (reader, writer) = tcp(host, *port, resolver).await?.into_split();
                Ok((Box::new(reader), Box::new(writer)))
            }
            #[cfg(feature = "tls")]
            Dial::Tls { host, port, tls } => {
                let stream = tls.connect(tcp(host, *port, resolver).await?).await?;
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
