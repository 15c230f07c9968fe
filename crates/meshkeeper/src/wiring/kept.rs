//! Passwords that are sealed here and that no version names: the process died between the two, or the bus
//! was put back. On a shared bus they are named before they are used, or another host makes another one.

use std::collections::HashMap;

use mesh_bus::mint::{Naming, naming};
use mesh_bus::vault::Kept;
use mesh_sdk::vault::SecretId;
use mesh_sdk::{ConsumerName, ProviderName, Secret};

use super::secrets::{Beyond, Secrets, SecretsFault};

impl Secrets {
    /// Makes them the versions, unless somebody was faster, whose password then counts (H-22).
    pub(super) async fn name_kept(&self, provider: &ProviderName) -> Result<(), SecretsFault> {
        if self.beyond == Beyond::No {
            return Ok(());
        }
        let versions = self.versions(provider).await?;
        // The newest counts, and they come oldest first.
        let mut unnamed: HashMap<ConsumerName, (SecretId, Secret)> = HashMap::new();
        let note = |one: Kept| {
            let version = versions.get(&one.consumer).map(|stored| &stored.id);
            if let (Naming::Name(_), Ok(secret)) = (naming(version, Some(&one.id)), one.secret) {
                self.hide(&secret);
                unnamed.insert(one.consumer, (one.id, secret));
            }
        };
        self.vault.open_each(provider, note).await?;
        let unnamed = unnamed.into_iter();
        let unnamed: Vec<_> = unnamed
            .map(|(who, (id, secret))| (who, id, secret))
            .collect();
        self.name_new(provider, &unnamed).await
    }
}

#[cfg(test)]
mod tests {
    //! H-22: what one host sealed and did not name is not made a second time by another.
    use std::sync::Arc;

    use mesh_bus::embedded::{EmbeddedBus, Settings};
    use mesh_bus::vault::{KEY_FILE, KeySource, SealedVault};
    use mesh_sdk::bus::Bus;
    use mesh_sdk::clock::Clock;
    use mesh_sdk::scrub::Scrubber;

    use super::super::secrets::Known;
    use super::*;

    fn host(folder: &std::path::Path, bus: &Arc<EmbeddedBus>) -> Secrets {
        let vault = SealedVault::open(folder, &KeySource::Folder).expect("vault");
        let (key, scrubber) = (Secret::new(vec![7; 32]), Arc::new(Scrubber::new()));
        let secrets = Secrets::new(
            Arc::new(vault),
            Arc::clone(bus) as Arc<dyn Bus>,
            key,
            scrubber,
        );
        secrets.going(Beyond::Yes)
    }

    #[tokio::test]
    async fn h22_what_was_sealed_and_not_named_is_named_before_it_is_used() {
        let (here, there) = (tempfile::tempdir(), tempfile::tempdir());
        let (here, there) = (here.expect("folder"), there.expect("folder"));
        let settings = Settings {
            installation: "inst1".to_owned(),
            clock: Clock::system(),
        };
        let store = tempfile::tempdir().expect("folder");
        let bus = EmbeddedBus::open(store.path(), &settings).expect("bus").bus;
        let bus = Arc::new(bus);
        let one = host(here.path(), &bus);
        std::fs::copy(here.path().join(KEY_FILE), there.path().join(KEY_FILE)).expect("key");
        let two = host(there.path(), &bus);
        let cache = ProviderName::new("cache").expect("name");
        let web = ConsumerName::new("web").expect("name");
        // It dies before the version is written.
        let made = Secret::new(b"made-by-one-made-by-one-made-by-".to_vec());
        let sealed = one.seal_many(&cache, vec![(web.clone(), made.clone())]);
        assert_eq!(sealed.await.expect("sealed").len(), 1);
        for _ in 0..2 {
            one.name_kept(&cache).await.expect("named");
        }
        let known = one.of_provider(&cache).await.expect("known");
        assert!(matches!(known.get(&web), Some(Known::Version(used)) if *used == made));
        let minted = two.mint_many(&cache, std::slice::from_ref(&web)).await;
        assert!(matches!(minted.as_slice(), [Ok(used)] if *used == made));
    }
}
