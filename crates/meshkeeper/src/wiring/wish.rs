//! From a manifest that was read to the wish that is in force (R-8, O-28, O-29).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use mesh_loops::rotation::journal::Journal;
use mesh_sdk::condition::{ConditionType, Fact, Reason};
use mesh_sdk::decide::{SecretState, Wanted};
use mesh_sdk::harness::ProviderWish;
use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, ProviderName, Secret, Wish};

use super::asked;
use super::canary::{self, Canary};
use super::delivery;
use super::rotation::seats::{self, Asked};
use super::rotation::source::way_of;
use super::secrets::{Known, Secrets, SecretsFault};
use super::shapes::{Standing, WishEntry};
use crate::manifest::{KindInfo, Manifest, Needed, SecretSource, SecretTrouble, asked_elsewhere};

/// A wish as it was built from a manifest: for the loops, for the bus, and what is amiss in it.
#[derive(Default)]
pub struct Built {
    /// For the loops, by provider.
    pub wishes: BTreeMap<ProviderName, ProviderWish>,
    /// For the bus: what is asked, refused or kept.
    pub entries: Vec<WishEntry>,
    /// What a person must see.
    pub facts: Vec<Fact>,
    /// The manifest had entries that could not be used: nobody leaves on its account.
    pub partial: bool,
    /// Tells one wish from another.
    pub fingerprint: String,
    /// Tells what one manifest asks for from what another does: the same on each host that has the same
    /// manifest and files, whatever its stores hold.
    pub asked: String,
    /// Somebody has no password yet: once it is made, the wish is another one.
    pub has_new: bool,
    /// The newest revision of the bus before anything was read. Entries that are newer were written while
    /// this was built, and know more.
    pub read_at: u64,
    /// The mesh.
    pub mesh: String,
    /// The hosts that credentials are to be brought to.
    pub delivers: BTreeSet<String>,
    /// What each provision asks for, without what was minted.
    asking: Vec<[u8; 32]>,
    /// Passwords that people gave and that are not kept yet.
    given: BTreeMap<ProviderName, Vec<(ConsumerName, Secret)>>,
}

/// Builds wishes. With `Access::Write` given passwords are kept in the secret store, so that they stay in
/// force when their source cannot be read.
pub struct Builder<'a> {
    /// The stores; `None` where there is no installation yet (`plan` before the first `apply`).
    pub secrets: Option<&'a Secrets>,
    /// A key to judge digests with where there is no installation yet.
    pub fallback_key: &'a Secret,
    /// Reads variables and files.
    pub source: &'a dyn SecretSource,
    /// Whether anything may be kept.
    pub may_write: bool,
    /// The bus was replaced in this run: nobody is new (H-22).
    pub replaced: bool,
    /// Logins that people said to take over, and whether exactly.
    pub adoptions: HashMap<(ProviderName, ConsumerName), bool>,
    /// This host.
    pub host: &'a str,
}

/// A password that a person gave, or why it cannot be read.
type Given = Result<Secret, SecretTrouble>;

/// What there is of one provision's password.
struct Found<'j> {
    /// In force, as far as it is known.
    before: Known,
    /// What a person gave; `None`: it is Meshkeeper's to make.
    given: Option<Given>,
    /// What is given waits for a rotation.
    stays: bool,
    /// The journal, once passwords took turns, and the other password that it names.
    turns: Option<(&'j Journal, Option<Known>)>,
}

/// What became of one provision's password.
enum Password {
    Ready(Secret),
    New,
    Lost(String),
    /// The source cannot be read, and nothing is known from before.
    Kept(SecretTrouble),
}

impl Builder<'_> {
    /// Builds the wish of a manifest. Errors: a store cannot be used; then the last wish stays in force.
    pub async fn build(&self, manifest: &Manifest) -> Result<Built, SecretsFault> {
        let mut built = Built {
            partial: !manifest.is_whole(),
            mesh: manifest.mesh.to_string(),
            delivers: delivery::hosts(manifest, self.host),
            read_at: match self.secrets {
                Some(secrets) => secrets.bus_seq().await,
                None => 0,
            },
            ..Built::default()
        };
        for provider in manifest.providers.keys() {
            built
                .wishes
                .insert(provider.clone(), ProviderWish::default());
        }
        built.entries.reserve(manifest.provisions.len());
        let mut known: BTreeMap<&ProviderName, HashMap<ConsumerName, Known>> = BTreeMap::new();
        for provider in manifest.providers.keys() {
            let found = match self.secrets {
                Some(secrets) => {
                    if self.may_write {
                        secrets.name_kept(provider).await?;
                    }
                    secrets.of_provider(provider).await?
                }
                None => HashMap::new(),
            };
            known.insert(provider, found);
        }
        let journals = match self.secrets {
            Some(secrets) => secrets.all_journals().await?,
            None => BTreeMap::new(),
        };
        for needed in &manifest.provisions {
            let before = known
                .get_mut(&needed.provider)
                .and_then(|k| k.remove(&needed.consumer));
            let kind = manifest.providers.get(&needed.provider).map(|p| &p.kind);
            let mut before = before.unwrap_or(Known::Nothing);
            let of = (needed.provider.clone(), needed.consumer.clone());
            let journal = journals.get(&of).filter(|one| one.current.is_some());
            let mut other = None;
            if let (Some(secrets), Some(journal)) = (self.secrets, journal) {
                (before, other) = secrets.open_both(journal).await?;
            }
            let given = needed.given_password(self.source);
            let differs = matches!((&given, &before), (Some(Ok(given)), Known::Version(known)) if given != known);
            let found = Found {
                stays: given.is_some() && self.stays(manifest, needed, differs, journal).await?,
                given,
                before,
                turns: journal.map(|journal| (journal, other)),
            };
            self.add(&mut built, needed, found, kind);
        }
        let given = std::mem::take(&mut built.given);
        if let Some(secrets) = self.secrets.filter(|_| self.may_write) {
            for (provider, given) in given {
                secrets.take_given(&provider, given).await?;
            }
            for provider in manifest.providers.keys() {
                secrets.share(provider).await?;
            }
        }
        self.add_refused(&mut built, manifest);
        self.add_canaries(&mut built, manifest);
        let mut elsewhere = asked_elsewhere(manifest);
        for (provider, wish) in &mut built.wishes {
            wish.whole.partial = built.partial;
            wish.whole.elsewhere = elsewhere.remove(provider).unwrap_or_default();
        }
        built.fingerprint = fingerprint(&built);
        built.asked = asked::of(manifest, &std::mem::take(&mut built.asking));
        Ok(built)
    }

    /// Whether a password that a person gave waits for its rotation: the consumer has another one that works, and
    /// that is never overwritten.
    async fn stays(
        &self,
        manifest: &Manifest,
        needed: &Needed,
        differs: bool,
        journal: Option<&Journal>,
    ) -> Result<bool, SecretsFault> {
        let Some(secrets) = self.secrets else {
            return Ok(false);
        };
        let provider = manifest.providers.get(&needed.provider);
        let can = provider.and_then(way_of).is_some();
        Ok(journal.is_some() || differs && can && secrets.is_applied(manifest, needed).await?)
    }

    fn add(
        &self,
        built: &mut Built,
        needed: &Needed,
        found: Found<'_>,
        kind: Option<&Arc<KindInfo>>,
    ) {
        let Found {
            before,
            given,
            stays,
            turns,
        } = found;
        let in_force = match turns.is_some() || stays {
            true => before.clone(),
            false => Known::Nothing,
        };
        let (secret, state) = match self.password(built, needed, (before, given), stays) {
            Password::Ready(secret) => (Some(secret), SecretState::Ready),
            Password::New => {
                built.has_new = true;
                (None, SecretState::New)
            }
            Password::Lost(why) => (None, SecretState::Lost(why)),
            Password::Kept(trouble) => {
                built.asking.push(asked::unreadable(needed));
                let why = format!("its password: {trouble}");
                built
                    .entries
                    .push(entry(needed, Standing::Refused, None, Some(why)));
                keep(built, needed);
                return;
            }
        };
        let key = self.secrets.map_or(self.fallback_key, Secrets::digest_key);
        built.asking.push(asked::by(needed, secret.as_ref(), key));
        let word = self
            .adoptions
            .get(&(needed.provider.clone(), needed.consumer.clone()));
        let adopted = word.map(|exact| needed.adopting(*exact));
        let needed = adopted.as_ref().unwrap_or(needed);
        let asked = match turns {
            Some((journal, other)) => seats::asked(needed, journal, in_force, other),
            None => {
                let secret = if stays { version_of(in_force) } else { secret };
                vec![Asked::of(needed.clone(), secret, state)]
            }
        };
        for one in asked {
            let wish = one.wish(key);
            let (standing, why) = match &one.state {
                SecretState::Lost(why) => (Standing::SecretLost, Some(why.clone())),
                SecretState::Ready | SecretState::New => (Standing::Wanted, None),
            };
            built.entries.push(WishEntry {
                data: kind.and_then(|kind| kind.data_of(&wish)),
                ..entry(&one.needed, standing, Some(&wish), why)
            });
            want(built, &one.needed, wish, one.state);
        }
    }

    /// What is asked for by the manifest; with `stays` what is given is not kept, since a rotation does that.
    fn password(
        &self,
        built: &mut Built,
        needed: &Needed,
        (before, given): (Known, Option<Given>),
        stays: bool,
    ) -> Password {
        if needed.weak {
            let message = "a given password may be shorter than 8 bytes here".to_owned();
            built.facts.push(fact(
                ConditionType::WeakPassword,
                needed,
                Reason::AsDeclared,
                message,
            ));
        }
        match (given, before) {
            (None, Known::Version(secret)) => Password::Ready(secret),
            (None, Known::Missing(why)) => Password::Lost(why),
            (None, Known::Nothing) if self.replaced => Password::Lost(
                "the store was replaced since it was used last; whether this consumer is new cannot \
                 be told in this run"
                    .to_owned(),
            ),
            (None, Known::Nothing) => Password::New,
            (Some(Ok(secret)), before) => {
                let same = matches!(&before, Known::Version(known) if *known == secret);
                if let Some(secrets) = self.secrets {
                    secrets.hide(&secret);
                }
                if !same && !stays {
                    let given = built.given.entry(needed.provider.clone()).or_default();
                    given.push((needed.consumer.clone(), secret.clone()));
                }
                Password::Ready(secret)
            }
            (Some(Err(trouble)), Known::Version(last)) => {
                let message = format!("{trouble}; the last known password stays in force");
                let fact = fact(ConditionType::SecretUnreadable, needed, Reason::SourceMissing, message);
                built.facts.push(fact);
                Password::Ready(last)
            }
            (Some(Err(trouble)), _) => {
                let message = format!("{trouble}; nothing is written for it");
                let fact = fact(ConditionType::SecretUnreadable, needed, Reason::SourceMissing, message);
                built.facts.push(fact);
                Password::Kept(trouble)
            }
        }
    }

    /// Our own login on each provider, by the ordinary path. It is nobody's provision, and so not
    /// on the bus.
    fn add_canaries(&self, built: &mut Built, manifest: &Manifest) {
        let key = self.secrets.map_or(self.fallback_key, Secrets::digest_key);
        for provider in manifest.providers.values() {
            let (needed, secret) = match canary::of(provider, &manifest.mesh, key) {
                Canary::Wanted(needed, secret) => (needed, secret),
                Canary::None => continue,
                Canary::Refused(why) => {
                    built.facts.push(Fact {
                        kind: ConditionType::Refused,
                        subject: format!("{}/{}", provider.name, ConsumerName::CANARY),
                        reason: Reason::RefusedValue,
                        message: format!(
                            "Meshkeeper's own login cannot be made, and without it only a person \
                             lets logins go: {why}"
                        ),
                        action: Some(
                            "`canary = false` in the provider's table does without".into(),
                        ),
                        final_at_once: true,
                    });
                    continue;
                }
            };
            if let Some(secrets) = self.secrets {
                secrets.hide(&secret);
            }
            let wish = needed.wish(Some(secret), key);
            want(built, &needed, wish, SecretState::Ready);
        }
    }

    /// Refused entries keep what they had, and are told (O-29).
    fn add_refused(&self, built: &mut Built, manifest: &Manifest) {
        for refused in &manifest.refused {
            let consumer = refused.consumer.as_deref().unwrap_or("*");
            let provider = refused.provider.as_deref().unwrap_or("*");
            built.facts.push(Fact {
                kind: ConditionType::Refused,
                subject: format!("{provider}/{consumer}"),
                reason: Reason::Malformed,
                message: format!("line {}: {}", refused.line, refused.why),
                action: Some("`mesh check` shows the place".to_owned()),
                final_at_once: true,
            });
            let names = (ConsumerName::new(consumer), ProviderName::new(provider));
            let (Ok(consumer), Ok(provider)) = names else {
                continue;
            };
            if let Some(wish) = built.wishes.get_mut(&provider) {
                wish.whole.kept.push(consumer.clone());
            }
            built.entries.push(WishEntry {
                consumer,
                provider,
                login: refused
                    .login
                    .as_deref()
                    .and_then(|l| mesh_sdk::Login::new(l).ok()),
                standing: Standing::Refused,
                digest: None,
                enabled: true,
                adopt: false,
                why: Some(refused.why.clone()),
                data: None,
            });
        }
    }
}

fn version_of(known: Known) -> Option<Secret> {
    match known {
        Known::Version(secret) => Some(secret),
        Known::Nothing | Known::Missing(_) => None,
    }
}

fn want(built: &mut Built, needed: &Needed, wish: Wish, secret: SecretState) {
    let wanted = Wanted {
        consumer: needed.consumer.clone(),
        login: needed.login.clone(),
        digest: wish.digest(),
        enabled: needed.enabled,
        adopt: needed.adopt,
        secret,
    };
    let of_provider = built.wishes.entry(needed.provider.clone()).or_default();
    of_provider.whole.wanted.push(wanted);
    of_provider
        .wishes
        .insert(needed.consumer.clone(), Arc::new(wish));
}

fn keep(built: &mut Built, needed: &Needed) {
    let wish = built.wishes.entry(needed.provider.clone()).or_default();
    wish.whole.kept.push(needed.consumer.clone());
}

fn entry(
    needed: &Needed,
    standing: Standing,
    wish: Option<&Wish>,
    why: Option<String>,
) -> WishEntry {
    WishEntry {
        consumer: needed.consumer.clone(),
        provider: needed.provider.clone(),
        login: Some(needed.login.clone()),
        standing,
        digest: wish.map(Wish::digest),
        enabled: needed.enabled,
        adopt: needed.adopt,
        why,
        data: None,
    }
}

fn fact(kind: ConditionType, needed: &Needed, reason: Reason, message: String) -> Fact {
    let subject = format!("{}/{}", needed.provider, needed.consumer);
    Fact::at_once(kind, &subject, reason, message)
}

fn fingerprint(built: &Built) -> String {
    let key = Secret::from("wish");
    let digest = |parts: &[&[u8]]| keyed(&key, b"fingerprint", parts);
    // In parts, so that not all lines lie in memory at once.
    let parts = built.entries.chunks(1024).map(|part| {
        let lines = part.iter().map(serde_json::to_vec);
        let lines: Vec<Vec<u8>> = lines.map(Result::unwrap_or_default).collect();
        digest(&lines.iter().map(Vec::as_slice).collect::<Vec<_>>())
    });
    let parts: Vec<[u8; 32]> = parts.collect();
    let digest = digest(&parts.iter().map(<[u8; 32]>::as_slice).collect::<Vec<_>>());
    hex(&digest)
}

/// The first 16 bytes, for people and comparisons.
pub(super) fn hex(digest: &[u8; 32]) -> String {
    digest.iter().take(16).map(|b| format!("{b:02x}")).collect()
}
