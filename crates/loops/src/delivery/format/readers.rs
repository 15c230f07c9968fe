//! What the readers of an env file make of a line: each a model of the real one, with which the tests
//! compare it.

use std::fmt;

/// Who reads an env file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Reader {
    /// systemd's `EnvironmentFile=`.
    Systemd,
    /// A POSIX shell that sources it.
    Shell,
    /// `docker run --env-file`, and what copies it: nothing is quoted there.
    Docker,
    /// python-dotenv, as a stand-in for its like.
    Dotenv,
}

impl Reader {
    /// Every reader.
    pub const ALL: [Reader; 4] = [
        Reader::Systemd,
        Reader::Shell,
        Reader::Docker,
        Reader::Dotenv,
    ];
    /// As the manifest names it.
    pub const fn as_str(self) -> &'static str {
        match self {
            Reader::Systemd => "systemd",
            Reader::Shell => "shell",
            Reader::Docker => "docker",
            Reader::Dotenv => "dotenv",
        }
    }
    /// What it reads from what stands behind the `=`. `None`: it refuses that, or it is not known what
    /// it makes of it.
    pub(super) fn reads(self, form: Form, value: &str) -> Option<String> {
        match self {
            Reader::Systemd => systemd(form, value),
            Reader::Shell => shell(form, value),
            Reader::Docker => docker(form, value),
            Reader::Dotenv => dotenv(form, value),
        }
    }
}

impl fmt::Display for Reader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// How a value is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// As it is.
    Bare,
    /// Between single quotes, as it is.
    Single,
    /// Between double quotes, with a backslash before each of `"`, `\`, `$` and the backtick.
    Double,
}

impl Form {
    /// In the order in which they are tried: the plainest first.
    pub(super) const ALL: [Form; 3] = [Form::Bare, Form::Single, Form::Double];

    /// What is written behind the `=`.
    pub(super) fn write(self, value: &str) -> String {
        match self {
            Form::Bare => value.to_owned(),
            Form::Single => format!("'{value}'"),
            Form::Double => {
                let mut out = String::from("\"");
                for c in value.chars() {
                    if needs_escape(c) {
                        out.push('\\');
                    }
                    out.push(c);
                }
                out + "\""
            }
        }
    }
}

fn needs_escape(c: char) -> bool {
    matches!(c, '"' | '\\' | '$' | '`')
}

/// Signs that no reader here takes for anything but themselves.
fn is_plain(value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_@%+=:,./-".contains(c);
    value.chars().all(plain)
}

/// `load_env_file` of systemd: quotes as in a shell. Its values are UTF-8 without control characters other
/// than tab and newline (`env_value_is_valid`); a file with another one is refused as a whole.
fn systemd(form: Form, value: &str) -> Option<String> {
    let refused = |c: char| c.is_ascii_control() && c != '\t' && c != '\n';
    let taken = !value.contains(refused)
        && match form {
            Form::Bare => is_plain(value),
            Form::Single => !value.contains('\''),
            Form::Double => true,
        };
    taken.then(|| value.to_owned())
}

/// POSIX 2.2, Quoting. A NUL cannot be in a variable.
fn shell(form: Form, value: &str) -> Option<String> {
    let taken = !value.contains('\0')
        && match form {
            Form::Bare => is_plain(value),
            Form::Single => !value.contains('\''),
            Form::Double => true,
        };
    taken.then(|| value.to_owned())
}

/// One line is one variable: all that stands behind the first `=`, as it is, up to the line's end, from
/// which a carriage return is taken.
fn docker(form: Form, value: &str) -> Option<String> {
    let taken = form == Form::Bare && !value.contains(['\n', '\r', '\0']);
    taken.then(|| value.to_owned())
}

/// Escapes of its own between either kind of quotes, and then `${NAME}` is filled in, however it was quoted.
fn dotenv(form: Form, value: &str) -> Option<String> {
    // A text file's carriage returns become newlines.
    if value.contains("${") || value.contains(['\0', '\r']) {
        return None;
    }
    let (decoded, quote) = match form {
        Form::Bare => return is_plain(value).then(|| value.to_owned()),
        Form::Single => (value.to_owned(), '\''),
        Form::Double => {
            let written = Form::Double.write(value);
            (written[1..written.len() - 1].to_owned(), '"')
        }
    };
    unescaped(&decoded, quote)
}

/// What python-dotenv makes of a text between quotes: `None` where a quote ends it before its end. Before 1.2.4 it
/// took a backslash at the end, escaped or not, for the escape of the closing quote (its `parser.py`).
fn unescaped(text: &str, quote: char) -> Option<String> {
    if text.ends_with('\\') {
        return None;
    }
    let mut out = String::new();
    let mut signs = text.chars();
    while let Some(c) = signs.next() {
        if c == quote {
            return None;
        }
        if c != '\\' {
            out.push(c);
            continue;
        }
        // At the end it would take the closing quote with it.
        let next = signs.next()?;
        let known = match (quote, next) {
            (_, '\\' | '\'') => Some(next),
            ('"', '"') => Some('"'),
            ('"', 'a') => Some('\x07'),
            ('"', 'b') => Some('\x08'),
            ('"', 'f') => Some('\x0c'),
            ('"', 'n') => Some('\n'),
            ('"', 'r') => Some('\r'),
            ('"', 't') => Some('\t'),
            ('"', 'v') => Some('\x0b'),
            _ => None,
        };
        match known {
            Some(c) => out.push(c),
            None => out.extend(['\\', next]),
        }
    }
    Some(out)
}
