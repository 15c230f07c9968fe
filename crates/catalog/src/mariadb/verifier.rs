//! What MariaDB keeps of a password, computed here: the server is never told the password itself.

use std::sync::OnceLock;

use curve25519_dalek::edwards::EdwardsPoint;
use mesh_sdk::Secret;
use sha1::Sha1;
use sha2::{Digest, Sha512};

use super::values::Auth;

/// Of `mysql_native_password`, and what it is compared with.
pub(super) const NATIVE: &str = "mysql_native_password";
/// Of `ed25519`.
pub(super) const ED25519: &str = "ed25519";

/// A verifier that no password has: double SHA-1 has no known input for it.
pub(super) const NOBODYS: &str = "*0000000000000000000000000000000000000000";

/// The verifiers of one password.
pub(super) struct Verifiers {
    native: String,
    password: Secret,
    ed25519: OnceLock<String>,
}

impl Verifiers {
    pub(super) fn of(password: &Secret) -> Self {
        Self {
            native: native(password.expose()),
            password: password.clone(),
            ed25519: OnceLock::new(),
        }
    }
    /// The one that an account of this kind is made with.
    pub(super) fn wanted(&self, auth: Auth) -> &str {
        match auth {
            Auth::Native => &self.native,
            Auth::Ed25519 => self.ed25519.get_or_init(|| ed25519(self.password.expose())),
        }
    }
    /// Whether a stored verifier is of this password. A plugin that is not known fits nothing.
    pub(super) fn fits(&self, plugin: &str, stored: &str) -> bool {
        match plugin {
            NATIVE => self.native.eq_ignore_ascii_case(stored),
            ED25519 => self.wanted(Auth::Ed25519) == stored,
            _ => false,
        }
    }
}

/// The plugin's name for each way of logging in.
pub(super) fn plugin(auth: Auth) -> &'static str {
    match auth {
        Auth::Native => NATIVE,
        Auth::Ed25519 => ED25519,
    }
}

/// `*` and the hex of SHA1(SHA1(password)): unsalted, so it is compared without the server.
fn native(password: &[u8]) -> String {
    let twice = Sha1::digest(Sha1::digest(password));
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let mut shown = String::with_capacity(41);
    shown.push('*');
    for byte in twice {
        let digits = [byte >> 4, byte & 15].map(|at| char::from(DIGITS[usize::from(at)]));
        shown.extend(digits);
    }
    shown
}

/// The public key whose secret scalar is the clamped first half of SHA-512(password), in base64 without
/// its padding.
fn ed25519(password: &[u8]) -> String {
    let hash = Sha512::digest(password);
    let mut half = [0; 32];
    half.copy_from_slice(&hash[..32]);
    let key = EdwardsPoint::mul_base_clamped(half).compress();
    base64(key.as_bytes())
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len() * 4 / 3 + 1);
    for part in bytes.chunks(3) {
        let mut block = [0; 4];
        block[1..=part.len()].copy_from_slice(part);
        let block = u32::from_be_bytes(block);
        for sextet in 0..=part.len() {
            let at = block >> (18 - 6 * sextet) & 63;
            text.push(char::from(ALPHABET[at as usize]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    //! The verifiers are those that a real server stored.
    use super::*;

    #[test]
    fn h17_the_verifiers_are_the_ones_that_mariadb_keeps() {
        // `PASSWORD('password')`, and what `ed25519_password('x')` gave on 10.11.19.
        assert_eq!(
            native(b"password"),
            "*2470C0C06DEE42FD1618BB99005ADCA2EC9D1E19"
        );
        assert_eq!(ed25519(b"x"), "Gv2JI8Env2fd5YGonZ082tX3UAW+yJYldOlj4R1bfK4");
        let both = Verifiers::of(&Secret::from("x"));
        assert!(both.fits(NATIVE, "*b69027d44f6e5edc07f1aead1477967b16f28227"));
        assert!(both.fits(ED25519, "Gv2JI8Env2fd5YGonZ082tX3UAW+yJYldOlj4R1bfK4"));
        assert!(!both.fits("unix_socket", "") && !both.fits(NATIVE, "") && !both.fits("pam", "x"));
    }
}
