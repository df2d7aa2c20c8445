//! Authorities of the tests, and certificates that they sign.

use rcgen::{
    BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    date_time_ymd,
};

#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    pem: String,
}

/// A certificate and its key, as PEM texts.
#[derive(Debug)]
pub struct Issued {
    pub certificate: String,
    pub key: String,
}

impl Authority {
    /// Each has another name: a stranger is not taken for one whose signature is wrong.
    pub fn new(name: &str) -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority {
            issuer: Issuer::new(params, key),
            pem,
        }
    }

    pub fn pem(&self) -> &str {
        &self.pem
    }

    /// For a server of this name, or for a client.
    pub fn issue(&self, name: &str) -> Issued {
        self.sign(CertificateParams::new([name.to_owned()]).expect("a name"))
    }

    pub fn issue_expired(&self, name: &str) -> Issued {
        let mut params = CertificateParams::new([name.to_owned()]).expect("a name");
        params.not_before = date_time_ymd(2001, 1, 1);
        params.not_after = date_time_ymd(2002, 1, 1);
        self.sign(params)
    }

    fn sign(&self, mut params: CertificateParams) -> Issued {
        params.distinguished_name.push(DnType::CommonName, "issued");
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &self.issuer).expect("signed").pem();
        Issued {
            certificate,
            key: key.serialize_pem(),
        }
    }
}
