//! A certificate signed by its own authority, in files.

use std::path::PathBuf;

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};

/// One certificate for the addresses of all servers, and the authority that signed it.
#[derive(Debug)]
pub struct Certificate {
    pub folder: PathBuf,
}

impl Certificate {
    pub fn new(test: &str) -> Self {
        let mut params = CertificateParams::default();
        params
            .distinguished_name
            .push(DnType::CommonName, "authority");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let authority = params.self_signed(&key).expect("signed").pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().expect("a key");
        let mut of = CertificateParams::new(["127.0.0.1".to_owned()]).expect("an address");
        of.distinguished_name.push(DnType::CommonName, "server");
        let signed = of.signed_by(&key, &issuer).expect("signed").pem();
        let name = format!("leasehold-secured-{}-{test}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&folder).expect("a folder");
        for (file, text) in [
            ("ca.pem", &authority),
            ("cert.pem", &signed),
            ("key.pem", &key.serialize_pem()),
        ] {
            std::fs::write(folder.join(file), text).expect("a file");
        }
        Certificate { folder }
    }

    /// The server's arguments for using it.
    pub fn arguments(&self) -> Vec<String> {
        let file = |name: &str| self.folder.join(name).to_string_lossy().into_owned();
        let files = [
            ("--tls-cert-file", "cert.pem"),
            ("--tls-key-file", "key.pem"),
            ("--tls-ca-cert-file", "ca.pem"),
        ];
        let files = files
            .into_iter()
            .flat_map(|(word, name)| [word.to_owned(), file(name)]);
        files
            .chain(["--tls-auth-clients".to_owned(), "no".to_owned()])
            .collect()
    }
}

impl Drop for Certificate {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.folder));
    }
}
