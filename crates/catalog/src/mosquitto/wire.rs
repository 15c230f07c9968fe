//! One connection to a broker: a login, a subscription, and messages out and in.
//!
//! A connection belongs to one call and is closed with it, so a call that was cut off leaves nothing
//! behind (H-9).

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Class, Error};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, BufReader, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::classify;
use super::packet::{self, CONNACK, DISCONNECT, PUBACK, PUBLISH, Packet, SUBACK};
use crate::tls;

/// How long a connection may take until the login is answered.
const DEADLINE: Duration = Duration::from_secs(5);
/// How often an idle connection is asked for a sign of life, and how long that may take.
const IDLE: (Duration, Duration) = (Duration::from_secs(20), Duration::from_secs(5));

trait Io: AsyncRead + AsyncWrite + Unpin + Send + Sync {}
impl<T: AsyncRead + AsyncWrite + Unpin + Send + Sync> Io for T {}

/// A name that nobody else has.
pub(super) fn nonce(prefix: &str) -> String {
    format!("{prefix}-{:016x}", RandomState::new().hash_one(prefix))
}

/// A socket that acknowledges what it read at once. The broker sends each answer in two pieces and, unless
/// `set_tcp_nodelay` is set, holds the second back until the first is acknowledged: 40 ms for each command.
struct Prompt(TcpStream);

impl AsyncRead for Prompt {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let read = Pin::new(&mut self.0).poll_read(cx, buffer);
        #[cfg(target_os = "linux")]
        if read.is_ready() {
            // Where it does not work all is only slower.
            let _ = self.0.set_quickack(true);
        }
        read
    }
}

impl AsyncWrite for Prompt {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, bytes)
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(cx)
    }
}

/// An open connection.
pub(super) struct Wire {
    stream: BufReader<Box<dyn Io>>,
    last_id: u16,
}

/// Whether the scheme encrypts.
pub(super) fn is_encrypted(settings: &ProviderSettings) -> bool {
    settings.scheme == "mqtts"
}

/// A connection that is logged in, or `None` if the broker refused the login.
pub(super) async fn enter(
    settings: &ProviderSettings,
    user: Option<&[u8]>,
    password: Option<&[u8]>,
) -> Result<Option<Wire>, Error> {
    let log_in = async {
        let mut wire = dial(settings).await?;
        Ok(wire.log_in(user, password).await?.then_some(wire))
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

async fn dial(settings: &ProviderSettings) -> Result<Wire, Error> {
    let encrypted = is_encrypted(settings);
    settings.may_connect(encrypted)?;
    let broken = |error| classify::broken("connect", &error);
    let target = (settings.host.as_str(), settings.port);
    let socket = TcpStream::connect(target).await.map_err(broken)?;
    socket.set_nodelay(true).map_err(broken)?;
    let socket = Prompt(socket);
    let stream: Box<dyn Io> = if encrypted {
        let tls = tls::handshake(settings)?;
        let stream = tls.connector.connect(tls.name, socket).await;
        Box::new(stream.map_err(broken)?)
    } else {
        Box::new(socket)
    };
    Ok(Wire {
        stream: BufReader::new(stream),
        last_id: 0,
    })
}

impl Wire {
    async fn send(&mut self, what: &str, bytes: Option<Vec<u8>>) -> Result<(), Error> {
        let bytes = bytes.ok_or_else(|| {
            let message = format!("{what}: longer than MQTT can carry");
            Error::new(Class::RefusedValue, message)
        })?;
        let sent = async {
            self.stream.write_all(&bytes).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|error| classify::broken(what, &error))
    }

    /// The next packet. One that says goodbye is an error.
    async fn packet(&mut self, what: &str) -> Result<Packet, Error> {
        let read = async {
            let head = self.stream.read_u8().await?;
            let mut size = Vec::with_capacity(4);
            let size = loop {
                size.push(self.stream.read_u8().await?);
                match packet::length(&size) {
                    Some((size, _)) => break size,
                    None if size.len() == 4 => {
                        return Err(io::ErrorKind::InvalidData.into());
                    }
                    None => {}
                }
            };
            let mut body = vec![0; size];
            self.stream.read_exact(&mut body).await?;
            Ok(Packet { head, body })
        };
        let packet = read.await.map_err(|error| classify::broken(what, &error))?;
        match packet.kind() {
            DISCONNECT => {
                let code = packet.body.first().copied().unwrap_or(0x8b);
                Err(classify::refused(what, code))
            }
            _ => Ok(packet),
        }
    }

    async fn log_in(
        &mut self,
        user: Option<&[u8]>,
        password: Option<&[u8]>,
    ) -> Result<bool, Error> {
        const WHAT: &str = "log in";
        // A name of its own: the broker would end the session of whoever has the same one.
        let client = nonce("meshkeeper");
        self.send(WHAT, packet::connect(&client, user, password))
            .await?;
        let answer = self.packet(WHAT).await?;
        match (answer.kind(), answer.connected()) {
            (CONNACK, Some(0)) => Ok(true),
            (CONNACK, Some(0x86 | 0x87)) => Ok(false),
            (CONNACK, Some(code)) => Err(classify::refused(WHAT, code)),
            _ => Err(classify::garbled(WHAT)),
        }
    }

    fn next_id(&mut self) -> u16 {
        self.last_id = self.last_id.checked_add(1).unwrap_or(1);
        self.last_id
    }

    /// Subscribes. What comes is read by [`Wire::message`].
    pub(super) async fn subscribe(&mut self, what: &str, topic: &str) -> Result<(), Error> {
        let id = self.next_id();
        self.send(what, packet::subscribe(id, topic)).await?;
        loop {
            // What else comes now belongs to an earlier question.
            let answer = self.packet(what).await?;
            match (answer.kind(), answer.reason()) {
                (SUBACK, code) if code < 0x80 => return Ok(()),
                (SUBACK, code) => return Err(classify::refused(what, code)),
                _ => {}
            }
        }
    }

    /// Publishes. If that is not allowed, the next [`Wire::message`] is an error.
    pub(super) async fn publish(
        &mut self,
        what: &str,
        topic: &str,
        payload: &[u8],
    ) -> Result<(), Error> {
        let id = self.next_id();
        self.send(what, packet::publish(id, topic, payload)).await
    }

    /// The next message on a topic. A publication that was refused is an error.
    pub(super) async fn message(&mut self, what: &str, topic: &str) -> Result<Vec<u8>, Error> {
        loop {
            let packet = self.packet(what).await?;
            match packet.kind() {
                PUBACK if packet.reason() >= 0x80 => {
                    return Err(classify::refused(what, packet.reason()));
                }
                PUBLISH => match packet.message() {
                    Some((on, payload)) if on == topic.as_bytes() => return Ok(payload.to_vec()),
                    Some(_) => {}
                    None => return Err(classify::garbled(what)),
                },
                _ => {}
            }
        }
    }

    /// Says goodbye, so that the broker writes down no broken connection.
    pub(super) async fn leave(mut self) {
        let _ = self.send("leave", Some(packet::BYE.to_vec())).await;
    }

    /// Returns when the connection breaks.
    pub(super) async fn wait_for_its_end(&mut self) {
        loop {
            // Nothing comes unasked; whatever else ends the wait is the end.
            if let Ok(packet) = timeout(IDLE.0, self.packet("wait")).await {
                match packet {
                    Ok(_) => continue,
                    Err(_) => return,
                }
            }
            let alive = async {
                self.send("wait", Some(packet::PING.to_vec())).await?;
                self.packet("wait").await
            };
            if !matches!(timeout(IDLE.1, alive).await, Ok(Ok(_))) {
                return;
            }
        }
    }
}
