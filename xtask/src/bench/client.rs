//! The bare client: one write, and replies read where they lie in the buffer. It is the limit that the
//! program is measured against, so it does nothing else.

use super::wire::Wire;
use anyhow::{Context, Result, bail};

/// Commands in one write of a pipeline; the next part goes out before this one's replies are read.
const PART: usize = 256;

/// A connection.
pub(super) struct Client(Wire);

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

fn number(line: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(line)?;
    text.parse().context("no number where the protocol has one")
}

impl Client {
    pub(super) fn connect(port: u16) -> Result<Self> {
        Ok(Self(Wire::connect(port)?))
    }

    pub(super) fn send(&mut self, bytes: &[u8]) -> Result<()> {
        self.0.send(bytes)
    }

    /// Hands over each text of one reply, nested lists as one.
    pub(super) fn each(&mut self, mut take: impl FnMut(&[u8])) -> Result<()> {
        let mut left = 1_i64;
        while left > 0 {
            left -= 1;
            let line = self.0.raw_line()?;
            let (kind, line) = (line[0], &line[1..line.len() - 2]);
            match kind {
                b'*' => left += number(line)?.max(0),
                b'$' => {
                    let Ok(length) = usize::try_from(number(line)?) else {
                        continue;
                    };
                    take(&self.0.take(length + 2)?[..length]);
                }
                b'-' => bail!("{}", String::from_utf8_lossy(line)),
                _ => take(line),
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
