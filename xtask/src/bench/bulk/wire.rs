//! A stream with a buffer: what the bare clients read with, so that replies are taken where they lie.

use anyhow::{Result, ensure};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::ops::Range;

const ROOM: usize = 256 * 1024;

/// A connection of a bare client.
pub(super) struct Wire {
    stream: TcpStream,
    inbox: Vec<u8>,
    from: usize,
    to: usize,
}

impl Wire {
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

    /// The next so many bytes.
    pub(super) fn take(&mut self, length: usize) -> Result<&[u8]> {
        while self.to - self.from < length {
            self.more()?;
        }
        let range: Range<usize> = self.from..self.from + length;
        self.from += length;
        Ok(&self.inbox[range])
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<String> {
        loop {
            let waiting = &self.inbox[self.from..self.to];
            if let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                let line = String::from_utf8_lossy(&waiting[..end])
                    .trim_end()
                    .to_owned();
                self.from += end + 1;
                return Ok(line);
            }
            self.more()?;
        }
    }
}
