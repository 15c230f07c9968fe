//! A wish, and a client and its role as the broker tells them, compared by meaning.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};

use mesh_sdk::{Answer, Difference, Differences, Held, Lost, MarkSeen, Marker, Proof};

use super::check;
use super::control::{Client, Role};
use super::values::MosquittoValues;

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, MosquittoValues>;

/// What the names of our roles begin with.
pub(super) const ROLE_PREFIX: &str = "meshkeeper/";

/// The role that a login has for itself alone. Its text name is the mark.
pub(super) fn role_of(login: &str) -> String {
    format!("{ROLE_PREFIX}{login}")
}

/// Whether the wish's password is the one that the broker has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The wish has none.
    Unknown,
    /// It was not tried, or could not be.
    Untried,
    /// It let in.
    Proven,
    /// It did not.
    Not,
}

/// What is remembered of a wish's password, so that a wrong one is tried once a pass and not twice.
#[derive(Default)]
pub(super) struct Known(AtomicU8);

const WRONG: u8 = 1;
const OURS: u8 = 2;

impl Known {
    pub(super) fn of(wish: &Wish<'_>) -> Arc<Self> {
        wish.memo(Known::default)
    }
    /// It was found to be wrong, and not set since.
    pub(super) fn is_wrong(&self) -> bool {
        self.0.load(Ordering::Relaxed) == WRONG
    }
    /// It was set, or let in, and nothing else was heard since.
    pub(super) fn is_ours(&self) -> bool {
        self.0.load(Ordering::Relaxed) == OURS
    }
    pub(super) fn note(&self, fits: bool) {
        self.0
            .store(if fits { OURS } else { WRONG }, Ordering::Relaxed);
    }
}

/// A right to a topic: what for, and which.
pub(super) type Right = (&'static str, String);

const SEND: &str = "publishClientSend";
const RECEIVE: &str = "publishClientReceive";
const SUBSCRIBE: &str = "subscribePattern";
const UNSUBSCRIBE: &str = "unsubscribePattern";
const KINDS: [&str; 6] = [
    SEND,
    RECEIVE,
    SUBSCRIBE,
    UNSUBSCRIBE,
    "subscribeLiteral",
    "unsubscribeLiteral",
];

/// The rights of our role that a wish asks for.
pub(super) fn wanted(values: &MosquittoValues) -> BTreeSet<Right> {
    let send = values.publish.iter().map(|topic| (SEND, topic.clone()));
    let receive = values.subscribe.iter().flat_map(|topic| each_of(topic));
    send.chain(receive).collect()
}

/// What subscribing takes.
fn each_of(topic: &str) -> [Right; 3] {
    [SUBSCRIBE, RECEIVE, UNSUBSCRIBE].map(|kind| (kind, topic.to_owned()))
}

/// The rights that a role gives, and those that it takes.
fn given(role: &Role) -> (BTreeSet<Right>, Vec<Right>) {
    let (mut allowed, mut denied) = (BTreeSet::new(), Vec::new());
    for acl in &role.acls {
        let kind = KINDS.iter().find(|kind| **kind == acl.acltype);
        let right = (*kind.unwrap_or(&"another right"), acl.topic.clone());
        match acl.allow {
            true => drop(allowed.insert(right)),
            false => denied.push(right),
        }
    }
    (allowed, denied)
}

/// The values that ask for what a client has, and what they cannot say.
pub(super) fn as_values(client: &Client, role: Option<&Role>) -> (MosquittoValues, Vec<String>) {
    let own = role_of(&client.username);
    let (mut values, mut beyond) = (MosquittoValues::default(), Vec::new());
    for name in client.roles.iter().map(|one| &one.rolename) {
        match check::role(name) {
            Ok(()) => values.roles.push(name.clone()),
            Err(_) if *name == own => {}
            Err(_) => beyond.push(format!("role {name}")),
        }
    }
    let assigned = client.roles.iter().any(|one| one.rolename == own);
    let (allowed, denied) = role.filter(|_| assigned).map(given).unwrap_or_default();
    let may = |topic: &str| check::topic(topic).is_ok();
    for (kind, topic) in allowed.iter().filter(|(_, topic)| may(topic)) {
        let whole = || each_of(topic).iter().all(|one| allowed.contains(one));
        match *kind {
            SEND => values.publish.push(topic.clone()),
            SUBSCRIBE if whole() => values.subscribe.push(topic.clone()),
            _ => {}
        }
    }
    let said = wanted(&values);
    beyond.extend(allowed.difference(&said).map(told_right));
    let denied = denied.iter().map(told_right);
    beyond.extend(denied.map(|right| format!("{right} is denied, until it is adopted")));
    let groups = client.groups.iter();
    beyond.extend(groups.map(|group| format!("group {}", group.groupname)));
    if let Some(session) = &client.clientid {
        beyond.push(format!("may only use the session name {session}"));
    }
    (values, beyond)
}

/// How a client differs from a wish.
pub(super) struct Diff {
    pub(super) fit: Fit,
    pub(super) switch: Option<Difference>,
    missing: Vec<String>,
    surplus: Vec<String>,
    mark: MarkSeen,
    /// Roles to be given, and to be taken.
    pub(super) give: Vec<String>,
    pub(super) take: Vec<String>,
    /// Rights that our role is to have, where it has others.
    pub(super) rights: Option<BTreeSet<Right>>,
}

/// Compares.
pub(super) fn diff(wish: &Wish<'_>, client: &Client, role: Option<&Role>, fit: Fit) -> Diff {
    let own = role_of(wish.login().as_str());
    let has: BTreeSet<&str> = client.roles.iter().map(|r| r.rolename.as_str()).collect();
    let asked = wish.values().roles.iter().map(String::as_str);
    let should: BTreeSet<&str> = asked.chain([own.as_str()]).collect();
    let want = wanted(wish.values());
    let (have, denied) = role.map(given).unwrap_or_default();
    let assigned = has.contains(own.as_str());
    let effective = if assigned {
        have.clone()
    } else {
        BTreeSet::new()
    };

    let mut missing: Vec<String> = want.difference(&effective).map(told_right).collect();
    missing.extend(
        denied
            .iter()
            .map(|right| format!("{} (denied)", told_right(right))),
    );
    let mut surplus: Vec<String> = effective.difference(&want).map(told_right).collect();
    let name = |role: &&str| (*role).to_owned();
    let give: Vec<String> = should.difference(&has).map(name).collect();
    let take: Vec<String> = has.difference(&should).map(name).collect();
    let others = give.iter().filter(|role| **role != own);
    missing.extend(others.map(|role| format!("role {role}")));
    surplus.extend(take.iter().map(|role| format!("role {role}")));

    let target = match wish.exact() {
        true => want,
        false => want.union(&have).cloned().collect(),
    };
    let text = role
        .filter(|_| assigned)
        .map_or("", |role| role.textname.as_str());
    Diff {
        fit,
        switch: match (wish.enabled(), client.disabled) {
            (true, true) => Some(Difference::Disabled),
            (false, false) => Some(Difference::Enabled),
            _ => None,
        },
        missing,
        surplus,
        mark: wish.marker().read(text, wish.consumer()),
        give,
        take: if wish.exact() { take } else { Vec::new() },
        rights: (role.is_none() || !denied.is_empty() || target != have).then_some(target),
    }
}

/// The mark of a client, as text.
pub(super) fn mark_text<'r>(client: &Client, role: Option<&'r Role>) -> &'r str {
    let role = role.filter(|role| client.roles.iter().any(|r| r.rolename == role.rolename));
    role.map_or("", |role| role.textname.as_str())
}

/// Judges the mark of a listed login. Only one that this provider left names a consumer: a login that
/// another provider of the same installation looks after is none of this one's business.
pub(super) fn listed_mark(marker: &Marker, text: &str) -> MarkSeen {
    marker.listed(text)
}

fn told_right((kind, topic): &Right) -> String {
    format!("{kind} {topic}")
}

impl Diff {
    fn differences(&self, exact: bool) -> Differences {
        let found = [
            (self.fit == Fit::Not, Difference::Password),
            (!self.missing.is_empty(), Difference::GrantsMissing),
            (exact && !self.surplus.is_empty(), Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// Whether the mark has to be written.
    pub(super) fn lacks_mark(&self) -> bool {
        self.mark != MarkSeen::Ours
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer(self, wish: &Wish<'_>) -> Answer {
        let mut differences = self.differences(wish.exact());
        let known = self.fit != Fit::Unknown;
        if differences.is_empty() && (known || !wish.enabled()) {
            let warning = (!self.surplus.is_empty())
                .then(|| format!("rights in surplus: {}", told(&self.surplus)).into());
            let proof = match self.fit {
                Fit::Proven => Proof::Login,
                _ => Proof::Presence,
            };
            return Answer::Held(Held { proof, warning });
        }
        if !known && wish.enabled() {
            // There is no password that it could have as asked.
            differences.insert(Difference::Password);
        }
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", told(&self.missing)));
        }
        if wish.exact() && !self.surplus.is_empty() {
            parts.push(format!("surplus {}", told(&self.surplus)));
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: parts.join("; "),
            password_fits: self.fit == Fit::Proven,
            mark: self.mark,
        }))
    }
}

/// The first few of a list, for people.
fn told(all: &[String]) -> String {
    const MOST: usize = 6;
    let plain =
        |text: &String| -> String { text.chars().filter(|c| !c.is_control()).take(80).collect() };
    let mut told: Vec<String> = all.iter().take(MOST).map(plain).collect();
    if all.len() > MOST {
        told.push(format!("and {} more", all.len() - MOST));
    }
    told.join(", ")
}
