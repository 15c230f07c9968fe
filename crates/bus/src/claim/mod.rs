//! Leases: who may act on an installation, or on one provider, by a value on the bus that its holder beats.
//!
//! Nobody's clock is compared with anybody else's. The holder beats, and stops well before others may take
//! it for dead; a candidate waits out its own clock. No lease excludes for sure, so nothing rests on it but
//! the wish not to be in each other's way: minting is a compare-and-set (H-22), the rest is idempotent.
//!
//! [`rules`] decide, from data alone; [`take`] and what it answers carry out what they say.

mod driver;
pub mod rules;

use mesh_sdk::ProviderName;
use mesh_sdk::bus::Key;
use serde::{Deserialize, Serialize};
use std::time::Duration;

pub use driver::{Answer, Claim, holder, take};
pub use rules::{BEAT, SILENT, STOP_AFTER, patience};

/// What is leased.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Lease {
    /// The whole installation: one host acts on all of it.
    Installation,
    /// One provider: one host acts on it (B-4).
    Provider(ProviderName),
}

impl Lease {
    /// Where it lies, in [`mesh_sdk::bus::Bucket::Loop`].
    pub fn key(&self) -> Key {
        // Loops have keys of one token.
        match self {
            Lease::Installation => Key::of(&["claim", "installation"]),
            Lease::Provider(provider) => Key::of(&["lease", provider.as_str()]),
        }
    }
    /// Whether a key of that bucket is a lease's.
    pub fn is_at(key: &Key) -> bool {
        *key == Lease::Installation.key() || key.as_str().starts_with("lease.")
    }
}

impl std::fmt::Display for Lease {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Lease::Installation => write!(f, "the installation"),
            Lease::Provider(provider) => write!(f, "the provider {provider}"),
        }
    }
}

/// Who holds it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Holder {
    /// The host's name, for people.
    pub host: String,
    /// This one start of the process: no other has it.
    pub start: String,
    /// What runs there: `up` or `apply`.
    #[serde(default)]
    pub runner: String,
}

/// What a candidate asks for.
#[derive(Debug, Clone)]
pub struct Ask {
    /// The lease.
    pub lease: Lease,
    /// For whom.
    pub me: Holder,
    /// So long a holder must be silent before the lease is taken from it; [`SILENT`] at least. See
    /// [`patience`].
    pub patience: Duration,
}

impl Ask {
    /// Asks with the least patience.
    pub fn new(lease: Lease, me: Holder) -> Self {
        let patience = SILENT;
        Self {
            lease,
            me,
            patience,
        }
    }
}

#[cfg(test)]
mod tests {
    //! B-4: each lease has a key of its own.
    use super::*;

    #[test]
    fn b4_each_lease_has_a_key_of_its_own_and_no_loop_has_it() {
        let provider = |name: &str| Lease::Provider(ProviderName::new(name).expect("name"));
        assert_eq!(Lease::Installation.key().as_str(), "claim.installation");
        assert_eq!(provider("cache").key().as_str(), "lease.cache");
        assert_ne!(provider("installation").key(), Lease::Installation.key());
        for lease in [Lease::Installation, provider("cache")] {
            assert!(Lease::is_at(&lease.key()));
        }
        for loops in ["lease", "claim", "provisioner/cache"] {
            assert!(!Lease::is_at(&Key::of(&[loops])));
        }
    }
}
