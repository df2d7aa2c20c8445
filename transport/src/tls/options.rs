//! The user's TLS options: trusted authorities, and the client certificate.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Authorities, client certificate and server name for a `rediss://` URL.
///
/// Without options the server's certificate must be signed by an authority that the system trusts, and
/// name the host of the URL. The client shows no certificate.
///
/// # Files
///
/// Files are read when the client connects, and again for each later connection, so a certificate that is
/// renewed in its file (cert-manager, Vault) counts from the next connection on. Connections that live
/// are not closed. If a file cannot be used then (it is missing, or certificate and key are not both
/// written yet), the last good contents of all files are used once more; if they do not lead to a
/// connection, the error says why the files were not used.
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
    /// The system's authorities, no client certificate, the host's own name.
    pub fn new() -> Self {
        TlsOptions::default()
    }

    /// Trusts the authorities in this PEM text, and not those of the system. Several calls add up.
    pub fn ca_pem(mut self, pem: impl AsRef<[u8]>) -> Self {
        self.authorities
            .push(Pem::Text("ca_pem", pem.as_ref().into()));
        self
    }

    /// Trusts the authorities in this PEM file, and not those of the system. Several calls add up.
    pub fn ca_file(mut self, path: impl AsRef<Path>) -> Self {
        self.authorities.push(Pem::File(path.as_ref().to_owned()));
        self
    }

    /// The certificate that the client shows, and its private key, as PEM texts.
    ///
    /// Certificates of authorities in between follow the certificate in its text. The key is PKCS #8,
    /// PKCS #1 (RSA) or SEC 1 (EC), and not encrypted.
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

    /// As [`client_certificate_pem`](TlsOptions::client_certificate_pem), from two files, or from one that
    /// has both.
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

    /// The name that the server's certificate must have, a DNS name or an IP address; it is sent as SNI,
    /// too. Default: the host that is connected to.
    ///
    /// For servers behind a tunnel or an address that their certificates do not name. It is for every server of
    /// a deployment, sentinels included.
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

/// Names the source, never its contents.
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
