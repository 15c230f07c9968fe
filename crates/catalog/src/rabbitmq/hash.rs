//! The verifier that RabbitMQ stores: base64 of a salt of 4 bytes and the hash of salt and password.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::Secret;
use mesh_sdk::mark::keyed;
use sha2::{Digest, Sha256, Sha512};

/// The algorithm of the verifiers that are made here.
pub(super) const SHA256: &str = "rabbit_password_hashing_sha256";
const SHA512: &str = "rabbit_password_hashing_sha512";
const MD5: &str = "rabbit_password_hashing_md5";
const SALT: usize = 4;

/// A verifier for a login. The salt follows from login and password, so that the same wish is the same
/// verifier whoever makes it: two who heal at once write the same, and nothing here draws chance. Two
/// logins with one password still have different salts.
pub(super) fn verifier(login: &str, password: &Secret) -> String {
    let salt = keyed(password, b"rabbitmq salt", &[login.as_bytes()]);
    let salt = &salt[..SALT];
    let mut bytes = salt.to_vec();
    bytes.extend(
        Sha256::new()
            .chain_update(salt)
            .chain_update(password.expose())
            .finalize(),
    );
    STANDARD.encode(bytes)
}

/// Whether a stored verifier is this password's, whatever algorithm the server is told to use on it: its
/// length says how it was made.
pub(super) fn fits(stored: &str, password: &Secret) -> bool {
    let Ok(bytes) = STANDARD.decode(stored) else {
        return false;
    };
    let Some((salt, rest)) = bytes.split_at_checked(SALT) else {
        return false;
    };
    match rest.len() {
        32 => {
            Sha256::new()
                .chain_update(salt)
                .chain_update(password.expose())
                .finalize()[..]
                == *rest
        }
        64 => {
            Sha512::new()
                .chain_update(salt)
                .chain_update(password.expose())
                .finalize()[..]
                == *rest
        }
        _ => false,
    }
}

/// Whether any password could match: there is a verifier, and the algorithm makes such a long one.
pub(super) fn is_usable(stored: &str, algorithm: &str) -> bool {
    let length = STANDARD.decode(stored).map_or(0, |bytes| bytes.len());
    match algorithm {
        SHA256 => length == SALT + 32,
        SHA512 => length == SALT + 64,
        MD5 => length == SALT + 16,
        // A plugin's own.
        _ => length > SALT,
    }
}

/// An algorithm that makes verifiers of another length than this one, so that no password matches, and
/// the verifier is kept.
pub(super) fn unusable_for(stored: &str) -> &'static str {
    match is_usable(stored, SHA512) {
        true => SHA256,
        false => SHA512,
    }
}

/// The algorithm that made a verifier, by its length.
pub(super) fn algorithm_of(stored: &str) -> &'static str {
    match is_usable(stored, SHA512) {
        true => SHA512,
        false => SHA256,
    }
}

#[cfg(test)]
mod tests {
    //! The verifier, with one that the real server made.
    use super::*;

    #[test]
    fn h17_a_verifier_is_recomputed_whatever_its_salt() {
        let admin = "dkkmAZIQYbhKJSuwnL/XaXPdSAwbsf7By4UabsAFGb4sp65F";
        assert!(fits(admin, &Secret::from("adminpw")));
        assert!(!fits(admin, &Secret::from("adminpx")));
        let ours = verifier("web", &Secret::from("pw"));
        assert!(fits(&ours, &Secret::from("pw")) && is_usable(&ours, SHA256));
        assert_eq!(ours, verifier("web", &Secret::from("pw")));
        assert_ne!(ours[..4], verifier("api", &Secret::from("pw"))[..4]);
        let long: Vec<u8> = [1, 2, 3, 4]
            .into_iter()
            .chain(Sha512::digest(b"\x01\x02\x03\x04pw"))
            .collect();
        let long = STANDARD.encode(long);
        assert!(fits(&long, &Secret::from("pw")) && is_usable(&long, SHA512));
    }

    #[test]
    fn r6_a_verifier_can_be_kept_and_match_nothing() {
        let ours = verifier("web", &Secret::from("pw"));
        assert!(!is_usable(&ours, unusable_for(&ours)));
        assert!(fits(&ours, &Secret::from("pw")), "it is still there");
        assert!(is_usable(&ours, algorithm_of(&ours)));
        for nothing in ["", "AAAA", "no base64!"] {
            assert!(
                !is_usable(nothing, SHA256) && !fits(nothing, &Secret::from("")),
                "{nothing}"
            );
        }
    }
}
