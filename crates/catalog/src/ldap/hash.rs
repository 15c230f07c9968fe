//! `userPassword` values: made, recomputed, switched off.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use aws_lc_rs::digest::{Algorithm, SHA1_FOR_LEGACY_USE_ONLY, SHA512, digest};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::{Class, Error};

use super::values::Hash;

/// Salt bytes.
const SALT: usize = 16;
/// How a value begins that nobody can bind with: a scheme that every server knows, and then no base64. Behind
/// it stands the value to go back to.
const OFF: &str = "{SSHA}!";

/// What a stored value says of a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fits {
    Yes,
    No,
    /// Only the server can tell.
    AskServer,
}

/// A new value for a password.
pub(super) fn make(hash: Hash, password: &[u8]) -> Result<String, Error> {
    let mut salt = [0; SALT];
    aws_lc_rs::rand::fill(&mut salt).map_err(|_| {
        Error::new(
            Class::Busy,
            "this machine has no random bytes for a salt now",
        )
    })?;
    Ok(with_salt(hash, password, &salt))
}

fn with_salt(hash: Hash, password: &[u8], salt: &[u8]) -> String {
    let (prefix, algorithm) = match hash {
        Hash::Ssha => ("{SSHA}", &SHA1_FOR_LEGACY_USE_ONLY),
        Hash::Ssha512 => ("{SSHA512}", &SHA512),
    };
    let salted = digest(algorithm, &[password, salt].concat());
    let value = STANDARD.encode([salted.as_ref(), salt].concat());
    format!("{prefix}{value}")
}

/// Whether a stored value, switched off or not, is of this password.
pub(super) fn fits(stored: &str, password: &[u8]) -> Fits {
    let stored = stored.strip_prefix(OFF).unwrap_or(stored);
    let upper = |prefix: &str| {
        let head = stored.get(..prefix.len())?;
        head.eq_ignore_ascii_case(prefix)
            .then(|| &stored[prefix.len()..])
    };
    if let Some(value) = upper("{SSHA512}") {
        return recomputed(&SHA512, value, password);
    }
    match upper("{SSHA}") {
        Some(value) => recomputed(&SHA1_FOR_LEGACY_USE_ONLY, value, password),
        None => Fits::AskServer,
    }
}

fn recomputed(algorithm: &'static Algorithm, value: &str, password: &[u8]) -> Fits {
    let Ok(bytes) = STANDARD.decode(value.trim_end()) else {
        return Fits::No;
    };
    let Some((hash, salt)) = bytes.split_at_checked(algorithm.output_len()) else {
        return Fits::No;
    };
    let again = digest(algorithm, &[password, salt].concat());
    match verify_slices_are_equal(again.as_ref(), hash) {
        Ok(()) => Fits::Yes,
        Err(_) => Fits::No,
    }
}

/// Whether it is of a scheme that a server may not know.
pub(super) fn is_sha512(stored: &str) -> bool {
    stored
        .get(..9)
        .is_some_and(|head| head.eq_ignore_ascii_case("{SSHA512}"))
}

/// Whether it was switched off here.
pub(super) fn is_off(stored: &str) -> bool {
    stored.starts_with(OFF)
}

/// The same value, switched off.
pub(super) fn off(stored: &str) -> String {
    match is_off(stored) {
        true => stored.to_owned(),
        false => format!("{OFF}{stored}"),
    }
}

/// The value to go back to.
pub(super) fn on(stored: &str) -> &str {
    stored.strip_prefix(OFF).unwrap_or(stored)
}

#[cfg(test)]
mod tests {
    //! Values that slappasswd made, and our own.
    use super::*;

    #[test]
    fn a4_a_value_fits_its_password_and_no_other() {
        for hash in [Hash::Ssha, Hash::Ssha512] {
            let stored = make(hash, "pä\"ss".as_bytes()).expect("random bytes");
            assert_eq!(fits(&stored, "pä\"ss".as_bytes()), Fits::Yes);
            assert_eq!(fits(&stored, b"other"), Fits::No);
            assert_ne!(
                stored,
                make(hash, "pä\"ss".as_bytes()).expect("another salt")
            );
            let dark = off(&stored);
            assert!(is_off(&dark) && !is_off(&stored));
            assert_eq!((on(&dark), off(&dark)), (stored.as_str(), dark.clone()));
            assert_eq!(
                fits(&dark, "pä\"ss".as_bytes()),
                Fits::Yes,
                "kept to go back to"
            );
        }
        assert_eq!(fits("{ARGON2}$argon2i$x", b"x"), Fits::AskServer);
        assert_eq!(fits("plain", b"plain"), Fits::AskServer);
        assert_eq!(fits("{SSHA}", b""), Fits::No);
        assert_eq!(fits("{SSHA}???", b"x"), Fits::No);
    }

    #[test]
    fn h17_the_form_is_the_one_that_slapd_writes() {
        // {SSHA} is base64(SHA1(password + salt) + salt).
        let stored = with_salt(Hash::Ssha, b"secret", b"12345678");
        assert_eq!(stored, "{SSHA}tCNGqyJLk/uvKpCa4vga5GB2gWoxMjM0NTY3OA==");
    }
}
