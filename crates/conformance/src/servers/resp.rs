//! A tiny client for Redis's protocol, for tests: own code, so that it shares no fault with an adapter.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;

use super::{Result, ServerError};

/// A reply.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    /// A text, of either kind.
    Text(Vec<u8>),
    /// An error.
    Error(String),
    /// A number.
    Number(i64),
    /// Nothing.
    Nil,
    /// A list.
    List(Vec<Reply>),
}

impl Reply {
    /// The text as UTF-8, replaced where it is none; empty for any other reply.
    pub fn text(&self) -> String {
        match self {
            Reply::Text(bytes) => String::from_utf8_lossy(bytes).into_owned(),
            _ => String::new(),
        }
    }
    /// The parts of a list; none for any other reply.
    pub fn list(&self) -> &[Reply] {
        match self {
            Reply::List(parts) => parts,
            _ => &[],
        }
    }
    /// Whether it is an error.
    pub fn is_error(&self) -> bool {
        matches!(self, Reply::Error(_))
    }
}

/// A connection.
#[derive(Debug)]
pub struct RespClient {
    stream: BufReader<TcpStream>,
}

impl RespClient {
    /// To a port of this machine.
    pub async fn connect(port: u16) -> Result<Self> {
        let socket = TcpStream::connect(("127.0.0.1", port)).await?;
        socket.set_nodelay(true)?;
        Ok(Self {
            stream: BufReader::with_capacity(256 * 1024, socket),
        })
    }

    /// One command and its reply; a reply that is an error is an `Ok` here.
    pub async fn call(&mut self, args: &[&str]) -> Result<Reply> {
        let args: Vec<&[u8]> = args.iter().map(|a| a.as_bytes()).collect();
        self.call_bytes(&args).await
    }
    /// The same with bytes.
    pub async fn call_bytes(&mut self, args: &[&[u8]]) -> Result<Reply> {
        self.send(&encode(args)).await?;
        self.read().await
    }
    /// The same, and a reply that is an error is an error here.
    pub async fn must(&mut self, args: &[&str]) -> Result<Reply> {
        match self.call(args).await? {
            Reply::Error(text) => {
                let name = args.get(..2).unwrap_or(args).join(" ");
                Err(ServerError::new(format!("{name}: {text}")))
            }
            reply => Ok(reply),
        }
    }
    /// Sends bytes as they are; [`encode`] makes them.
    pub async fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.get_mut().write_all(bytes).await?)
    }
    /// Reads one reply.
    pub async fn read(&mut self) -> Result<Reply> {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).await?;
        let Some((kind, rest)) = line.split_first().filter(|_| line.ends_with(b"\r\n")) else {
            return Err(ServerError::new("the connection was closed"));
        };
        let rest = &rest[..rest.len() - 2];
        let text = String::from_utf8_lossy(rest).into_owned();
        let number = || {
            text.parse::<i64>()
                .map_err(|_| ServerError::new("not a number"))
        };
        match kind {
            b'+' => Ok(Reply::Text(rest.to_vec())),
            b'-' => Ok(Reply::Error(text)),
            b':' => Ok(Reply::Number(number()?)),
            b'$' | b'*' if number()? < 0 => Ok(Reply::Nil),
            b'$' => {
                let mut bytes = vec![0; usize::try_from(number()?).unwrap_or(0) + 2];
                self.stream.read_exact(&mut bytes).await?;
                bytes.truncate(bytes.len() - 2);
                Ok(Reply::Text(bytes))
            }
            b'*' => {
                let mut parts = Vec::new();
                for _ in 0..number()? {
                    parts.push(Box::pin(self.read()).await?);
                }
                Ok(Reply::List(parts))
            }
            _ => Err(ServerError::new("not the protocol")),
        }
    }
}

/// A command as it goes over the wire.
pub fn encode(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
