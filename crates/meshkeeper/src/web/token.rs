//! The token, and the door that is made from it and from `[mesh.page]`.

use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use mesh_bus::mint;
use mesh_sdk::Secret;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::Door;
use crate::errors::Fault;
use crate::manifest::{PageAsked, SecretSource};

/// The token's file in the data folder.
pub const FILE: &str = "page-token";
/// A token of a person's own is at least so long.
const SHORTEST: usize = 20;

/// The door for an address. A token is made where there is none; its file is readable for its owner alone.
/// Errors: an address beyond this machine without TLS or a proxy that ends it, a token that cannot be read.
pub fn door(
    address: SocketAddr,
    folder: &Path,
    asked: &PageAsked,
    secrets: &dyn SecretSource,
) -> Result<Door, Fault> {
    let tls = tls(asked)?;
    if !address.ip().is_loopback() && tls.is_none() && !asked.behind_proxy {
        return Err(Fault::failed(
            format!(
                "{address} is not an address of this machine alone, and nothing encrypts what is read there"
            ),
            "listen on 127.0.0.1; or give [mesh.page] a `certificate` and `key`; or `behind_proxy = true`, \
             where a proxy before it ends TLS",
        ));
    }
    let token = match &asked.token {
        Some(place) => {
            let read = place.password(secrets, true);
            read.map_err(|trouble| {
                Fault::failed(
                    format!("the token of the page: {trouble}"),
                    "look at `token` in [mesh.page]",
                )
            })?
        }
        None => kept(&folder.join(FILE))?,
    };
    let token = Secret::from(token.expose_str().unwrap_or_default().trim());
    if token.len() < SHORTEST {
        return Err(Fault::failed(
            format!("the token of the page is shorter than {SHORTEST} characters"),
            "write a longer one there, or leave `token` out: then one is made",
        ));
    }
    Ok(Door {
        token,
        names: asked.names.clone(),
        proxy: asked.behind_proxy,
        beyond: !address.ip().is_loopback() || asked.behind_proxy || !asked.names.is_empty(),
        tls,
        port: address.port(),
    })
}

/// The token in its file, made where there is none.
fn kept(path: &Path) -> Result<Secret, Fault> {
    let fault = |error: &dyn std::fmt::Display| {
        Fault::failed(
            format!("the token of the page in {}: {error}", path.display()),
            "look at the data folder's rights and at the disk",
        )
    };
    match OpenOptions::new().read(true).open(path) {
        Ok(mut file) => {
            let mode = file.metadata().map_err(|e| fault(&e))?.permissions().mode();
            if mode & 0o077 != 0 {
                return Err(fault(
                    &"others on this machine can read it; chmod 600 it, or delete it",
                ));
            }
            let mut text = String::new();
            file.read_to_string(&mut text).map_err(|e| fault(&e))?;
            Ok(Secret::from(text.trim()))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let token = mint::password(mint::os_random).map_err(|e| fault(&e))?;
            let new = path.with_extension("new");
            drop(std::fs::remove_file(&new));
            let mut options = OpenOptions::new();
            options.write(true).create_new(true).mode(0o600);
            let mut file = options.open(&new).map_err(|e| fault(&e))?;
            file.write_all(token.expose()).map_err(|e| fault(&e))?;
            file.write_all(b"\n").map_err(|e| fault(&e))?;
            file.sync_all().map_err(|e| fault(&e))?;
            std::fs::rename(&new, path).map_err(|e| fault(&e))?;
            Ok(token)
        }
        Err(error) => Err(fault(&error)),
    }
}

fn tls(asked: &PageAsked) -> Result<Option<Arc<rustls::ServerConfig>>, Fault> {
    let (Some(certificate), Some(key)) = (&asked.certificate, &asked.key) else {
        return Ok(None);
    };
    let fault = |path: &Path, error: &dyn std::fmt::Display| {
        Fault::failed(
            format!("the page's {}: {error}", path.display()),
            "`certificate` and `key` of [mesh.page] are PEM files that fit together",
        )
    };
    let chain = CertificateDer::pem_file_iter(certificate).map_err(|e| fault(certificate, &e))?;
    let chain: Result<Vec<_>, _> = chain.collect();
    let chain = chain.map_err(|e| fault(certificate, &e))?;
    let pem = std::fs::read(key).map_err(|e| fault(key, &e))?;
    let pem = Secret::new(pem);
    let der = PrivateKeyDer::from_pem_slice(pem.expose())
        .map_err(|_| fault(key, &"no private key in PEM"))?;
    let config = rustls::ServerConfig::builder().with_no_client_auth();
    let mut config = config
        .with_single_cert(chain, der)
        .map_err(|e| fault(certificate, &e))?;
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    Ok(Some(Arc::new(config)))
}
