//! A minimal client for AMQP 0-9-1: enough to log in, to stay, and to leave a message.

use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use super::{Result, ServerError};

/// How long anything may take that a healthy server does at once.
const SOON: Duration = Duration::from_secs(10);
/// How long a server may take to tell of an end that it has decided on.
const END: Duration = Duration::from_millis(300);

type Method = (u16, u16);
const START: Method = (10, 10);
const TUNE: Method = (10, 30);
const OPEN_OK: Method = (10, 41);
const CLOSE: Method = (10, 50);
const CHANNEL_OPEN_OK: Method = (20, 11);
const DECLARE_OK: Method = (50, 11);

/// An open connection.
pub struct AmqpClient {
    stream: TcpStream,
    channel: u16,
}

impl AmqpClient {
    /// Logs in and opens a virtual host; `None` if the server refuses either.
    pub async fn log_in(
        port: u16,
        login: &str,
        password: &str,
        vhost: &str,
    ) -> Result<Option<Self>> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        let mut client = Self { stream, channel: 0 };
        let attempt = client.shake_hands(login, password, vhost);
        match timeout(SOON, attempt).await {
            Ok(Ok(true)) => Ok(Some(client)),
            Ok(Ok(false)) => Ok(None),
            Ok(Err(error)) => Err(error),
            Err(_) => Err(ServerError::new("no answer to a login")),
        }
    }

    async fn shake_hands(&mut self, login: &str, password: &str, vhost: &str) -> Result<bool> {
        self.stream.write_all(b"AMQP\0\0\x09\x01").await?;
        if self.method().await?.0 != START {
            return Err(ServerError::new("it does not speak AMQP 0-9-1"));
        }
        // So that a refusal is said, and the connection not just closed.
        let capability = b"\x1cauthentication_failure_closet\x01";
        let mut properties = b"\x0ccapabilitiesF".to_vec();
        long(&mut properties, capability);
        let mut body = Vec::new();
        long(&mut body, &properties);
        short(&mut body, b"PLAIN");
        long(&mut body, format!("\0{login}\0{password}").as_bytes());
        short(&mut body, b"en_US");
        self.send(0, (10, 11), &body).await?;
        let (method, limits) = self.method().await?;
        if method != TUNE {
            return Ok(false);
        }
        // The server's limits, and no heartbeat.
        let mut body = limits.get(..6).unwrap_or(&[0; 6]).to_vec();
        body.extend([0, 0]);
        self.send(0, (10, 31), &body).await?;
        let mut body = Vec::new();
        short(&mut body, vhost.as_bytes());
        body.extend([0, 0]);
        self.send(0, (10, 40), &body).await?;
        Ok(self.method().await?.0 == OPEN_OK)
    }

    /// Whether the server still serves this connection.
    pub async fn is_alive(&mut self) -> bool {
        if let Ok(unasked) = timeout(END, self.method()).await {
            // Whatever it is, it is an end; one that is announced is agreed to.
            if matches!(unasked, Ok((CLOSE, _))) {
                let _ = self.send(0, (10, 51), &[]).await;
            }
            return false;
        }
        self.channel += 1;
        let channel = self.channel;
        let opened = async {
            self.send(channel, (20, 10), &[0]).await?;
            Ok::<_, ServerError>(self.method().await?.0)
        };
        matches!(timeout(SOON, opened).await, Ok(Ok(CHANNEL_OPEN_OK)))
    }

    /// Declares a lasting queue and leaves a lasting message in it.
    pub async fn leave(&mut self, queue: &str, message: &[u8]) -> Result<()> {
        match timeout(SOON, self.publish(queue, message)).await {
            Ok(done) => done,
            Err(_) => Err(ServerError::new("no answer to a message")),
        }
    }

    async fn publish(&mut self, queue: &str, message: &[u8]) -> Result<()> {
        self.channel += 1;
        let channel = self.channel;
        self.send(channel, (20, 10), &[0]).await?;
        self.expect(CHANNEL_OPEN_OK).await?;
        self.declare(channel, queue, 0b10).await?;
        // To the exchange without a name, which knows every queue by its own.
        let mut body = vec![0, 0, 0];
        short(&mut body, queue.as_bytes());
        body.push(0);
        self.send(channel, (60, 40), &body).await?;
        let length = u64::try_from(message.len()).unwrap_or(0).to_be_bytes();
        let lasting = [&[0, 60, 0, 0][..], &length, &[0x10, 0, 2]].concat();
        self.frame(2, channel, &lasting).await?;
        self.frame(3, channel, message).await?;
        // Once this is answered, what came before it on the channel was done.
        self.declare(channel, queue, 0b11).await
    }

    async fn declare(&mut self, channel: u16, queue: &str, how: u8) -> Result<()> {
        let mut body = vec![0, 0];
        short(&mut body, queue.as_bytes());
        body.push(how);
        body.extend([0; 4]);
        self.send(channel, (50, 10), &body).await?;
        self.expect(DECLARE_OK).await
    }

    async fn expect(&mut self, wanted: Method) -> Result<()> {
        let (method, body) = self.method().await?;
        if method == wanted {
            return Ok(());
        }
        let why = String::from_utf8_lossy(&body).into_owned();
        Err(ServerError::new(format!(
            "{method:?} and not {wanted:?}: {why}"
        )))
    }

    async fn send(&mut self, channel: u16, (class, method): Method, body: &[u8]) -> Result<()> {
        let mut payload = class.to_be_bytes().to_vec();
        payload.extend(method.to_be_bytes());
        payload.extend(body);
        self.frame(1, channel, &payload).await
    }

    async fn frame(&mut self, kind: u8, channel: u16, payload: &[u8]) -> Result<()> {
        let mut frame = vec![kind];
        frame.extend(channel.to_be_bytes());
        long(&mut frame, payload);
        frame.push(0xce);
        Ok(self.stream.write_all(&frame).await?)
    }

    /// The next method, and its arguments.
    async fn method(&mut self) -> Result<(Method, Vec<u8>)> {
        let mut head = [0; 7];
        self.stream.read_exact(&mut head).await?;
        let length = u32::from_be_bytes([head[3], head[4], head[5], head[6]]);
        let mut body = vec![0; usize::try_from(length).unwrap_or(0) + 1];
        self.stream.read_exact(&mut body).await?;
        let [a, b, c, d, rest @ ..] = &body[..] else {
            return Err(ServerError::new("a frame without a method"));
        };
        let method = (u16::from_be_bytes([*a, *b]), u16::from_be_bytes([*c, *d]));
        Ok((method, rest.to_vec()))
    }
}

fn short(to: &mut Vec<u8>, text: &[u8]) {
    to.push(u8::try_from(text.len()).unwrap_or(u8::MAX));
    to.extend(text);
}

fn long(to: &mut Vec<u8>, bytes: &[u8]) {
    to.extend(u32::try_from(bytes.len()).unwrap_or(u32::MAX).to_be_bytes());
    to.extend(bytes);
}
