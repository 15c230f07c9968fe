//! A wish and an entry, compared.

use mesh_sdk::{Answer, Difference, Differences, Held, Lost, MarkSeen, Proof};

use super::Wish;
use super::format::{Format, Rights, Wanted};
use super::lines::Entry;
use super::proof::{asked_cost, cost_of, proven};

/// Below the first entry of a login, where no reader looks.
const SECOND: &str = "a second entry further down";

/// How an entry differs from a wish.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Diff {
    absent: bool,
    fits: bool,
    open: bool,
    /// The password is ours, and something about the entry is not as asked.
    more: Option<&'static str>,
    switch: Option<Difference>,
    rights: Rights,
    mark: MarkSeen,
}

/// What has to be worked out before an entry can be compared: the hash that is there, if it is not the one
/// that was proven before.
pub(super) fn question<F: Format>(
    wish: &Wish<'_, F>,
    entry: Option<&Entry<'_>>,
) -> Option<Vec<u8>> {
    let (entry, _) = entry.zip(wish.password())?;
    (!proven(wish).is(entry.hash)).then(|| entry.bcrypt.to_vec())
}

/// Compares; `told` is the answer to the question, if there was one.
pub(super) fn diff<F: Format>(
    wish: &Wish<'_, F>,
    entry: Option<&Entry<'_>>,
    told: Option<bool>,
) -> Diff {
    let Some(entry) = entry else {
        return Diff {
            absent: true,
            ..Diff::default()
        };
    };
    let known = wish.password().is_some();
    let fits = known && !entry.open && told.unwrap_or_else(|| proven(wish).is(entry.hash));
    if fits {
        proven(wish).keep(entry.hash);
    }
    let read = |mark: &str| wish.marker().read(mark, wish.consumer());
    Diff {
        absent: false,
        fits,
        open: entry.open,
        more: more::<F>(wish, entry),
        switch: match (wish.enabled(), entry.off) {
            (true, true) => Some(Difference::Disabled),
            (false, false) => Some(Difference::Enabled),
            _ => None,
        },
        rights: F::rights(wish, entry),
        mark: entry.mark.map_or(MarkSeen::None, read),
    }
}

/// What is not as asked although the password is. Adopting leaves a hash as it is.
fn more<F: Format>(wish: &Wish<'_, F>, entry: &Entry<'_>) -> Option<&'static str> {
    if entry.again {
        return Some(SECOND);
    }
    if !wish.exact() || wish.password().is_none() {
        return None;
    }
    let (asked, exactly) = asked_cost::<F>(wish);
    let is_plain =
        entry.hash.starts_with(F::SCHEME.as_bytes()) && entry.bcrypt.starts_with(b"$2y$");
    match cost_of(entry.bcrypt) {
        Some(_) if !is_plain => Some("a form of hash that not every reader takes"),
        Some(cost) if cost < asked || (exactly && cost != asked) => Some("a hash of another cost"),
        _ => None,
    }
}

impl Diff {
    pub(super) fn is_none<V>(&self, wish: &mesh_sdk::Provision<'_, V>) -> bool
    where
        V: 'static,
    {
        self.differences(wish).is_empty()
    }

    fn differences<V: 'static>(&self, wish: &mesh_sdk::Provision<'_, V>) -> Differences {
        if self.absent {
            return Difference::Absent.into();
        }
        let known = wish.password().is_some();
        let password = (known && !self.fits && !self.open) || self.more.is_some();
        let surplus = wish.exact() && !self.rights.surplus.is_empty();
        let found = [
            (password, Difference::Password),
            (self.open, Difference::PasswordNotEnforced),
            (!self.rights.missing.is_empty(), Difference::GrantsMissing),
            (surplus, Difference::GrantsSurplus),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// Whether a new hash is needed; a second entry goes without one.
    pub(super) fn needs_hash<V: 'static>(&self, wish: &mesh_sdk::Provision<'_, V>) -> bool {
        let other = self.more.is_some_and(|more| more != SECOND);
        wish.password().is_some() && (self.absent || !self.fits || other)
    }

    /// What the entry is to look like.
    pub(super) fn wanted<F: Format>(
        &self,
        wish: &Wish<'_, F>,
        hash: Option<Vec<u8>>,
    ) -> Wanted<F::Values> {
        Wanted {
            hash,
            off: !wish.enabled(),
            mark: wish.mark().as_str().to_owned(),
            values: Some(wish.values().clone()),
            exact: wish.exact(),
        }
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer<V: 'static>(self, wish: &mesh_sdk::Provision<'_, V>) -> Answer {
        let mut differences = self.differences(wish);
        let known = wish.password().is_some();
        let surplus = &self.rights.surplus;
        if differences.is_empty() && (known || !wish.enabled()) {
            let proof = if known {
                Proof::Verifier
            } else {
                Proof::Presence
            };
            let warning = (!surplus.is_empty())
                .then(|| format!("more than asked: {}", surplus.join(", ")).into());
            return Answer::Held(Held { proof, warning });
        }
        if !known && wish.enabled() && !self.absent {
            // There is no password that it could have as asked.
            differences.insert(Difference::Password);
        }
        let detail = self.detail(wish.exact(), known);
        Answer::Lost(Box::new(Lost {
            differences,
            detail,
            mark: self.mark,
            password_fits: self.fits,
        }))
    }

    fn detail(&self, exact: bool, known: bool) -> String {
        let more = self.more.filter(|_| self.fits || !known).map(str::to_owned);
        let told = |what: &str, rights: &[String]| {
            (!rights.is_empty()).then(|| format!("{what} {}", rights.join(", ")))
        };
        let surplus = told("not asked for:", &self.rights.surplus).filter(|_| exact);
        let parts = [more, told("missing:", &self.rights.missing), surplus];
        parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
    }
}
