//! The hash that etcd from 3.5 on takes in the place of a password: bcrypt, in base64.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use mesh_sdk::mark::keyed;
use mesh_sdk::{Class, Cx, Error, Secret};

/// The longest password that bcrypt takes whole; what is behind it would not count (O-08).
pub(super) const LONGEST: usize = 72;

/// A hash for a login. Its salt follows from login and password, so that the same wish is the same hash
/// whoever makes it, and nothing here draws chance. It is worked out where it holds up nobody.
pub(super) async fn verifier(
    cx: &Cx,
    login: &str,
    password: &Secret,
    cost: u32,
) -> Result<String, Error> {
    let keyed = keyed(password, b"etcd salt", &[login.as_bytes()]);
    let mut salt = [0; 16];
    salt.copy_from_slice(&keyed[..16]);
    let password = password.clone();
    let _computing = cx.computing();
    let work = move || bcrypt::hash_with_salt(password.expose(), cost, salt);
    let made = tokio::task::spawn_blocking(work).await;
    let made = made.map_err(|_| Error::new(Class::Bug, "make a hash: the work ended early"))?;
    let parts =
        made.map_err(|_| Error::new(Class::RefusedValue, "make a hash: not of this password"))?;
    Ok(STANDARD.encode(parts.format_for_version(bcrypt::Version::TwoB)))
}

#[cfg(test)]
mod tests {
    //! The hash is one of the password.
    use super::*;

    #[tokio::test]
    async fn a4_the_hash_is_the_passwords_and_always_the_same() {
        let made = |login: &'static str, password: &'static str| async move {
            verifier(&Cx::default(), login, &Secret::from(password), 4)
                .await
                .expect("a hash")
        };
        let hash = made("web", "pw").await;
        assert_eq!(hash, made("web", "pw").await);
        assert_ne!(hash, made("api", "pw").await);
        let text = String::from_utf8(STANDARD.decode(&hash).expect("base64")).expect("text");
        assert!(text.starts_with("$2b$04$"), "{text}");
        assert!(
            bcrypt::verify("pw", &text).expect("a hash")
                && !bcrypt::verify("pv", &text).expect("a hash")
        );
    }
}
