//! A wish and a login as the server shows it, compared by meaning.

use mesh_sdk::{Answer, Difference, Differences, Held, Lost, MarkSeen, Marker, Proof};

use super::inside::Inside;
use super::measure::{Measured, measure};
use super::proof::{Fit, expected};
use super::rights;
use super::roles::{Database, Role, Shared};
use super::values::PostgresValues;

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, PostgresValues>;

/// All that a look found about one wish.
pub(super) struct View<'a> {
    pub(super) shared: &'a Shared,
    pub(super) role: Option<&'a Role>,
    pub(super) database: Option<&'a Database>,
    /// What the database itself knows; nothing where there is no such database.
    pub(super) inside: Option<&'a Inside>,
    /// The admin login may do everything anyway.
    pub(super) superuser: bool,
    /// Verifiers can be read.
    pub(super) verifiers: bool,
    pub(super) keeper: &'a str,
    /// Why a password is not enforced, if it is not (O-43).
    pub(super) unenforced: Option<&'a str>,
}

/// How a login differs from a wish.
pub(super) struct Diff {
    pub(super) fit: Fit,
    pub(super) switch: Option<Difference>,
    pub(super) mark: MarkSeen,
    /// Other marks beside ours in the comment.
    pub(super) other_marks: bool,
    pub(super) rights: Measured,
    warnings: Vec<String>,
}

impl<'a> View<'a> {
    /// What is known of the password without any work.
    pub(super) fn fit(&self, wish: &Wish<'_>) -> Fit {
        match (self.role, wish.password()) {
            (Some(role), Some(_)) if self.verifiers => match &role.verifier {
                Some(stored) => expected(wish).fit(stored),
                None => Fit::Other,
            },
            _ => Fit::Untold,
        }
    }

    /// Compares a login that is there.
    pub(super) fn diff(&self, wish: &Wish<'_>, role: &Role, fit: Fit) -> Diff {
        let is_on = role.login && !role.expired && role.limit != 0;
        let switch = match wish.enabled() {
            true => (!is_on).then_some(Difference::Disabled),
            false => role.login.then_some(Difference::Enabled),
        };
        let (mark, other_marks) = seen_marks(wish, role.comment.as_deref().unwrap_or_default());
        let mut warnings = Vec::new();
        warnings.extend(self.unenforced.map(str::to_owned));
        if role.superuser {
            warnings.push("it is a superuser: no right of it is limited".to_owned());
        }
        if fit == Fit::Old && !wish.exact() {
            warnings.push(
                "its password is stored as md5, which PostgreSQL is about to drop".to_owned(),
            );
        }
        Diff {
            fit,
            switch,
            mark,
            other_marks,
            rights: measure(self, wish),
            warnings,
        }
    }
}

/// The mark that counts, and whether there are others beside ours. A comment that was in order is not
/// reckoned again.
fn seen_marks(wish: &Wish<'_>, comment: &str) -> (MarkSeen, bool) {
    let (known, by) = (expected(wish), wish.marker().own_prefix());
    if known.is_marked(&by, comment) {
        return (MarkSeen::Ours, false);
    }
    let all: Vec<MarkSeen> = marks(comment)
        .map(|text| wish.marker().read(text, wish.consumer()))
        .collect();
    let others = all.iter().any(|mark| *mark != MarkSeen::Ours);
    let mark = MarkSeen::strongest(all);
    if mark == MarkSeen::Ours && !others {
        known.remember_mark(by, comment);
    }
    (mark, others)
}

/// The marks in a comment: words among whatever else a person wrote.
pub(super) fn marks(comment: &str) -> impl Iterator<Item = &str> {
    comment
        .split_whitespace()
        .filter(|word| word.starts_with(Marker::PREFIX))
}

/// A comment with this mark and no other; what a person wrote stays before it.
pub(super) fn marked(comment: Option<&str>, mark: &str) -> String {
    let mut kept = comment.unwrap_or_default().to_owned();
    let old: Vec<String> = marks(&kept).map(str::to_owned).collect();
    for old in old {
        kept = kept.replace(&old, "");
    }
    let kept = kept.trim_end();
    if kept.is_empty() {
        mark.to_owned()
    } else {
        format!("{kept} {mark}")
    }
}

/// Judges the marks of a listed login. Only one that this provider left names a consumer.
pub(super) fn listed_mark(marker: &Marker, comment: &str) -> MarkSeen {
    MarkSeen::strongest(marks(comment).map(|text| marker.listed(text)))
}

impl Diff {
    /// Whether another verifier has to be stored.
    pub(super) fn password(&self, exact: bool) -> bool {
        match self.fit {
            Fit::Other | Fit::Unknown => true,
            Fit::Old => exact,
            Fit::Verified | Fit::LoggedIn | Fit::Untold => false,
        }
    }

    pub(super) fn differences(&self, exact: bool) -> Differences {
        let found = [
            (self.password(exact), Difference::Password),
            (!self.rights.missing.is_empty(), Difference::GrantsMissing),
            (
                exact && !self.rights.surplus.is_empty(),
                Difference::GrantsSurplus,
            ),
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
            let mut warnings = self.warnings;
            if !self.rights.surplus.is_empty() {
                let told = rights::told(&self.rights.surplus);
                warnings.insert(0, format!("rights in surplus: {told}"));
            }
            let proof = match self.fit {
                Fit::Verified | Fit::Old => Proof::Verifier,
                Fit::LoggedIn => Proof::Login,
                Fit::Other | Fit::Untold | Fit::Unknown => Proof::Presence,
            };
            let warning = (!warnings.is_empty()).then(|| warnings.join("; ").into());
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
            password_fits: matches!(self.fit, Fit::Verified | Fit::Old | Fit::LoggedIn),
        }))
    }

    fn detail(&self, exact: bool) -> String {
        let mut parts = Vec::new();
        if !self.rights.missing.is_empty() {
            parts.push(format!("missing {}", rights::told(&self.rights.missing)));
        }
        if exact && !self.rights.surplus.is_empty() {
            parts.push(format!("surplus {}", rights::told(&self.rights.surplus)));
        }
        if self.fit == Fit::Old && exact {
            parts.push("the password is stored as md5".to_owned());
        }
        parts.join("; ")
    }
}

#[cfg(test)]
mod tests {
    //! Marks among a person's words.
    use super::*;
    use mesh_sdk::ConsumerName;

    #[test]
    fn r11_a_mark_stands_beside_what_a_person_wrote() {
        assert_eq!(marked(None, "mk1.a"), "mk1.a");
        assert_eq!(
            marked(Some("billing, ask Ann"), "mk1.a"),
            "billing, ask Ann mk1.a"
        );
        assert_eq!(marked(Some("billing mk1.b  "), "mk1.a"), "billing mk1.a");
        assert_eq!(marked(Some("mk1.b"), "mk1.a"), "mk1.a");
        let found: Vec<&str> = marks("see mk1.x.y\nand mk1.z, notmk1.q").collect();
        assert_eq!(found, ["mk1.x.y", "mk1.z,"]);
    }

    #[test]
    fn r4_a_strangers_mark_counts_before_ours() {
        let other = MarkSeen::OursFor(ConsumerName::new("api").expect("name"));
        let of = |marks: &[MarkSeen]| MarkSeen::strongest(marks.iter().cloned());
        assert_eq!(of(&[]), MarkSeen::None);
        assert_eq!(of(&[MarkSeen::Ours, MarkSeen::Foreign]), MarkSeen::Foreign);
        assert_eq!(of(&[MarkSeen::Damaged, MarkSeen::Ours]), MarkSeen::Ours);
        assert_eq!(of(&[other.clone(), MarkSeen::Ours]), MarkSeen::Ours);
    }
}
