//! Where passwords come from, and what keeps one from being read.
//!
//! The one rule: a password that cannot be read never means "no password" (S-4). Nothing here answers an
//! empty secret, and every trouble has its own word.

use std::ffi::OsString;
use std::fmt;
use std::io::Read as _;
use std::path::{Path, PathBuf};

use mesh_sdk::Secret;
use serde::{Deserialize, Serialize};

/// The most bytes that a secret or certificate file may hold.
const MAX_BYTES: u64 = 256 * 1024;
/// A given password shorter than this must say `weak = true` (S-2).
pub const MIN_PASSWORD: usize = 8;

/// Reads variables and files. The program has one that reads the machine's; tests have others.
pub trait SecretSource: Send + Sync {
    /// A variable's value; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<OsString>;
    /// A file's bytes.
    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>>;
}

/// The machine's own variables and files.
#[derive(Debug, Clone, Copy, Default)]
pub struct Machine;

impl SecretSource for Machine {
    #[allow(
        clippy::disallowed_methods,
        reason = "a manifest's secret source is the other reader of variables"
    )]
    fn variable(&self, name: &str) -> Option<OsString> {
        std::env::var_os(name)
    }
    fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
        let file = std::fs::File::open(path)?;
        if !file.metadata()?.is_file() {
            return Err(std::io::Error::other("it is no regular file"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_BYTES + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_BYTES {
            return Err(std::io::Error::other("it holds more than 256 KiB"));
        }
        Ok(bytes)
    }
}

/// Where one secret is: the manifest names the place, never the secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SecretRef {
    /// `{ env = "NAME" }`.
    Env(String),
    /// `{ file = "path" }`, made absolute or relative to the working folder.
    File(PathBuf),
}

impl fmt::Display for SecretRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            SecretRef::Env(name) => write!(f, "the variable {name}"),
            SecretRef::File(path) => write!(f, "the file {}", path.display()),
        }
    }
}

/// Where a consumer's password comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PasswordSource {
    /// Made once by Meshkeeper, and kept sealed.
    Generated,
    /// Given by a person.
    Given(SecretRef),
}

/// What keeps a secret from being used. None of these ever means "no password" (S-4, O-28).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum TroubleKind {
    /// The variable is not set, or the file is not there.
    Missing,
    /// The file cannot be read, with the system's reason.
    Unreadable(String),
    /// There is nothing in it, or only line breaks and blanks.
    Empty,
    /// There is a NUL in it.
    Nul,
    /// It is not UTF-8.
    NotText,
    /// It is shorter than 8 bytes, and nothing says `weak = true`.
    TooShort,
}

/// A secret that cannot be used: which, and why. It never holds the secret.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretTrouble {
    /// Where it should have been.
    pub place: SecretRef,
    /// Why it cannot be used.
    pub kind: TroubleKind,
}

impl SecretTrouble {
    /// Whether it may be in order elsewhere or later: nothing is wrong with the manifest itself.
    pub fn is_absence(&self) -> bool {
        matches!(self.kind, TroubleKind::Missing | TroubleKind::Unreadable(_))
    }
}

impl fmt::Display for SecretTrouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let place = &self.place;
        match &self.kind {
            TroubleKind::Missing => match place {
                SecretRef::Env(_) => write!(f, "{place} is not set"),
                SecretRef::File(_) => write!(f, "{place} does not exist"),
            },
            TroubleKind::Unreadable(why) => write!(f, "{place} cannot be read: {why}"),
            TroubleKind::Empty => write!(f, "{place} is empty; that never means \"no password\""),
            TroubleKind::Nul => write!(f, "{place} holds a NUL, which no backend takes"),
            TroubleKind::NotText => write!(f, "{place} is not UTF-8 text"),
            TroubleKind::TooShort => write!(
                f,
                "{place} holds fewer than {MIN_PASSWORD} bytes; `weak = true` allows that"
            ),
        }
    }
}
impl std::error::Error for SecretTrouble {}

impl SecretRef {
    /// Reads a password. One line break at the end of a file does not belong to it.
    pub fn password(&self, source: &dyn SecretSource, weak: bool) -> Result<Secret, SecretTrouble> {
        let bytes = self.bytes(source)?;
        let kind = match std::str::from_utf8(bytes.expose()) {
            Err(_) => TroubleKind::NotText,
            Ok(text) if text.contains('\0') => TroubleKind::Nul,
            Ok(text) if text.trim().is_empty() => TroubleKind::Empty,
            Ok(text) if text.len() < MIN_PASSWORD && !weak => TroubleKind::TooShort,
            Ok(_) => return Ok(bytes),
        };
        Err(self.trouble(kind))
    }
    /// Reads a file that must not be empty, such as a certificate.
    pub(crate) fn whole(&self, source: &dyn SecretSource) -> Result<Secret, SecretTrouble> {
        let bytes = self.bytes(source)?;
        if bytes.expose().iter().all(u8::is_ascii_whitespace) {
            return Err(self.trouble(TroubleKind::Empty));
        }
        Ok(bytes)
    }
    fn trouble(&self, kind: TroubleKind) -> SecretTrouble {
        SecretTrouble {
            place: self.clone(),
            kind,
        }
    }
    fn bytes(&self, source: &dyn SecretSource) -> Result<Secret, SecretTrouble> {
        match self {
            SecretRef::Env(name) => {
                let value = source
                    .variable(name)
                    .ok_or_else(|| self.trouble(TroubleKind::Missing))?;
                Ok(Secret::new(value.into_encoded_bytes()))
            }
            SecretRef::File(path) => {
                let mut bytes = source.file(path).map_err(|error| {
                    self.trouble(match error.kind() {
                        std::io::ErrorKind::NotFound => TroubleKind::Missing,
                        _ => TroubleKind::Unreadable(error.to_string()),
                    })
                })?;
                if bytes.last() == Some(&b'\n') {
                    bytes.pop();
                    if bytes.last() == Some(&b'\r') {
                        bytes.pop();
                    }
                }
                Ok(Secret::new(bytes))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    //! S-4 and O-28: what cannot be read is a trouble with a word of its own, never an empty password.
    use super::*;
    use std::collections::HashMap;

    #[derive(Default)]
    struct Fake(HashMap<&'static str, &'static [u8]>);
    impl SecretSource for Fake {
        fn variable(&self, name: &str) -> Option<OsString> {
            let bytes = self.0.get(name)?;
            Some(std::os::unix::ffi::OsStringExt::from_vec(bytes.to_vec()))
        }
        fn file(&self, path: &Path) -> std::io::Result<Vec<u8>> {
            match path.to_str() {
                Some("locked") => Err(std::io::ErrorKind::PermissionDenied.into()),
                Some(path) => match self.0.get(path) {
                    Some(bytes) => Ok(bytes.to_vec()),
                    None => Err(std::io::ErrorKind::NotFound.into()),
                },
                None => Err(std::io::ErrorKind::NotFound.into()),
            }
        }
    }
    fn file(content: &'static [u8], weak: bool) -> Result<Secret, TroubleKind> {
        let place = SecretRef::File("x".into());
        let read = place.password(&Fake(HashMap::from([("x", content)])), weak);
        read.map_err(|trouble| trouble.kind)
    }

    #[test]
    fn s4_o28_a_source_without_a_password_is_trouble_and_never_no_password() {
        for content in [&b""[..], b"\n", b"\r\n", b" \n", b"\n\n\n", b"\t"] {
            assert_eq!(file(content, false), Err(TroubleKind::Empty), "{content:?}");
            assert_eq!(file(content, true), Err(TroubleKind::Empty), "{content:?}");
        }
        let read = |place: SecretRef| place.password(&Fake::default(), true).map_err(|t| t.kind);
        assert_eq!(read(SecretRef::Env("NO".into())), Err(TroubleKind::Missing));
        assert_eq!(
            read(SecretRef::File("no".into())),
            Err(TroubleKind::Missing)
        );
        assert!(matches!(
            read(SecretRef::File("locked".into())),
            Err(TroubleKind::Unreadable(_))
        ));
    }

    #[test]
    fn o07_nul_and_bad_utf8_are_refused() {
        assert_eq!(file(b"\0abcdefgh", false), Err(TroubleKind::Nul));
        assert_eq!(file(b"abcdefgh\0def", true), Err(TroubleKind::Nul));
        assert_eq!(file(b"\xff\xfeabcdefgh", false), Err(TroubleKind::NotText));
    }

    #[test]
    fn o06_a_password_is_taken_as_it_is_but_for_one_line_break() {
        for (content, want) in [
            (&b"long enough\n"[..], &b"long enough"[..]),
            (b"long enough\r\n", b"long enough"),
            (b"long enough\n\n", b"long enough\n"),
            (b" long enough ", b" long enough "),
            (b"multi\nline-pw", b"multi\nline-pw"),
            ("pass\u{a0}word".as_bytes(), "pass\u{a0}word".as_bytes()),
        ] {
            assert_eq!(file(content, false), Ok(Secret::new(want)), "{content:?}");
        }
    }

    #[test]
    fn s2_a_short_password_says_that_it_is_weak() {
        assert_eq!(file(b"1234567", false), Err(TroubleKind::TooShort));
        assert_eq!(file(b"1234567", true), Ok(Secret::from("1234567")));
        assert_eq!(file(b"12345678", false), Ok(Secret::from("12345678")));
    }

    #[test]
    fn a_folder_is_no_secret() {
        let folder = tempfile::tempdir().expect("folder");
        let place = SecretRef::File(folder.path().to_owned());
        let trouble = place.password(&Machine, false).expect_err("folder");
        assert!(trouble.is_absence());
    }
}
