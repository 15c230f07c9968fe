//! What to do about one container or unit: pure, from what is asked, what runs, what is remembered, and the time.
//!
//! The four laws hold here, too. What runs is compared with what is asked, and not with what was made (law 1); the
//! repair makes it as the first time (law 2); nothing is taken away but the container that another one follows, and
//! never a volume (law 3); what cannot be mended is a condition (law 4).

mod reasons;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_sdk::{ProviderName, Time};

use super::record::{Made, Record, State, Why};
use crate::brake::Brake;
use crate::delivery::record::Version;

pub use reasons::Reason;

/// While other credentials are just being brought, other reasons wait for them so long.
const SETTLING: Duration = Duration::from_secs(300);

/// What is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// The digest of what the manifest says; units have none.
    pub digest: Option<String>,
    /// The image on this host.
    pub image: Image,
    /// What was brought to the consumer.
    pub credentials: Credentials,
}

/// The image that is asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Image {
    /// None: a unit.
    Needless,
    /// The id that its name means now.
    Here {
        /// As the manifest names it.
        name: String,
        /// Its id.
        id: String,
    },
    /// It is not on the host; the command that brings it.
    Missing(String),
}

/// What was brought to the consumer on this host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Nothing is asked to be.
    None,
    /// Some of it never was.
    Waits(String),
    /// All of it lies there.
    There {
        /// Of all of it.
        version: Version,
        /// Which providers it is of, each with a sign that changes with it.
        of: BTreeMap<ProviderName, Version>,
        /// The places, for people.
        places: String,
        /// Another version is just being brought.
        settling: bool,
    },
}

/// What runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// Nothing of that name.
    Absent,
    /// Something of that name that is not ours.
    Stranger(String),
    /// It could not be looked at.
    Unknown(String),
    /// It is there.
    There(Seen),
}

/// One that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// The engine's id of it; of a unit its invocation.
    pub id: String,
    /// The digest that it was made with.
    pub asked: Option<String>,
    /// The image that it runs.
    pub image: Option<String>,
    /// The version of the credentials that it was started with.
    pub credentials: Option<Version>,
    /// In what it is not as it was asked for, whatever it says of itself.
    pub by_hand: Vec<&'static str>,
    /// How it stands.
    pub stands: Stands,
}

/// How one that is there stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Stands {
    /// It runs, and is well as far as it tells.
    Running,
    /// It runs, and its health check has not answered yet.
    Starting,
    /// It runs, and its health check fails.
    Unhealthy,
    /// It does not run: how it ended.
    Stopped(String),
}

/// What is settled beside that.
#[derive(Debug, Clone, Copy)]
pub struct Terms {
    /// So long it is waited for more reasons, so that one restart does for all.
    pub window: Duration,
    /// How often things are looked at.
    pub period: Duration,
}

/// The next thing to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Make it, in the place of the one that is there; a unit is restarted.
    Make,
    /// Start the one that is there.
    Start,
}

/// A step, and why: in the record until it was seen to its end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Todo {
    /// What.
    pub step: Step,
    /// Why, for people.
    pub reasons: Vec<String>,
}

/// What is to be done after a look. Notes in the record what the look found.
pub fn step(
    asked: &Asked,
    found: &Found,
    terms: Terms,
    record: &mut Record,
    now: Time,
) -> Option<Todo> {
    record.retired = false;
    let before = std::mem::replace(&mut record.state, state(found));
    let seen = match found {
        Found::Unknown(why) => {
            record.why = Some(Why::Failed(why.clone()));
            return None;
        }
        Found::Stranger(what) => {
            record.why = Some(Why::Taken(what.clone()));
            return None;
        }
        Found::Absent => None,
        Found::There(seen) => Some(seen),
    };
    something_else(asked, record);
    let all = reasons::of(asked, seen, record);
    let Some(seen) = seen.filter(|_| all.is_empty()) else {
        return act(asked, seen, &all, terms, record, now);
    };
    in_order(asked, seen, before, record, now);
    None
}

/// What is asked for anew begins anew: no brake, no delay (H-11).
fn something_else(asked: &Asked, record: &mut Record) {
    if !record.tried.is_empty() && record.tried != sign(asked) {
        record.tried.clear();
        record.brake = Brake::default();
    }
}

/// Tells one way to ask from another.
fn sign(asked: &Asked) -> String {
    let image = match &asked.image {
        Image::Here { id, .. } => id,
        Image::Needless | Image::Missing(_) => "-",
    };
    let version = match &asked.credentials {
        Credentials::There { version, .. } => &version.0,
        Credentials::None | Credentials::Waits(_) => "-",
    };
    let digest = asked.digest.as_deref().unwrap_or("-");
    format!("{digest} {image} {version}")
}

fn act(
    asked: &Asked,
    seen: Option<&Seen>,
    all: &[Reason],
    terms: Terms,
    record: &mut Record,
    now: Time,
) -> Option<Todo> {
    // What was begun is ended for its own reasons: that it is gone or stands still meanwhile is no other one.
    let begun = !record.begun.is_empty();
    let own = |reason: &&Reason| !begun || !reason.is_sudden();
    let mut texts = record.begun.clone();
    for reason in all.iter().filter(own).map(Reason::to_string) {
        if !texts.contains(&reason) {
            texts.push(reason);
        }
    }
    let step = match (seen, all) {
        (Some(_), [Reason::Stopped(_)]) => Step::Start,
        _ => Step::Make,
    };
    if let Some(why) = missing(asked, step) {
        record.why = Some(why);
        return None;
    }
    if !record.brake.is_open(now) {
        return None;
    }
    let sudden = all.iter().any(Reason::is_sudden);
    if !sudden && seen.is_some() && !begun {
        let since = *record.pending.get_or_insert(now);
        let settling = matches!(asked.credentials, Credentials::There { settling, .. } if settling);
        let patience = if settling { SETTLING } else { terms.window };
        if now < since + patience {
            record.why = Some(Why::Soon(texts.join("; ")));
            return None;
        }
    }
    if sudden && !begun && !all.contains(&Reason::New) {
        record.brake.found_changed(now);
    }
    record.tried = sign(asked);
    Some(Todo {
        step,
        reasons: texts,
    })
}

/// What it cannot be made without.
fn missing(asked: &Asked, step: Step) -> Option<Why> {
    if step == Step::Start {
        return None;
    }
    match (&asked.credentials, &asked.image) {
        (_, Image::Missing(command)) => Some(Why::NoImage(command.clone())),
        (Credentials::Waits(what), _) => Some(Why::Waits(what.clone())),
        _ => None,
    }
}

/// It is as asked, whoever made it so.
fn in_order(asked: &Asked, seen: &Seen, before: State, record: &mut Record, now: Time) {
    if !record.begun.is_empty() {
        // It was ended, and that was not told.
        let reasons = std::mem::take(&mut record.begun);
        let same = record.made.as_ref().is_some_and(|made| made.id == seen.id);
        if !same || before == State::Stopped {
            record.recreated_at = Some(now);
            record.reasons = reasons;
        }
    }
    record.pending = None;
    record.made = Some(made(asked, seen));
    match seen.stands {
        Stands::Unhealthy => {
            let after = match record.reasons.is_empty() || !record.brake.repaired {
                true => String::new(),
                false => format!(
                    " since it was restarted, which was because of: {}",
                    record.reasons.join("; ")
                ),
            };
            record.why = Some(Why::Unhealthy(format!("its health check fails{after}")));
        }
        Stands::Starting | Stands::Stopped(_) => {}
        Stands::Running => {
            record.brake.found_in_order(now);
            if record.brake.strikes == 0 {
                record.brake.failures = 0;
                record.why = None;
            }
        }
    }
}

fn made(asked: &Asked, seen: &Seen) -> Made {
    let of = match &asked.credentials {
        Credentials::There { of, .. } => of.clone(),
        Credentials::None | Credentials::Waits(_) => BTreeMap::new(),
    };
    Made {
        id: seen.id.clone(),
        asked: seen.asked.clone(),
        image: seen.image.clone(),
        credentials: seen.credentials.clone(),
        of,
    }
}

fn state(found: &Found) -> State {
    match found {
        Found::Unknown(_) => State::Unknown,
        Found::Stranger(_) => State::Taken,
        Found::Absent => State::Absent,
        Found::There(seen) => match seen.stands {
            Stands::Running => State::Running,
            Stands::Starting => State::Starting,
            Stands::Unhealthy => State::Unhealthy,
            Stands::Stopped(_) => State::Stopped,
        },
    }
}

/// A restart was seen to its end: it is there as asked, however it fares.
pub fn done(asked: &Asked, seen: &Seen, terms: Terms, record: &mut Record, now: Time) {
    record.reasons = std::mem::take(&mut record.begun);
    record.recreated_at = Some(now);
    let mut made = made(asked, seen);
    if let (None, Credentials::There { version, .. }) = (&asked.digest, &asked.credentials) {
        // A unit carries no label: that it was started now is what tells its version.
        made.credentials = Some(version.clone());
    }
    record.made = Some(made);
    record.state = state(&Found::There(seen.clone()));
    record.brake.repaired = true;
    record.pending = None;
    let often = record.brake.repair_ended(terms.period, now);
    record.why = often.map(|times| {
        Why::Braked(format!(
            "it does not stay as it was made: {times} times within the hour; it is restarted less and less often ({})",
            record.reasons.join("; ")
        ))
    });
}

/// A restart failed: it is tried again later and later, at most as seldom as things are looked at.
pub fn failed(why: String, terms: Terms, record: &mut Record, now: Time) {
    record.brake.failed(terms.period, now);
    record.why = Some(Why::Failed(why));
}
