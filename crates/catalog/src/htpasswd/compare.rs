//! A wish and an entry, compared.

use mesh_sdk::{Answer, Difference, Differences, Held, Lost, MarkSeen, Proof};

use super::lines::{Entry, Wanted};
use super::proof::{Wish, cost, cost_of, is_plain_form, proven};

/// How an entry differs from a wish.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Diff {
    absent: bool,
    fits: bool,
    /// The password is ours, and something about the entry is not as asked.
    more: Option<&'static str>,
    switch: Option<Difference>,
    mark: MarkSeen,
}

/// What has to be worked out before an entry can be compared: the hash that is there, if it is not the one
/// that was proven before.
pub(super) fn question(wish: &Wish<'_>, entry: Option<&Entry<'_>>) -> Option<Vec<u8>> {
    let (entry, _) = entry.zip(wish.password())?;
    (!proven(wish).is(entry.hash)).then(|| entry.hash.to_vec())
}

/// Compares; `told` is the answer to the question, if there was one.
pub(super) fn diff(wish: &Wish<'_>, entry: Option<&Entry<'_>>, told: Option<bool>) -> Diff {
    let Some(entry) = entry else {
        return Diff {
            absent: true,
            fits: false,
            more: None,
            switch: None,
            mark: MarkSeen::None,
        };
    };
    let known = wish.password().is_some();
    let fits = known && told.unwrap_or_else(|| proven(wish).is(entry.hash));
    if fits {
        proven(wish).keep(entry.hash);
    }
    let read = |mark: &str| wish.marker().read(mark, wish.consumer());
    Diff {
        absent: false,
        fits,
        more: more(wish, entry),
        switch: match (wish.enabled(), entry.off) {
            (true, true) => Some(Difference::Disabled),
            (false, false) => Some(Difference::Enabled),
            _ => None,
        },
        mark: entry.mark.map_or(MarkSeen::None, read),
    }
}

/// What is not as asked although the password is. Adopting leaves a hash as it is.
fn more(wish: &Wish<'_>, entry: &Entry<'_>) -> Option<&'static str> {
    if entry.again {
        return Some("a second entry further down");
    }
    if !wish.exact() || wish.password().is_none() {
        return None;
    }
    let (asked, exactly) = cost(wish);
    match cost_of(entry.hash) {
        Some(_) if !is_plain_form(entry.hash) => Some("a form of hash that not every reader takes"),
        Some(cost) if cost < asked || (exactly && cost != asked) => Some("a hash of another cost"),
        _ => None,
    }
}

impl Diff {
    pub(super) fn is_none(&self, wish: &Wish<'_>) -> bool {
        self.differences(wish).is_empty()
    }

    fn differences(&self, wish: &Wish<'_>) -> Differences {
        if self.absent {
            return Difference::Absent.into();
        }
        let known = wish.password().is_some();
        let password = (known && !self.fits) || self.more.is_some();
        let found = [
            (password, Difference::Password),
            (self.mark != MarkSeen::Ours, Difference::MarkMissing),
        ];
        let found = found.into_iter().filter(|(is, _)| *is).map(|(_, d)| d);
        found.chain(self.switch).collect()
    }

    /// Whether a new hash is needed; a second entry goes without one.
    pub(super) fn needs_hash(&self, wish: &Wish<'_>) -> bool {
        let second = self.more == Some("a second entry further down");
        wish.password().is_some() && (self.absent || !self.fits || (self.more.is_some() && !second))
    }

    /// What the entry is to look like.
    pub(super) fn wanted(&self, wish: &Wish<'_>, hash: Option<Vec<u8>>) -> Wanted {
        Wanted {
            hash,
            off: !wish.enabled(),
            mark: wish.mark().as_str().to_owned(),
        }
    }

    /// The answer to "do you hold it as asked?".
    pub(super) fn answer(self, wish: &Wish<'_>) -> Answer {
        let mut differences = self.differences(wish);
        let known = wish.password().is_some();
        if differences.is_empty() && (known || !wish.enabled()) {
            let proof = if known {
                Proof::Verifier
            } else {
                Proof::Presence
            };
            return Answer::Held(Held {
                proof,
                warning: None,
            });
        }
        if !known && wish.enabled() && !self.absent {
            // There is no password that it could have as asked.
            differences.insert(Difference::Password);
        }
        let more = match self.fits || wish.password().is_none() {
            true => self.more.unwrap_or_default(),
            false => "",
        };
        Answer::Lost(Box::new(Lost {
            differences,
            detail: more.to_owned(),
            mark: self.mark,
            password_fits: self.fits,
        }))
    }
}
