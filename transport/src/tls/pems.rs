//! Makes a configuration of rustls from PEM texts and files. Runs on a blocking thread, because it
//! reads files.
//!
//! No message contains a part of a text, not even its first line: a key without line breaks is all
//! in that line.

use std::borrow::Cow;
use std::fs;
use std::sync::Arc;

use tokio_rustls::rustls::crypto::ring;
use tokio_rustls::rustls::pki_types::pem::{Error as PemError, PemObject};
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::rustls::{ClientConfig, Error as TlsError, InconsistentKeys, RootCertStore};

use super::options::{ClientCertificate, Pem, TlsOptions};

/// The contents of the texts and files of [`TlsOptions`] when they were read.
#[derive(PartialEq, Eq)]
pub(super) struct Pems {
    authorities: Vec<Vec<u8>>,
    /// Certificate and key.
    client: Option<(Vec<u8>, Vec<u8>)>,
}

impl Pems {
    pub(super) fn read(options: &TlsOptions) -> Result<Self, String> {
        let bytes = |pem: &Pem| pem.read().map(Cow::into_owned);
        let authorities = options
            .authorities
            .iter()
            .map(bytes)
            .collect::<Result<_, _>>()?;
        let client = match &options.client {
            Some(ClientCertificate { chain, key }) => Some((bytes(chain)?, bytes(key)?)),
            None => None,
        };
        Ok(Pems {
            authorities,
            client,
        })
    }

    /// `system` contains the authorities of the system, if they are trusted.
    pub(super) fn config(
        &self,
        options: &TlsOptions,
        system: Option<&RootCertStore>,
    ) -> Result<ClientConfig, String> {
        let mut roots = system.cloned().unwrap_or_else(RootCertStore::empty);
        for (pem, bytes) in options.authorities.iter().zip(&self.authorities) {
            for certificate in certificates(pem, bytes)? {
                let unusable =
                    |error| format!("a certificate in {pem} cannot be an authority: {error}");
                roots.add(certificate).map_err(unusable)?;
            }
        }
        // Name the provider, because `ClientConfig::builder()` panics in programs that link two
        // providers.
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| error.to_string())?
            .with_root_certificates(roots);
        let (Some(client), Some((chain, key))) = (&options.client, &self.client) else {
            return Ok(config.with_no_client_auth());
        };
        let ClientCertificate {
            chain: of_chain,
            key: of_key,
        } = client;
        let (chain, key) = (certificates(of_chain, chain)?, private_key(of_key, key)?);
        config
            .with_client_auth_cert(chain, key)
            .map_err(|error| match error {
                TlsError::InconsistentKeys(InconsistentKeys::KeyMismatch) => format!(
                    "certificate and key do not belong together: \
                 the key in {of_key} is not that of the first certificate in {of_chain}"
                ),
                error => format!(
                    "the client certificate in {of_chain} cannot be used with the key in {of_key}: \
                 {error}"
                ),
            })
    }
}

impl Pem {
    fn read(&self) -> Result<Cow<'_, [u8]>, String> {
        match self {
            Pem::Text(_, bytes) => Ok(Cow::Borrowed(bytes)),
            Pem::File(path) => {
                let unreadable = |error| format!("{self} cannot be read: {error}");
                fs::read(path).map(Cow::Owned).map_err(unreadable)
            }
        }
    }
}

fn certificates(pem: &Pem, bytes: &[u8]) -> Result<Vec<CertificateDer<'static>>, String> {
    let all = CertificateDer::pem_slice_iter(bytes).collect::<Result<Vec<_>, _>>();
    let all = all.map_err(|error| malformed(pem, &error))?;
    if all.is_empty() {
        return Err(format!(
            "{pem} has no certificate: `-----BEGIN CERTIFICATE-----` is missing"
        ));
    }
    Ok(all)
}

fn private_key(pem: &Pem, bytes: &[u8]) -> Result<PrivateKeyDer<'static>, String> {
    PrivateKeyDer::from_pem_slice(bytes).map_err(|error| match error {
        PemError::NoItemsFound => format!(
            "{pem} has no private key that can be used: \
             `-----BEGIN PRIVATE KEY-----` is missing; an encrypted key must be decrypted first"
        ),
        error => malformed(pem, &error),
    })
}

/// Describes an error without its own text, which may contain a line of the PEM.
fn malformed(pem: &Pem, error: &PemError) -> String {
    let why = match error {
        PemError::MissingSectionEnd { .. } => {
            "a section has no END line, or the line breaks of the text are lost"
        }
        PemError::IllegalSectionStart { .. } => {
            "a BEGIN line is not complete, or not a line of its own"
        }
        PemError::Base64Decode(_) => "a section is not base64",
        _ => "it cannot be read",
    };
    format!("{pem} is not PEM: {why}")
}
