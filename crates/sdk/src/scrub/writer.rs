//! A writer that lets only scrubbed lines through.

use std::io::{self, Write};

use super::Scrubber;

/// Passes whole lines on, scrubbed. What was written without a line's end waits for it, or for the end
/// of the writer: a secret is never passed on in two halves.
pub struct ScrubWriter<W: Write> {
    scrubber: Scrubber,
    inner: W,
    waiting: Vec<u8>,
}

impl<W: Write> ScrubWriter<W> {
    /// Scrubs what goes to `inner`.
    pub fn new(scrubber: Scrubber, inner: W) -> Self {
        Self {
            scrubber,
            inner,
            waiting: Vec::new(),
        }
    }
    fn pass(&mut self, bytes: &[u8]) -> io::Result<()> {
        let text = String::from_utf8_lossy(bytes);
        self.inner.write_all(self.scrubber.scrub(&text).as_bytes())
    }
}

impl<W: Write> Write for ScrubWriter<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.waiting.extend_from_slice(bytes);
        let end = self.waiting.iter().rposition(|byte| *byte == b'\n');
        if let Some(end) = end {
            let rest = self.waiting.split_off(end + 1);
            let lines = std::mem::replace(&mut self.waiting, rest);
            self.pass(&lines)?;
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        self.inner.flush()
    }
}

impl<W: Write> Drop for ScrubWriter<W> {
    fn drop(&mut self) {
        let rest = std::mem::take(&mut self.waiting);
        if !rest.is_empty() {
            // There is nobody left to tell.
            let _ = self.pass(&rest);
        }
        let _ = self.inner.flush();
    }
}
