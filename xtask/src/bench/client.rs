//! The bare client: one write, and replies read where they lie in the buffer. It is the limit that the
//! program is measured against, so it does nothing else.

use anyhow::{Context, Result, bail, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;

const ROOM: usize = 256 * 1024;
/// Commands in one write of a pipeline; the next part goes out before this one's replies are read.
const PART: usize = 256;

/// A connection.
pub(super) struct Client {
    stream: TcpStream,
    inbox: Vec<u8>,
    from: usize,
    to: usize,
}

/// One command as it goes over the wire.
pub(super) fn command(args: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", args.len()).into_bytes();
    for arg in args {
        bytes.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        bytes.extend_from_slice(arg);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}

impl Client {
    pub(super) fn connect(port: u16) -> Result<Self> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        Ok(Self {
            stream,
            inbox: vec![0; ROOM],
            from: 0,
            to: 0,
        })
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        Ok(self.stream.write_all(bytes)?)
    }

    fn more(&mut self) -> Result<()> {
        if self.from > 0 {
            self.inbox.copy_within(self.from..self.to, 0);
            (self.to, self.from) = (self.to - self.from, 0);
        }
        if self.to == self.inbox.len() {
            self.inbox.resize(2 * self.to, 0);
        }
        let got = self.stream.read(&mut self.inbox[self.to..])?;
        ensure!(got > 0, "the server closed the connection");
        self.to += got;
        Ok(())
    }

    /// Kind and number (or text) of the next line.
    fn head(&mut self) -> Result<(u8, std::ops::Range<usize>)> {
        loop {
            let waiting = &self.inbox[self.from..self.to];
            if let Some(end) = waiting.iter().position(|b| *b == b'\n') {
                let (kind, start) = (waiting[0], self.from + 1);
                let line = start..self.from + end - 1;
                self.from += end + 1;
                return Ok((kind, line));
            }
            self.more()?;
        }
    }

    fn number(&self, line: std::ops::Range<usize>) -> Result<i64> {
        let text = std::str::from_utf8(&self.inbox[line])?;
        text.parse().context("no number where the protocol has one")
    }

    /// Hands over each text of one reply, nested lists as one.
    pub(super) fn each(&mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut left = 1_i64;
        while left > 0 {
            left -= 1;
            let (kind, line) = self.head()?;
            match kind {
                b'*' => left += self.number(line)?.max(0),
                b'$' => {
                    let Ok(length) = usize::try_from(self.number(line)?) else {
                        continue;
                    };
                    while self.to - self.from < length + 2 {
                        self.more()?;
                    }
                    take(&self.inbox[self.from..self.from + length]);
                    self.from += length + 2;
                }
                b'-' => bail!("{}", String::from_utf8_lossy(&self.inbox[line])),
                _ => take(&self.inbox[line]),
            }
        }
        Ok(())
    }

    /// One command, and the texts of its reply.
    pub(super) fn ask(&mut self, args: &[&[u8]]) -> Result<Vec<String>> {
        self.send(&command(args))?;
        let mut texts = Vec::new();
        self.each(|text| texts.push(String::from_utf8_lossy(text).into_owned()))?;
        Ok(texts)
    }

    /// The bulk read: every login's line; answers how many and how many bytes.
    pub(super) fn acl_list(&mut self) -> Result<(usize, usize)> {
        self.send(&command(&[b"ACL", b"LIST"]))?;
        let (mut lines, mut bytes) = (0, 0);
        self.each(|text| (lines, bytes) = (lines + 1, bytes + text.len()))?;
        Ok((lines, bytes))
    }

    /// The bulk write: every command, the next part on its way while one is worked off.
    pub(super) fn pipeline(&mut self, commands: &[Vec<u8>]) -> Result<()> {
        let mut waiting = 0;
        for part in commands.chunks(PART) {
            self.send(&part.concat())?;
            for _ in 0..waiting {
                self.each(|_| ())?;
            }
            waiting = part.len();
        }
        for _ in 0..waiting {
            self.each(|_| ())?;
        }
        Ok(())
    }

    /// A field of `INFO`, behind its name.
    pub(super) fn info(&mut self, section: &str, field: &str) -> Result<Option<String>> {
        let told = self.ask(&[b"INFO", section.as_bytes()])?.concat();
        let found = told.lines().find_map(|line| line.strip_prefix(field));
        Ok(found.map(|rest| rest.trim().to_owned()))
    }

    /// How many `ACL SETUSER` the server has worked off; before 7.0, how many `ACL` commands.
    pub(super) fn changes(&mut self) -> Result<u64> {
        let calls = match self.info("commandstats", "cmdstat_acl|setuser:calls=")? {
            None => self.info("commandstats", "cmdstat_acl:calls=")?,
            found => found,
        };
        let number = calls
            .as_deref()
            .and_then(|c| c.split(',').next()?.parse().ok());
        Ok(number.unwrap_or(0))
    }
}
