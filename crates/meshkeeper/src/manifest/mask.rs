//! Which parts of a manifest's text are never shown, not even in the message about its own mistakes.
//!
//! A password may stand anywhere by mistake: as a literal, under a misspelt key, without quotes, in a
//! URL, in a comment. So the rule is turned round: a value is shown only under a key that is known and
//! harmless; everything else is hidden. The scanner never fails, whatever the text.

use std::ops::Range;

/// How the value of a key may be shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    /// As it is.
    Whole,
    /// Only if it is the name of a variable: letters, digits and `_`.
    Name,
    /// As it is if it is an address and nothing more; else only its scheme.
    Url,
    /// Not at all. Keys inside it are judged by themselves.
    Hidden,
}

/// The byte ranges of `text` to hide, in order, not overlapping.
pub(super) fn hidden(text: &str, shown: &dyn Fn(&str) -> Shown) -> Vec<Range<usize>> {
    let mut scanner = Scanner {
        text,
        bytes: text.as_bytes(),
        at: 0,
        depth: 0,
        shown,
        out: Vec::new(),
    };
    while scanner.at < scanner.bytes.len() {
        scanner.statement();
    }
    scanner.out.sort_by_key(|range| range.start);
    let mut merged: Vec<Range<usize>> = Vec::with_capacity(scanner.out.len());
    for range in scanner.out {
        match merged.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => merged.push(range),
        }
    }
    merged
}

/// Whether a word speaks of a secret.
pub(super) fn is_secret_word(word: &str) -> bool {
    let word = word.to_ascii_lowercase();
    ["pass", "pwd", "secret", "token", "credential"]
        .iter()
        .any(|part| word.contains(part))
}

/// Nested deeper than this, the rest of the text is hidden unread.
const MAX_DEPTH: usize = 64;

struct Scanner<'a> {
    text: &'a str,
    bytes: &'a [u8],
    at: usize,
    depth: usize,
    shown: &'a dyn Fn(&str) -> Shown,
    out: Vec<Range<usize>>,
}

impl Scanner<'_> {
    fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }
    fn skip(&mut self, these: &[u8]) {
        while self.peek().is_some_and(|b| these.contains(&b)) {
            self.at += 1;
        }
    }
    fn line_end(&self, from: usize) -> usize {
        self.bytes[from..]
            .iter()
            .position(|b| *b == b'\n')
            .map_or(self.bytes.len(), |length| from + length)
    }
    fn hide(&mut self, from: usize, to: usize) {
        let from = (from..=to).find(|i| self.text.is_char_boundary(*i));
        let to = (to..=self.bytes.len()).find(|i| self.text.is_char_boundary(*i));
        if let (Some(from), Some(to)) = (from, to)
            && from < to
        {
            self.out.push(from..to);
        }
    }
    fn hide_line_from(&mut self, from: usize) {
        let end = self.line_end(from);
        self.hide(from, end);
        self.at = end;
    }
    fn hide_comment(&mut self) {
        self.hide_line_from(self.at + 1);
    }

    fn statement(&mut self) {
        self.skip(b" \t\r\n");
        match self.peek() {
            None => {}
            Some(b'#') => self.hide_comment(),
            Some(b'[') => self.header(),
            Some(_) => {
                let from = self.at;
                match self.key(false) {
                    Some(shown) => {
                        self.value(shown);
                        self.rest_of_line();
                    }
                    None => self.not_a_pair(from),
                }
            }
        }
    }

    /// A line that is no `key = value`: only a first word that is known stays.
    fn not_a_pair(&mut self, from: usize) {
        self.at = from;
        let word = self.bare_word().to_owned();
        let known = is_secret_word(&word) || (self.shown)(&word) != Shown::Hidden;
        let hide_from = if known { self.at } else { from };
        self.hide_line_from(hide_from);
    }

    fn header(&mut self) {
        let (start, end) = (self.at, self.line_end(self.at));
        let line = &self.bytes[start..end];
        self.at = end;
        if line.contains(&b'=') {
            return self.hide(start + 1, end);
        }
        let (mut quote, mut closed) = (None, false);
        for (i, byte) in line.iter().enumerate() {
            let fits = match (quote, *byte) {
                (Some(open), b) => {
                    quote = (b != open).then_some(open);
                    true
                }
                (None, b']') => {
                    closed = true;
                    true
                }
                (None, b' ' | b'\t' | b'\r') => true,
                (None, b'"' | b'\'') if !closed => {
                    quote = Some(*byte);
                    true
                }
                (None, b) => !closed && (b.is_ascii_alphanumeric() || b"_-.[".contains(&b)),
            };
            if !fits {
                return self.hide(start + i + usize::from(*byte == b'#'), end);
            }
        }
    }

    fn bare_word(&mut self) -> &str {
        let from = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        {
            self.at += 1;
        }
        &self.text[from..self.at]
    }

    /// Reads `a.b."c" =` and judges its last part. `None`, at no certain place, if it is no such thing.
    ///
    /// What stands in quotes may be a value that slipped before a `=`, and so may anything in a list: it
    /// stays only if it is a known key.
    fn key(&mut self, in_list: bool) -> Option<Shown> {
        let mut doubtful: Vec<Range<usize>> = Vec::new();
        loop {
            self.skip(b" \t");
            let quote = self.peek().filter(|b| b"\"'".contains(b));
            let from = self.at + usize::from(quote.is_some());
            let to = match quote {
                Some(quote) => {
                    let closed = |b: &u8| *b == quote || *b == b'\n';
                    let to = from + self.bytes[from..].iter().position(closed)?;
                    self.at = to + 1;
                    (self.bytes[to] == quote).then_some(to)?
                }
                None => {
                    self.bare_word();
                    self.at
                }
            };
            let leaf = self.text.get(from..to)?;
            let shown = (self.shown)(leaf);
            let known = shown != Shown::Hidden || ["password", "admin", "tls"].contains(&leaf);
            if !known && (quote.is_some() || in_list) {
                doubtful.push(from..to);
            }
            if leaf.is_empty() {
                return None;
            }
            self.skip(b" \t");
            match self.peek()? {
                b'.' => self.at += 1,
                b'=' => {
                    self.at += 1;
                    doubtful
                        .into_iter()
                        .for_each(|part| self.hide(part.start, part.end));
                    return Some(shown);
                }
                _ => return None,
            }
        }
    }

    fn value(&mut self, shown: Shown) {
        self.skip(b" \t");
        match self.peek() {
            None | Some(b'\n' | b'\r') => {}
            Some(b'#') => self.hide_comment(),
            Some(b'"' | b'\'') => self.string(shown),
            Some(b'[' | b'{') if self.depth >= MAX_DEPTH => {
                self.hide(self.at, self.bytes.len());
                self.at = self.bytes.len();
            }
            Some(open @ (b'[' | b'{')) => {
                self.at += 1;
                self.depth += 1;
                if open == b'[' {
                    self.array(shown);
                } else {
                    self.inline();
                }
                self.depth -= 1;
            }
            Some(_) => self.bare(shown),
        }
    }

    fn string(&mut self, shown: Shown) {
        let quote = self.bytes[self.at];
        if self.bytes[self.at..].starts_with(&[quote; 3]) {
            let from = self.at + 3;
            let to = self.closing(from, &[quote; 3], false);
            self.hide(from, to.unwrap_or(self.bytes.len()));
            self.at = to.map_or(self.bytes.len(), |end| end + 3);
            return;
        }
        let from = self.at + 1;
        let Some(to) = self.closing(from, &[quote], true) else {
            return self.hide_line_from(from);
        };
        self.at = to + 1;
        let content = &self.bytes[from..to];
        match shown {
            Shown::Whole => {}
            Shown::Name => {
                if !content
                    .iter()
                    .all(|b| b.is_ascii_alphanumeric() || *b == b'_')
                {
                    self.hide(from, to);
                }
            }
            Shown::Url => {
                let content = &self.text[from..to];
                if super::url::parse(content).is_err() {
                    let scheme = content.split_once("://").map_or("", |(scheme, _)| scheme);
                    let plain = scheme
                        .bytes()
                        .all(|b| b.is_ascii_alphanumeric() || b"+-".contains(&b));
                    let keep = if scheme.is_empty() || !plain {
                        0
                    } else {
                        scheme.len() + 3
                    };
                    self.hide(from + keep, to);
                }
            }
            Shown::Hidden => self.hide(from, to),
        }
    }

    /// Where the closing quotes are, minding escapes in `"`; on this line only, if so asked.
    fn closing(&self, from: usize, quotes: &[u8], one_line: bool) -> Option<usize> {
        let mut i = from;
        while i < self.bytes.len() {
            match self.bytes[i] {
                b'\n' if one_line => return None,
                b'\\' if quotes[0] == b'"' => i += 1,
                _ if self.bytes[i..].starts_with(quotes) => return Some(i),
                _ => {}
            }
            i += 1;
        }
        None
    }

    fn array(&mut self, shown: Shown) {
        loop {
            self.skip(b" \t\r\n,");
            let before = self.at;
            match self.peek() {
                None => return,
                Some(b']') => {
                    self.at += 1;
                    return;
                }
                Some(b'#') => self.hide_comment(),
                Some(_) => match self.key(true) {
                    Some(other) => self.value(other),
                    None => {
                        self.at = before;
                        self.value(shown);
                        if self.at == before {
                            self.hide_line_from(before);
                        }
                    }
                },
            }
        }
    }

    fn inline(&mut self) {
        loop {
            self.skip(b" \t\r\n,");
            let before = self.at;
            match self.peek() {
                None => return,
                Some(b'}') => {
                    self.at += 1;
                    return;
                }
                Some(b'#') => self.hide_comment(),
                Some(_) => match self.key(false) {
                    Some(shown) => {
                        self.value(shown);
                        self.skip(b" \t\r");
                        if !matches!(self.peek(), None | Some(b',' | b'}' | b'\n' | b'#')) {
                            self.hide_line_from(self.at);
                        }
                    }
                    None => self.hide_line_from(before),
                },
            }
        }
    }

    /// A value without quotes. Only one plain word is ever shown.
    fn bare(&mut self, shown: Shown) {
        let from = self.at;
        while self
            .peek()
            .is_some_and(|b| b.is_ascii_alphanumeric() || b"_-+.:".contains(&b))
        {
            self.at += 1;
        }
        let word = &self.text[from..self.at];
        let plain = shown == Shown::Whole && !word.is_empty() && !is_secret_word(word);
        self.skip(b" \t\r");
        let ended = matches!(self.peek(), None | Some(b',' | b']' | b'}' | b'\n' | b'#'));
        match (plain, ended) {
            (true, true) => {}
            (false, true) => self.hide(from, self.at),
            (true, false) => self.hide_line_from(self.at),
            (false, false) => self.hide_line_from(from),
        }
    }

    fn rest_of_line(&mut self) {
        self.skip(b" \t\r");
        match self.peek() {
            None | Some(b'\n') => {}
            Some(b'#') => self.hide_comment(),
            Some(_) => self.hide_line_from(self.at),
        }
    }
}

#[cfg(test)]
mod tests {
    //! S-2 at the door: what may be a password is not shown, in whatever shape it stands there.
    use super::*;

    fn shown(key: &str) -> Shown {
        match key {
            "url" | "bus" => Shown::Url,
            "env" => Shown::Name,
            "user" | "file" | "keys" | "kind" => Shown::Whole,
            _ => Shown::Hidden,
        }
    }
    fn masked(text: &str) -> String {
        let mut out = String::new();
        let mut at = 0;
        for range in hidden(text, &shown) {
            out.push_str(&text[at..range.start]);
            out.push_str("***");
            at = range.end;
        }
        out + &text[at..]
    }

    #[test]
    fn s2_a_literal_password_is_hidden_in_every_shape() {
        for text in [
            "password = \"planted\"",
            "password = 'planted'",
            "password = planted",
            "password = \"planted",
            "password \"planted\"",
            "password: planted",
            "password = { \"planted\" }",
            "password = { planted }",
            "password = { env = \"planted-7\" }",
            "pasword = \"planted\"",
            "\"password\" = \"planted\"",
            "admin.password = \"planted\"",
            "admin = { user = \"u\", password = \"planted\" }",
            "admin = { user = \"u, password = \"planted\" }",
            "admin = \"planted\"",
            "admin = [\"u\", \"planted\"]",
            "password = \"\"\"\nplanted\n\"\"\"",
            "password = \"\"\"\nplanted",
            "keys = [\"a\"\npassword = \"planted\"",
            "keys = [\"a\"\npassword \"planted\"",
            "keys = [\"a\"] password = \"planted\"",
            "urls = [\"redis://h\", \"redis://u:planted@h\"=]",
            "admin = [\"planted\" = 3]",
            "admin = [planted = 3]",
            "password = { \"planted\" = 3 }",
            "user = \"u\" # planted",
            "# password = \"planted\"",
            "[password = \"planted\"]",
            "[consumer.web] planted",
            "planted",
            "url = \"redis://u:planted@h:1\"",
            "url = \"redis://u:pl@nted/planted@h:1\"",
            "url = \"redis://h:1/?password=planted\"",
            "url = \"redis://u:planted\"",
            "url = redis://u:planted@h",
            "uri = \"redis://u:planted@h\"",
        ] {
            assert!(
                !masked(text).contains("planted"),
                "{text} → {}",
                masked(text)
            );
        }
    }

    #[test]
    fn what_is_harmless_is_shown() {
        for text in [
            "kind = \"redis\"\nurl = \"redis://127.0.0.1:6379/0\"\n",
            "admin = { user = \"default\", password = { env = \"REDIS_ADMIN\" } }",
            "admin = { user = \"default\", password = { file = \"admin.secret\" } }",
            "[consumer.\"web\".needs.cache]\nkeys = [\n  \"web:*\",\n  'x'\n]\n",
            "[[consumer.web.deliver]]",
        ] {
            assert_eq!(masked(text), text);
        }
    }

    #[test]
    fn deep_nesting_ends_the_reading_and_not_the_stack() {
        let text = format!("keys = {}", "[".repeat(200_000));
        assert!(!hidden(&text, &shown).is_empty());
        let text = "keys = [{".repeat(100_000);
        assert!(!hidden(&text, &shown).is_empty());
    }
}
