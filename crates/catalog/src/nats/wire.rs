//! One connection to a NATS server: its greeting, a login, and questions with one answer each.
//!
//! A connection belongs to one call and is closed with it, so a call that was cut off leaves nothing
//! behind (H-9).

use std::time::Duration;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Error};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::classify;
use crate::tls;

/// How long a connection may take until the login is answered.
const DEADLINE: Duration = Duration::from_secs(5);
/// What our connections call themselves, those on which a consumer's password is proven too.
pub(super) const NAME: &str = "meshkeeper";
/// The longest line and the longest answer that are read.
const LONGEST: (u64, usize) = (1 << 20, 64 << 20);

trait Io: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Io for T {}

/// What the server says of itself before anybody logs in.
#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct Info {
    /// Changes with each start.
    pub(super) server_id: String,
    pub(super) version: String,
    #[serde(default)]
    pub(super) client_id: u64,
    /// Whether logins are asked for at all.
    #[serde(default)]
    pub(super) auth_required: bool,
}

/// How a login went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Entered {
    /// Let in.
    Yes,
    /// Not with this login and password.
    Refused,
    /// Let in, and anybody would be.
    Open,
}

/// An open connection.
pub(super) struct Wire {
    stream: BufReader<Box<dyn Io>>,
    pub(super) info: Info,
}

/// A connection with the server's greeting read, encrypted where the scheme says so; nobody is logged in.
async fn dial(settings: &ProviderSettings) -> Result<Wire, Error> {
    const WHAT: &str = "connect";
    let encrypted = is_encrypted(settings);
    settings.may_connect(encrypted)?;
    let broken = |error| classify::broken(WHAT, &error);
    let target = (settings.host.as_str(), settings.port);
    let socket = TcpStream::connect(target).await.map_err(broken)?;
    socket.set_nodelay(true).map_err(broken)?;
    // The greeting comes in clear; nothing of ours is said before the handshake.
    let mut plain = BufReader::new(Box::new(socket) as Box<dyn Io>);
    let greeting = line(&mut plain, WHAT).await?;
    let Some(info) = greeting.strip_prefix("INFO ") else {
        return Err(match greeting.strip_prefix("-ERR ") {
            Some(text) => classify::refused(WHAT, text.trim_matches(['\'', ' '])),
            None => classify::garbled(WHAT),
        });
    };
    let info = serde_json::from_str(info).map_err(|_| classify::garbled(WHAT))?;
    if !encrypted {
        return Ok(Wire {
            stream: plain,
            info,
        });
    }
    if !plain.buffer().is_empty() {
        return Err(classify::garbled(WHAT));
    }
    let tls = tls::handshake(settings)?;
    let stream = tls.connector.connect(tls.name, plain.into_inner()).await;
    let stream = BufReader::new(Box::new(stream.map_err(broken)?) as Box<dyn Io>);
    Ok(Wire { stream, info })
}

/// Whether the scheme encrypts.
pub(super) fn is_encrypted(settings: &ProviderSettings) -> bool {
    settings.scheme == "tls"
}

/// A connection, and how its login went.
pub(super) async fn enter(
    settings: &ProviderSettings,
    user: &str,
    password: &str,
) -> Result<(Wire, Entered), Error> {
    let log_in = async {
        let mut wire = dial(settings).await?;
        let entered = wire.log_in(user, password, is_encrypted(settings)).await?;
        Ok((wire, entered))
    };
    let result = match timeout(DEADLINE, log_in).await {
        Ok(result) => result,
        Err(_) => Err(classify::late("log in")),
    };
    result.map_err(|error: Error| {
        let message = format!("{} ({})", error.message(), settings.address());
        error.with_message(message)
    })
}

async fn line(stream: &mut BufReader<Box<dyn Io>>, what: &str) -> Result<String, Error> {
    let mut bytes = Vec::new();
    let read = stream.take(LONGEST.0).read_until(b'\n', &mut bytes).await;
    read.map_err(|error| classify::broken(what, &error))?;
    if !bytes.ends_with(b"\n") {
        let ended = std::io::Error::from(std::io::ErrorKind::UnexpectedEof);
        return Err(classify::broken(what, &ended));
    }
    let text = String::from_utf8_lossy(&bytes);
    Ok(text.trim_end().to_owned())
}

impl Wire {
    async fn send(&mut self, what: &str, bytes: &[u8]) -> Result<(), Error> {
        let sent = async {
            self.stream.write_all(bytes).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|error| classify::broken(what, &error))
    }

    async fn log_in(&mut self, user: &str, password: &str, tls: bool) -> Result<Entered, Error> {
        const WHAT: &str = "log in";
        let hello = json!({
            "user": user, "pass": password, "name": NAME, "lang": "rust",
            "version": env!("CARGO_PKG_VERSION"), "protocol": 1, "verbose": false, "pedantic": false,
            "headers": true, "no_responders": true, "echo": false, "tls_required": tls,
        });
        let sent = self
            .send(WHAT, format!("CONNECT {hello}\r\nPING\r\n").as_bytes())
            .await;
        loop {
            let said = match line(&mut self.stream, WHAT).await {
                Ok(said) => said,
                Err(error) => return Err(sent.err().unwrap_or(error)),
            };
            if said == "PONG" {
                return Ok(match self.info.auth_required {
                    true => Entered::Yes,
                    false => Entered::Open,
                });
            }
            if let Some(text) = said.strip_prefix("-ERR ") {
                let text = text.trim_matches(['\'', ' ']);
                if text.eq_ignore_ascii_case("authorization violation") {
                    return Ok(Entered::Refused);
                }
                return Err(classify::refused(WHAT, text));
            }
        }
    }

    /// Asks, and gives the one answer, as JSON.
    pub(super) async fn ask(&mut self, what: &str, subject: &str) -> Result<Value, Error> {
        self.ask_for(what, subject, "").await
    }

    /// The same, with what exactly is asked for.
    pub(super) async fn ask_for(
        &mut self,
        what: &str,
        subject: &str,
        wanted: &str,
    ) -> Result<Value, Error> {
        // Nobody else has this client's number on this server.
        let inbox = format!(
            "_INBOX.meshkeeper.{}.{}",
            self.info.server_id, self.info.client_id
        );
        let ask = format!(
            "SUB {inbox} 1\r\nUNSUB 1 1\r\nPUB {subject} {inbox} {}\r\n{wanted}\r\n",
            wanted.len()
        );
        self.send(what, ask.as_bytes()).await?;
        loop {
            let said = line(&mut self.stream, what).await?;
            let mut words = said.split(' ').filter(|word| !word.is_empty());
            match words.next() {
                Some("PING") => self.send(what, b"PONG\r\n").await?,
                Some("-ERR") => {
                    let text = said["-ERR".len()..].trim_matches(['\'', ' ']);
                    return Err(classify::refused(what, text));
                }
                Some("MSG") => {
                    let body = self.body(what, said.rsplit(' ').next()).await?;
                    return serde_json::from_slice(&body).map_err(|_| classify::garbled(what));
                }
                // Only the server itself sends headers here, to say that nobody listens.
                Some("HMSG") => {
                    self.body(what, said.rsplit(' ').next()).await?;
                    let message = format!(
                        "{what}: nobody answers: the admin must be a user of the system account"
                    );
                    return Err(Error::new(Class::Denied, message));
                }
                _ => {}
            }
        }
    }

    async fn body(&mut self, what: &str, size: Option<&str>) -> Result<Vec<u8>, Error> {
        let size = size
            .and_then(|size| size.parse().ok())
            .filter(|size| *size < LONGEST.1);
        let size: usize = size.ok_or_else(|| classify::garbled(what))?;
        let mut body = vec![0; size + 2];
        let read = self.stream.read_exact(&mut body).await;
        read.map_err(|error| classify::broken(what, &error))?;
        body.truncate(size);
        Ok(body)
    }

    /// Returns when the connection breaks. The server gives a sign of life every few minutes.
    pub(super) async fn wait_for_its_end(&mut self) {
        const SILENCE: Duration = Duration::from_secs(300);
        const WHAT: &str = "wait";
        while let Ok(Ok(said)) = timeout(SILENCE, line(&mut self.stream, WHAT)).await {
            if said == "PING" && self.send(WHAT, b"PONG\r\n").await.is_err() {
                return;
            }
        }
    }
}
