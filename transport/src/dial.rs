//! How a server is reached: by TCP, TLS, a Unix socket, or a stream that a function opens.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::runtime::Handle;
use tokio::sync::Notify;

use super::stream::{Reader, Writer, addresses, tcp};
use crate::call_error::{CallError, Fault};
use crate::endpoint::{Address, Endpoint};
use crate::host_port::HostPort;
use crate::identity::Identity;

#[cfg(feature = "tls")]
pub use super::tls::Tls;

/// A type without values, because no endpoint needs TLS without the feature `tls`.
#[cfg(not(feature = "tls"))]
#[derive(Clone, Copy, Debug)]
pub enum NoTls {}

#[cfg(not(feature = "tls"))]
pub use self::NoTls as Tls;

/// Makes streams to one server.
#[derive(Clone)]
pub(crate) enum Dial {
    Tcp(HostPort),
    #[cfg(feature = "tls")]
    Tls {
        at: HostPort,
        tls: Tls,
        /// What the server's certificate must name.
        name: tokio_rustls::rustls::pki_types::ServerName<'static>,
    },
    #[cfg(unix)]
    Unix(std::path::PathBuf),
    Stream(StreamDialer, String),
}

impl Dial {
    /// `tls` must be given if the endpoint needs it. If it is missing, this fails, so a connection
    /// is never plain by mistake.
    pub(crate) fn to(endpoint: &Endpoint, tls: Option<&Tls>) -> Result<Self, CallError> {
        match (endpoint.address(), tls) {
            (Address::Tcp(at), _) => Ok(Dial::Tcp(at.clone())),
            (Address::Tls(_), None) => Err(refused("there are no TLS settings")),
            #[cfg(feature = "tls")]
            (Address::Tls(at), Some(tls)) => Ok(Dial::Tls {
                at: at.clone(),
                tls: tls.clone(),
                name: tls.name_of(endpoint.certified(&at.host))?,
            }),
            #[cfg(not(feature = "tls"))]
            (Address::Tls(_), Some(never)) => match *never {},
            #[cfg(unix)]
            (Address::Unix(path), _) => Ok(Dial::Unix(path.clone())),
            #[cfg(not(unix))]
            (Address::Unix(_), _) => Err(refused("no Unix sockets on this platform")),
        }
    }

    /// Whether a server that speaks only RESP2 cannot be used.
    pub(super) fn needs_resp3(&self) -> bool {
        matches!(self, Dial::Stream(streams, _) if streams.needs_resp3)
    }

    /// A plain server that gets a TLS handshake may wait for more of what it takes for a command.
    pub(super) fn hint_at_silence(&self) -> &'static str {
        match self {
            #[cfg(feature = "tls")]
            Dial::Tls { .. } => "; does this port speak TLS?",
            #[cfg(unix)]
            Dial::Unix(_) => "",
            Dial::Tcp(_) | Dial::Stream(..) => "",
        }
    }

    /// The addresses of the host, as another connection may have learned up to `age_max` ago. None
    /// if the server has no name.
    pub(super) async fn addresses(
        &self,
        resolver: &Handle,
        age_max: Duration,
    ) -> io::Result<Vec<SocketAddr>> {
        let at = match self {
            Dial::Tcp(at) => at,
            #[cfg(feature = "tls")]
            Dial::Tls { at, .. } => at,
            #[cfg(unix)]
            Dial::Unix(_) => return Ok(Vec::new()),
            Dial::Stream(..) => return Ok(Vec::new()),
        };
        addresses(at, resolver, age_max).await
    }

    /// Whether the host of the server has addresses now, and `peer` is none of them.
    pub(super) async fn has_left(&self, peer: SocketAddr, resolver: &Handle) -> bool {
        let known = self.addresses(resolver, Duration::ZERO).await;
        known.is_ok_and(|known| !known.is_empty() && !known.contains(&peer))
    }

    /// Connects, and returns the address that was reached as well. The caller ends the attempt
    /// after `limit`.
    ///
    /// Files are read on `resolver`: the blocking threads of the caller's runtime may all be taken,
    /// even by tasks that wait for this connection.
    pub(super) async fn connect(
        &self,
        addresses: &[SocketAddr],
        #[cfg_attr(
            not(feature = "tls"),
            expect(unused_variables, reason = "only TLS reads files")
        )]
        resolver: &Handle,
        limit: Duration,
    ) -> io::Result<(Reader, Writer, Option<SocketAddr>)> {
        match self {
            Dial::Tcp(_) => {
                let stream = tcp(addresses, limit).await?;
                let peer = stream.peer_addr().ok();
                let (reader, writer) = stream.into_split();
                Ok((Box::new(reader), Box::new(writer), peer))
            }
            #[cfg(feature = "tls")]
            Dial::Tls { tls, name, .. } => {
                let stream = tcp(addresses, limit).await?;
                let peer = stream.peer_addr().ok();
                let (reader, writer) = tls.connect(name.clone(), stream, resolver).await?;
                Ok((Box::new(reader), Box::new(writer), peer))
            }
            #[cfg(unix)]
            Dial::Unix(path) => {
                let (reader, writer) = tokio::net::UnixStream::connect(path).await?.into_split();
                Ok((Box::new(reader), Box::new(writer), None))
            }
            Dial::Stream(dialer, address) => {
                let (reader, writer) = dialer.dial(address)?;
                Ok((reader, writer, None))
            }
        }
    }
}

/// Opens streams other than sockets: to the embedded engine, through another client of Redis, or to
/// the fake server of a test. The argument is `host:port`, or the path of a Unix socket.
#[derive(Clone)]
pub struct StreamDialer {
    dial: Arc<DialByText>,
    /// Only for an engine in this process: notified when the engine can be reached again.
    back: Option<Arc<Notify>>,
    /// Only for an engine in this process: the run id of the server.
    run_id: Option<Arc<dyn Fn() -> String + Send + Sync>>,
    /// Whether the maker of the streams speaks RESP3 only.
    needs_resp3: bool,
}

type DialByText = dyn Fn(&str) -> io::Result<(Reader, Writer)> + Send + Sync;

impl StreamDialer {
    /// Creates a dialer. `dial` opens a stream and returns its two halves.
    pub fn new<R, W>(dial: impl Fn(&str) -> io::Result<(R, W)> + Send + Sync + 'static) -> Self
    where
        R: AsyncRead + Send + Unpin + 'static,
        W: AsyncWrite + Send + Unpin + 'static,
    {
        let dial = move |address: &str| -> io::Result<(Reader, Writer)> {
            let (reader, writer) = dial(address)?;
            Ok((Box::new(reader), Box::new(writer)))
        };
        StreamDialer {
            dial: Arc::new(dial),
            back: None,
            run_id: None,
            needs_resp3: false,
        }
    }

    /// Marks the dialer as leading to an engine in this process. The client reconnects at once
    /// whenever `back` is notified. `run_id` tells the run of the engine, because the first
    /// connections have no handshake.
    #[must_use = "it returns the dialer"]
    pub fn in_process(
        mut self,
        back: Arc<Notify>,
        run_id: impl Fn() -> String + Send + Sync + 'static,
    ) -> Self {
        self.back = Some(back);
        self.run_id = Some(Arc::new(run_id));
        self
    }

    /// Marks the dialer as one that cannot reach a server without RESP3.
    #[must_use = "it returns the dialer"]
    pub fn in_resp3_only(mut self) -> Self {
        self.needs_resp3 = true;
        self
    }

    pub(super) fn server(&self) -> Identity {
        let run_id = self.run_id.as_ref().map(|run_id| run_id());
        Identity::of_run(run_id.as_deref())
    }

    pub(super) fn back(&self) -> Option<&Arc<Notify>> {
        self.back.as_ref()
    }

    pub(crate) fn to(&self, endpoint: &Endpoint) -> Dial {
        Dial::Stream(self.clone(), endpoint.address().to_string())
    }

    pub(super) fn dial(&self, address: &str) -> io::Result<(Reader, Writer)> {
        (self.dial)(address)
    }
}

impl fmt::Debug for StreamDialer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("StreamDialer")
    }
}

fn refused(text: &str) -> CallError {
    CallError::Refused(Fault(text.to_owned()))
}
