//! Lines of bounded length from a pipe.

use tokio::io::{AsyncBufRead, AsyncBufReadExt as _};

/// The longest line that a program may say.
pub(super) const LONGEST: usize = 1024 * 1024;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Read {
    /// A whole line, without its end.
    Line,
    /// One that is longer than allowed; the rest of it is still to come.
    TooLong,
    /// Nothing more will come. What stood before the end without a line break is no line.
    End,
}

/// Reads one line into `line`, keeping at most `longest` bytes of it in memory.
pub(super) async fn read_line<R: AsyncBufRead + Unpin>(
    from: &mut R,
    longest: usize,
    line: &mut Vec<u8>,
) -> Read {
    line.clear();
    loop {
        let Ok(got) = from.fill_buf().await else {
            return Read::End;
        };
        if got.is_empty() {
            return Read::End;
        }
        let end = got.iter().position(|byte| *byte == b'\n');
        let part = &got[..end.unwrap_or(got.len())];
        if line.len() + part.len() > longest {
            return Read::TooLong;
        }
        line.extend_from_slice(part);
        let used = part.len() + usize::from(end.is_some());
        from.consume(used);
        if end.is_some() {
            return Read::Line;
        }
    }
}

#[cfg(test)]
mod tests {
    //! Whole lines, none too long, and no half one at the end.
    use super::*;

    #[tokio::test]
    async fn a9_lines_are_whole_and_bounded() {
        let text = b"one\n\ntwelve letters\nrest".as_slice();
        let mut from = tokio::io::BufReader::with_capacity(4, text);
        let mut line = Vec::new();
        assert_eq!(read_line(&mut from, 8, &mut line).await, Read::Line);
        assert_eq!(line, b"one");
        assert_eq!(read_line(&mut from, 8, &mut line).await, Read::Line);
        assert_eq!(line, b"");
        assert_eq!(read_line(&mut from, 8, &mut line).await, Read::TooLong);
        assert!(line.len() <= 8);
        let mut from = tokio::io::BufReader::new(b"half".as_slice());
        assert_eq!(read_line(&mut from, 8, &mut line).await, Read::End);
    }
}
