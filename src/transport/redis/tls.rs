//! TLS by rustls, with the certificates that the system trusts.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadHalf, WriteHalf};
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{ClientConfig, RootCertStore};

use crate::transport::{CallError, Fault};

#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
    /// What the server's certificate must name.
    name: ServerName<'static>,
}

impl Tls {
    pub(super) fn with_system_roots(host: &str) -> Result<Self, CallError> {
        let mut roots = RootCertStore::empty();
        let found = rustls_native_certs::load_native_certs();
        // Of hundreds of system certificates some may be unreadable; the others still count.
        let (usable, _) = roots.add_parsable_certificates(found.certs);
        if usable == 0 {
            return Err(refused("the system has no root certificates for TLS"));
        }
        Tls::new(host, roots)
    }

    pub(super) fn new(host: &str, roots: RootCertStore) -> Result<Self, CallError> {
        // The provider is named: `ClientConfig::builder()` panics in programs that link two providers.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| refused(&error.to_string()))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        // Certificates name an IPv6 address without the brackets that it has in a URL.
        let name = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(name).map_err(|error| refused(&error.to_string()))?;
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)), name })
    }

    pub(super) async fn connect<S>(&self, stream: S) -> io::Result<TlsStream<S>>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        self.connector.connect(self.name.clone(), stream).await
    }
}

/// The two directions of a stream, for independent users.
pub(super) fn split<S>(stream: TlsStream<S>) -> (ReadHalf<TlsStream<S>>, Records<S>)
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let (reader, writer) = tokio::io::split(stream);
    (reader, Records(writer))
}

/// Writes one TLS record at a time. A failed write of several records says that it took nothing, and may
/// have sent the first of them. A failed write of one record has sent none that the server can read.
pub(super) struct Records<S>(WriteHalf<TlsStream<S>>);

/// How many bytes a record holds at most (RFC 8446, section 5.1).
const RECORD_MAX: usize = 1 << 14;

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Records<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let record = &bytes[..bytes.len().min(RECORD_MAX)];
        Pin::new(&mut self.0).poll_write(cx, record)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

fn refused(text: &str) -> CallError {
    CallError::Refused(Fault(text.to_owned()))
}
