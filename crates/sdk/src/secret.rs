//! One type for every secret. It cannot be printed, serialised or compared in a way that tells its bytes.

use std::fmt;
use std::sync::Arc;

use zeroize::Zeroize;

/// A password or key, wiped when its last clone is dropped: clones share the bytes.
///
/// There is no `Display`, no `Serialize`, and `Debug` is a fixed text, so it cannot reach a log, an
/// error or a snapshot by accident (S-1). Read its bytes with [`Secret::expose`], in as few places as
/// possible, and never keep a copy.
#[derive(Clone)]
pub struct Secret(Arc<Wiped>);

struct Wiped(Box<[u8]>);

impl Drop for Wiped {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Secret {
    /// Takes the bytes over.
    pub fn new(bytes: impl Into<Box<[u8]>>) -> Self {
        Self(Arc::new(Wiped(bytes.into())))
    }
    /// The bytes, for a verifier, a connection or a sealed envelope; never for a text that people read.
    pub fn expose(&self) -> &[u8] {
        &self.0.0
    }
    /// The bytes as text, where they are UTF-8. A manifest's passwords always are (O-07).
    pub fn expose_str(&self) -> Option<&str> {
        std::str::from_utf8(self.expose()).ok()
    }
    /// How many bytes.
    pub fn len(&self) -> usize {
        self.expose().len()
    }
    /// Whether there are no bytes. An empty secret is never a password (S-4).
    pub fn is_empty(&self) -> bool {
        self.expose().is_empty()
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(hidden)")
    }
}

impl PartialEq for Secret {
    /// Takes the same time wherever the difference is; only the lengths are told apart early.
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len()
            && self
                .expose()
                .iter()
                .zip(other.expose())
                .fold(0u8, |acc, (a, b)| acc | (a ^ b))
                == 0
    }
}
impl Eq for Secret {}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self::new(text.as_bytes())
    }
}
impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self::new(text.into_bytes())
    }
}

#[cfg(test)]
mod tests {
    //! S-1: a secret cannot be printed.
    use super::*;

    #[test]
    fn s1_debug_is_fixed_and_equality_is_by_value() {
        let secret = Secret::from("planted-7f3a");
        assert_eq!(format!("{secret:?}"), "Secret(hidden)");
        assert_eq!(secret, Secret::from("planted-7f3a"));
        assert_ne!(secret, Secret::from("planted-7f3b"));
        assert_ne!(secret, Secret::from("planted"));
    }
}
