//! TLS by rustls: trusted authorities, the client certificate, and the texts of errors.

mod options;
mod pems;

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf, ReadHalf, WriteHalf};
use tokio::runtime::Handle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_rustls::rustls::pki_types::ServerName;
use tokio_rustls::rustls::{
    AlertDescription as Alert, ClientConfig, Error as TlsError, RootCertStore,
};

use self::pems::Pems;
use super::deployment::Deployment;
use super::endpoint::Endpoint;
use crate::call_error::{CallError, Fault};
use crate::setting_error::SettingError;
use crate::sync::Mutex;

pub use self::options::TlsOptions;

/// The TLS state that all connections of a client share, for any host. Clones are cheap.
#[derive(Clone)]
#[expect(missing_debug_implementations, reason = "it has private keys")]
pub struct Tls(Arc<TlsState>);

struct TlsState {
    options: TlsOptions,
    /// The authorities that the system trusts, read once. `None` if the options name others.
    system: Option<RootCertStore>,
    current: Mutex<Current>,
}

/// The last good contents of the files, with their configuration, which also stores sessions for
/// resumption.
struct Current {
    pems: Pems,
    config: Arc<ClientConfig>,
}

/// Why changed or missing files were not used.
type NotUsed = Option<Arc<str>>;

impl Tls {
    /// Reads certificates and keys on a blocking thread of `runtime`.
    ///
    /// # Errors
    ///
    /// [`SettingError::Tls`].
    pub async fn load(options: TlsOptions, runtime: &Handle) -> Result<Self, SettingError> {
        let loaded = runtime
            .spawn_blocking(move || Tls::load_blocking(options))
            .await;
        loaded.unwrap_or_else(|error| Err(unusable(error.to_string())))
    }

    pub(super) fn load_blocking(options: TlsOptions) -> Result<Self, SettingError> {
        if let Some(name) = &options.server_name {
            parse_name(name).map_err(|error| unusable(format!("server_name: {error}")))?;
        }
        let system = options
            .uses_system()
            .then(system_authorities)
            .transpose()
            .map_err(unusable)?;
        let pems = Pems::read(&options).map_err(unusable)?;
        let config = Arc::new(pems.config(&options, system.as_ref()).map_err(unusable)?);
        let current = Mutex::new(Current { pems, config });
        Ok(Tls(Arc::new(TlsState {
            options,
            system,
            current,
        })))
    }

    /// The name that the certificate of a host must have.
    pub(super) fn name_of(&self, host: &str) -> Result<ServerName<'static>, CallError> {
        let name = self.0.options.server_name.as_deref().unwrap_or(host);
        parse_name(name).map_err(|text| CallError::Refused(Fault(text)))
    }

    /// Checks that a certificate can name each host of a URL.
    ///
    /// # Errors
    ///
    /// [`SettingError::Url`].
    pub fn can_name_all(&self, deployment: &Deployment) -> Result<(), SettingError> {
        let has_name = |endpoint: &Endpoint| self.name_of(&endpoint.host_port().host).is_ok();
        if deployment.endpoints.iter().all(has_name) {
            return Ok(());
        }
        let reason = "a host that no certificate can name; write a DNS name or an IP address";
        Err(SettingError::Url {
            reason: reason.to_owned(),
        })
    }

    pub(super) async fn connect<S>(
        &self,
        name: ServerName<'static>,
        stream: S,
        runtime: &Handle,
    ) -> io::Result<(TlsReader<S>, TlsWriter<S>)>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let (config, not_used) = self.renewed(runtime).await;
        let connected = TlsConnector::from(config).connect(name, stream).await;
        let stream = connected.map_err(|error| explained(error, not_used.as_deref()))?;
        let (reader, writer) = tokio::io::split(stream);
        Ok((TlsReader { reader, not_used }, TlsWriter(writer)))
    }

    /// The configuration for a new connection, from what the files contain now.
    async fn renewed(&self, runtime: &Handle) -> (Arc<ClientConfig>, NotUsed) {
        let mut not_used = None;
        if self.0.options.has_files() {
            let shared = self.0.clone();
            let renewed = runtime.spawn_blocking(move || shared.renew()).await;
            // Without a runtime, the client is being dropped.
            if let Ok(Err(why)) = renewed {
                not_used = Some(format!("; changed files were not used: {why}").into());
            }
        }
        (self.0.current.lock().config.clone(), not_used)
    }
}

impl TlsState {
    fn renew(&self) -> Result<(), String> {
        let pems = Pems::read(&self.options)?;
        if self.current.lock().pems != pems {
            let config = Arc::new(pems.config(&self.options, self.system.as_ref())?);
            *self.current.lock() = Current { pems, config };
        }
        Ok(())
    }
}

fn system_authorities() -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    let found = rustls_native_certs::load_native_certs();
    // Some of the hundreds of system certificates may be unreadable. The others still count.
    let (usable, _) = roots.add_parsable_certificates(found.certs);
    if usable == 0 {
        return Err("the system has no root certificates for TLS; give some with `ca_file`".into());
    }
    Ok(roots)
}

fn parse_name(host: &str) -> Result<ServerName<'static>, String> {
    // The options may have an IPv6 address with its brackets.
    let host = host.trim_matches(['[', ']']);
    ServerName::try_from(host.to_owned()).map_err(|error| error.to_string())
}

fn unusable(reason: String) -> SettingError {
    SettingError::Tls { reason }
}

/// Explains a TLS error: which side did not accept which certificate.
fn explained(error: io::Error, not_used: Option<&str>) -> io::Error {
    let tls = error.get_ref().and_then(|source| source.downcast_ref());
    let what = match tls {
        Some(TlsError::InvalidCertificate(_)) => "the server's certificate is not accepted: ",
        Some(TlsError::InvalidMessage(_)) => "the server does not answer in TLS: ",
        Some(TlsError::AlertReceived(Alert::CertificateRequired)) => {
            "the server requires a client certificate: "
        }
        Some(TlsError::AlertReceived(
            Alert::AccessDenied
            | Alert::BadCertificate
            | Alert::CertificateExpired
            | Alert::CertificateRevoked
            | Alert::CertificateUnknown
            | Alert::UnknownCA
            | Alert::UnsupportedCertificate,
        )) => "the server does not accept the client's certificate: ",
        _ => "",
    };
    if what.is_empty() && not_used.is_none() {
        return error;
    }
    io::Error::new(
        error.kind(),
        format!("{what}{error}{}", not_used.unwrap_or_default()),
    )
}

/// A reader that explains TLS errors. In TLS 1.3, a server may refuse the client's certificate
/// after the client has begun to use the connection.
pub(super) struct TlsReader<S> {
    reader: ReadHalf<TlsStream<S>>,
    not_used: NotUsed,
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for TlsReader<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.reader).poll_read(cx, buffer);
        read.map_err(|error| explained(error, self.not_used.as_deref()))
    }
}

/// A writer of one TLS record at a time. A failed write of several records would report that
/// nothing was taken, although some records may have been sent. A failed write of one record has
/// sent none that the server can read.
pub(super) struct TlsWriter<S>(WriteHalf<TlsStream<S>>);

/// The most bytes in a record (RFC 8446, section 5.1).
const RECORD_MAX: usize = 1 << 14;

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for TlsWriter<S> {
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
