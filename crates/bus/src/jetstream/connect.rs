//! How a NATS server is reached: verified TLS, a login, and never a secret in an address.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_nats::{Client, ConnectErrorKind, ConnectOptions, Event, ServerAddr};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use mesh_sdk::secret::Secret;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpStream;
use tokio::sync::watch;

use super::OpenFault;
use super::tls;

/// A server that does not answer a connection for so long is not there.
const CONNECT: Duration = Duration::from_secs(5);
/// A server that stands still is left for another when the third of these is due: soon enough that a host still
/// says in time that it is there (`claim::STOP_AFTER`).
const PING: Duration = Duration::from_secs(2);

/// One server of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// A name or an address, without brackets.
    pub host: String,
    /// Its port.
    pub port: u16,
    /// With TLS.
    pub tls: bool,
}

impl Server {
    /// Whether it is on this machine.
    pub fn is_loopback(&self) -> bool {
        let address = self.host.parse::<std::net::IpAddr>();
        self.host == "localhost" || address.is_ok_and(|address| address.is_loopback())
    }
    /// Its address, as a person writes it.
    pub fn url(&self) -> String {
        let scheme = if self.tls { "tls" } else { "nats" };
        if self.host.contains(':') {
            return format!("{scheme}://[{}]:{}", self.host, self.port);
        }
        format!("{scheme}://{}:{}", self.host, self.port)
    }
    async fn greets(&self) -> bool {
        let met = TcpStream::connect((self.host.as_str(), self.port)).await;
        match met {
            Ok(mut stream) => stream.read_u8().await.is_ok(),
            Err(_) => false,
        }
    }
}

/// Whether one of them greets within the time. A NATS server says who it is to whoever connects, before TLS and
/// before a login (the protocol's `INFO`); one that is dead, stands still or cannot be reached does not. Nothing is
/// sent to it.
pub async fn greets(servers: &[Server], within: Duration) -> bool {
    let mut all: FuturesUnordered<_> = servers.iter().map(Server::greets).collect();
    let first = async {
        while let Some(greeted) = all.next().await {
            if greeted {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(within, first).await.unwrap_or(false)
}

/// How we log in.
#[derive(Debug, Clone, Default)]
pub enum Login {
    /// The server asks for nothing.
    #[default]
    Open,
    /// By user and password.
    Password {
        /// The user.
        user: String,
        /// The password.
        password: Secret,
    },
    /// By a credentials file's text: a JWT and the seed that signs for it.
    Credentials(Secret),
    /// By an NKey's seed.
    Nkey(Secret),
}

/// Whom to trust, and what to show of ourselves.
#[derive(Debug, Clone, Default)]
pub struct Tls {
    /// PEM of the authorities to trust; none means the system's.
    pub ca_pem: Option<Vec<u8>>,
    /// PEM of our certificate and its key, where the server wants one.
    pub client_pem: Option<(Vec<u8>, Secret)>,
}

/// Where the servers are and how they are spoken to.
#[derive(Debug, Clone, Default)]
pub struct Link {
    /// The servers of one cluster; only these, whatever else a server advertises.
    pub servers: Vec<Server>,
    /// How we log in.
    pub login: Login,
    /// TLS.
    pub tls: Tls,
    /// Plain connections to hosts that are not loopback were allowed in so many words.
    pub dangerously_plain: bool,
    /// The prefix of the subjects on which answers come; none means `_INBOX`. Where several accounts'
    /// users share servers, each needs its own, or they read each other's answers.
    pub inbox: Option<String>,
}

impl Link {
    /// The servers, for people.
    pub fn shown(&self) -> String {
        let urls: Vec<String> = self.servers.iter().map(Server::url).collect();
        urls.join(", ")
    }

    fn check(&self) -> Result<(), OpenFault> {
        if self.servers.is_empty() {
            return Err(OpenFault::NoServer);
        }
        let plain = |server: &&Server| !server.tls && !server.is_loopback();
        match self.servers.iter().find(plain) {
            Some(server) if !self.dangerously_plain => {
                let host = server.host.clone();
                Err(OpenFault::Plain { host })
            }
            _ => Ok(()),
        }
    }
}

/// What a connection tells of itself.
#[derive(Debug)]
pub(super) struct Signals {
    /// Counts connections that came or went.
    pub(super) changes: watch::Receiver<u64>,
    /// The last thing that the server complained of.
    complaint: Arc<Mutex<Option<String>>>,
}

impl Signals {
    /// What the server complained of last, in brackets; nothing if it did not.
    pub(super) fn complaint(&self) -> String {
        let last = self.complaint.lock().ok().and_then(|text| text.clone());
        last.map(|text| format!(" (the server said: {text})"))
            .unwrap_or_default()
    }
}

/// Connects, or says why not. The client then reconnects by itself for ever.
pub(super) async fn connect(link: &Link) -> Result<(Client, Signals), OpenFault> {
    link.check()?;
    let (rung, changes) = watch::channel(0u64);
    let complaint = Arc::new(Mutex::new(None));
    let heard = Arc::clone(&complaint);
    let on_event = move |event: Event| {
        match &event {
            Event::Connected | Event::Disconnected => rung.send_modify(|count| *count += 1),
            Event::ServerError(error) => {
                tracing::warn!(target: "mesh_bus", "the NATS server complains: {error}");
                if let Ok(mut last) = heard.lock() {
                    *last = Some(error.to_string());
                }
            }
            _ => {}
        }
        std::future::ready(())
    };
    let mut options = logged_in(ConnectOptions::new(), &link.login)?
        .name("mesh")
        .connection_timeout(CONNECT)
        .ping_interval(PING)
        .subscription_capacity(64 * 1024)
        .ignore_discovered_servers()
        .event_callback(on_event);
    if let Some(prefix) = &link.inbox {
        options = options.custom_inbox_prefix(prefix);
    }
    if link.servers.iter().any(|server| server.tls) {
        options = options.tls_client_config(tls::config(&link.tls)?);
    }
    if link.servers.iter().all(|server| server.tls) {
        options = options.require_tls(true);
    }
    let mut addresses = Vec::new();
    for server in &link.servers {
        let address = server.url().parse::<ServerAddr>();
        addresses.push(address.map_err(|error| OpenFault::Address(error.to_string()))?);
    }
    match options.connect(addresses).await {
        Ok(client) => Ok((client, Signals { changes, complaint })),
        Err(error) => Err(match error.kind() {
            ConnectErrorKind::Authentication | ConnectErrorKind::AuthorizationViolation => {
                OpenFault::Login {
                    servers: link.shown(),
                }
            }
            _ => OpenFault::Unreachable {
                servers: link.shown(),
                why: error.to_string(),
            },
        }),
    }
}

fn logged_in(options: ConnectOptions, login: &Login) -> Result<ConnectOptions, OpenFault> {
    let text = |secret: &Secret| {
        let text = secret.expose_str().map(str::to_owned);
        text.ok_or_else(|| OpenFault::Credentials("it is not text".to_owned()))
    };
    Ok(match login {
        Login::Open => options,
        Login::Password { user, password } => {
            options.user_and_password(user.clone(), text(password)?)
        }
        // The library wants the last line ended, and its reason may quote what it read.
        Login::Credentials(file) => options
            .credentials(&(text(file)? + "\n"))
            .map_err(|_| OpenFault::Credentials("it is not a NATS credentials file".to_owned()))?,
        Login::Nkey(seed) => options.nkey(text(seed)?.trim().to_owned()),
    })
}

#[cfg(test)]
mod tests {
    //! S-5: plain only on this machine, unless it was said in so many words.
    use super::*;

    fn link(host: &str, tls: bool, dangerously_plain: bool) -> Link {
        Link {
            servers: vec![Server {
                host: host.to_owned(),
                port: 4222,
                tls,
            }],
            dangerously_plain,
            ..Link::default()
        }
    }

    #[test]
    fn s5_plain_is_for_this_machine_alone() {
        for host in ["127.0.0.1", "::1", "localhost"] {
            assert!(link(host, false, false).check().is_ok(), "{host}");
        }
        for host in ["10.0.0.1", "nats.example", "localhost.example"] {
            let refused = link(host, false, false).check();
            assert!(matches!(refused, Err(OpenFault::Plain { .. })), "{host}");
            assert!(link(host, true, false).check().is_ok(), "{host}");
            assert!(link(host, false, true).check().is_ok(), "{host}");
        }
        assert!(matches!(Link::default().check(), Err(OpenFault::NoServer)));
    }

    #[test]
    fn s2_a_credentials_file_that_is_none_is_not_quoted() {
        let login = Login::Credentials(Secret::new(b"planted-secret".as_slice()));
        let refused = logged_in(ConnectOptions::new(), &login);
        let text = refused.err().map(|fault| fault.to_string());
        assert!(
            text.as_ref().is_some_and(|t| !t.contains("planted")),
            "{text:?}"
        );
    }
}
