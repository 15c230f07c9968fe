//! The part of NATS' configuration language that a list of users is written in: maps, lists, strings and
//! bare words, with comments. What is not of this part is an error, never guessed.

/// A value as the file has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Value {
    /// A string, quoted or bare.
    Text(String),
    /// A list.
    List(Vec<Value>),
    /// A map, in the file's order.
    Map(Vec<(String, Value)>),
}

impl Value {
    /// The value under a key, whose case does not count; the last one, as the server has it.
    pub(super) fn get(&self, names: &[&str]) -> Option<&Value> {
        let Value::Map(fields) = self else {
            return None;
        };
        let is = |key: &String| names.iter().any(|name| name.eq_ignore_ascii_case(key));
        let found = fields.iter().rev().find(|(key, _)| is(key));
        found.map(|(_, value)| value)
    }
    /// A text.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
    /// One text, or a list of them.
    pub(super) fn texts(&self) -> Option<Vec<&str>> {
        match self {
            Value::Text(text) => Some(vec![text]),
            Value::List(items) => items.iter().map(Value::text).collect(),
            Value::Map(_) => None,
        }
    }
}

/// Where reading stopped, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Stuck {
    pub(super) at: usize,
    pub(super) why: &'static str,
}

/// A reader of a text.
pub(super) struct Reader<'a> {
    pub(super) text: &'a str,
    pub(super) at: usize,
}

type Read<T> = Result<T, Stuck>;

/// Deeper than any list of users goes.
const DEEPEST: u32 = 16;

impl<'a> Reader<'a> {
    pub(super) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }
    pub(super) fn rest(&self) -> &'a str {
        self.text.get(self.at..).unwrap_or("")
    }
    pub(super) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }
    pub(super) fn stuck<T>(&self, why: &'static str) -> Read<T> {
        Err(Stuck { at: self.at, why })
    }
    /// Takes a character, if it is the next one.
    pub(super) fn take(&mut self, wanted: char) -> bool {
        let is = self.peek() == Some(wanted);
        if is {
            self.at += wanted.len_utf8();
        }
        is
    }
    /// Moves on over whatever `keep` takes.
    pub(super) fn skip(&mut self, skip: impl Fn(char) -> bool) -> &'a str {
        let rest = self.rest();
        let end = rest.find(|c| !skip(c)).unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
    /// Whether a comment begins here.
    pub(super) fn at_comment(&self) -> bool {
        self.rest().starts_with('#') || self.rest().starts_with("//")
    }
    /// Moves to the end of the line, and gives what was on it.
    pub(super) fn line(&mut self) -> &'a str {
        let rest = self.rest();
        let end = rest.find('\n').unwrap_or(rest.len());
        self.at += end;
        &rest[..end]
    }
    /// Moves over spaces, lines, commas and comments.
    pub(super) fn gap(&mut self) {
        loop {
            self.skip(|c| c.is_whitespace() || c == ',' || c == ';');
            if !self.at_comment() {
                return;
            }
            self.line();
        }
    }

    /// A value, which begins here.
    pub(super) fn value(&mut self, depth: u32) -> Read<Value> {
        if depth > DEEPEST {
            return self.stuck("it goes too deep");
        }
        match self.peek() {
            Some('{') => self.map(depth),
            Some('[') => self.list(depth),
            Some('"' | '\'') => self.quoted().map(Value::Text),
            Some('(') => self.stuck("blocks in parentheses are not read"),
            Some('$') => self.stuck("variables are not read"),
            Some(_) => self.word().map(Value::Text),
            None => self.stuck("the file ends too early"),
        }
    }

    fn map(&mut self, depth: u32) -> Read<Value> {
        self.take('{');
        let mut fields = Vec::new();
        loop {
            self.gap();
            if self.take('}') {
                return Ok(Value::Map(fields));
            }
            fields.push(self.field(depth)?);
        }
    }

    /// A key and its value.
    pub(super) fn field(&mut self, depth: u32) -> Read<(String, Value)> {
        let key = self.key()?;
        Ok((key, self.value(depth + 1)?))
    }

    /// A key, and over to where its value begins.
    pub(super) fn key(&mut self) -> Read<String> {
        let key = match self.peek() {
            Some('"' | '\'') => self.quoted()?,
            Some(_) => self.word()?,
            None => return self.stuck("the file ends too early"),
        };
        self.skip(|c| c == ' ' || c == '\t');
        if self.take(':') || self.take('=') {
            self.skip(char::is_whitespace);
        }
        Ok(key)
    }

    fn list(&mut self, depth: u32) -> Read<Value> {
        self.take('[');
        let mut items = Vec::new();
        loop {
            self.gap();
            if self.take(']') {
                return Ok(Value::List(items));
            }
            items.push(self.value(depth + 1)?);
        }
    }

    fn word(&mut self) -> Read<String> {
        let ends = |c: char| c.is_whitespace() || ",;:={}[]\"'".contains(c);
        let word = self.skip(|c| !ends(c));
        if word.is_empty() || word.starts_with('$') {
            return self.stuck("a value was expected");
        }
        Ok(word.to_owned())
    }

    fn quoted(&mut self) -> Read<String> {
        let quote = self.peek().unwrap_or('"');
        self.take(quote);
        let mut text = Vec::new();
        loop {
            let Some(end) = self.rest().find(quote) else {
                return self.stuck("a string does not end");
            };
            let part = &self.rest()[..end];
            let escape = part.find('\\').filter(|_| quote == '"');
            let plain = escape.unwrap_or(end);
            text.extend_from_slice(&part.as_bytes()[..plain]);
            self.at += plain + 1;
            if escape.is_none() {
                break;
            }
            text.push(self.escaped()?);
        }
        match String::from_utf8(text) {
            Ok(text) => Ok(text),
            Err(_) => self.stuck("a string is not UTF-8"),
        }
    }

    fn escaped(&mut self) -> Read<u8> {
        let Some(c) = self.peek() else {
            return self.stuck("a string does not end");
        };
        self.at += c.len_utf8();
        Ok(match c {
            't' => b'\t',
            'n' => b'\n',
            'r' => b'\r',
            '"' => b'"',
            '\\' => b'\\',
            'x' => {
                let byte = self.rest().get(..2);
                let byte = byte.and_then(|hex| u8::from_str_radix(hex, 16).ok());
                let Some(byte) = byte else {
                    return self.stuck("`\\x` wants two digits");
                };
                self.at += 2;
                byte
            }
            _ => return self.stuck("an unknown escape in a string"),
        })
    }
}

/// A text in double quotes, on one line.
pub(super) fn quote(text: &str) -> String {
    let mut quoted = String::with_capacity(text.len() + 2);
    quoted.push('"');
    for c in text.chars() {
        match c {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            c if c.is_ascii_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    //! What is read, what is not, and that what is written is read back.
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Read<Value> {
        Reader::new(text, 0).value(0)
    }

    #[test]
    fn the_ways_to_write_a_map_are_one() {
        let wanted = read(r#"{user: "a", permissions: {publish: ["x", "y"]}}"#).expect("read");
        for same in [
            "{user = a, permissions { publish = [x y] } }",
            "{\n  'user' 'a' # a comment with }\n  permissions: {\n publish: [\n x\n y // ]\n]}\n}",
            r#"{"user": "a"; "permissions": {"publish": ["x", "\x79"]}}"#,
        ] {
            assert_eq!(read(same), Ok(wanted.clone()), "{same}");
        }
        assert_eq!(wanted.get(&["USER"]).and_then(Value::text), Some("a"));
    }

    #[test]
    fn what_is_not_understood_is_an_error() {
        for bad in [
            "{",
            "[a",
            "\"a",
            "{a: $b}",
            "{a: (\nx\n)}",
            r#""\q""#,
            r#""\xZZ""#,
            r#""\xff""#,
            "{a}",
            "",
            &"[".repeat(100),
        ] {
            assert!(read(bad).is_err(), "{bad}");
        }
    }

    proptest! {
        #[test]
        fn a5_what_is_written_is_read_back(text in "\\PC*|[\\x01-\\x7f]*") {
            let quoted = quote(&text);
            prop_assert!(!quoted.contains('\n'));
            prop_assert_eq!(read(&quoted), Ok(Value::Text(text)));
        }

        #[test]
        fn no_text_makes_the_reader_fall_over(text in "[\\{\\}\\[\\]\"'#:=,a \\n\\\\x$/]{0,40}") {
            let _ = read(&text);
        }
    }
}
