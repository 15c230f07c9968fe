//! A text, decoded, where every byte knows which part of the text it came from.

use std::borrow::Cow;
use std::ops::Range;

use super::index::{SHORTEST, percent_code};

/// Stands between two decoded parts that were not next to each other. No password holds it.
const GAP: u8 = 0;
/// Characters of base64 that can hold the shortest secret.
const BASE64_RUN: usize = (SHORTEST * 8).div_ceil(6);

/// Decoded bytes with the way back.
pub(super) struct View<'a> {
    bytes: Cow<'a, [u8]>,
    /// Where each byte came from; empty if the view is the text itself.
    sources: Vec<(u32, u32)>,
}

impl<'a> View<'a> {
    /// The text itself.
    pub(super) fn plain(text: &'a [u8]) -> Self {
        Self {
            bytes: Cow::Borrowed(text),
            sources: Vec::new(),
        }
    }
    /// Its bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
    /// Which part of the text these bytes came from.
    pub(super) fn source(&self, range: Range<usize>) -> Range<usize> {
        match (
            self.sources.get(range.start),
            self.sources.get(range.end.saturating_sub(1)),
        ) {
            (Some((start, _)), Some((_, end))) => *start as usize..*end as usize,
            _ => range,
        }
    }
    /// Whether a percent code is in it.
    pub(super) fn has_percent_code(&self) -> bool {
        let percents = self.bytes.iter().enumerate().filter(|(_, b)| **b == b'%');
        percents
            .into_iter()
            .any(|(at, _)| percent_code(&self.bytes, at).is_some())
    }

    /// Decodes it each way that makes something else of it.
    pub(super) fn each_decoded(&self, each: &mut dyn FnMut(View<'static>)) {
        let has = |byte| self.bytes.contains(&byte);
        let mut all = Vec::new();
        if has(b'%') {
            all.push(self.percent());
        }
        if has(b'\\') {
            all.push(self.unescaped(false));
            all.push(self.unescaped(true));
        }
        for quote in [b'\'', b'"', b'`'] {
            if has(quote) {
                all.push(self.undoubled(quote));
            }
        }
        for view in all.into_iter().flatten() {
            each(view);
        }
        for odd in 0..2 {
            self.hex(odd).map(&mut *each);
        }
        for skip in 0..4 {
            self.base64(skip).map(&mut *each);
        }
        for radix in [10, 16] {
            self.numbers(radix).map(&mut *each);
        }
    }

    fn percent(&self) -> Option<View<'static>> {
        let mut out = Builder::of(self);
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            match percent_code(&self.bytes, at) {
                Some(code) => {
                    out.change(&[code], at..at + 3);
                    at += 3;
                }
                None => {
                    out.keep(*byte, at);
                    at += 1;
                }
            }
        }
        out.finish()
    }

    /// Backslash escapes of JSON, SQL, Rust and C. A backslash and three digits is one byte in some of
    /// them, and a NUL and two digits in others; `octal` is the first. It gives nothing new if there is
    /// no such place.
    fn unescaped(&self, octal: bool) -> Option<View<'static>> {
        let mut out = Builder::of(self);
        let mut octals = 0;
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            let after = self.bytes.get(at + 1..).unwrap_or_default();
            if *byte != b'\\' || after.is_empty() {
                out.keep(*byte, at);
                at += 1;
                continue;
            }
            let mut text = [0; 4];
            let (length, decoded) = match octal_code(after) {
                Some(code) if octal => {
                    octals += 1;
                    text[0] = code;
                    (3, &text[..1])
                }
                _ => escape(after, &mut text),
            };
            out.change(decoded, at..at + 1 + length);
            at += 1 + length;
        }
        if octal && octals == 0 {
            return None;
        }
        out.finish()
    }

    /// SQL's doubled quotes.
    fn undoubled(&self, quote: u8) -> Option<View<'static>> {
        let mut out = Builder::of(self);
        let mut at = 0;
        while let Some(byte) = self.bytes.get(at) {
            if *byte == quote && self.bytes.get(at + 1) == Some(&quote) {
                out.change(&[quote], at..at + 2);
                at += 2;
            } else {
                out.keep(*byte, at);
                at += 1;
            }
        }
        out.finish()
    }

    /// Runs of hexadecimal digits, from their first or second digit on.
    fn hex(&self, odd: usize) -> Option<View<'static>> {
        let digit = |at: usize| char::from(self.bytes[at]).to_digit(16);
        let mut out = Builder::of(self);
        for run in runs(&self.bytes, 2 * SHORTEST + odd, |b| b.is_ascii_hexdigit()) {
            for pair in run[odd..].chunks_exact(2) {
                if let (Some(high), Some(low)) = (digit(pair[0]), digit(pair[1])) {
                    let byte = u8::try_from(high * 16 + low).unwrap_or(GAP);
                    out.change(&[byte], pair[0]..pair[1] + 1);
                }
            }
            out.gap();
        }
        out.finish()
    }

    /// Runs of base64 of either alphabet, from one of their first four characters on: wherever the
    /// secret lies in them, one of the four is in step.
    fn base64(&self, skip: usize) -> Option<View<'static>> {
        let mut out = Builder::of(self);
        for run in runs(&self.bytes, BASE64_RUN + skip, |b| sextet(b).is_some()) {
            let run = &run[skip..];
            let value = |n: usize| u32::from(sextet(self.bytes[run[n]]).unwrap_or(0));
            for byte in 0..run.len() * 6 / 8 {
                // The two characters that hold its eight bits.
                let (first, shift) = (byte * 8 / 6, 4 - byte * 8 % 6);
                let both = (value(first) << 6) | value(first + 1);
                let decoded = u8::try_from((both >> shift) & 0xff).unwrap_or(GAP);
                out.change(&[decoded], run[first]..run[first + 1] + 1);
            }
            out.gap();
        }
        out.finish()
    }

    /// Lists of numbers, as `Debug` writes bytes: `[112, 97]`, `70:61`, `0x70, 0x61`.
    fn numbers(&self, radix: u32) -> Option<View<'static>> {
        let mut out = Builder::of(self);
        let (mut at, mut row, mut longest) = (0, 0, 0);
        while let Some(byte) = self.bytes.get(at) {
            if byte.is_ascii_alphanumeric() {
                let rest = &self.bytes[at..];
                let letters = rest.iter().take_while(|b| b.is_ascii_alphanumeric());
                let length = letters.count();
                match number(&rest[..length], radix) {
                    Some(decoded) => {
                        out.change(&[decoded], at..at + length);
                        row += 1;
                    }
                    None => {
                        out.gap();
                        row = 0;
                    }
                }
                longest = longest.max(row);
                at += length;
            } else {
                if !b" ,:;-\t\r\n".contains(byte) {
                    out.gap();
                    row = 0;
                }
                at += 1;
            }
        }
        if longest < SHORTEST {
            return None;
        }
        out.finish()
    }
}

/// Makes a view out of another.
struct Builder<'v, 'a> {
    of: &'v View<'a>,
    bytes: Vec<u8>,
    sources: Vec<(u32, u32)>,
    changed: bool,
}

impl<'v, 'a> Builder<'v, 'a> {
    fn of(of: &'v View<'a>) -> Self {
        Self {
            of,
            bytes: Vec::new(),
            sources: Vec::new(),
            changed: false,
        }
    }
    /// A byte as it was.
    fn keep(&mut self, byte: u8, at: usize) {
        self.push(byte, at..at + 1);
    }
    /// Bytes that this range stands for.
    fn change(&mut self, bytes: &[u8], range: Range<usize>) {
        self.changed = true;
        for byte in bytes {
            self.push(*byte, range.clone());
        }
    }
    /// What comes next was not next to what came before.
    fn gap(&mut self) {
        if !matches!(self.bytes.last(), None | Some(&GAP)) {
            let end = self.sources.last().map_or(0, |(_, end)| *end);
            self.bytes.push(GAP);
            self.sources.push((end, end));
        }
    }
    fn push(&mut self, byte: u8, range: Range<usize>) {
        let source = self.of.source(range);
        let narrow = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        self.bytes.push(byte);
        self.sources
            .push((narrow(source.start), narrow(source.end)));
    }
    /// The view; nothing if it would be no other than the one it was made of, or too short.
    fn finish(self) -> Option<View<'static>> {
        (self.changed && self.bytes.len() >= SHORTEST).then_some(View {
            bytes: Cow::Owned(self.bytes),
            sources: self.sources,
        })
    }
}

/// The positions of each run of at least `shortest` bytes of a kind; line breaks within are left out.
fn runs(bytes: &[u8], shortest: usize, kind: impl Fn(u8) -> bool) -> Vec<Vec<usize>> {
    let mut all = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &bytes[at..];
        let part = |b: &&u8| kind(**b) || matches!(b, b'\r' | b'\n');
        let length = rest.iter().take_while(part).count();
        if length >= shortest {
            let run: Vec<usize> = (at..at + length).filter(|n| kind(bytes[*n])).collect();
            if run.len() >= shortest {
                all.push(run);
            }
        }
        at += length.max(1);
    }
    all
}

/// What a character of base64 stands for.
fn sextet(byte: u8) -> Option<u8> {
    Some(match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' | b'-' => 62,
        b'/' | b'_' => 63,
        _ => return None,
    })
}

/// A number of one byte.
fn number(text: &[u8], radix: u32) -> Option<u8> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = match radix {
        16 => text.strip_prefix("0x").unwrap_or(text),
        _ => text,
    };
    u8::from_str_radix(digits, radix).ok()
}

fn octal_code(after: &[u8]) -> Option<u8> {
    let digits = after.get(..3)?;
    digits
        .iter()
        .all(|b| (b'0'..b'8').contains(b))
        .then_some(())?;
    number(digits, 8)
}

/// What follows a backslash: how long it is, and the bytes that it stands for.
fn escape<'t>(after: &[u8], text: &'t mut [u8; 4]) -> (usize, &'t [u8]) {
    if let Some((length, letter)) = unicode(after) {
        return (length, letter.encode_utf8(text).as_bytes());
    }
    let hexadecimal = match after {
        [b'x', high, low, ..] => number(&[*high, *low], 16),
        _ => None,
    };
    if let Some(byte) = hexadecimal {
        text[0] = byte;
        return (3, &text[..1]);
    }
    text[0] = match after.first() {
        Some(b'n') => b'\n',
        Some(b't') => b'\t',
        Some(b'r') => b'\r',
        Some(b'0') => 0,
        Some(b'b') => 8,
        Some(b'f') => 12,
        Some(b'v') => 11,
        Some(b'a') => 7,
        Some(b'Z') => 26,
        Some(other) => *other,
        None => b'\\',
    };
    (1, &text[..1])
}

/// `uXXXX`, also as a pair, and `u{X…}`.
fn unicode(after: &[u8]) -> Option<(usize, char)> {
    let hex = |bytes: &[u8]| {
        let text = std::str::from_utf8(bytes).ok()?;
        let plain = text.bytes().all(|b| b.is_ascii_hexdigit());
        plain.then(|| u32::from_str_radix(text, 16).ok()).flatten()
    };
    if let Some(rest) = after.strip_prefix(b"u{") {
        let length = rest.iter().take(7).position(|b| *b == b'}')?;
        let letter = char::from_u32(hex(&rest[..length])?)?;
        return Some((length + 3, letter));
    }
    let unit = |at: usize| {
        let four = after.get(at..at + 5)?.strip_prefix(b"u")?;
        hex(four)
    };
    let first = unit(0)?;
    if let Some(letter) = char::from_u32(first) {
        return Some((5, letter));
    }
    let second = (after.get(5) == Some(&b'\\')).then(|| unit(6))??;
    let units = [u16::try_from(first).ok()?, u16::try_from(second).ok()?];
    let letter = char::decode_utf16(units).next()?.ok()?;
    Some((11, letter))
}
