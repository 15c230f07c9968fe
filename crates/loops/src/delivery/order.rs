//! What the manifest asks of delivery, and what comes of it once the credentials are known.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::PathBuf;
use std::time::Duration;

use mesh_sdk::mark::keyed;
use mesh_sdk::{ConsumerName, ProviderName, Secret};

use super::decide::{Asked, Shows};
use super::format::Values;
use super::hook::Hook;
use super::place::{Access, Content, Owner, OwnerFault, Place};
use super::record::Version;
use super::template::{self, Template, Word};

/// One place that the manifest asks for.
#[derive(Debug, Clone)]
pub struct Order {
    /// Whose credentials.
    pub consumer: ConsumerName,
    /// Where to.
    pub target: Target,
    /// Who may read them there.
    pub readers: Readable,
    /// Each name with what is delivered under it.
    pub values: Vec<(String, Template)>,
    /// Leave out what has no value: the names were not chosen by a person.
    pub lenient: bool,
    /// The providers that the values speak of.
    pub providers: BTreeSet<ProviderName>,
    /// How the consumer is told, and how long that may take.
    pub hook: Option<(Hook, Duration)>,
    /// How it shows that it took a version up.
    pub shows: Shows,
    /// Where it writes the version that it took up, with [`Shows::Itself`].
    pub says: Option<PathBuf>,
}

/// Where to.
#[derive(Debug, Clone)]
pub enum Target {
    /// A file or folder.
    Place(Place),
    /// A program that takes them as JSON on its standard input.
    Program(Vec<String>),
}

/// Mode and owner, by the names of this host.
#[derive(Debug, Clone)]
pub struct Readable {
    /// The mode of files.
    pub mode: u32,
    /// The user, if not the writing process's own.
    pub user: Option<Owner>,
    /// The group.
    pub group: Option<Owner>,
}

impl Default for Readable {
    /// Whose process writes them, and nobody else.
    fn default() -> Self {
        Self {
            mode: 0o600,
            user: None,
            group: None,
        }
    }
}

impl Readable {
    /// With this host's numbers.
    pub fn access(&self) -> Result<Access, OwnerFault> {
        Ok(Access {
            mode: self.mode,
            user: self.user.as_ref().map(Owner::user).transpose()?,
            group: self.group.as_ref().map(Owner::group).transpose()?,
        })
    }
}

/// What a consumer has on one provider.
#[derive(Debug, Clone)]
pub enum Has {
    /// It was applied, and this is what a client needs; and how often another password came into force before it.
    Credentials(BTreeMap<Word, Secret>, u64),
    /// Not yet, and why.
    Nothing(String),
    /// Its login is switched off on purpose.
    SwitchedOff,
}

impl std::fmt::Display for Target {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Target::Place(place) => place.fmt(f),
            Target::Program(words) => {
                write!(f, "program {}", words.first().map_or("", String::as_str))
            }
        }
    }
}

/// What comes of an order.
pub struct Made {
    /// What is asked of the place.
    pub asked: Asked,
    /// What is to lie there; `None` while that is not known.
    pub content: Option<Content>,
    /// The providers that it is made of, each with a sign of what they give.
    pub of: BTreeMap<ProviderName, Version>,
}

impl Order {
    /// Everything that these providers give, to a place where nobody but the writer reads it and nobody is
    /// told.
    pub fn new(consumer: ConsumerName, target: Target, providers: BTreeSet<ProviderName>) -> Self {
        Self {
            consumer,
            target,
            readers: Readable::default(),
            values: default_values(&providers),
            lenient: true,
            providers,
            hook: None,
            shows: Shows::Nothing,
            says: None,
        }
    }

    /// What is to be delivered now. `key` is the installation's key of digests.
    pub fn make(&self, has: &HashMap<ProviderName, Has>, key: &Secret) -> Made {
        let nothing = |asked| Made {
            asked,
            content: None,
            of: BTreeMap::new(),
        };
        for provider in &self.providers {
            match has.get(provider) {
                Some(Has::Credentials(..)) => {}
                Some(Has::SwitchedOff) => return nothing(Asked::Nothing),
                Some(Has::Nothing(why)) => {
                    return nothing(Asked::Waits(format!("{provider}: {why}")));
                }
                None => {
                    return nothing(Asked::Waits(format!(
                        "{provider}: it has not been asked for yet"
                    )));
                }
            }
        }
        let values = match self.fill(has) {
            Ok(values) => values,
            Err(why) => return nothing(Asked::Refused(why)),
        };
        let content = match &self.target {
            Target::Place(place) => place.content(&values),
            Target::Program(_) => Content::for_program(&values),
        };
        match content {
            Ok(content) => Made {
                asked: Asked::Ready(version_of(&values, key)),
                content: Some(content),
                of: self.signs(has, key),
            },
            Err(fault) => nothing(Asked::Refused(fault.to_string())),
        }
    }

    /// A sign for each provider, of everything that it gives.
    fn signs(
        &self,
        has: &HashMap<ProviderName, Has>,
        key: &Secret,
    ) -> BTreeMap<ProviderName, Version> {
        let signs = self.providers.iter().filter_map(|provider| {
            let Has::Credentials(words, _) = has.get(provider)? else {
                return None;
            };
            let words = words.iter();
            let values = words.map(|(word, value)| (word.as_str().to_owned(), value.clone()));
            Some((provider.clone(), version_of(&values.collect(), key)))
        });
        signs.collect()
    }

    /// Which of the passwords that took turns these credentials are, by provider; none for those that never did.
    pub(super) fn turns(&self, has: &HashMap<ProviderName, Has>) -> BTreeMap<ProviderName, u64> {
        let turns = self.providers.iter().filter_map(|provider| {
            let Some(Has::Credentials(_, turn @ 1..)) = has.get(provider) else {
                return None;
            };
            Some((provider.clone(), *turn))
        });
        turns.collect()
    }

    fn fill(&self, has: &HashMap<ProviderName, Has>) -> Result<Values, String> {
        let only = match self.providers.len() {
            1 => self.providers.first(),
            _ => None,
        };
        let value = |place: &template::Place| {
            let provider = match &place.provider {
                Some(name) => self.providers.iter().find(|one| one.as_str() == name)?,
                None => only?,
            };
            match has.get(provider)? {
                Has::Credentials(words, _) => words.get(&place.word).cloned(),
                Has::Nothing(_) | Has::SwitchedOff => None,
            }
        };
        let mut values = Values::new();
        for (name, template) in &self.values {
            match template.fill(value) {
                Ok(value) => drop(values.insert(name.clone(), value)),
                Err(_) if self.lenient => {}
                Err(place) => {
                    return Err(format!("{name}: there is no {place} of such a provider"));
                }
            }
        }
        Ok(values)
    }
}

/// Eight signs that tell one set of values from another, to nobody without the key.
fn version_of(values: &Values, key: &Secret) -> Version {
    let mut parts: Vec<&[u8]> = Vec::with_capacity(values.len() * 2);
    for (name, value) in values {
        parts.extend([name.as_bytes(), value.expose()]);
    }
    let digest = keyed(key, b"delivery", &parts);
    Version(
        digest
            .iter()
            .take(4)
            .map(|byte| format!("{byte:02x}"))
            .collect(),
    )
}

/// The names under which a provider's values are delivered where nobody chose any: `CACHE_URL`, `CACHE_PASSWORD`.
pub fn default_values(providers: &BTreeSet<ProviderName>) -> Vec<(String, Template)> {
    let mut values = Vec::new();
    for provider in providers {
        let sign = |c: char| {
            if c.is_ascii_alphanumeric() {
                c.to_ascii_uppercase()
            } else {
                '_'
            }
        };
        let mut head: String = provider.as_str().chars().map(sign).collect();
        if head.starts_with(|c: char| c.is_ascii_digit()) {
            head.insert(0, '_');
        }
        for word in Word::ALL {
            let name = format!("{head}_{}", word.as_str().to_ascii_uppercase());
            values.push((name, Template::of(provider.as_str(), word)));
        }
    }
    values
}

#[cfg(test)]
mod tests {
    //! What comes of an order.
    use super::super::format::{Format, Reader};
    use super::*;

    fn name(text: &str) -> ProviderName {
        ProviderName::new(text).expect("name")
    }

    fn order(providers: &[&str]) -> Order {
        let format = Format::Env(Reader::ALL.to_vec());
        Order::new(
            ConsumerName::new("web").expect("name"),
            Target::Place(Place::File("/x/web.env".into(), format)),
            providers.iter().map(|p| name(p)).collect(),
        )
    }

    fn credentials(password: &str) -> Has {
        let words = BTreeMap::from([
            (Word::User, Secret::from("web")),
            (Word::Password, Secret::from(password)),
        ]);
        Has::Credentials(words, 0)
    }

    fn has(list: &[(&str, Has)]) -> HashMap<ProviderName, Has> {
        list.iter().map(|(n, has)| (name(n), has.clone())).collect()
    }

    #[test]
    fn what_has_no_value_is_left_out_and_the_version_follows_from_all_values() {
        let key = Secret::from("key");
        let order = order(&["cache", "my-db"]);
        let made = |cache: &str, db: &str| {
            let made = order.make(
                &has(&[("cache", credentials(cache)), ("my-db", credentials(db))]),
                &key,
            );
            let text = made.content.expect("content").texts();
            (made.asked, text)
        };
        let (first, text) = made("kd83", "pq11");
        assert_eq!(
            text,
            ["CACHE_PASSWORD=kd83\nCACHE_USER=web\nMY_DB_PASSWORD=pq11\nMY_DB_USER=web\n"]
        );
        assert_eq!(made("kd83", "pq11").0, first);
        assert_ne!(made("kd84", "pq11").0, first);
        assert_ne!(made("kd83", "pq12").0, first);
        assert_ne!(made("pq11", "kd83").0, first);
        let other = order.make(
            &has(&[
                ("cache", credentials("kd83")),
                ("my-db", credentials("pq11")),
            ]),
            &Secret::from("other"),
        );
        assert_ne!(other.asked, first, "nobody can reckon it without the key");
    }

    #[test]
    fn an_order_waits_for_every_provider_and_says_for_which() {
        let order = order(&["cache", "my-db"]);
        let has = has(&[
            ("cache", credentials("kd83")),
            ("my-db", Has::Nothing("not applied yet".to_owned())),
        ]);
        let made = order.make(&has, &Secret::from("key"));
        assert_eq!(
            made.asked,
            Asked::Waits("my-db: not applied yet".to_owned())
        );
        assert!(made.content.is_none());
    }

    #[test]
    fn a_name_that_a_person_chose_is_not_left_out() {
        let mut order = order(&["cache"]);
        order.lenient = false;
        order.values = vec![(
            "DATABASE_URL".to_owned(),
            Template::parse("{url}").expect("template"),
        )];
        let made = order.make(
            &has(&[("cache", credentials("kd83"))]),
            &Secret::from("key"),
        );
        assert_eq!(
            made.asked,
            Asked::Refused("DATABASE_URL: there is no {url} of such a provider".to_owned())
        );
    }
}
