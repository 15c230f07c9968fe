//! What the mesh asks of one provider for one consumer.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};

use crate::mark::{Mark, Marker, keyed};
use crate::name::{ConsumerName, Login};
use crate::secret::Secret;

/// This kind's values, typed by its adapter and shared.
pub type AnyValues = Arc<dyn Any + Send + Sync>;

/// The keyed digest of one wish: tells "changed" without a stored password (H-1).
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Digest([u8; 16]);

impl From<Digest> for String {
    fn from(digest: Digest) -> String {
        format!("{:032x}", u128::from_be_bytes(digest.0))
    }
}

impl TryFrom<String> for Digest {
    type Error = std::num::ParseIntError;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        Ok(Self(u128::from_str_radix(&text, 16)?.to_be_bytes()))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(4).try_for_each(|b| write!(f, "{b:02x}"))
    }
}

impl Digest {
    /// From its bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
    /// Its bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

/// One provision as a harness keeps it: everything that a call for this consumer needs.
///
/// It never changes: a changed login, password or value makes a new one, with another digest.
pub struct Wish {
    consumer: ConsumerName,
    login: Login,
    password: Option<Secret>,
    second: Option<Secret>,
    base: Option<Login>,
    values: AnyValues,
    enabled: bool,
    adopt: bool,
    exact: bool,
    generated: bool,
    digest: Digest,
    memo: OnceLock<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Wish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Wish({} as {:?}, {:?})",
            self.consumer,
            self.login.as_str(),
            self.digest
        )
    }
}

/// What a [`Wish`] is made of.
pub struct WishParts {
    /// Who.
    pub consumer: ConsumerName,
    /// Its login on the backend.
    pub login: Login,
    /// Its password; none while it is not minted yet, and then nothing is written for it (S-4).
    pub password: Option<Secret>,
    /// Another password that is valid beside it; only where the adapter declares
    /// [`two_passwords`](crate::adapter::Capabilities::two_passwords).
    pub second: Option<Secret>,
    /// The consumer's first login, if this is the one that takes turns with it: the values are the same,
    /// and what either owns, both can use.
    pub base: Option<Login>,
    /// The values, typed by the kind.
    pub values: AnyValues,
    /// The same values in a canonical form, for the digest.
    pub canonical_values: Vec<u8>,
    /// `enabled = false` keeps the login switched off (H-25).
    pub enabled: bool,
    /// The manifest allows taking over a login that exists (H-18).
    pub adopt: bool,
    /// Surplus rights on an adopted login are taken back.
    pub exact: bool,
    /// The password was made by Meshkeeper, from 190 random bits, and not chosen by a person.
    pub generated: bool,
}

impl Wish {
    /// Makes a wish; `key` is the installation's key, for the digest.
    pub fn new(parts: WishParts, key: &Secret) -> Self {
        let WishParts {
            consumer,
            login,
            password,
            second,
            base,
            values,
            canonical_values,
            enabled,
            adopt,
            exact,
            generated,
        } = parts;
        let flags = [
            u8::from(enabled),
            u8::from(exact),
            u8::from(password.is_some()),
        ];
        let hidden = password.as_ref().map(Secret::expose).unwrap_or_default();
        let mut framed = vec![login.as_str().as_bytes(), hidden, &canonical_values, &flags];
        // Nothing is added for who has neither: records of before keep their digests.
        if let Some(second) = &second {
            framed.extend([&b"second"[..], second.expose()]);
        }
        if let Some(base) = &base {
            framed.extend([&b"base"[..], base.as_str().as_bytes()]);
        }
        let full = keyed(key, b"wish", &framed);
        let mut short = [0; 16];
        short.copy_from_slice(&full[..16]);
        let digest = Digest(short);
        let memo = OnceLock::new();
        Self {
            consumer,
            login,
            password,
            second,
            base,
            values,
            enabled,
            adopt,
            exact,
            generated,
            digest,
            memo,
        }
    }
    /// Who.
    pub fn consumer(&self) -> &ConsumerName {
        &self.consumer
    }
    /// Its login.
    pub fn login(&self) -> &Login {
        &self.login
    }
    /// Its password, once there is one.
    pub fn password(&self) -> Option<&Secret> {
        self.password.as_ref()
    }
    /// Another password that is valid beside it.
    pub fn second_password(&self) -> Option<&Secret> {
        self.second.as_ref()
    }
    /// The consumer's first login, if this one takes turns with it.
    pub fn base(&self) -> Option<&Login> {
        self.base.as_ref()
    }
    /// Whether the login should be usable.
    pub fn enabled(&self) -> bool {
        self.enabled
    }
    /// Whether an existing login may be taken over.
    pub fn adopt(&self) -> bool {
        self.adopt
    }
    /// Whether surplus rights are taken back on an adopted login too.
    pub fn exact(&self) -> bool {
        self.exact
    }
    /// The digest of login, password and values.
    pub fn digest(&self) -> Digest {
        self.digest
    }
    /// The typed values, erased.
    pub fn any_values(&self) -> &AnyValues {
        &self.values
    }
}

/// What an adapter is given for one consumer: a view of the wish with this kind's typed values.
#[derive(Debug)]
#[non_exhaustive]
pub struct Provision<'a, V> {
    wish: &'a Wish,
    values: &'a V,
    adopted: bool,
    marker: &'a Marker,
}

impl<V> Clone for Provision<'_, V> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<V> Copy for Provision<'_, V> {}

impl<'a, V: 'static> Provision<'a, V> {
    /// A view of a wish. `None` if the wish's values are not of this type, which only a program that
    /// mixes up two kinds can do.
    pub fn of(wish: &'a Wish, adopted: bool, marker: &'a Marker) -> Option<Self> {
        Some(Self {
            wish,
            values: wish.values.downcast_ref()?,
            adopted,
            marker,
        })
    }
    /// Who asks.
    pub fn consumer(&self) -> &'a ConsumerName {
        &self.wish.consumer
    }
    /// The login to make or to look at: data, to be escaped by the adapter as its protocol needs.
    pub fn login(&self) -> &'a Login {
        &self.wish.login
    }
    /// The password. Always there in `create` for an enabled login; in `holds` it may be missing, and
    /// then the question is only whether the login exists and whose mark it has (H-22).
    pub fn password(&self) -> Option<&'a Secret> {
        self.wish.password.as_ref()
    }
    /// Another password that is valid beside [`Provision::password`], while one takes over from the
    /// other: held is only who has exactly these two; a missing one is a difference, and so is a third.
    /// Never asked for where the adapter does not declare [`two_passwords`]: it may ignore this.
    ///
    /// [`two_passwords`]: crate::adapter::Capabilities::two_passwords
    pub fn second_password(&self) -> Option<&'a Secret> {
        self.wish.second.as_ref()
    }
    /// Every password that is to be valid: none, one, or two that differ.
    pub fn passwords(&self) -> impl Iterator<Item = &'a Secret> + use<'a, V> {
        let first = self.password();
        let second = self.second_password().filter(|_| first.is_some());
        first
            .into_iter()
            .chain(second.filter(|one| first != Some(*one)))
    }
    /// The consumer's first login, if this one takes turns with it: where two passwords cannot be valid
    /// at once, a rotation swaps logins. The values are the same for both, and neither takes anything
    /// from the other: what either owns or makes, both can use. The first one may be switched off
    /// meanwhile, and stays.
    pub fn base(&self) -> Option<&'a Login> {
        self.wish.base.as_ref()
    }
    /// This kind's values.
    pub fn values(&self) -> &'a V {
        self.values
    }
    /// Whether the login should be usable; if not, it is kept switched off with its data (H-25).
    pub fn enabled(&self) -> bool {
        self.wish.enabled
    }
    /// Whether surplus rights are a difference: on logins that we created, and on adopted ones after
    /// `mesh adopt --exact`. Otherwise they are a warning on *held*, and `create` leaves them.
    pub fn exact(&self) -> bool {
        !self.adopted || self.wish.exact
    }
    /// Whether the password was made by Meshkeeper, so that no guessing can reach it and a verifier needs
    /// no slow hash. A password that a person chose deserves the slow one.
    pub fn is_generated(&self) -> bool {
        self.wish.generated
    }
    /// The mark to leave on the login: that of the consumer, whichever of its logins this is.
    pub fn mark(&self) -> Mark {
        self.marker.mark(&self.wish.consumer)
    }
    /// Reads marks that are found.
    pub fn marker(&self) -> &'a Marker {
        self.marker
    }
    /// Something that the adapter computes once per wish, such as a verifier or a parsed rule set.
    ///
    /// Kept until the wish changes. If it was kept with another type before, it is made anew and not kept.
    pub fn memo<T: Send + Sync + 'static>(&self, make: impl FnOnce() -> T) -> Arc<T> {
        let mut make = Some(make);
        let kept = self.wish.memo.get_or_init(|| match make.take() {
            Some(make) => Arc::new(make()),
            None => Arc::new(()),
        });
        match (Arc::clone(kept).downcast::<T>(), make) {
            (Ok(value), _) => value,
            (Err(_), Some(make)) => Arc::new(make()),
            (Err(_), None) => unreachable!("what was just made has the type it was made with"),
        }
    }
}

/// A login that is to lose its access, or to go.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Departing {
    /// Whose it was.
    pub consumer: ConsumerName,
    /// The login on the backend.
    pub login: Login,
}

impl Departing {
    /// Names one.
    pub fn new(consumer: ConsumerName, login: Login) -> Self {
        Self { consumer, login }
    }
}

#[cfg(test)]
mod tests {
    //! H-1: "changed" is judged by a keyed digest.
    use super::*;
    use crate::name::{MeshId, ProviderName};

    fn parts(login: &str, password: Option<&str>, values: u32) -> WishParts {
        WishParts {
            consumer: ConsumerName::new("web").expect("name"),
            login: Login::new(login).expect("login"),
            password: password.map(Secret::from),
            second: None,
            base: None,
            values: Arc::new(values),
            canonical_values: values.to_be_bytes().to_vec(),
            enabled: true,
            adopt: false,
            exact: false,
            generated: false,
        }
    }

    #[test]
    fn h1_the_digest_changes_with_login_password_values_enabled_and_key() {
        let key = Secret::from("key");
        let base = Wish::new(parts("web", Some("pw"), 1), &key).digest();
        assert_eq!(base, Wish::new(parts("web", Some("pw"), 1), &key).digest());
        let off = WishParts {
            enabled: false,
            ..parts("web", Some("pw"), 1)
        };
        let second = WishParts {
            second: Some(Secret::from("pw2")),
            ..parts("web", Some("pw"), 1)
        };
        let turns = |base: &str| WishParts {
            base: Some(Login::new(base).expect("login")),
            ..parts("web", Some("pw"), 1)
        };
        let others = [
            Wish::new(second, &key),
            Wish::new(turns("web"), &key),
            Wish::new(turns("web2"), &key),
            Wish::new(parts("web2", Some("pw"), 1), &key),
            Wish::new(parts("web", Some("pw2"), 1), &key),
            Wish::new(parts("web", None, 1), &key),
            Wish::new(parts("web", Some("pw"), 2), &key),
            Wish::new(off, &key),
            Wish::new(parts("web", Some("pw"), 1), &Secret::from("key2")),
        ];
        for (i, other) in others.iter().enumerate() {
            assert_ne!(base, other.digest());
            let twin = others[..i]
                .iter()
                .find(|one| one.digest() == other.digest());
            assert!(twin.is_none(), "{other:?} and {twin:?}");
        }
    }

    #[test]
    fn a_memo_is_made_once_per_wish() {
        let key = Secret::from("key");
        let wish = Wish::new(parts("web", Some("pw"), 7), &key);
        let (mesh, provider) = (
            MeshId::new("home").expect("m"),
            ProviderName::new("cache").expect("p"),
        );
        let marker = Marker::new(mesh, "i1", provider, key);
        let view = Provision::<u32>::of(&wish, false, &marker).expect("typed");
        assert_eq!(*view.memo(|| 41 + 1), 42);
        assert_eq!(*view.memo(|| 0), 42);
        assert_eq!(*view.memo(|| "other type"), "other type");
        assert!(Provision::<String>::of(&wish, false, &marker).is_none());
    }
}
