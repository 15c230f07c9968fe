//! An authority of the tests' own, and a server's certificate from it.

use std::path::PathBuf;

use mesh_conformance::servers::TlsFiles;
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, date_time_ymd,
};
use tempfile::TempDir;

/// An authority, and a certificate from it in files, which go with it.
pub(crate) struct Authority {
    /// What trusts it.
    pub(crate) pem: Vec<u8>,
    folder: TempDir,
}

impl Authority {
    /// With a certificate for a server of this name.
    pub(crate) fn new(who: &str, name: &str, expired: bool) -> Self {
        let mut params = CertificateParams::new(Vec::<String>::new()).expect("parameters");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params
            .distinguished_name
            .push(DnType::CommonName, format!("authority {who}"));
        let key = KeyPair::generate().expect("a key");
        let issuer = CertifiedIssuer::self_signed(params, key).expect("an authority");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("parameters");
        if expired {
            params.not_before = date_time_ymd(2020, 1, 1);
            params.not_after = date_time_ymd(2020, 2, 1);
        }
        let key = KeyPair::generate().expect("a key");
        let certificate = params.signed_by(&key, &issuer).expect("a certificate");
        let made = Self {
            pem: issuer.pem().into_bytes(),
            folder: tempfile::tempdir().expect("a folder"),
        };
        let files = made.files();
        std::fs::write(files.certificate, certificate.pem()).expect("written");
        std::fs::write(files.key, key.serialize_pem()).expect("written");
        made
    }
    /// The server's files.
    pub(crate) fn files(&self) -> TlsFiles {
        let path = |name: &str| -> PathBuf { self.folder.path().join(name) };
        TlsFiles {
            certificate: path("cert.pem"),
            key: path("key.pem"),
        }
    }
}
