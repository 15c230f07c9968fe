//! New passwords, and the rules by which one of them comes into force (H-22). The random bytes come from
//! outside, so that a test can give them.

use mesh_sdk::bus::Put;
use mesh_sdk::secret::Secret;
use zeroize::Zeroizing;

/// What a password is made of: nothing here needs quoting in a URL, a shell, JSON or SQL.
const ALPHABET: &[u8; 62] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
/// Characters in a password: 32 × log2 62 is a little over 190 bits.
pub const LENGTH: usize = 32;
/// Bytes from here on are thrown away, or the first letters would come up more often than the others.
const FAIR: u8 = 62 * 4;

/// The system gives no random bytes. Nothing is minted from anything else.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the system gives no random bytes")]
pub struct NoRandom;

/// Makes a password of [`LENGTH`] characters out of `random`, which fills a buffer with random bytes.
pub fn password(
    mut random: impl FnMut(&mut [u8]) -> Result<(), NoRandom>,
) -> Result<Secret, NoRandom> {
    let mut text = Zeroizing::new([0; LENGTH]);
    let mut bytes = Zeroizing::new([0; 2 * LENGTH]);
    let mut made = 0;
    while made < LENGTH {
        random(bytes.as_mut())?;
        for byte in bytes.iter().filter(|byte| **byte < FAIR) {
            if made < LENGTH {
                text[made] = ALPHABET[usize::from(*byte) % ALPHABET.len()];
                made += 1;
            }
        }
    }
    Ok(Secret::new(text.as_slice()))
}

/// Fills a buffer from the system's random source.
pub fn os_random(bytes: &mut [u8]) -> Result<(), NoRandom> {
    aws_lc_rs::rand::fill(bytes).map_err(|_| NoRandom)
}

/// What is to be done for a consumer that needs a password.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Naming<I> {
    /// The bus names a version: it is in force.
    InForce(I),
    /// A secret is sealed here that no version names: it is named, and none is made.
    Name(I),
    /// There is none: one is made, sealed on the disk, and then named.
    Make,
}

/// Decides by the version that the bus names and the newest secret that is sealed here.
pub fn naming<I>(version: Option<I>, kept: Option<I>) -> Naming<I> {
    match (version, kept) {
        (Some(version), _) => Naming::InForce(version),
        (None, Some(kept)) => Naming::Name(kept),
        (None, None) => Naming::Make,
    }
}

/// What became of a sealed secret that was to be named.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// It is the version.
    InForce,
    /// Another is: it is thrown away.
    Lost,
    /// Not known yet: it is kept, and named again.
    Open,
}

/// Judges the write that names `own`. `found` is the version as it was read back, which is needed only
/// where the write is not done (B-5).
pub fn fate<I: PartialEq>(own: &I, put: Put, found: Option<&I>) -> Fate {
    match (put, found) {
        (Put::Done(_), _) => Fate::InForce,
        (Put::Conflict | Put::Unknown, Some(found)) if found == own => Fate::InForce,
        (Put::Conflict | Put::Unknown, Some(_)) => Fate::Lost,
        (Put::Conflict | Put::Unknown, None) => Fate::Open,
    }
}

#[cfg(test)]
mod tests {
    //! Passwords are fair, whole, and fail rather than repeat.
    use super::*;

    #[test]
    fn h22_a_password_is_32_letters_and_digits_and_never_the_same() {
        let one = password(os_random).expect("random");
        let two = password(os_random).expect("random");
        assert_ne!(one, two);
        assert_eq!(one.len(), 32);
        let text = one.expose_str().expect("text");
        assert!(text.bytes().all(|b| b.is_ascii_alphanumeric()), "{text}");
    }

    #[test]
    fn h22_bytes_that_would_favour_some_letters_are_thrown_away() {
        let mut next = 240u8;
        let made = password(|bytes| {
            for byte in bytes {
                *byte = next;
                next = next.wrapping_add(1);
            }
            Ok(())
        });
        let text = made.expect("random");
        // 240 to 247 are the last eight letters of the alphabet; 248 to 255 give nothing; then from 0 on.
        assert_eq!(text.expose_str(), Some("23456789ABCDEFGHIJKLMNOPQRSTUVWX"));
    }

    #[test]
    fn h22_each_character_comes_up_as_often_as_the_others() {
        let mut counts = [0u32; 256];
        for _ in 0..4000 {
            for byte in password(os_random).expect("random").expose() {
                counts[usize::from(*byte)] += 1;
            }
        }
        let expected = 4000.0 * 32.0 / 62.0;
        let chi: f64 = ALPHABET
            .iter()
            .map(|b| (f64::from(counts[usize::from(*b)]) - expected).powi(2) / expected)
            .sum();
        // 61 degrees of freedom: above 140 happens by chance once in ten million runs.
        assert!(chi < 140.0, "chi-square {chi}");
    }

    #[test]
    fn s4_without_random_bytes_there_is_no_password() {
        assert_eq!(password(|_| Err(NoRandom)), Err(NoRandom));
    }
}
