//! What Meshkeeper leaves on a backend to know its own logins again.

use std::fmt;

use hmac::{Hmac, Mac};
use sha2::Sha256;

use crate::answer::MarkSeen;
use crate::name::{ConsumerName, MeshId, ProviderName};
use crate::secret::Secret;

/// Characters of the MAC that a mark carries: 15 bytes of HMAC-SHA-256 in base32, 120 bits.
const MAC_CHARS: usize = 24;

/// Makes and reads the marks of one installation for one provider.
///
/// A mark is the text `mk1.<mesh>.<installation>.<provider>.<consumer>.<mac>`: only `a-z0-9._-`, so it
/// needs no quoting anywhere. It grants nothing and holds no secret; the MAC, under the installation's
/// key, tells ours from a forged or damaged one.
#[derive(Clone)]
pub struct Marker {
    mesh: MeshId,
    installation: String,
    provider: ProviderName,
    key: Secret,
}

impl fmt::Debug for Marker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Marker({}.{}.{})",
            self.mesh, self.installation, self.provider
        )
    }
}

/// One login's mark.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Mark(String);

impl Mark {
    /// The text to store on the backend.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
impl fmt::Display for Mark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Marker {
    /// The prefix that every mark of this format begins with.
    pub const PREFIX: &'static str = "mk1.";

    /// A marker for one provider. `installation` is the installation's id (`a-z0-9`), `key` its key.
    pub fn new(mesh: MeshId, installation: &str, provider: ProviderName, key: Secret) -> Self {
        Self {
            mesh,
            installation: installation.to_owned(),
            provider,
            key,
        }
    }
    /// The mark for a consumer: the same one for both its seats ([`ConsumerName::second`]), so that
    /// whoever forgets that its logins take turns knows both as the consumer's.
    pub fn mark(&self, consumer: &ConsumerName) -> Mark {
        let body = self.body(self.provider.as_str(), consumer.first().as_str());
        let mac = self.mac(&body);
        Mark(format!("{body}.{mac}"))
    }
    /// The text that the marks of every consumer of this provider begin with.
    pub fn own_prefix(&self) -> String {
        format!(
            "{}{}.{}.{}.",
            Self::PREFIX,
            self.mesh,
            self.installation,
            self.provider
        )
    }
    /// Judges a text found on a login that was asked for as `consumer`'s.
    pub fn read(&self, text: &str, consumer: &ConsumerName) -> MarkSeen {
        match self.owner(text) {
            Owner::Nobody => MarkSeen::None,
            Owner::Foreign => MarkSeen::Foreign,
            Owner::Damaged => MarkSeen::Damaged,
            Owner::Ours {
                provider,
                consumer: name,
            } if provider == self.provider && name.is_seat_of(consumer) => MarkSeen::Ours,
            Owner::Ours { consumer: name, .. } => MarkSeen::OursFor(name),
        }
    }
    /// Judges a text found on any login: whose is it?
    pub fn owner(&self, text: &str) -> Owner {
        let Some(rest) = text.strip_prefix(Self::PREFIX) else {
            return Owner::Nobody;
        };
        let parts: Vec<&str> = rest.split('.').collect();
        let [mesh, installation, provider, consumer, mac] = parts[..] else {
            return Owner::Damaged;
        };
        if mesh != self.mesh.as_str() || installation != self.installation {
            return Owner::Foreign;
        }
        let expected = self.mac(&self.body(provider, consumer));
        if Secret::from(mac) != Secret::from(expected) {
            return Owner::Damaged;
        }
        match (ProviderName::new(provider), ConsumerName::new(consumer)) {
            (Ok(provider), Ok(consumer)) => Owner::Ours {
                provider,
                consumer: consumer.first(),
            },
            _ => Owner::Damaged,
        }
    }
    /// Judges a text found on a login in a list. Only one that this provider left names a consumer: a
    /// login that another provider of the same installation looks after is none of this one's business.
    pub fn listed(&self, text: &str) -> MarkSeen {
        match self.owner(text) {
            Owner::Nobody => MarkSeen::None,
            Owner::Damaged => MarkSeen::Damaged,
            Owner::Ours { provider, consumer } if provider == self.provider => {
                MarkSeen::OursFor(consumer)
            }
            Owner::Ours { .. } | Owner::Foreign => MarkSeen::Foreign,
        }
    }
    fn body(&self, provider: &str, consumer: &str) -> String {
        format!(
            "{}{}.{}.{provider}.{consumer}",
            Self::PREFIX,
            self.mesh,
            self.installation
        )
    }
    fn mac(&self, body: &str) -> String {
        let mut text = base32(&keyed(&self.key, b"mark", &[body.as_bytes()]));
        text.truncate(MAC_CHARS);
        text
    }
}

/// Whose mark a text is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Owner {
    /// Not a mark.
    Nobody,
    /// Made by this installation.
    Ours {
        /// For this provider name.
        provider: ProviderName,
        /// For this consumer.
        consumer: ConsumerName,
    },
    /// Made by another mesh or installation.
    Foreign,
    /// In our name, with a MAC that does not fit, or not whole.
    Damaged,
}

/// HMAC-SHA-256 under the installation's key, with a domain and length-framed parts so that no two
/// different inputs run together. For marks, record digests (H-1) and fingerprints.
pub fn keyed(key: &Secret, domain: &[u8], parts: &[&[u8]]) -> [u8; 32] {
    let mut mac = match Hmac::<Sha256>::new_from_slice(key.expose()) {
        Ok(mac) => mac,
        Err(_) => unreachable!("HMAC takes keys of any length"),
    };
    for part in std::iter::once(&domain).chain(parts) {
        mac.update(&(part.len() as u64).to_be_bytes());
        mac.update(part);
    }
    mac.finalize().into_bytes().into()
}

fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut text = String::with_capacity(bytes.len() * 8 / 5 + 1);
    let (mut buffer, mut bits) = (0u32, 0u32);
    for byte in bytes {
        buffer = (buffer << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(char::from(ALPHABET[(buffer >> bits) as usize & 31]));
        }
    }
    text
}

#[cfg(test)]
mod tests {
    //! A mark tells ours from a stranger's and from a damaged one.
    use super::*;

    fn marker(mesh: &str, installation: &str, provider: &str, key: &str) -> Marker {
        let (mesh, provider) = (
            MeshId::new(mesh).expect("mesh"),
            ProviderName::new(provider).expect("p"),
        );
        Marker::new(mesh, installation, provider, Secret::from(key))
    }

    #[test]
    fn h18_a_mark_is_ours_only_with_our_names_and_our_key() {
        let ours = marker("home", "i1", "cache", "key");
        let web = ConsumerName::new("web").expect("name");
        let text = ours.mark(&web).as_str().to_owned();
        assert_eq!(ours.read(&text, &web), MarkSeen::Ours);
        let api = ConsumerName::new("api").expect("name");
        assert_eq!(ours.read(&text, &api), MarkSeen::OursFor(web.clone()));
        assert_eq!(
            marker("home", "i2", "cache", "key").read(&text, &web),
            MarkSeen::Foreign
        );
        assert_eq!(
            marker("away", "i1", "cache", "key").read(&text, &web),
            MarkSeen::Foreign
        );
        assert_eq!(
            marker("home", "i1", "cache", "other").read(&text, &web),
            MarkSeen::Damaged
        );
        assert_eq!(
            ours.read(&text.replace("web", "root"), &web),
            MarkSeen::Damaged
        );
        assert_eq!(ours.read(&text[..text.len() - 1], &web), MarkSeen::Damaged);
        assert_eq!(ours.read("some comment", &web), MarkSeen::None);
    }

    #[test]
    fn r1_a_listed_mark_names_a_consumer_of_this_provider_only() {
        let ours = marker("home", "i1", "cache", "key");
        let web = ConsumerName::new("web").expect("name");
        let text = ours.mark(&web).as_str().to_owned();
        assert_eq!(ours.listed(&text), MarkSeen::OursFor(web));
        for other in [
            marker("home", "i1", "database", "key"),
            marker("home", "i2", "cache", "key"),
            marker("away", "i1", "cache", "key"),
        ] {
            assert_eq!(other.listed(&text), MarkSeen::Foreign, "{other:?}");
        }
        let forged = marker("home", "i1", "cache", "other");
        assert_eq!(forged.listed(&text), MarkSeen::Damaged);
        assert_eq!(ours.listed("some comment"), MarkSeen::None);
    }

    #[test]
    fn r3_both_logins_of_a_consumer_carry_its_mark() {
        let ours = marker("home", "i1", "cache", "key");
        let web = ConsumerName::new("web").expect("name");
        let text = ours.mark(&web).as_str().to_owned();
        assert_eq!(ours.mark(&web.second()).as_str(), text);
        assert_eq!(ours.read(&text, &web.second()), MarkSeen::Ours);
        assert_eq!(ours.listed(&text), MarkSeen::OursFor(web));
        let api = ConsumerName::new("api").expect("name").second();
        assert_ne!(ours.read(&text, &api), MarkSeen::Ours);
    }

    #[test]
    fn h18_a_mark_needs_no_quoting() {
        let web = ConsumerName::new("we-b_1").expect("name");
        let text = marker("home", "i1", "cache", "key").mark(&web);
        assert!(
            text.as_str()
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        );
    }

    #[test]
    fn keyed_parts_do_not_run_together() {
        let key = Secret::from("k");
        assert_ne!(
            keyed(&key, b"d", &[b"ab", b"c"]),
            keyed(&key, b"d", &[b"a", b"bc"])
        );
        assert_ne!(keyed(&key, b"d", &[b"x"]), keyed(&key, b"e", &[b"x"]));
    }
}
