//! Verifiers: how PostgreSQL keeps a password, made and checked on this side (A-4, H-17).

use std::borrow::Cow;
use std::num::NonZeroU32;

use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use aws_lc_rs::{constant_time, digest, hmac, pbkdf2};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::{Class, Error};

const PREFIX: &str = "SCRAM-SHA-256$";
const SALT: usize = 16;
/// A verifier with more rounds than this was not made to be used: it is not worked out.
const MOST_ROUNDS: u32 = 1_000_000;

/// A SCRAM verifier taken apart.
struct Parts {
    rounds: NonZeroU32,
    salt: Vec<u8>,
    stored_key: [u8; 32],
    server_key: [u8; 32],
}

/// The password as PostgreSQL's own client library would prepare it (SASLprep, RFC 4013): what that does
/// not allow is used as it is, on both sides.
pub(super) fn prepared(password: &str) -> Cow<'_, str> {
    if password.is_ascii() {
        return Cow::Borrowed(password);
    }
    match stringprep::saslprep(password) {
        Ok(text) if !text.is_empty() => text,
        _ => Cow::Borrowed(password),
    }
}

/// Whether preparing leaves nothing of a password: clients disagree on those.
pub(super) fn vanishes(password: &str) -> bool {
    !password.is_ascii() && stringprep::saslprep(password).is_ok_and(|text| text.is_empty())
}

/// A new verifier, with a salt of its own.
pub(super) fn make(password: &str, rounds: NonZeroU32) -> Result<String, Error> {
    let mut salt = [0; SALT];
    SystemRandom::new()
        .fill(&mut salt)
        .map_err(|_| Error::new(Class::Bug, "this system gives no random bytes"))?;
    Ok(made_with(password, rounds, &salt))
}

fn made_with(password: &str, rounds: NonZeroU32, salt: &[u8]) -> String {
    let (stored_key, server_key) = keys(password, rounds, salt);
    let [salt, stored_key, server_key] =
        [salt, &stored_key, &server_key].map(|bytes| STANDARD.encode(bytes));
    format!("{PREFIX}{rounds}:{salt}${stored_key}:{server_key}")
}

/// Whether a stored verifier is this password's.
pub(super) fn fits(password: &str, login: &str, stored: &str) -> bool {
    if is_md5(stored) {
        let made = postgres_protocol::password::md5(password.as_bytes(), login);
        return constant_time::verify_slices_are_equal(made.as_bytes(), stored.as_bytes()).is_ok();
    }
    let Some(parts) = Parts::read(stored) else {
        return false;
    };
    let (stored_key, server_key) = keys(password, parts.rounds, &parts.salt);
    let same = |a: &[u8], b: &[u8]| constant_time::verify_slices_are_equal(a, b).is_ok();
    same(&stored_key, &parts.stored_key) && same(&server_key, &parts.server_key)
}

/// How many rounds working a verifier out takes; none for other kinds, which are cheap.
pub(super) fn rounds(stored: &str) -> Option<u32> {
    Parts::read(stored).map(|parts| parts.rounds.get())
}

/// The older kind, which PostgreSQL is about to drop: `md5` and 32 hexadecimal digits.
pub(super) fn is_md5(stored: &str) -> bool {
    let digits = stored.strip_prefix("md5");
    digits.is_some_and(|d| d.len() == 32 && d.bytes().all(|b| b.is_ascii_hexdigit()))
}

/// StoredKey and ServerKey of RFC 5802.
fn keys(password: &str, rounds: NonZeroU32, salt: &[u8]) -> ([u8; 32], [u8; 32]) {
    let password = prepared(password);
    let mut salted = [0; 32];
    let algorithm = pbkdf2::PBKDF2_HMAC_SHA256;
    pbkdf2::derive(algorithm, rounds, salt, password.as_bytes(), &mut salted);
    let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
    let client_key = hmac::sign(&key, b"Client Key");
    let stored_key = digest::digest(&digest::SHA256, client_key.as_ref());
    let server_key = hmac::sign(&key, b"Server Key");
    (whole(stored_key.as_ref()), whole(server_key.as_ref()))
}

fn whole(bytes: &[u8]) -> [u8; 32] {
    let mut all = [0; 32];
    all.copy_from_slice(&bytes[..32]);
    all
}

impl Parts {
    fn read(text: &str) -> Option<Self> {
        let (head, tail) = text.strip_prefix(PREFIX)?.split_once('$')?;
        let (rounds, salt) = head.split_once(':')?;
        let (stored_key, server_key) = tail.split_once(':')?;
        let bytes = |text: &str| STANDARD.decode(text).ok();
        let key = |text: &str| -> Option<[u8; 32]> { bytes(text)?.try_into().ok() };
        let rounds: NonZeroU32 = rounds.parse().ok()?;
        (rounds.get() <= MOST_ROUNDS).then_some(())?;
        Some(Self {
            rounds,
            salt: bytes(salt)?,
            stored_key: key(stored_key)?,
            server_key: key(server_key)?,
        })
    }
}

#[cfg(test)]
mod tests {
    //! Against verifiers that PostgreSQL 15 made.
    use super::*;

    const ROUNDS: NonZeroU32 = NonZeroU32::new(4096).expect("not zero");

    #[test]
    fn h17_a_verifier_is_this_passwords_and_no_others() {
        for password in ["plain", "漢字 ü", "a\nb", "so\u{ad}ft77", "x\u{1F9FF}y"] {
            let made = make(password, ROUNDS).expect("made");
            assert!(made.starts_with("SCRAM-SHA-256$4096:"), "{made}");
            assert!(fits(password, "web", &made));
            assert!(!fits("another", "web", &made));
            assert_ne!(
                made,
                make(password, ROUNDS).expect("made"),
                "the salt is new"
            );
        }
        let few = make("plain", NonZeroU32::MIN).expect("made");
        assert!(few.starts_with("SCRAM-SHA-256$1:") && fits("plain", "web", &few));
    }

    #[test]
    fn o06_passwords_are_prepared_as_the_clients_do() {
        let pairs = [
            ("pass\u{a0}word", "pass word"),
            ("so\u{ad}ft77", "soft77"),
            ("\u{FF21}bc\u{BC}9", "Abc1\u{2044}49"),
            // Not assigned: nothing of it is changed.
            ("\u{FF21}bc\u{BC9}", "\u{FF21}bc\u{BC9}"),
            ("Zu\u{308}rich-9", "Zürich-9"),
            ("x\u{1F9FF}y", "x\u{1F9FF}y"),
            ("a\u{ad}\u{7}", "a\u{ad}\u{7}"),
            ("plain \t", "plain \t"),
        ];
        for (given, wanted) in pairs {
            assert_eq!(prepared(given), wanted, "{given:?}");
        }
        assert!(vanishes("\u{ad}") && !vanishes("a\u{ad}") && !vanishes(""));
    }

    #[test]
    fn o05_what_is_no_verifier_fits_nothing() {
        let odd = [
            "",
            "plain",
            "SCRAM-SHA-256$4096:c2FsdA==$a:b",
            "SCRAM-SHA-256$0:c2FsdA==$a:b",
            "md5",
        ];
        for stored in odd {
            assert!(!fits("plain", "web", stored), "{stored}");
            assert!(!fits(stored, "web", stored), "{stored}");
        }
        // Nobody waits for a verifier that takes a day.
        let made = make("plain", ROUNDS).expect("made");
        assert!(!fits(
            "plain",
            "web",
            &made.replace("$4096:", "$2000000000:")
        ));
    }

    #[test]
    fn h17_the_old_kind_is_known_too() {
        let stored = "md5aa01ae2d36ac9ba5de6f68ac34df3ea9";
        assert!(is_md5(stored) && !is_md5("md5xyz"));
        let made = postgres_protocol::password::md5(b"pw", "web");
        assert!(fits("pw", "web", &made) && !fits("pw", "web2", &made));
        assert!(!fits(stored, "web", stored), "the hash is no password");
    }
}
