//! A provider as the program works with it: where its servers are and how they are spoken to.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{ProviderName, Secret};
use serde::{Deserialize, Serialize};

use super::kinds::KindInfo;
use super::secrets::{SecretRef, SecretSource, SecretTrouble};
use super::timing::Timing;

/// One server of a provider.
#[derive(Debug, Clone)]
pub struct Node {
    /// `host:port`: the same as long as the manifest says the same.
    pub name: String,
    /// Where it is. Admin password and certificates are not read yet: see [`Provider::resolve`].
    pub settings: ProviderSettings,
}

/// The admin login, with the place of its password.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AdminSource {
    /// Its name.
    pub user: String,
    /// Where its password is, if it has one.
    pub password: Option<SecretRef>,
    /// It may be shorter than 8 bytes, and is then not hidden in messages (S-2).
    pub weak: bool,
}

/// How the server is verified, with the places of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct TlsSource {
    /// PEM of the authorities to trust; none means the system's.
    pub ca: Option<PathBuf>,
    /// PEM of our certificate and of its key.
    pub client: Option<(PathBuf, PathBuf)>,
    /// Do not verify (S-5).
    pub dangerously_unverified: bool,
}

/// One provider.
#[derive(Clone)]
pub struct Provider {
    /// Its name.
    pub name: ProviderName,
    /// Its kind.
    pub kind: Arc<KindInfo>,
    /// Its servers: one, or several that do not share logins (H-21).
    pub nodes: Vec<Node>,
    /// The admin login, where there is one.
    pub admin: Option<AdminSource>,
    /// How the server is verified.
    pub tls: TlsSource,
    /// A plain connection to a host that is not this machine was allowed in so many words.
    pub dangerously_plain: bool,
    /// How often and how long.
    pub timing: Timing,
    /// How many removals in an hour need nobody's word.
    pub max_removals: u32,
    /// Whether Meshkeeper keeps a login of its own there, without which nothing is removed unless a
    /// person says so.
    pub canary: bool,
    /// The line of the table, counted from 1.
    pub line: usize,
    /// The bytes of the table's head.
    pub span: std::ops::Range<usize>,
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nodes: Vec<&str> = self.nodes.iter().map(|node| node.name.as_str()).collect();
        write!(
            f,
            "Provider({} {:?}, {nodes:?}, line {})",
            self.name, self.kind, self.line
        )
    }
}

impl Provider {
    /// What its adapter can do with these settings.
    pub fn capabilities(&self) -> mesh_sdk::Capabilities {
        match self.nodes.first() {
            Some(node) => self.kind.kind.capabilities(&node.settings),
            None => self.kind.descriptor.capabilities,
        }
    }
    /// The files that its table names.
    pub fn files(&self) -> Vec<PathBuf> {
        let mut files: Vec<PathBuf> = self.tls.ca.iter().cloned().collect();
        if let Some((cert, key)) = &self.tls.client {
            files.extend([cert.clone(), key.clone()]);
        }
        if let Some(AdminSource {
            password: Some(SecretRef::File(path)),
            ..
        }) = &self.admin
        {
            files.push(path.clone());
        }
        files
    }
    /// Each server's settings with admin password and certificates read. Every trouble is told; with one
    /// of them there are no settings, never settings without a password (S-4).
    pub fn resolve(
        &self,
        source: &dyn SecretSource,
    ) -> Result<Vec<ProviderSettings>, Vec<SecretTrouble>> {
        let mut troubles = Vec::new();
        let mut keep =
            |read: Result<Secret, SecretTrouble>| read.map_err(|t| troubles.push(t)).ok();
        let admin = self.admin.as_ref().map(|admin| Admin {
            user: admin.user.clone(),
            password: admin
                .password
                .as_ref()
                .and_then(|place| keep(place.password(source, admin.weak))),
        });
        let mut whole = |path: &Path| keep(SecretRef::File(path.to_owned()).whole(source));
        let ca = self.tls.ca.as_deref().and_then(&mut whole);
        let client = self
            .tls
            .client
            .as_ref()
            .and_then(|(cert, key)| Some((whole(cert)?.expose().to_vec(), whole(key)?)));
        if !troubles.is_empty() {
            return Err(troubles);
        }
        let filled = self.nodes.iter().map(|node| {
            let mut settings = node.settings.clone();
            settings.admin = admin.clone();
            settings.tls.ca_pem = ca.as_ref().map(|pem| pem.expose().to_vec());
            settings.tls.client_pem = client.clone();
            settings
        });
        Ok(filled.collect())
    }
}
