//! The protocol of Redis, as little of it as this adapter needs: requests in, replies out.
//!
//! Why not a client library is in `docs/decisions/0011-redis-client.md`: the bulk read takes each line out
//! of the receive buffer without a copy, a pipeline hands out its replies one by one, and nothing prints
//! what was sent.

use std::io;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use zeroize::Zeroizing;

use mesh_sdk::{Cx, Error};

use super::classify;

/// How much is read at once at most.
const READ: usize = 256 * 1024;
/// The longest single value that is believed; Redis's own limit.
const LONGEST: usize = 512 * 1024 * 1024;

/// How deep replies nest at most; the deepest one here has three levels.
const DEEPEST: usize = 8;

/// Any byte stream to a server.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

/// Commands that go out in one write. Wiped on drop, since `AUTH` is among them.
pub(super) struct Request {
    bytes: Zeroizing<Vec<u8>>,
    commands: usize,
}

impl Request {
    /// None yet, with room for `bytes`.
    pub(super) fn with_room(bytes: usize) -> Self {
        Self {
            bytes: Zeroizing::new(Vec::with_capacity(bytes)),
            commands: 0,
        }
    }
    /// One command.
    pub(super) fn one(args: &[&[u8]]) -> Self {
        let mut request = Self::with_room(args.iter().map(|a| a.len() + 16).sum());
        request.push(args);
        request
    }
    /// Adds a command.
    pub(super) fn push(&mut self, args: &[&[u8]]) {
        self.push_each(args.len(), args.iter().copied());
    }
    /// Adds a command of so many arguments.
    pub(super) fn push_each<'a>(&mut self, count: usize, args: impl Iterator<Item = &'a [u8]>) {
        self.header(b'*', count);
        for arg in args {
            self.header(b'$', arg.len());
            self.bytes.extend_from_slice(arg);
            self.bytes.extend_from_slice(b"\r\n");
        }
        self.commands += 1;
    }
    fn header(&mut self, kind: u8, number: usize) {
        let mut digits = [0; 20];
        let mut at = digits.len();
        let mut rest = number;
        loop {
            at -= 1;
            digits[at] = b'0' + u8::try_from(rest % 10).unwrap_or(0);
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.bytes.push(kind);
        self.bytes.extend_from_slice(&digits[at..]);
        self.bytes.extend_from_slice(b"\r\n");
    }
    /// How many commands.
    pub(super) fn commands(&self) -> usize {
        self.commands
    }
}

/// One reply. It has no `Debug`: some replies are full of hashes.
pub(super) enum Reply {
    Text(Vec<u8>),
    Error(String),
    /// Which one is never asked.
    Number,
    Nil,
    List(Vec<Reply>),
}

impl Reply {
    /// The reply, or the error that the server sent instead.
    pub(super) fn ok(self, what: &str) -> Result<Reply, Error> {
        match self {
            Reply::Error(text) => Err(classify::refused(what, &text)),
            other => Ok(other),
        }
    }
    /// The bytes of a text.
    pub(super) fn text(&self) -> Option<&[u8]> {
        match self {
            Reply::Text(bytes) => Some(bytes),
            _ => None,
        }
    }
    /// The parts of a list.
    pub(super) fn list(&self) -> Option<&[Reply]> {
        match self {
            Reply::List(parts) => Some(parts),
            _ => None,
        }
    }
}

/// A connection. Whoever is cut off drops it, and with it the socket: it is never used again (H-9).
pub(super) struct Wire {
    stream: Box<dyn Stream>,
    inbox: Vec<u8>,
    read: usize,
    room: usize,
}

impl Wire {
    /// On a connected stream.
    pub(super) fn new(stream: Box<dyn Stream>) -> Self {
        Self {
            stream,
            inbox: Vec::new(),
            read: 0,
            room: 4 * 1024,
        }
    }

    /// Sends without waiting for replies.
    pub(super) async fn send(&mut self, request: &Request) -> Result<(), Error> {
        let sent = async {
            self.stream.write_all(&request.bytes).await?;
            self.stream.flush().await
        };
        sent.await.map_err(|error| classify::broken("send", &error))
    }

    /// The next reply.
    pub(super) async fn reply(&mut self) -> Result<Reply, Error> {
        loop {
            let parsed = parse(&self.inbox[self.read..], DEEPEST)
                .ok_or_else(|| classify::garbled("read"))?;
            match parsed {
                Parsed::Whole(reply, used) => {
                    self.read += used;
                    return Ok(reply);
                }
                Parsed::Partial => self.more().await?,
            }
        }
    }

    /// Sends one command and reads its reply, or the server's refusal as an error.
    pub(super) async fn ask(&mut self, what: &str, args: &[&[u8]]) -> Result<Reply, Error> {
        self.send(&Request::one(args)).await?;
        self.reply().await?.ok(what)
    }

    /// Sends one command whose reply is a list of texts, and hands each of them over.
    pub(super) async fn each_line(
        &mut self,
        cx: &Cx,
        what: &str,
        args: &[&[u8]],
        take: impl FnMut(&[u8]) + Send,
    ) -> Result<usize, Error> {
        self.send(&Request::one(args)).await?;
        self.lines(cx, what, take).await
    }

    /// The reply to a command that was sent: a list of texts, each handed over where it lies in the
    /// buffer. Every read that brought something is a sign of life.
    pub(super) async fn lines(
        &mut self,
        cx: &Cx,
        what: &str,
        mut take: impl FnMut(&[u8]) + Send,
    ) -> Result<usize, Error> {
        let garbled = || classify::garbled(what);
        let total = loop {
            match head(&self.inbox[self.read..]).ok_or_else(garbled)? {
                Some((b'*', number, used)) => {
                    self.read += used;
                    break usize::try_from(number).map_err(|_| garbled())?;
                }
                Some((b'-', ..)) => return self.reply().await?.ok(what).and(Err(garbled())),
                Some(_) => return Err(garbled()),
                None => self.more().await?,
            }
        };
        let mut left = total;
        while left > 0 {
            match line(&self.inbox[self.read..]).ok_or_else(garbled)? {
                Some((text, used)) => {
                    take(text);
                    self.read += used;
                    left -= 1;
                }
                None => {
                    self.more().await?;
                    cx.progress();
                }
            }
        }
        cx.progress();
        Ok(total)
    }

    /// Waits until the server closes the connection or says something unasked.
    pub(super) async fn closed(&mut self) {
        let _ = self.more().await;
    }

    async fn more(&mut self) -> Result<(), Error> {
        if self.read > 0 {
            self.inbox.drain(..self.read);
            self.read = 0;
        }
        self.inbox.reserve(self.room);
        let got = self.stream.read_buf(&mut self.inbox).await;
        match got {
            // There is more than fits: take twice as much next time.
            Ok(n) if n >= self.room => {
                self.room = (2 * self.room).min(READ);
                Ok(())
            }
            Ok(0) => Err(classify::broken(
                "read",
                &io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "the server closed the connection",
                ),
            )),
            Ok(_) => Ok(()),
            Err(error) => Err(classify::broken("read", &error)),
        }
    }
}

enum Parsed {
    Whole(Reply, usize),
    Partial,
}

/// One reply at the start of `bytes`; `None` if they are not the protocol.
fn parse(bytes: &[u8], depth: usize) -> Option<Parsed> {
    let Some(&kind) = bytes.first() else {
        return Some(Parsed::Partial);
    };
    if kind == b'+' || kind == b'-' {
        let Some(end) = end_of_line(bytes) else {
            return Some(Parsed::Partial);
        };
        let text = &bytes[1..end];
        let reply = match kind {
            b'+' => Reply::Text(text.to_vec()),
            _ => Reply::Error(String::from_utf8_lossy(text).into_owned()),
        };
        return Some(Parsed::Whole(reply, end + 2));
    }
    let Some((_, number, used)) = head(bytes)? else {
        return Some(Parsed::Partial);
    };
    match (kind, number) {
        (b':', _) => Some(Parsed::Whole(Reply::Number, used)),
        (b'$' | b'*', -1) => Some(Parsed::Whole(Reply::Nil, used)),
        (b'$', _) => Some(match line(bytes)? {
            Some((text, used)) => Parsed::Whole(Reply::Text(text.to_vec()), used),
            None => Parsed::Partial,
        }),
        (b'*', number) => parse_list(bytes, number, used, depth.checked_sub(1)?),
        _ => None,
    }
}

fn parse_list(bytes: &[u8], number: i64, mut used: usize, depth: usize) -> Option<Parsed> {
    let number = usize::try_from(number).ok()?;
    let mut parts = Vec::with_capacity(number.min(1024));
    for _ in 0..number {
        match parse(&bytes[used..], depth)? {
            Parsed::Whole(part, more) => {
                parts.push(part);
                used += more;
            }
            Parsed::Partial => return Some(Parsed::Partial),
        }
    }
    Some(Parsed::Whole(Reply::List(parts), used))
}

/// A line of kind, number: `*3`, `$10`, `:7`. `Some(None)` if it is not whole yet. For an error the
/// number is 0 and the line is left where it is.
fn head(bytes: &[u8]) -> Option<Option<(u8, i64, usize)>> {
    let Some(&kind) = bytes.first() else {
        return Some(None);
    };
    if kind == b'-' {
        return Some(Some((kind, 0, 0)));
    }
    let Some(end) = end_of_line(bytes) else {
        return if bytes.len() > 32 { None } else { Some(None) };
    };
    let number = std::str::from_utf8(&bytes[1..end]).ok()?.parse().ok()?;
    Some(Some((kind, number, end + 2)))
}

/// A text `$n…`, borrowed, and how many bytes it takes. `Some(None)` if it is not whole yet.
fn line(bytes: &[u8]) -> Option<Option<(&[u8], usize)>> {
    let Some((kind, number, start)) = head(bytes)? else {
        return Some(None);
    };
    let length = usize::try_from(number).ok().filter(|n| *n <= LONGEST)?;
    if kind != b'$' {
        return None;
    }
    let end = start + length;
    if bytes.len() < end + 2 {
        return Some(None);
    }
    Some(Some((&bytes[start..end], end + 2)))
}

/// Where the first line ends, before its `\r\n`.
fn end_of_line(bytes: &[u8]) -> Option<usize> {
    let end = bytes.iter().position(|b| *b == b'\r')?;
    (bytes.get(end + 1) == Some(&b'\n')).then_some(end)
}

#[cfg(test)]
mod tests {
    //! The codec, on streams that come in pieces of every size.
    use super::*;
    use tokio::io::AsyncWriteExt;

    async fn fed(bytes: &'static [u8], piece: usize) -> Wire {
        let (ours, mut theirs) = tokio::io::duplex(1024);
        tokio::spawn(async move {
            for part in bytes.chunks(piece) {
                let _ = theirs.write_all(part).await;
            }
            let mut rest = Vec::new();
            let _ = tokio::io::AsyncReadExt::read_to_end(&mut theirs, &mut rest).await;
        });
        Wire::new(Box::new(ours))
    }

    #[tokio::test]
    async fn replies_come_whole_however_they_are_cut() {
        let bytes = b"+OK\r\n:-3\r\n$-1\r\n*2\r\n$3\r\na\r\n\r\n*1\r\n$0\r\n\r\n-ERR no\r\n";
        for piece in 1..12 {
            let mut wire = fed(bytes, piece).await;
            assert_eq!(wire.reply().await.expect("ok").text(), Some(&b"OK"[..]));
            assert!(matches!(wire.reply().await, Ok(Reply::Number)));
            assert!(matches!(wire.reply().await, Ok(Reply::Nil)));
            let list = wire.reply().await.expect("list");
            let parts = list.list().expect("list");
            assert_eq!(parts[0].text(), Some(&b"a\r\n"[..]));
            assert_eq!(parts[1].list().map(<[_]>::len), Some(1));
            assert!(matches!(wire.reply().await, Ok(Reply::Error(text)) if text == "ERR no"));
        }
    }

    #[tokio::test]
    async fn lines_are_handed_over_in_place() {
        for piece in 1..9 {
            let mut wire = fed(b"*3\r\n$1\r\na\r\n$0\r\n\r\n$4\r\nb\r\nc\r\n", piece).await;
            let mut lines = Vec::new();
            let cx = Cx::default();
            let n = wire
                .each_line(&cx, "list", &[b"ACL"], |l| lines.push(l.to_vec()))
                .await;
            assert_eq!(n, Ok(3));
            assert_eq!(lines, [&b"a"[..], b"", b"b\r\nc"]);
        }
        let mut wire = fed(b"-NOPERM no\r\n", 3).await;
        let refused = wire
            .each_line(&Cx::default(), "list", &[b"ACL"], |_| ())
            .await;
        assert_eq!(refused.map_err(|e| e.class()), Err(mesh_sdk::Class::Denied));
    }

    #[tokio::test]
    async fn what_is_not_the_protocol_is_a_bug_and_an_end_is_unreachable() {
        let mut wire = fed(b"HTTP/1.1 400 Bad Request\r\n\r\n", 7).await;
        assert_eq!(
            wire.reply().await.err().map(|e| e.class()),
            Some(mesh_sdk::Class::Bug)
        );
        let mut wire = fed(
            b"*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n*1\r\n",
            64,
        )
        .await;
        let class = wire.reply().await.err().map(|e| e.class());
        assert_eq!(class, Some(mesh_sdk::Class::Bug), "no end of nesting");
        let (ours, theirs) = tokio::io::duplex(8);
        drop(theirs);
        let mut wire = Wire::new(Box::new(ours));
        let class = wire.reply().await.err().map(|e| e.class());
        assert_eq!(class, Some(mesh_sdk::Class::Unreachable));
    }

    #[test]
    fn a_request_is_framed_by_length() {
        let request = Request::one(&[b"AUTH", b"a b\r\n", b""]);
        assert_eq!(
            &request.bytes[..],
            b"*3\r\n$4\r\nAUTH\r\n$5\r\na b\r\n\r\n$0\r\n\r\n"
        );
        assert_eq!(request.commands(), 1);
    }
}
