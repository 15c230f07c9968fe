//! A wish and a user of the file, compared by meaning.

use mesh_sdk::{Answer, Difference, Differences, Held, Lost, MarkSeen, Marker, Proof};

use super::file::Entry;
use super::rights::{Rights, told};
use super::values::NatsValues;

/// A wish of this kind.
pub(super) type Wish<'a> = mesh_sdk::Provision<'a, NatsValues>;

/// Whether the wish's password is the one in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// The wish has none.
    Unknown,
    /// It fits the hash.
    Hash,
    /// It stands there in plain text.
    Plain,
    /// It does not fit.
    Not,
}

/// How a user differs from a wish.
pub(super) struct Diff {
    fit: Fit,
    switch: Option<Difference>,
    missing: Vec<String>,
    surplus: Vec<String>,
    mark: MarkSeen,
}

/// Compares.
pub(super) fn diff(wish: &Wish<'_>, entry: &Entry, fit: Fit) -> Diff {
    let want = Rights::wanted(wish.values());
    let unclear = || vec!["rights that cannot be read".to_owned()];
    let (missing, surplus) = match &entry.rights {
        Some(have) => (want.beyond(have), have.beyond(&want)),
        None => (unclear(), unclear()),
    };
    let switch = match (wish.enabled(), entry.on) {
        (true, false) => Some(Difference::Disabled),
        (false, true) => Some(Difference::Enabled),
        _ => None,
    };
    Diff {
        fit,
        switch,
        missing,
        surplus,
        mark: mark(wish, entry),
    }
}

/// The mark, judged for the wish's consumer.
fn mark(wish: &Wish<'_>, entry: &Entry) -> MarkSeen {
    let text = entry.mark.as_deref().unwrap_or("");
    wish.marker().read(text, wish.consumer())
}

/// Judges the mark of a listed login. Only one that this provider left names a consumer: a login that
/// another provider of the same installation looks after is none of this one's business.
pub(super) fn listed_mark(marker: &Marker, entry: &Entry) -> MarkSeen {
    let text = entry.mark.as_deref().unwrap_or("");
    marker.listed(text)
}

/// The rights that a user is to have: as asked, and on an adopted login with its surplus left.
pub(super) fn rights_to_have(wish: &Wish<'_>, entry: Option<&Entry>) -> Rights {
    let want = Rights::wanted(wish.values());
    match entry.and_then(|entry| entry.rights.as_ref()) {
        Some(have) if !wish.exact() => want.with(have),
        _ => want,
    }
}

impl Diff {
    /// Whether there is nothing to write.
    pub(super) fn is_none(&self, exact: bool) -> bool {
        self.differences(exact).is_empty()
    }

    fn differences(&self, exact: bool) -> Differences {
        let found = [
            (
                matches!(self.fit, Fit::Not | Fit::Plain),
                Difference::Password,
            ),
            (!self.missing.is_empty(), Difference::GrantsMissing),
            (exact && !self.surplus.is_empty(), Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// The answer to "do you hold it as asked?", by the file and by whether the server has loaded it.
    pub(super) fn answer(self, wish: &Wish<'_>, loaded: bool) -> Answer {
        let mut differences = self.differences(wish.exact());
        let known = self.fit != Fit::Unknown;
        if loaded && differences.is_empty() && (known || !wish.enabled()) {
            let warning = (!self.surplus.is_empty())
                .then(|| format!("rights in surplus: {}", told(&self.surplus)).into());
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
        if !loaded && differences.is_empty() {
            // What the server serves is older than the file, so nothing in it is in force for certain.
            differences.insert(Difference::GrantsMissing);
        }
        Answer::Lost(Box::new(Lost {
            differences,
            detail: self.detail(wish.exact(), loaded),
            password_fits: matches!(self.fit, Fit::Hash | Fit::Plain),
            mark: self.mark,
        }))
    }

    fn detail(&self, exact: bool, loaded: bool) -> String {
        let mut parts = Vec::new();
        if !self.missing.is_empty() {
            parts.push(format!("missing {}", told(&self.missing)));
        }
        if exact && !self.surplus.is_empty() {
            parts.push(format!("surplus {}", told(&self.surplus)));
        }
        if self.fit == Fit::Plain {
            parts.push("the password stands there in plain text".to_owned());
        }
        if !loaded {
            parts.push("the server has not loaded the file since it changed".to_owned());
        }
        parts.join("; ")
    }
}

/// A login that the server refuses although its file has it as asked.
pub(super) fn refused_by_the_server() -> Answer {
    Answer::Lost(Box::new(Lost {
        differences: Difference::Password.into(),
        detail:
            "the file has it as asked, and the server refuses the login: does its configuration \
                 include this file?"
                .to_owned(),
        mark: MarkSeen::Ours,
        password_fits: false,
    }))
}
