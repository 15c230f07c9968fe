//! As much of Redis's protocol as a looker-on needs: commands out in one write, replies in.

use std::io;

use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

/// What the server said to one command.
pub(super) enum Said {
    /// Yes, and the text that came with it; the parts of a list one after the other.
    Yes(Vec<u8>),
    /// No, and why.
    No(String),
}

impl Said {
    pub(super) fn is_yes(&self) -> bool {
        matches!(self, Said::Yes(_))
    }
    /// Whether a login was refused for its name or password.
    pub(super) fn is_refused_login(&self) -> bool {
        matches!(self, Said::No(why) if why.starts_with("WRONGPASS"))
    }
}

/// One command.
pub(super) type Command<'a> = Vec<&'a [u8]>;

/// A connection.
pub(super) struct Wire(BufReader<TcpStream>);

impl Wire {
    pub(super) async fn connect(port: u16) -> io::Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Sends all in one write, so that the server does nothing else between them, and reads every reply.
    pub(super) async fn ask(&mut self, commands: &[Command<'_>]) -> io::Result<Vec<Said>> {
        let mut bytes = Vec::new();
        for command in commands {
            bytes.extend_from_slice(format!("*{}\r\n", command.len()).as_bytes());
            for part in command {
                bytes.extend_from_slice(format!("${}\r\n", part.len()).as_bytes());
                bytes.extend_from_slice(part);
                bytes.extend_from_slice(b"\r\n");
            }
        }
        self.0.get_mut().write_all(&bytes).await?;
        let mut said = Vec::with_capacity(commands.len());
        for _ in commands {
            said.push(self.reply().await?);
        }
        Ok(said)
    }

    async fn reply(&mut self) -> io::Result<Said> {
        let (mut text, mut left) = (Vec::new(), 1_usize);
        while left > 0 {
            left -= 1;
            let (kind, rest) = self.line().await?;
            let number = || rest.parse::<i64>().map_err(|_| garbled());
            match kind {
                b'-' => return Ok(Said::No(rest)),
                b'*' => left += usize::try_from(number()?.max(0)).map_err(|_| garbled())?,
                b'$' => {
                    if let Ok(length) = usize::try_from(number()?) {
                        let start = text.len();
                        text.resize(start + length + 2, 0);
                        self.0.read_exact(&mut text[start..]).await?;
                    }
                }
                _ => {
                    text.extend_from_slice(rest.as_bytes());
                    text.extend_from_slice(b"\r\n");
                }
            }
        }
        Ok(Said::Yes(text))
    }

    async fn line(&mut self) -> io::Result<(u8, String)> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).await?;
        match line.as_slice() {
            [kind, rest @ .., b'\r', b'\n'] => {
                Ok((*kind, String::from_utf8_lossy(rest).into_owned()))
            }
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }
}

fn garbled() -> io::Error {
    io::ErrorKind::InvalidData.into()
}
