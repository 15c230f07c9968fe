//! The passwords that journals name, out of the secret store or their sealed copies.

use mesh_bus::mint;
use mesh_loops::rotation::journal::{Held, Journal, Seat};
use mesh_loops::rotation::store::{All, Of};
use mesh_sdk::vault::Vault;
use mesh_sdk::{ConsumerName, ProviderName, Secret};

use crate::wiring::secrets::{Known, Secrets, SecretsFault, unsealed};

impl Secrets {
    /// Every journal; none where rotation has no place to keep any.
    pub(in crate::wiring) async fn all_journals(&self) -> Result<All, SecretsFault> {
        match &self.journals {
            Some(journals) => Ok(journals.read(self.bus.as_ref()).await?),
            None => Ok(All::new()),
        }
    }
    /// One consumer's journal, once it names a password.
    pub async fn journal(&self, of: &Of) -> Result<Option<Journal>, SecretsFault> {
        let Some(journals) = &self.journals else {
            return Ok(None);
        };
        let found = journals.one(self.bus.as_ref(), of).await?;
        Ok(found.filter(|journal| journal.current.is_some()))
    }
    /// The password that a journal names.
    pub(in crate::wiring) async fn open_held(
        &self,
        provider: &ProviderName,
        held: &Held,
    ) -> Result<Known, SecretsFault> {
        let opened = self.vault.open(provider, &held.place, &held.id).await;
        let here = match opened {
            Ok(here) => here,
            Err(mesh_sdk::vault::VaultFault::Sealed { .. }) => {
                return Ok(Known::Missing(unsealed()));
            }
            Err(fault) => return Err(fault.into()),
        };
        if let Some(secret) = here {
            self.hide(&secret);
            return Ok(Known::Version(secret));
        }
        let Some(copy) = &held.copy else {
            return Ok(Known::Missing(crate::wiring::secrets::missing()));
        };
        Ok(
            match self.vault.open_copy(provider, &held.place, &held.id, copy) {
                Ok(secret) => {
                    self.hide(&secret);
                    Known::Version(secret)
                }
                Err(_) => Known::Missing(unsealed()),
            },
        )
    }
    /// The two passwords that a journal names.
    pub(in crate::wiring) async fn open_both(
        &self,
        journal: &Journal,
    ) -> Result<(Known, Option<Known>), SecretsFault> {
        let current = match &journal.current {
            Some(held) => self.open_held(&journal.provider, held).await?,
            None => Known::Nothing,
        };
        let other = match &journal.other {
            Some(held) => Some(self.open_held(&journal.provider, held).await?),
            None => None,
        };
        Ok((current, other))
    }
    /// The password in force of a consumer without a journal, as one would name it.
    pub(in crate::wiring) async fn held_now(&self, of: &Of) -> Result<Option<Held>, SecretsFault> {
        let (provider, consumer) = of;
        let stored = self.version(provider, consumer).await?;
        let (id, copy) = match stored {
            Some(stored) => (stored.id, stored.copy),
            None => match self.vault.ids(provider, consumer).await?.into_iter().next() {
                Some(id) => {
                    let copy = self.copy_of(provider, consumer, &id).await?;
                    (id, copy)
                }
                None => return Ok(None),
            },
        };
        Ok(Some(Held {
            seat: Seat::First,
            place: consumer.clone(),
            id,
            copy,
        }))
    }
    /// Seals a password that a rotation is to bring into force: apart from those that count by themselves, and on
    /// the disk before this returns (H-22).
    pub(in crate::wiring) async fn seal_candidate(
        &self,
        (provider, consumer): &Of,
        secret: Option<Secret>,
    ) -> Result<Held, SecretsFault> {
        let secret = match secret {
            Some(given) => given,
            None => mint::password(mint::os_random)
                .map_err(|error| mesh_sdk::vault::VaultFault::Unusable(error.to_string()))?,
        };
        let place: ConsumerName = consumer.second();
        let sealed = self
            .seal_many(provider, vec![(place.clone(), secret)])
            .await?;
        let Some((_, id, _)) = sealed.into_iter().next() else {
            return Err(
                mesh_sdk::vault::VaultFault::Unusable("nothing was sealed".to_owned()).into(),
            );
        };
        let copy = self.copy_of(provider, &place, &id).await?;
        Ok(Held {
            seat: Seat::First,
            place,
            id,
            copy,
        })
    }
}
