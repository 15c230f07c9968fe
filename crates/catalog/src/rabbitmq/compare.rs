//! A wish and a user as the server shows it, compared.

use std::collections::BTreeMap;
use std::sync::Arc;

use mesh_sdk::{Answer, Difference, Differences, Held, Lost, MarkSeen, Marker, Proof};

use super::api::{Permission, Shown, TopicPermission, User};
use super::hash;
use super::values::RabbitValues;

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, RabbitValues>;

/// Tags that give rights. Any other is a note, and a person's own.
pub(super) const POWERS: [&str; 5] = [
    "administrator",
    "impersonator",
    "management",
    "monitoring",
    "policymaker",
];

/// What is worked out once for each wish.
pub(super) struct Expected {
    /// The verifier of the password, if there is a password.
    pub(super) hash: Option<String>,
    pub(super) permissions: Vec<Permission>,
    pub(super) topics: Vec<TopicPermission>,
}

/// The expectations of a wish.
pub(super) fn expected(wish: &Wish<'_>) -> Arc<Expected> {
    wish.memo(|| {
        let (values, login) = (wish.values(), wish.login().as_str());
        Expected {
            hash: wish
                .password()
                .map(|password| hash::verifier(login, password)),
            permissions: permissions(values, login),
            topics: topics(values, login),
        }
    })
}

fn permissions(values: &RabbitValues, login: &str) -> Vec<Permission> {
    let one = |vhost: &str, configure: &str, write: &str, read: &str| Permission {
        user: login.to_owned(),
        vhost: vhost.to_owned(),
        configure: configure.to_owned(),
        write: write.to_owned(),
        read: read.to_owned(),
    };
    let main = values.vhost.iter();
    let main = main.map(|vhost| one(vhost, &values.configure, &values.write, &values.read));
    let also = values.also.iter();
    main.chain(also.map(|a| one(&a.vhost, &a.configure, &a.write, &a.read)))
        .collect()
}

fn topics(values: &RabbitValues, login: &str) -> Vec<TopicPermission> {
    let one = |topic: &super::values::Topic| TopicPermission {
        user: login.to_owned(),
        vhost: topic
            .vhost
            .clone()
            .or_else(|| values.vhost.clone())
            .unwrap_or_default(),
        exchange: topic.exchange.clone(),
        write: topic.write.clone(),
        read: topic.read.clone(),
    };
    values.topics.iter().map(one).collect()
}

/// How a user differs from a wish.
pub(super) struct Diff {
    pub(super) password: bool,
    pub(super) password_fits: bool,
    /// Whether any password gets in.
    pub(super) usable: bool,
    /// Whether it may have no connection, which a wish for an enabled login does not ask for.
    pub(super) limited: bool,
    switch: Option<Difference>,
    pub(super) missing: Rights,
    pub(super) surplus: Rights,
    pub(super) mark: MarkSeen,
}

/// Rights of each kind: of the wish where they are missing, of the server where they are too many.
#[derive(Default)]
pub(super) struct Rights {
    pub(super) permissions: Vec<Permission>,
    pub(super) topics: Vec<TopicPermission>,
    pub(super) tags: Vec<String>,
}

/// Compares.
pub(super) fn diff(wish: &Wish<'_>, shown: &Shown<&User>) -> Diff {
    let user = shown.users;
    let expected = expected(wish);
    let same = expected.hash.as_ref() == Some(&user.password_hash);
    let fits = same
        || wish
            .password()
            .is_some_and(|password| hash::fits(&user.password_hash, password));
    let usable = hash::is_usable(&user.password_hash, &user.hashing_algorithm);
    let limited = user.is_limited_to_none();
    let switch = match wish.enabled() {
        true if !usable || limited => Some(Difference::Disabled),
        false if usable => Some(Difference::Enabled),
        _ => None,
    };
    let (missing, surplus) = rights(wish, &expected, shown);
    Diff {
        password: wish.password().is_some() && !fits,
        password_fits: fits,
        usable,
        limited,
        switch,
        missing,
        surplus,
        mark: MarkSeen::strongest(
            marks(user).map(|text| wish.marker().read(&text, wish.consumer())),
        ),
    }
}

fn rights(wish: &Wish<'_>, expected: &Expected, shown: &Shown<&User>) -> (Rights, Rights) {
    let (mut missing, mut surplus) = (Rights::default(), Rights::default());
    let mut wanted: BTreeMap<&str, &Permission> = expected
        .permissions
        .iter()
        .map(|p| (p.vhost.as_str(), p))
        .collect();
    for have in &shown.permissions {
        let Some(want) = wanted.remove(have.vhost.as_str()) else {
            surplus.permissions.push(have.clone());
            continue;
        };
        let pairs = [
            (&want.configure, &have.configure),
            (&want.write, &have.write),
            (&want.read, &have.read),
        ];
        if pairs.iter().any(|(want, have)| lacks(want, have)) {
            missing.permissions.push(match wish.exact() {
                true => want.clone(),
                false => Permission {
                    configure: both(&have.configure, &want.configure),
                    write: both(&have.write, &want.write),
                    read: both(&have.read, &want.read),
                    ..want.clone()
                },
            });
        }
        if pairs.iter().any(|(want, have)| lacks(have, want)) {
            surplus.permissions.push(have.clone());
        }
    }
    missing.permissions.extend(wanted.into_values().cloned());
    // A key for the default exchange limits nothing: that one is no topic exchange.
    let have = shown
        .topics
        .iter()
        .filter(|topic| !topic.exchange.is_empty());
    missing.topics.extend(
        expected
            .topics
            .iter()
            .filter(|t| !shown.topics.contains(t))
            .cloned(),
    );
    let asked = |topic: &TopicPermission| {
        let same = |t: &TopicPermission| t.vhost == topic.vhost && t.exchange == topic.exchange;
        expected.topics.iter().any(same)
    };
    surplus
        .topics
        .extend(have.filter(|topic| !asked(topic)).cloned());
    let (tags, wanted) = (shown.users.tags(), &wish.values().tags);
    missing
        .tags
        .extend(wanted.iter().filter(|tag| !tags.contains(tag)).cloned());
    let power = |tag: &String| POWERS.contains(&tag.as_str()) && !wanted.contains(tag);
    surplus.tags.extend(tags.into_iter().filter(power));
    (missing, surplus)
}

/// Whether the second pattern may match less than the first. Only the plain cases are known: the same
/// text, nothing, everything, and what [`both`] makes.
fn lacks(one: &str, two: &str) -> bool {
    let added = two.starts_with("(?:") && two.ends_with(&format!(")|(?:{one})"));
    one != two && !is_nothing(one) && two != ".*" && !added
}

/// To RabbitMQ these two are one.
fn is_nothing(pattern: &str) -> bool {
    matches!(pattern, "" | "^$")
}

/// What an adopted login has and what it should have: nothing is taken from it.
fn both(have: &str, want: &str) -> String {
    match lacks(want, have) {
        false => have.to_owned(),
        true if is_nothing(have) || !lacks(have, want) => want.to_owned(),
        true => format!("(?:{have})|(?:{want})"),
    }
}

/// The tags that have the form of a mark.
fn marks(user: &User) -> impl Iterator<Item = String> {
    user.tags()
        .into_iter()
        .filter(|tag| tag.starts_with(Marker::PREFIX))
}

/// The mark on a login, judged for a consumer.
pub(super) fn mark_for(
    marker: &Marker,
    user: &User,
    consumer: &mesh_sdk::ConsumerName,
) -> MarkSeen {
    MarkSeen::strongest(marks(user).map(|text| marker.read(&text, consumer)))
}

/// Judges the marks of a listed login. Only one that this provider left names a consumer.
pub(super) fn listed_mark(marker: &Marker, user: &User) -> MarkSeen {
    MarkSeen::strongest(marks(user).map(|text| marker.listed(&text)))
}

/// The tags that a login should have: the mark, what is asked for, and of those that are there what is
/// a person's own. Powers that were not asked for stay on an adopted login only.
pub(super) fn tags(wish: &Wish<'_>, user: Option<&User>) -> Vec<String> {
    let mark = wish.mark().as_str().to_owned();
    let mut all = vec![mark];
    all.extend(wish.values().tags.iter().cloned());
    for tag in user.map(User::tags).unwrap_or_default() {
        let goes = tag.starts_with(Marker::PREFIX)
            || (wish.exact() && POWERS.contains(&tag.as_str()))
            || all.contains(&tag);
        if !goes {
            all.push(tag);
        }
    }
    all
}

impl Rights {
    fn is_empty(&self) -> bool {
        self.permissions.is_empty() && self.topics.is_empty() && self.tags.is_empty()
    }
    /// `/ (write ^web), tag monitoring`.
    fn told(&self) -> String {
        const MOST: usize = 6;
        let permissions = self.permissions.iter().map(|p| {
            let (c, w, r) = (plain(&p.configure), plain(&p.write), plain(&p.read));
            format!("`{c}` `{w}` `{r}` in `{}`", plain(&p.vhost))
        });
        let topics = self.topics.iter().map(|t| {
            let (w, r) = (plain(&t.write), plain(&t.read));
            format!(
                "keys `{w}` `{r}` of `{}` in `{}`",
                plain(&t.exchange),
                plain(&t.vhost)
            )
        });
        let tags = self.tags.iter().map(|tag| format!("tag `{}`", plain(tag)));
        let all: Vec<String> = permissions.chain(topics).chain(tags).collect();
        let mut told = all[..all.len().min(MOST)].join(", ");
        if all.len() > MOST {
            told.push_str(&format!(" and {} more", all.len() - MOST));
        }
        told
    }
}

fn plain(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(80).collect()
}

impl Diff {
    /// Whether nothing at all has to be written.
    pub(super) fn is_none(&self, exact: bool) -> bool {
        self.differences(exact).is_empty()
    }
    /// Whether the user itself has to be written.
    pub(super) fn is_of_user(&self, wish: &Wish<'_>) -> bool {
        let switch = self.usable != wish.enabled();
        let powers = wish.exact() && !self.surplus.tags.is_empty();
        let tags = !self.missing.tags.is_empty() || powers;
        self.password || switch || tags || self.mark != MarkSeen::Ours
    }

    fn differences(&self, exact: bool) -> Differences {
        let found = [
            (self.password, Difference::Password),
            (!self.missing.is_empty(), Difference::GrantsMissing),
            (exact && !self.surplus.is_empty(), Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer(self, wish: &Wish<'_>) -> Answer {
        let mut differences = self.differences(wish.exact());
        let known = wish.password().is_some();
        if differences.is_empty() && (known || !wish.enabled()) {
            let warning = (!self.surplus.is_empty())
                .then(|| format!("rights in surplus: {}", self.surplus.told()).into());
            let proof = if known {
                Proof::Verifier
            } else {
                Proof::Presence
            };
            return Answer::Held(Held { proof, warning });
        }
        if !known && wish.enabled() {
            // There is no password that it could have as asked.
            differences.insert(Difference::Password);
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: self.detail(wish.exact()),
            mark: self.mark,
            password_fits: self.password_fits,
        }))
    }

    fn detail(&self, exact: bool) -> String {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", self.missing.told()));
        }
        if exact && !self.surplus.is_empty() {
            parts.push(format!("surplus {}", self.surplus.told()));
        }
        if self.limited {
            parts.push("limited to 0 connections".to_owned());
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    //! Which of several marks counts, and what is known of patterns.
    use super::*;
    use mesh_sdk::ConsumerName;

    #[test]
    fn r4_a_strangers_mark_counts_before_ours() {
        let other = MarkSeen::OursFor(ConsumerName::new("api").expect("name"));
        let of = |marks: &[MarkSeen]| MarkSeen::strongest(marks.iter().cloned());
        assert_eq!(of(&[]), MarkSeen::None);
        assert_eq!(of(&[MarkSeen::Ours, MarkSeen::Foreign]), MarkSeen::Foreign);
        assert_eq!(of(&[MarkSeen::Damaged, MarkSeen::Ours]), MarkSeen::Ours);
        assert_eq!(of(&[other.clone(), MarkSeen::Ours]), MarkSeen::Ours);
        assert_eq!(of(&[MarkSeen::Damaged, other.clone()]), other);
    }

    #[test]
    fn a7_a_pattern_lacks_what_another_matches() {
        for (one, two, lacking) in [
            ("^a", "^a", false),
            ("^a", "^b", true),
            ("^a", "", true),
            ("", "^a", false),
            ("^$", "", false),
            ("^a", ".*", false),
            (".*", "^a", true),
        ] {
            assert_eq!(lacks(one, two), lacking, "{one} {two}");
        }
        assert_eq!(both("", "^a"), "^a");
        assert_eq!(both(".*", "^a"), ".*");
        let more = both("^b", "^a");
        assert!(!lacks("^a", &more) && lacks(&more, "^a"), "{more}");
        assert_eq!(both(&more, "^a"), more, "again changes nothing");
    }
}
