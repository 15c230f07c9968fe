//! Verified TLS for every adapter: from the provider's settings alone, never from the environment (O-34).

use std::sync::Arc;

use mesh_sdk::adapter::{ProviderSettings, Tls};
use mesh_sdk::{Class, Error};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};

/// Where systems keep the authorities that they trust. The usual environment variables that point
/// elsewhere are not read: a variable meant for something else must not change whom we trust.
const SYSTEM_STORES: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What a connection needs for its handshake.
#[cfg(any(
    feature = "redis",
    feature = "http",
    feature = "nats",
    feature = "mosquitto"
))]
pub(crate) struct Handshake {
    pub(crate) connector: tokio_rustls::TlsConnector,
    pub(crate) name: rustls::pki_types::ServerName<'static>,
}

/// Builds it from the settings.
#[cfg(any(
    feature = "redis",
    feature = "http",
    feature = "nats",
    feature = "mosquitto"
))]
pub(crate) fn handshake(settings: &ProviderSettings) -> Result<Handshake, Error> {
    let config = client_config(settings)?;
    let name = rustls::pki_types::ServerName::try_from(settings.host.clone())
        .map_err(|_| wrong("the host is neither a name nor an address"))?;
    Ok(Handshake {
        connector: tokio_rustls::TlsConnector::from(Arc::new(config)),
        name,
    })
}

/// What every client library here is given: whom to trust, and what to show of ourselves.
pub(crate) fn client_config(settings: &ProviderSettings) -> Result<ClientConfig, Error> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&format!("TLS cannot be used: {error}")))?;
    let builder = if settings.tls.dangerously_unverified {
        builder
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(Unverified(provider)))
    } else {
        builder.with_root_certificates(roots(&settings.tls)?)
    };
    let Some((chain, key)) = &settings.tls.client_pem else {
        return Ok(builder.with_no_client_auth());
    };
    let key = PrivateKeyDer::from_pem_slice(key.expose())
        .map_err(|_| wrong("the client key is not PEM"))?;
    builder
        .with_client_auth_cert(certificates(chain, "the client certificate")?, key)
        .map_err(|error| wrong(&format!("the client certificate: {error}")))
}

fn roots(tls: &Tls) -> Result<RootCertStore, Error> {
    let mut store = RootCertStore::empty();
    if let Some(pem) = &tls.ca_pem {
        for certificate in certificates(pem, "the CA")? {
            store
                .add(certificate)
                .map_err(|error| wrong(&format!("the CA: {error}")))?;
        }
        return Ok(store);
    }
    // A system's list may hold what cannot be read; the others still count.
    store.add_parsable_certificates(systems()?);
    Ok(store)
}

fn systems() -> Result<Vec<CertificateDer<'static>>, Error> {
    let pem = SYSTEM_STORES
        .iter()
        .find_map(|path| std::fs::read(path).ok())
        .ok_or_else(|| {
            wrong("this system has no list of trusted CAs: name one for the provider")
        })?;
    certificates(&pem, "the system's CAs")
}

/// The authorities to trust, for a client library that wants them one by one and takes no config.
#[cfg(feature = "mariadb")]
pub(crate) fn trusted(tls: &Tls) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all = match &tls.ca_pem {
        Some(pem) => return certificates(pem, "the CA"),
        None => systems()?,
    };
    let is_fine = |der: &CertificateDer<'static>| RootCertStore::empty().add(der.clone()).is_ok();
    Ok(all.into_iter().filter(is_fine).collect())
}

fn certificates(pem: &[u8], what: &str) -> Result<Vec<CertificateDer<'static>>, Error> {
    let all: Vec<_> = CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|_| wrong(&format!("{what} is not PEM")))?;
    if all.is_empty() {
        return Err(wrong(&format!("{what} holds no certificate")));
    }
    Ok(all)
}

fn wrong(message: &str) -> Error {
    Error::new(Class::RefusedValue, message)
}

/// Takes any certificate: what `dangerously_unverified` asks for in so many words (S-5).
#[derive(Debug)]
struct Unverified(Arc<CryptoProvider>);

impl ServerCertVerifier for Unverified {
    fn verify_server_cert(
        &self,
        _end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, known)
    }
    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let known = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, known)
    }
    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
