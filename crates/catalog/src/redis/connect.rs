//! A connection of its own for every call: dialled, logged in as the admin, and told who the server is.

use std::sync::OnceLock;
use std::time::Duration;

use mesh_sdk::Error;
use mesh_sdk::adapter::ProviderSettings;
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::classify;
use super::wire::{Reply, Request, Wire};
use crate::tls::{Handshake, handshake};

/// Our own deadline for getting a connection that answers. All later waiting is under the harness's.
const DEADLINE: Duration = Duration::from_secs(10);

/// Where the server is, and how to get in.
pub(super) struct Endpoint {
    settings: ProviderSettings,
    tls: OnceLock<Result<Handshake, Error>>,
}

/// What the server says of itself in `INFO server`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Facts {
    /// `Redis 7.0.15`, `Valkey 9.1.2`.
    pub(super) title: String,
    /// Changes with each start.
    pub(super) run: String,
    /// Selectors, `%R~`, `ACL DRYRUN`: Redis from 7.0 on, and every Valkey.
    pub(super) selectors: bool,
    /// Keeps command rules as they were given, so that a user's text costs next to nothing: Valkey (tried
    /// on 9.1.2). Redis 6.2 and 7.0 work it out by trial.
    pub(super) keeps_rules: bool,
    /// The product's version: major, minor.
    pub(super) version: (u32, u32),
}

/// An admin's connection.
pub(super) struct Session {
    pub(super) wire: Wire,
    pub(super) facts: Facts,
}

impl Endpoint {
    /// No I/O yet.
    pub(super) fn new(settings: ProviderSettings) -> Self {
        Self {
            settings,
            tls: OnceLock::new(),
        }
    }
    pub(super) fn settings(&self) -> &ProviderSettings {
        &self.settings
    }
    /// Whether the connection is encrypted.
    pub(super) fn is_encrypted(&self) -> bool {
        matches!(self.settings.scheme.as_str(), "rediss" | "valkeys")
    }
    /// Whether a consumer's own password may go over a connection: it leaves this machine by no wire,
    /// or only to a server whose certificate was verified (H-17).
    pub(super) fn may_carry_passwords(&self) -> bool {
        self.settings.may_carry_passwords(self.is_encrypted())
    }

    /// A connection, with TLS where the scheme says so, and nobody logged in yet.
    pub(super) async fn dial(&self) -> Result<Wire, Error> {
        self.in_time("connect", self.connect()).await
    }

    async fn connect(&self) -> Result<Wire, Error> {
        let settings = &self.settings;
        settings.may_connect(self.is_encrypted())?;
        let broken = |error| classify::broken("connect", &error);
        let target = (settings.host.as_str(), settings.port);
        let socket = TcpStream::connect(target).await.map_err(broken)?;
        socket.set_nodelay(true).map_err(broken)?;
        if !self.is_encrypted() {
            return Ok(Wire::new(Box::new(socket)));
        }
        let tls = self.tls.get_or_init(|| handshake(settings));
        let tls = tls.as_ref().map_err(Clone::clone)?;
        let stream = tls.connector.connect(tls.name.clone(), socket).await;
        Ok(Wire::new(Box::new(stream.map_err(broken)?)))
    }

    /// A connection that is logged in as the admin. Never as anybody else: if the login is refused,
    /// nothing is asked with whatever an open default user may do.
    pub(super) async fn admin(&self) -> Result<Session, Error> {
        self.in_time("log in", self.log_in()).await
    }

    async fn log_in(&self) -> Result<Session, Error> {
        let mut wire = self.connect().await?;
        let mut request = Request::with_room(256);
        let login = self.settings.admin.as_ref().and_then(|admin| {
            let password = admin.password.as_ref().map(|p| p.expose());
            // The default user without a password is who a fresh connection is already.
            (admin.user != "default" || password.is_some())
                .then(|| (admin.user.as_bytes(), password.unwrap_or_default()))
        });
        if let Some((user, password)) = login {
            request.push(&[b"AUTH", user, password]);
        }
        request.push(&[b"INFO", b"server"]);
        wire.send(&request).await?;
        if login.is_some() {
            wire.reply().await?.ok("log in as the admin")?;
        }
        let info = wire.reply().await?.ok("ask who the server is")?;
        let facts = info.text().and_then(Facts::read);
        let facts = facts.ok_or_else(|| classify::garbled("ask who the server is"))?;
        Ok(Session { wire, facts })
    }

    async fn in_time<T>(
        &self,
        what: &str,
        call: impl Future<Output = Result<T, Error>>,
    ) -> Result<T, Error> {
        let result = match timeout(DEADLINE, call).await {
            Ok(result) => result,
            Err(_) => Err(classify::late(what)),
        };
        result.map_err(|error| {
            let message = format!("{} ({})", error.message(), self.settings.address());
            error.with_message(message)
        })
    }
}

impl Facts {
    /// From the text of `INFO server`.
    fn read(info: &[u8]) -> Option<Self> {
        let info = String::from_utf8_lossy(info);
        let valkey = field(&info, "valkey_version");
        let (product, version) = match valkey {
            Some(version) => ("Valkey", version),
            None => ("Redis", field(&info, "redis_version")?),
        };
        let mut numbers = version.split('.').map(|n| n.parse().unwrap_or(0));
        let version_pair = (numbers.next()?, numbers.next().unwrap_or(0));
        Some(Self {
            title: format!("{product} {version}"),
            run: field(&info, "run_id")?.to_owned(),
            selectors: valkey.is_some() || version_pair.0 >= 7,
            keeps_rules: valkey.is_some(),
            version: version_pair,
        })
    }
}

/// A field of an `INFO` text.
pub(super) fn field<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(str::trim)
}

impl Session {
    /// Asks and reads a text.
    pub(super) async fn text(&mut self, what: &str, args: &[&[u8]]) -> Result<String, Error> {
        match self.wire.ask(what, args).await? {
            Reply::Text(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            _ => Err(classify::garbled(what)),
        }
    }
}

#[cfg(test)]
mod tests {
    //! Who the server says it is.
    use super::*;

    #[test]
    fn products_and_versions_are_told_apart() {
        let redis = b"# Server\r\nredis_version:7.0.15\r\nredis_git_sha1:0\r\nrun_id:abc\r\n";
        let valkey =
            b"# Server\r\nredis_version:7.2.4\r\nserver_name:valkey\r\nvalkey_version:9.1.2\r\nrun_id:d\r\n";
        let old = b"redis_version:6.2.5\r\nrun_id:e\r\n";
        let facts = Facts::read(redis).expect("redis");
        assert_eq!(
            (facts.title.as_str(), facts.run.as_str()),
            ("Redis 7.0.15", "abc")
        );
        assert!(facts.selectors && !facts.keeps_rules && facts.version == (7, 0));
        let facts = Facts::read(valkey).expect("valkey");
        assert_eq!(
            (facts.title.as_str(), facts.version),
            ("Valkey 9.1.2", (9, 1))
        );
        assert!(facts.selectors && facts.keeps_rules);
        assert!(!Facts::read(old).expect("old").selectors);
        assert_eq!(Facts::read(b"run_id:x\r\n"), None);
    }
}
