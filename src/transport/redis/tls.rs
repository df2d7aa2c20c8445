//! TLS by rustls, with the certificates that the system trusts.

use std::io;
use std::sync::Arc;

use tokio::net::TcpStream;
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
        // The provider is named: `ClientConfig::builder()` panics in programs that also link another.
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

    pub(super) async fn connect(&self, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        self.connector.connect(self.name.clone(), stream).await
    }
}

fn refused(text: &str) -> CallError {
    CallError::Refused(Fault(text.to_owned()))
}
