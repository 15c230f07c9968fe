//! A wish and a user with its roles, compared.
//!
//! A user has two roles of ours: one whose name is the mark, which grants nothing, and one that carries
//! what the wish asks for.

use mesh_sdk::{
    Answer, ConsumerName, Cx, Difference, Differences, Error, Held, Lost, MarkSeen, Marker, Proof,
};

use super::api::Api;
use super::grants::{Grants, covers};
use super::proof::Said;
use super::values::EtcdValues;

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, EtcdValues>;

/// The role that carries what a wish asks for.
pub(super) fn grants_role(mark: &str) -> String {
    format!("mesh.{mark}")
}

/// A user as the server shows it, as far as the wish is concerned.
pub(super) struct Shown {
    pub(super) roles: Vec<String>,
    /// Of the role that carries the mark; it should have none.
    pub(super) mark_grants: Grants,
    /// Of the role that carries the grants; `None` if there is no such role.
    pub(super) grants: Option<Grants>,
}

/// Looks; `None` if there is no such user.
pub(super) async fn look(
    cx: &Cx,
    api: &mut Api<'_>,
    wish: &Wish<'_>,
) -> Result<Option<Shown>, Error> {
    let Some(roles) = api.user(cx, wish.login().as_str()).await? else {
        return Ok(None);
    };
    let mark = wish.mark();
    let marked = roles.iter().any(|role| role == mark.as_str());
    let mark_grants = match marked {
        true => api.role(cx, mark.as_str()).await?,
        false => None,
    };
    let grants = api.role(cx, &grants_role(mark.as_str())).await?;
    Ok(Some(Shown {
        roles,
        mark_grants: mark_grants
            .map(|all| Grants::shown(&all))
            .unwrap_or_default(),
        grants: grants.map(|all| Grants::shown(&all)),
    }))
}

/// How a user differs from a wish.
pub(super) struct Diff {
    pub(super) missing: Grants,
    /// In the role of ours.
    pub(super) surplus: Grants,
    /// In the role that is the mark.
    pub(super) mark_grants: Grants,
    /// Roles that grant, and are none of ours.
    pub(super) other_roles: Vec<String>,
    /// Whether the user has the role of ours.
    pub(super) has_role: bool,
    pub(super) mark: MarkSeen,
}

/// Compares all but the password.
pub(super) fn diff(wish: &Wish<'_>, shown: &Shown) -> Diff {
    let wanted = Grants::wanted(wish.values());
    let role = grants_role(wish.mark().as_str());
    let has_role = shown.roles.contains(&role);
    let held = match has_role {
        true => shown.grants.clone().unwrap_or_default(),
        false => Grants::default(),
    };
    let is_mark = |name: &&String| name.starts_with(Marker::PREFIX);
    let marks = shown.roles.iter().filter(is_mark);
    let other = |name: &&String| !name.starts_with(Marker::PREFIX) && **name != role;
    Diff {
        missing: wanted.beyond(&held, covers),
        surplus: held.beyond(&wanted, covers),
        mark_grants: shown.mark_grants.clone(),
        other_roles: shown.roles.iter().filter(other).cloned().collect(),
        has_role,
        mark: MarkSeen::strongest(marks.map(|name| wish.marker().read(name, wish.consumer()))),
    }
}

/// The mark among a user's roles, judged for a consumer.
pub(super) fn mark_for(marker: &Marker, roles: &[String], consumer: &ConsumerName) -> MarkSeen {
    MarkSeen::strongest(roles.iter().map(|name| marker.read(name, consumer)))
}

/// Judges the marks of a listed login. Only one that this provider left names a consumer.
pub(super) fn listed_mark(marker: &Marker, roles: &[String]) -> MarkSeen {
    MarkSeen::strongest(roles.iter().map(|name| marker.listed(name)))
}

impl Diff {
    /// Whether rights are there that were not asked for.
    fn has_surplus(&self) -> bool {
        !self.surplus.is_empty() || !self.mark_grants.is_empty() || !self.other_roles.is_empty()
    }

    fn differences(&self, exact: bool) -> Differences {
        let found = [
            (!self.missing.is_empty(), Difference::GrantsMissing),
            (exact && self.has_surplus(), Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        found
            .into_iter()
            .filter(|(is, _)| *is)
            .map(|(_, d)| d)
            .collect()
    }

    /// Whether no role has to be written.
    pub(super) fn is_none(&self, exact: bool) -> bool {
        self.differences(exact).is_empty()
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer(self, wish: &Wish<'_>, said: Said) -> Answer {
        let mut differences = self.differences(wish.exact());
        if said == Said::Other || wish.password().is_none() {
            differences.insert(Difference::Password);
        }
        if !wish.enabled() {
            differences.insert(Difference::Enabled);
        }
        if differences.is_empty() {
            let warning = self.has_surplus().then(|| {
                let told = self.surplus_told();
                format!("rights in surplus: {told}").into()
            });
            let proof = match said {
                Said::LoggedIn => Proof::Login,
                Said::AsBefore => Proof::Verifier,
                Said::Other | Said::NotAsked => Proof::Presence,
            };
            return Answer::Held(Held { proof, warning });
        }
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", self.missing.told()));
        }
        if wish.exact() && self.has_surplus() {
            parts.push(format!("surplus {}", self.surplus_told()));
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: parts.join("; "),
            mark: self.mark,
            password_fits: matches!(said, Said::LoggedIn | Said::AsBefore),
        }))
    }

    fn surplus_told(&self) -> String {
        let plain = |name: &String| -> String {
            name.chars().filter(|c| !c.is_control()).take(80).collect()
        };
        let roles = self
            .other_roles
            .iter()
            .map(|name| format!("role `{}`", plain(name)));
        let grants = [&self.surplus, &self.mark_grants]
            .into_iter()
            .filter(|g| !g.is_empty());
        let all: Vec<String> = grants.map(Grants::told).chain(roles).collect();
        all.join(", ")
    }
}
