//! The manifest: what a person asks of the mesh, in one TOML file.
//!
//! Reading it is pure: no network, no secret, no clock. Every mistake is told, each with its place (see
//! [`crate::errors`]). What a mistake spoils is bounded: one in a `needs` table spoils that provision
//! alone (H-3, O-29), one in a provider spoils what needs that provider, and only one that makes the file
//! as a whole doubtful leaves no wish at all, which is not an empty one.
//!
//! [`read`] and [`parse`] answer a [`Reading`]; [`Manifest`] is what the program works with.

mod across;
mod addresses;
mod alive;
mod auth;
mod bus;
mod consumer;
mod container;
mod deliver;
mod fields;
mod hosted;
pub mod imported;
mod kinds;
mod mask;
mod nearest;
mod page;
mod pieces;
mod provider;
mod reader;
pub mod schema;
pub mod secrets;
mod server;
pub mod source;
mod timing;
pub mod units;
pub mod url;
mod values;
mod with_secrets;

use std::collections::{BTreeMap, HashSet};
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use mesh_sdk::handle::ParsedValues;
use mesh_sdk::provision::{Digest, WishParts};
use mesh_sdk::{ConsumerName, Login, MeshId, ProviderName, Secret, Wish};

pub use across::asked_elsewhere;
pub use alive::{AliveTo, AliveUrl};
pub use bus::{BusChoice, BusLogin, BusSecrets, BusServer, NatsBus, bus_server, is_subject};
pub use container::Hosted;
pub use deliver::Delivered;
pub use kinds::{KindInfo, Kinds};
pub use nearest::nearest;
pub use page::PageAsked;
pub use provider::{AdminSource, Node, Provider, TlsSource};
pub use reader::{ReadFault, Reading, parse, parse_in_pieces, read, read_unless, text_of as text};
pub use secrets::{Machine, PasswordSource, SecretRef, SecretSource, SecretTrouble, TroubleKind};
pub use timing::{LENGTHS, Timing};
pub use with_secrets::{refusal, with_secrets};

/// The keys of a `needs` table that are Meshkeeper's own; all others are the kind's values.
pub const NEED_KEYS: &[&str] = &[
    "login",
    "password",
    "adopt",
    "enabled",
    "weak",
    "exact",
    "rotate_every",
    "rotate_grace",
];

/// What the logins begin with that are Meshkeeper's own; no manifest may ask for one.
pub const CANARY_LOGINS: &str = "mesh-canary-";

/// Tells one text of a manifest from another.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ContentDigest([u8; 32]);

impl ContentDigest {
    pub(crate) fn of(text: &str) -> Self {
        let key = Secret::from("manifest");
        Self(mesh_sdk::mark::keyed(&key, b"text", &[text.as_bytes()]))
    }
    /// Its bytes.
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}
impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().take(6).try_for_each(|b| write!(f, "{b:02x}"))
    }
}
impl fmt::Debug for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ContentDigest({self})")
    }
}

/// A manifest that was read as a whole. Single entries may have been refused: see [`Manifest::refused`].
#[derive(Debug)]
pub struct Manifest {
    /// The file.
    pub path: PathBuf,
    /// The mesh.
    pub mesh: MeshId,
    /// Where shared state is kept.
    pub bus: BusChoice,
    /// The bytes of `bus`, or of the head of `[mesh]`.
    pub bus_span: std::ops::Range<usize>,
    /// Who beyond this mesh is told that all is alive.
    pub alive: Option<AliveTo>,
    /// How the page is guarded.
    pub page: PageAsked,
    /// The providers that can be used.
    pub providers: BTreeMap<ProviderName, Provider>,
    /// What can be asked for, by consumer, then provider.
    pub provisions: Vec<Needed>,
    /// What is asked for in a way that cannot be: it stays as it is on the backends.
    pub refused: Vec<Refused>,
    /// Where credentials are brought, as far as those tables can be used.
    pub deliveries: Vec<Delivered>,
    /// Tables of `deliver` that cannot be used: the consumer, and why.
    pub undelivered: Vec<(ConsumerName, String)>,
    /// Containers and units that run for consumers, as far as those tables can be used.
    pub hosted: Vec<Hosted>,
    /// Tables of `container` and `unit` that cannot be used: the consumer, and why.
    pub unhosted: Vec<(ConsumerName, String)>,
    /// Of the text.
    pub digest: ContentDigest,
    names: RefusedNames,
}

/// When a consumer gets another password.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Rotates {
    /// `rotate_every`: how long a password is in force.
    pub every: Option<std::time::Duration>,
    /// `rotate_grace`: how long the old one stays where nothing is delivered and nobody says a word.
    pub grace: Option<std::time::Duration>,
}

/// One consumer's `needs` table.
#[derive(Clone)]
pub struct Needed {
    /// Who.
    pub consumer: ConsumerName,
    /// From which provider.
    pub provider: ProviderName,
    /// The login to have there.
    pub login: Login,
    /// The first login, of the one that takes turns with it.
    pub base: Option<Login>,
    /// When it gets another password.
    pub rotates: Rotates,
    /// Where its password comes from.
    pub password: PasswordSource,
    /// This kind's values.
    pub values: ParsedValues,
    /// `enabled = false` keeps the login switched off (H-25).
    pub enabled: bool,
    /// A login that exists may be taken over (H-18).
    pub adopt: bool,
    /// Surplus rights on an adopted login are taken back.
    pub exact: bool,
    /// A given password may be shorter than 8 bytes (S-2).
    pub weak: bool,
    /// The line of the table, counted from 1.
    pub line: usize,
    /// The bytes of the table's head.
    pub span: std::ops::Range<usize>,
}

impl fmt::Debug for Needed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Needed {
            consumer,
            provider,
            login,
            password,
            line,
            ..
        } = self;
        write!(
            f,
            "Needed({consumer} of {provider} as {:?}, {password:?}, line {line})",
            login.as_str()
        )
    }
}

impl Needed {
    /// The same, taken over by a person's word (H-18, A-7).
    #[must_use]
    pub fn adopting(&self, exact: bool) -> Self {
        Self {
            adopt: true,
            exact: self.exact || exact,
            ..self.clone()
        }
    }
    /// The consumer's second login, which takes turns with this one: the same values, under `LOGIN__b`. Nothing
    /// of that name is taken over, unless this one may be.
    #[must_use]
    pub fn second(&self) -> Self {
        Self {
            consumer: self.consumer.second(),
            login: self.login.second(),
            base: Some(self.login.clone()),
            ..self.clone()
        }
    }
    /// The wish that a harness keeps. `password` is what [`Needed::given_password`] or the secret store
    /// answered; without one nothing is written for it (S-4). `key` is the installation's key.
    pub fn wish(&self, password: Option<Secret>, key: &Secret) -> Wish {
        self.wish_beside(password, None, key)
    }
    /// The same, with another password that is valid beside the first.
    pub fn wish_beside(
        &self,
        password: Option<Secret>,
        second: Option<Secret>,
        key: &Secret,
    ) -> Wish {
        let parts = WishParts {
            consumer: self.consumer.clone(),
            login: self.login.clone(),
            password,
            values: Arc::clone(&self.values.values),
            canonical_values: self.values.canonical.clone(),
            enabled: self.enabled,
            adopt: self.adopt,
            exact: self.exact,
            second,
            base: self.base.clone(),
            generated: self.password == PasswordSource::Generated,
        };
        Wish::new(parts, key)
    }
    /// The digests of that wish: as the manifest asks, and as a person may have said beside it, to take the login over
    /// exactly. A record with either is of what is asked.
    pub fn digests(
        &self,
        password: Option<&Secret>,
        second: Option<&Secret>,
        key: &Secret,
    ) -> [Digest; 2] {
        [false, true].map(|exact| {
            let needed = self.adopting(exact);
            needed
                .wish_beside(password.cloned(), second.cloned(), key)
                .digest()
        })
    }
    /// Reads the password that a person gave. `None`: it is Meshkeeper's to make. An error never means
    /// that there is none: the last known one stays in force (S-4, O-28).
    pub fn given_password(
        &self,
        source: &dyn SecretSource,
    ) -> Option<Result<Secret, SecretTrouble>> {
        match &self.password {
            PasswordSource::Generated => None,
            PasswordSource::Given(place) => Some(place.password(source, self.weak)),
        }
    }
}

/// An entry that cannot be used, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refused {
    /// The consumer as it is written; `None` if a whole provider is refused.
    pub consumer: Option<String>,
    /// The provider as it is written; `None` if a whole consumer is refused.
    pub provider: Option<String>,
    /// The login that was asked for, as far as it could be read.
    pub login: Option<String>,
    /// Why, one line for people.
    pub why: String,
    /// Where, counted from 1.
    pub line: usize,
}

/// The names in refused entries, for [`Manifest::asks_for`].
#[derive(Debug, Default)]
struct RefusedNames {
    providers: HashSet<String>,
    consumers: HashSet<String>,
    needs: HashSet<(String, String)>,
}

impl RefusedNames {
    fn of(refused: &[Refused]) -> Self {
        let mut names = Self::default();
        for entry in refused {
            match (entry.consumer.clone(), entry.provider.clone()) {
                (Some(consumer), Some(provider)) => {
                    names.needs.insert((consumer, provider));
                }
                (Some(consumer), None) => {
                    names.consumers.insert(consumer);
                }
                (None, Some(provider)) => {
                    names.providers.insert(provider);
                }
                (None, None) => {}
            }
        }
        names
    }
}

impl Manifest {
    /// Whether every entry could be read. Removing needs a whole wish: a refused entry may be
    /// somebody's who is still asked for.
    pub fn is_whole(&self) -> bool {
        self.refused.is_empty()
    }
    /// Whether a refused entry may mean this consumer on this provider: then it is still asked for, and
    /// neither changed nor removed.
    pub fn refuses(&self, provider: &ProviderName, consumer: &ConsumerName) -> bool {
        let (provider, consumer) = (provider.as_str(), consumer.as_str());
        self.names.providers.contains(provider)
            || self.names.consumers.contains(consumer)
            || self
                .names
                .needs
                .contains(&(consumer.to_owned(), provider.to_owned()))
    }
    /// The providers that share a server with this one, itself among them: their logins are the same.
    pub fn beside<'m>(&'m self, provider: &'m Provider) -> impl Iterator<Item = &'m Provider> {
        let all = self.providers.values();
        all.filter(move |other| across::share_a_server(provider, other))
    }
    /// Every login that is asked for on this provider's servers, as far as it can be read, under whatever
    /// provider's name.
    pub fn logins_on(&self, provider: &Provider) -> HashSet<&str> {
        let names: HashSet<&str> = self.beside(provider).map(|one| one.name.as_str()).collect();
        let asked = self.provisions.iter();
        let asked = asked
            .filter(|needed| names.contains(needed.provider.as_str()))
            .map(|needed| needed.login.as_str());
        let refused = self.refused.iter().filter(|one| {
            let here = one.provider.as_deref();
            here.is_none_or(|name| names.contains(name))
        });
        let refused = refused.filter_map(|one| one.login.as_deref().or(one.consumer.as_deref()));
        asked.chain(refused).collect()
    }
    /// The provisions of one provider.
    pub fn provisions_of<'m>(
        &'m self,
        provider: &'m ProviderName,
    ) -> impl Iterator<Item = &'m Needed> {
        self.provisions
            .iter()
            .filter(move |needed| needed.provider == *provider)
    }
    /// Every file that the manifest names: secrets and certificates.
    pub fn files(&self) -> Vec<PathBuf> {
        let given = self
            .provisions
            .iter()
            .filter_map(|needed| match &needed.password {
                PasswordSource::Given(SecretRef::File(path)) => Some(path.clone()),
                _ => None,
            });
        let providers = self.providers.values().flat_map(Provider::files);
        let mut files: Vec<PathBuf> = given.chain(providers).collect();
        files.sort();
        files.dedup();
        files
    }
}
