//! From what a program found to an answer: whose a mark is and what counts as lost is judged here.

use mesh_sdk::answer::{Held, Lost};
use mesh_sdk::{Answer, Difference, Differences, Error, MarkSeen, Marker, Proof, Provision};

use super::classify;
use super::protocol::{Facts, PasswordSeen, ProofSaid};
use super::values::ExecValues;

/// The most names that are told of what is missing or too much.
const NAMES: usize = 6;
/// The most characters of one of them.
const NAME: usize = 80;

/// The answer to "do you hold it as asked?".
pub(super) fn answer(wish: &Provision<'_, ExecValues>, facts: &Facts) -> Result<Answer, Error> {
    if !facts.found {
        return Ok(Answer::absent());
    }
    let Some(enabled) = facts.enabled else {
        return Err(classify::odd(
            "holds",
            "does not say whether the login is enabled",
        ));
    };
    let mark = match &facts.mark {
        Some(text) => wish.marker().read(text, wish.consumer()),
        None => MarkSeen::None,
    };
    let known = wish.password().is_some();
    let differences = differences(wish, facts, enabled, &mark);
    if differences.is_empty() {
        return Ok(Answer::Held(Held {
            proof: proof(facts, known),
            warning: surplus_of_an_adopted(facts),
        }));
    }
    let fits = matches!(
        facts.password,
        PasswordSeen::Fits | PasswordSeen::FitsAmongOthers | PasswordSeen::OneFits
    );
    Ok(Answer::Lost(Box::new(Lost {
        differences,
        detail: detail(facts, wish.exact(), wish.second_password().is_some()),
        mark,
        password_fits: known && fits,
    })))
}

fn differences(
    wish: &Provision<'_, ExecValues>,
    facts: &Facts,
    enabled: bool,
    mark: &MarkSeen,
) -> Differences {
    let known = wish.password().is_some();
    let other = matches!(
        facts.password,
        PasswordSeen::Differs | PasswordSeen::FitsAmongOthers | PasswordSeen::OneFits
    );
    let found = [
        // Without a password there is none that it could have as asked.
        (
            if known { other } else { wish.enabled() },
            Difference::Password,
        ),
        (wish.enabled() && !enabled, Difference::Disabled),
        (!wish.enabled() && enabled, Difference::Enabled),
        (!facts.missing.is_empty(), Difference::GrantsMissing),
        (
            wish.exact() && !facts.surplus.is_empty(),
            Difference::GrantsSurplus,
        ),
        (*mark != MarkSeen::Ours, Difference::MarkMissing),
        (
            facts.password == PasswordSeen::NotEnforced,
            Difference::PasswordNotEnforced,
        ),
    ];
    let found = found.into_iter().filter(|(is, _)| *is);
    found.map(|(_, difference)| difference).collect()
}

fn proof(facts: &Facts, known: bool) -> Proof {
    match (facts.password, facts.proof) {
        (PasswordSeen::Fits, ProofSaid::Verifier) if known => Proof::Verifier,
        (PasswordSeen::Fits, ProofSaid::Login) if known => Proof::Login,
        _ => Proof::Presence,
    }
}

fn surplus_of_an_adopted(facts: &Facts) -> Option<Box<str>> {
    let told = names(&facts.surplus)?;
    Some(format!("rights in surplus: {told}").into())
}

fn detail(facts: &Facts, exact: bool, two: bool) -> String {
    let missing = names(&facts.missing).map(|told| format!("missing {told}"));
    let surplus = names(&facts.surplus).filter(|_| exact);
    let surplus = surplus.map(|told| format!("surplus {told}"));
    let second = match facts.password {
        PasswordSeen::FitsAmongOthers if two => Some("a third password".to_owned()),
        PasswordSeen::FitsAmongOthers => Some("a second password".to_owned()),
        PasswordSeen::OneFits => Some("one of two passwords is missing".to_owned()),
        _ => None,
    };
    let parts: Vec<String> = [missing, surplus, second].into_iter().flatten().collect();
    parts.join("; ")
}

/// `read, write and 3 more`, in one bounded line.
fn names(all: &[String]) -> Option<String> {
    let plain = |name: &String| -> String {
        let plain = name.chars().map(|c| if c.is_control() { ' ' } else { c });
        plain.take(NAME).collect()
    };
    let told: Vec<String> = all.iter().take(NAMES).map(plain).collect();
    let more = all.len().saturating_sub(NAMES);
    match (told.is_empty(), more) {
        (true, _) => None,
        (false, 0) => Some(told.join(", ")),
        (false, more) => Some(format!("{} and {more} more", told.join(", "))),
    }
}

/// Judges the mark of a listed login. Only one that this provider left names a consumer.
pub(super) fn listed_mark(marker: &Marker, text: Option<&str>) -> MarkSeen {
    let Some(text) = text else {
        return MarkSeen::None;
    };
    marker.listed(text)
}
