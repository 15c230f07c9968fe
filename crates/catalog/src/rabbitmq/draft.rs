//! What an import of definitions writes for one login, and for a part of many.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::api::{Permission, Shown, TopicPermission, User};
use super::compare::{Wish, diff, expected, tags};
use super::hash;

/// The most bytes in one import, about: servers and proxies take bodies of so many at least.
const BYTES: usize = 1024 * 1024;

/// The entries for one login: only what is missing, and nothing has to be taken away.
pub(super) struct Draft {
    user: Option<Value>,
    permissions: Vec<Permission>,
    topics: Vec<TopicPermission>,
}

/// The entries for a login; `None` where it takes more than entries: something goes before anything comes,
/// a limit is lifted, sessions are ended, or there is no password to set.
pub(super) fn draft(wish: &Wish<'_>, shown: Option<&Shown<&User>>) -> Option<Draft> {
    if wish.enabled() && wish.password().is_none() {
        return None;
    }
    let asked = expected(wish);
    let Some(shown) = shown else {
        return Some(Draft {
            user: Some(user(wish, None, &tags(wish, None))),
            permissions: asked.permissions.clone(),
            topics: asked.topics.clone(),
        });
    };
    let diff = diff(wish, shown);
    let surplus = &diff.surplus;
    let goes = wish.exact() && !(surplus.permissions.is_empty() && surplus.topics.is_empty());
    if goes || diff.limited || (!wish.enabled() && diff.usable) {
        return None;
    }
    let user = diff.is_of_user(wish).then(|| {
        let kept = (!diff.password).then_some(shown.users.password_hash.as_str());
        user(wish, kept, &tags(wish, Some(shown.users)))
    });
    Some(Draft {
        user,
        permissions: diff.missing.permissions,
        topics: diff.missing.topics,
    })
}

fn user(wish: &Wish<'_>, kept: Option<&str>, tags: &[String]) -> Value {
    let (hash, algorithm) = verifier(wish, kept);
    json!({ "name": wish.login().as_str(), "password_hash": hash,
        "hashing_algorithm": algorithm, "tags": tags })
}

/// The verifier that is there where it fits, so that nothing but the difference changes. A login that is
/// to be off keeps its verifier, under an algorithm that can match nothing.
pub(super) fn verifier(wish: &Wish<'_>, kept: Option<&str>) -> (String, &'static str) {
    let hash = match kept {
        Some(kept) => kept.to_owned(),
        None => expected(wish).hash.clone().unwrap_or_default(),
    };
    let algorithm = match wish.enabled() {
        true => hash::algorithm_of(&hash),
        false => hash::unusable_for(&hash),
    };
    (hash, algorithm)
}

impl Draft {
    /// The virtual hosts that it has rights in.
    pub(super) fn vhosts(&self) -> BTreeSet<&str> {
        let permissions = self.permissions.iter().map(|p| p.vhost.as_str());
        permissions
            .chain(self.topics.iter().map(|t| t.vhost.as_str()))
            .collect()
    }
    /// Whether its virtual hosts are all there, or are made by others before. Where it may make them
    /// itself, `coming` is given, and whoever is the first to name one makes it.
    pub(super) fn is_for(
        &self,
        there: &BTreeSet<String>,
        coming: Option<&mut BTreeSet<String>>,
    ) -> bool {
        let mut missing = self.vhosts();
        missing.retain(|vhost| !there.contains(*vhost));
        match coming {
            _ if missing.is_empty() => true,
            None => false,
            // Each is noted, so that nobody else makes it, too.
            Some(coming) => {
                let new = missing
                    .into_iter()
                    .filter(|vhost| coming.insert((*vhost).to_owned()));
                new.count() == 0
            }
        }
    }
    fn size(&self) -> usize {
        let user = self.user.as_ref().map_or(0, |user| user.to_string().len());
        let permissions = self.permissions.iter().map(|p| {
            80 + p.user.len() + p.vhost.len() + p.configure.len() + p.write.len() + p.read.len()
        });
        let topics = self.topics.iter().map(|t| {
            80 + t.user.len() + t.vhost.len() + t.exchange.len() + t.write.len() + t.read.len()
        });
        user + permissions.sum::<usize>() + topics.sum::<usize>()
    }
}

/// One import.
#[derive(Default)]
pub(super) struct Part {
    logins: usize,
    bytes: usize,
    users: Vec<Value>,
    permissions: Vec<Permission>,
    topics: Vec<TopicPermission>,
}

impl Part {
    /// Whether one more has room in it, of so many. A first one has, however long it is.
    pub(super) fn takes(&self, draft: &Draft, most: usize) -> bool {
        self.logins == 0 || (self.logins < most && self.bytes + draft.size() <= BYTES)
    }
    pub(super) fn add(&mut self, draft: Draft) {
        self.logins += 1;
        self.bytes += draft.size();
        self.users.extend(draft.user);
        self.permissions.extend(draft.permissions);
        self.topics.extend(draft.topics);
    }
    /// The server does the users first, then the permissions, then those on topics.
    pub(super) fn body(&self) -> Value {
        let permissions = self.permissions.iter().map(|p| {
            json!({ "user": p.user, "vhost": p.vhost, "configure": p.configure,
                "write": p.write, "read": p.read })
        });
        let topics = self.topics.iter().map(|t| {
            json!({ "user": t.user, "vhost": t.vhost, "exchange": t.exchange,
                "write": t.write, "read": t.read })
        });
        json!({
            "users": self.users,
            "permissions": permissions.collect::<Vec<_>>(),
            "topic_permissions": topics.collect::<Vec<_>>(),
        })
    }
}
