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

    /// The next line, with its end, where it lies.
    pub(super) fn raw_line(&mut self) -> Result<&[u8]> {
        let mut seen = 0;
        loop {
            let waiting = &self.inbox[self.from + seen..self.to];
            if let Some(end) = waiting.iter().position(|byte| *byte == b'\n') {
                return self.take(seen + end + 1);
            }
            seen += waiting.len();
            self.more()?;
        }
    }

    /// The next line, without its end.
    pub(super) fn line(&mut self) -> Result<String> {
        let line = self.raw_line()?;
        Ok(String::from_utf8_lossy(line).trim_end().to_owned())
    }
}
