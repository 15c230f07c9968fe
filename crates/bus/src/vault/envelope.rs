//! One sealed secret: AES-256-GCM under a key of its own, bound to the place where it lies.
//!
//! `version (1) | key id (8) | nonce (12) | sealed bytes and tag`. Provider, consumer and id are
//! authenticated with it, so that an envelope moved to another place does not open. The key id tells,
//! without opening anything, which envelopes a later change of the key still has to seal anew.

use aws_lc_rs::aead::{AES_256_GCM, Aad, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use mesh_sdk::name::{ConsumerName, ProviderName};
use mesh_sdk::secret::Secret;
use mesh_sdk::vault::{SecretId, VaultFault};
use zeroize::Zeroize;

use super::key::Keys;
use crate::mint;

/// The form of envelope that is written.
const VERSION: u8 = 1;
/// Bytes before the sealed ones.
const HEAD: usize = 1 + 8 + NONCE_LEN;

/// The place of a secret.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    /// The provider.
    pub(super) provider: &'a ProviderName,
    /// The consumer.
    pub(super) consumer: &'a ConsumerName,
    /// The id.
    pub(super) id: &'a SecretId,
}

impl Place<'_> {
    fn bound(&self, head: &[u8]) -> Vec<u8> {
        let names = [
            self.provider.as_str(),
            self.consumer.as_str(),
            self.id.0.as_str(),
        ];
        let mut bytes = head.to_vec();
        for name in names {
            bytes.extend((name.len() as u64).to_be_bytes());
            bytes.extend(name.as_bytes());
        }
        bytes
    }
    fn fault(&self) -> VaultFault {
        VaultFault::Sealed {
            provider: self.provider.clone(),
            consumer: self.consumer.clone(),
        }
    }
}

fn cipher(keys: &Keys, place: Place<'_>) -> Result<LessSafeKey, VaultFault> {
    let key = keys.of_record(&place.id.0)?;
    UnboundKey::new(&AES_256_GCM, key.as_slice())
        .map(LessSafeKey::new)
        .map_err(|_| place.fault())
}

/// Seals a secret for a place.
pub(super) fn seal(keys: &Keys, place: Place<'_>, secret: &Secret) -> Result<Vec<u8>, VaultFault> {
    let mut nonce = [0; NONCE_LEN];
    mint::os_random(&mut nonce)
        .map_err(|_| VaultFault::Unusable("the system gives no random bytes".to_owned()))?;
    let mut envelope = Vec::with_capacity(HEAD + secret.len() + AES_256_GCM.tag_len());
    envelope.push(VERSION);
    envelope.extend(keys.id());
    envelope.extend(nonce);
    envelope.extend(secret.expose());
    let (head, body) = envelope.split_at_mut(HEAD);
    let sealed = cipher(keys, place)?.seal_in_place_separate_tag(
        Nonce::assume_unique_for_key(nonce),
        Aad::from(place.bound(&head[..9])),
        body,
    );
    match sealed {
        Ok(tag) => envelope.extend(tag.as_ref()),
        Err(_) => {
            envelope.zeroize();
            return Err(VaultFault::Unusable(
                "a secret could not be sealed".to_owned(),
            ));
        }
    }
    Ok(envelope)
}

/// Opens the envelope of a place. Errors: another key, another place, or damage.
pub(super) fn open(
    keys: &Keys,
    place: Place<'_>,
    mut envelope: Vec<u8>,
) -> Result<Secret, VaultFault> {
    let Some((head, body)) = envelope.split_at_mut_checked(HEAD) else {
        return Err(place.fault());
    };
    let (Some(nonce), true) = (
        head.last_chunk::<NONCE_LEN>(),
        head[0] == VERSION && head[1..9] == keys.id()[..],
    ) else {
        return Err(place.fault());
    };
    let opened = cipher(keys, place)?.open_in_place(
        Nonce::assume_unique_for_key(*nonce),
        Aad::from(place.bound(&head[..9])),
        body,
    );
    let secret = opened
        .map(|plain| Secret::new(&*plain))
        .map_err(|_| place.fault());
    envelope.zeroize();
    secret
}
