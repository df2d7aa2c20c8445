//! The user's TLS options: trusted authorities, and the client certificate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Authorities, client certificate and server name for a `rediss://` URL.
///
/// By default, the server's certificate must be signed by an authority that the system trusts, and
/// must name the host of the URL. The client sends no certificate.
///
/// # Files
///
/// Files are read again for each new connection. So a certificate that is renewed in its file
/// (cert-manager, Vault) is used from the next connection on. Open connections are not closed.
///
/// If a file cannot be used (it is missing, or only one of certificate and key was written yet),
/// the last good contents of all files are used instead. If they do not lead to a connection, the
/// error says why the files were not used.
#[derive(Clone, Default)]
#[must_use = "options do nothing until they are given to a builder"]
pub struct TlsOptions {
    /// If empty, those of the system are trusted.
    pub(super) authorities: Vec<Pem>,
    pub(super) client: Option<ClientCertificate>,
    pub(super) server_name: Option<String>,
}

/// A PEM text, or a file that contains it.
#[derive(Clone)]
pub(super) enum Pem {
    /// The text, and the name of the method that received it.
    Text(&'static str, Arc<[u8]>),
    File(PathBuf),
}

#[derive(Clone)]
pub(super) struct ClientCertificate {
    /// The certificate, followed by those of intermediate authorities.
    pub(super) chain: Pem,
    pub(super) key: Pem,
}

impl TlsOptions {
    /// The default options: the system's authorities, no client certificate, and the host's own
    /// name.
    pub fn new() -> Self {
        TlsOptions::default()
    }

    /// Trusts the authorities in this PEM text instead of the system's. Can be called several
    /// times.
    pub fn ca_pem(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.authorities
            .push(Pem::Text("ca_pem", pem.as_ref().into()));
        self
    }

    /// Trusts the authorities in this PEM file instead of the system's. Can be called several
    /// times.
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.authorities.push(Pem::File(path.as_ref().to_owned()));
        self
    }

    /// The client certificate and its private key, as PEM texts.
    ///
    /// The certificates of intermediate authorities follow the client's own in the same text. The
    /// key is an unencrypted PKCS #8, PKCS #1 (RSA) or SEC 1 (EC) key.
    pub fn client_certificate_pem(
        mut self,
        certificate: impl AsRef<[u8]>,
        key: impl AsRef<[u8]>,
    ) -> Self {
        let text = |bytes: &[u8]| Pem::Text("client_certificate_pem", bytes.into());
        let (chain, key) = (text(certificate.as_ref()), text(key.as_ref()));
        self.client = Some(ClientCertificate { chain, key });
        self
    }

    /// Like [`client_certificate_pem`](TlsOptions::client_certificate_pem), but read from two
    /// files, or from one file that contains both.
    pub fn client_certificate_files(
        mut self,
        certificate: impl AsRef<Path>,
        key: impl AsRef<Path>,
    ) -> Self {
        let (chain, key) = (certificate.as_ref().to_owned(), key.as_ref().to_owned());
        self.client = Some(ClientCertificate {
            chain: Pem::File(chain),
            key: Pem::File(key),
        });
        self
    }

    /// The name that the server's certificate must have: a DNS name or an IP address. It is also
    /// sent as SNI. Default: the host of the connection.
    ///
    /// Use this for servers behind a tunnel, or at an address that their certificates do not name.
    /// It applies to every server of a deployment, including sentinels.
    pub fn server_name(mut self, name: impl Into<String>) -> Self {
        self.server_name = Some(name.into());
        self
    }

    /// Whether the system's authorities are trusted.
    pub(super) fn uses_system(&self) -> bool {
        self.authorities.is_empty()
    }

    /// Whether there are files, which must be read again for each connection.
    pub(super) fn has_files(&self) -> bool {
        let of_client = self
            .client
            .iter()
            .flat_map(|client| [&client.chain, &client.key]);
        self.authorities
            .iter()
            .chain(of_client)
            .any(|pem| matches!(pem, Pem::File(_)))
    }
}

impl fmt::Debug for TlsOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TlsOptions")
            .field("authorities", &self.authorities)
            .field(
                "client_certificate",
                &self.client.as_ref().map(|client| &client.chain),
            )
            .field("server_name", &self.server_name)
            .finish_non_exhaustive()
    }
}

/// Shows where the PEM comes from, never its contents.
impl fmt::Display for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Pem::Text(call, _) => write!(f, "the text given to `{call}`"),
            Pem::File(path) => write!(f, "the file `{}`", path.display()),
        }
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
