//! Rust source as a flat list of words: comments and the insides of texts are gone, lines stay known.

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A name or a keyword.
    Word,
    /// A sign; `::` is one sign, all others are one character.
    Sign,
    /// A text, character, number or lifetime, whose content no check looks at.
    Literal,
}

/// One token.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Token<'a> {
    /// The line it begins on, from 1.
    pub(crate) line: usize,
    /// What it is.
    pub(crate) kind: Kind,
    /// As it stands in the source.
    pub(crate) text: &'a str,
}

impl Token<'_> {
    pub(crate) fn is_word(&self, word: &str) -> bool {
        self.kind == Kind::Word && self.text == word
    }

    pub(crate) fn is_sign(&self, sign: &str) -> bool {
        self.kind == Kind::Sign && self.text == sign
    }
}

/// Splits source into tokens. It never fails: what it cannot read becomes signs.
pub(crate) fn tokens(source: &str) -> Vec<Token<'_>> {
    let mut scanner = Scanner {
        source,
        at: 0,
        line: 1,
        found: Vec::new(),
    };
    while scanner.at < source.len() {
        scanner.step();
    }
    scanner.found
}

struct Scanner<'a> {
    source: &'a str,
    at: usize,
    line: usize,
    found: Vec<Token<'a>>,
}

impl<'a> Scanner<'a> {
    fn rest(&self) -> &'a str {
        &self.source[self.at..]
    }

    fn step(&mut self) {
        let rest = self.rest();
        let Some(first) = rest.chars().next() else {
            return;
        };
        if first.is_whitespace() {
            self.skip(first.len_utf8());
        } else if rest.starts_with("//") {
            self.skip(rest.find('\n').unwrap_or(rest.len()));
        } else if rest.starts_with("/*") {
            self.skip(comment_length(rest));
        } else if let Some(length) = text_length(rest) {
            self.take(length, Kind::Literal);
        } else if first == '\'' {
            self.take(quote_length(rest), Kind::Literal);
        } else if is_name(first) {
            let raw = if rest.starts_with("r#") { 2 } else { 0 };
            let kind = if first.is_ascii_digit() {
                Kind::Literal
            } else {
                Kind::Word
            };
            self.take(raw + name_length(&rest[raw..]), kind);
        } else if rest.starts_with("::") {
            self.take(2, Kind::Sign);
        } else {
            self.take(first.len_utf8(), Kind::Sign);
        }
    }

    fn skip(&mut self, length: usize) {
        let passed = &self.source[self.at..self.at + length];
        self.line += passed.matches('\n').count();
        self.at += length;
    }

    fn take(&mut self, length: usize, kind: Kind) {
        self.found.push(Token {
            line: self.line,
            kind,
            text: &self.source[self.at..self.at + length],
        });
        self.skip(length);
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

fn name_length(rest: &str) -> usize {
    rest.find(|c| !is_name(c)).unwrap_or(rest.len())
}

/// The length of the block comment that `rest` begins with; they nest.
fn comment_length(rest: &str) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < rest.len() {
        if rest[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += rest[at..].chars().next().map_or(1, char::len_utf8);
        }
    }
    rest.len()
}

/// The length of the text (plain, byte, C or raw) that `rest` begins with, if it begins with one.
fn text_length(rest: &str) -> Option<usize> {
    let prefix = ["br", "cr", "b", "c", "r", ""]
        .into_iter()
        .find(|prefix| rest.starts_with(prefix))?;
    let body = &rest[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.len() - body.trim_start_matches('#').len();
        let inner = body[hashes..].strip_prefix('"')?;
        let close = format!("\"{}", "#".repeat(hashes));
        let end = inner.find(&close).map_or(inner.len(), |i| i + close.len());
        return Some(prefix.len() + hashes + 1 + end);
    }
    let inner = body.strip_prefix('"')?;
    let mut escaped = false;
    for (i, c) in inner.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => return Some(prefix.len() + 1 + i + 1),
            _ => {}
        }
    }
    Some(rest.len())
}

/// The length of the character or lifetime that `rest`, which begins with `'`, begins with.
fn quote_length(rest: &str) -> usize {
    let mut inner = rest[1..].chars();
    match (inner.next(), inner.next()) {
        (Some('\\'), Some(escape)) => {
            let after = 2 + escape.len_utf8();
            rest[after..]
                .find('\'')
                .map_or(rest.len(), |i| after + i + 1)
        }
        (Some(c), Some('\'')) => 2 + c.len_utf8(),
        (Some(c), _) if is_name(c) => 1 + name_length(&rest[1..]),
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(source: &str) -> Vec<&str> {
        tokens(source)
            .into_iter()
            .filter(|t| t.kind == Kind::Word)
            .map(|t| t.text)
            .collect()
    }

    #[test]
    fn comments_and_texts_hold_no_words() {
        let source = "/* a /* b */ c */ let x = \"todo \\\" y\"; // z\nlet r = r#\"q \" w\"#;";
        assert_eq!(words(source), ["let", "x", "let", "r"]);
    }

    #[test]
    fn byte_and_c_texts_hold_no_words() {
        assert_eq!(
            words("f(b\"x\", c\"y\", br#\"z\"#, b'q')"),
            ["f", "b"],
            "the prefix of a byte character is left over, harmlessly"
        );
    }

    #[test]
    fn characters_and_lifetimes_are_told_apart() {
        let source = "fn f<'a>(x: &'a str) { m('\"', '\\'', '{', 'é') }";
        assert_eq!(words(source), ["fn", "f", "x", "str", "m"]);
        assert_eq!(
            tokens(source).iter().filter(|t| t.is_sign("{")).count(),
            1,
            "a brace in a character is no brace"
        );
    }

    #[test]
    fn raw_names_are_words() {
        assert_eq!(words("r#type r#\"text\"# kind"), ["r#type", "kind"]);
    }

    #[test]
    fn lines_are_counted_through_texts() {
        let found = tokens("a\n\"x\ny\"\nb");
        assert_eq!(found.last().map(|t| t.line), Some(4));
    }

    #[test]
    fn unfinished_source_does_not_loop_or_panic() {
        for source in ["\"", "r#\"", "/*", "'", "'\\", "b'", "é'", "r#"] {
            let _ = tokens(source);
        }
    }
}
