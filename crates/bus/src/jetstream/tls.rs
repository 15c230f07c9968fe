//! Verified TLS for the bus: from the settings alone, never from the environment.

use std::sync::Arc;

use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::{ClientConfig, RootCertStore};

use super::OpenFault;
use super::connect::Tls;

/// Where systems keep the authorities that they trust.
const SYSTEM_STORES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What the client library is given.
pub(super) fn config(tls: &Tls) -> Result<ClientConfig, OpenFault> {
    let builder = ClientConfig::builder_with_provider(Arc::new(aws_lc_rs::default_provider()))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(format!("TLS cannot be used: {error}")))?
        .with_root_certificates(roots(tls)?);
    let Some((chain, key)) = &tls.client_pem else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key.expose())
        .map_err(|_| wrong("the client key is not PEM".to_owned()))?;
    builder
        .with_client_auth_cert(certificates(chain, "the client certificate")?, key)
        .map_err(|error| wrong(format!("the client certificate: {error}")))
}

fn roots(tls: &Tls) -> Result<RootCertStore, OpenFault> {
    let mut store = RootCertStore::empty();
    if let Some(pem) = &tls.ca_pem {
        for certificate in certificates(pem, "the CA")? {
            store
                .add(certificate)
                .map_err(|error| wrong(format!("the CA: {error}")))?;
        }
        return Ok(store);
    }
    let pem = SYSTEM_STORES
        .iter()
        .find_map(|path| std::fs::read(path).ok())
        .ok_or_else(|| {
            wrong("this system has no list of trusted CAs: name one for the bus".to_owned())
        })?;
    // A system's list may hold what cannot be read; the others still count.
    store.add_parsable_certificates(certificates(&pem, "the system's CAs")?);
    Ok(store)
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, OpenFault> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong(format!("{what} is not PEM")))?;
    if all.is_empty() {
        return Err(wrong(format!("{what} holds no certificate")));
    }
    Ok(all)
}

fn wrong(message: String) -> OpenFault {
    OpenFault::Tls(message)
}
