//! The next step of one rotation: pure, from its journal, what is asked, what was seen, what people said, and the time.
//!
//! Old and new are valid together from the first step to the last but one, and both are healed meanwhile. Nothing is
//! promoted that was not proven on every server; nothing is retired while anybody is waited for, but by a person's
//! word (R-3, H-22). The same journal with the same sights gives the same step, so whoever comes after a crash goes on.

use std::time::Duration;

use mesh_sdk::Time;
use mesh_sdk::event::EventKind;
use serde::{Deserialize, Serialize};

use super::journal::{Cause, Held, Journal, Seat, Step, Waits, Way};

/// That the time is over must be seen twice, so far apart at most.
const CONFIRM: Duration = Duration::from_secs(600);

/// What the manifest asks.
#[derive(Debug, Clone)]
pub struct Asks {
    /// How old and new can be valid together on this provider.
    pub way: Way,
    /// The login is to be usable.
    pub enabled: bool,
    /// How long a password is in force.
    pub every: Option<Duration>,
    /// Where nobody can say that the new one was taken up: how long the old one stays.
    pub grace: Option<Duration>,
    /// The password is a person's to give.
    pub given: bool,
    /// Why none can be made, if so.
    pub cannot: Option<String>,
}

/// What the servers hold, of what is asked by the journal as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Backend {
    /// All of it, proven on every server.
    AsAsked,
    /// Not all, or it is not known; why.
    NotYet(String),
}

/// What was seen.
#[derive(Debug, Clone)]
pub struct Seen {
    /// On the servers.
    pub backend: Backend,
    /// Another password was given than the newest that is known: the candidate, or the one in force.
    pub given: bool,
    /// The one in force cannot be had any more, on no host.
    pub lost: bool,
    /// Who has not taken the password in force up, and what would help.
    pub outstanding: Vec<(String, String)>,
    /// Somebody can say that it was taken up: there are tables of `deliver`.
    pub delivered: bool,
    /// Writes are paused, until then (H-25).
    pub paused: Option<Time>,
}

/// What people said of it.
#[derive(Debug, Clone, Default)]
pub struct Said {
    /// Give it another one.
    pub begin: Option<Begin>,
    /// About one rotation.
    pub about: Option<About>,
}

/// A person asks for another password.
#[derive(Debug, Clone)]
pub struct Begin {
    /// When it was said.
    pub at: Time,
    /// Not before this.
    pub due: Time,
    /// In the person's words.
    pub reason: String,
}

/// A person's word about one rotation.
#[derive(Debug, Clone)]
pub struct About {
    /// Which.
    pub number: u64,
    /// How often a password had come into force when it was said.
    pub turn: u64,
    /// What.
    pub what: What,
    /// In the person's words.
    pub reason: String,
}

/// What a person may say of a rotation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum What {
    /// The consumer has the new one.
    Taken,
    /// Retire the old one whoever is waited for.
    Force,
    /// Go back to the one before.
    Back,
}

/// A password that must be sealed before anything else happens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Make {
    /// A new one.
    New,
    /// The one that a person gave.
    Given,
}

/// What follows.
#[derive(Debug, Clone)]
pub struct Next {
    /// The journal from now on.
    pub journal: Journal,
    /// A rotation begins: this is sealed, and then [`begin`] says how.
    pub make: Option<(Make, Cause)>,
    /// For the history.
    pub events: Vec<(EventKind, String)>,
}

/// What follows now.
pub fn next(before: &Journal, asks: &Asks, seen: &Seen, said: &Said, now: Time) -> Next {
    let mut next = Next {
        journal: before.clone(),
        make: None,
        events: Vec::new(),
    };
    if let Some(why) = held_back(asks, seen, now) {
        if before.is_under_way() {
            wait_for(&mut next.journal, vec![why], now);
        }
        return next;
    }
    let about = said
        .about
        .as_ref()
        .filter(|about| before.is_under_way() && about.number == before.number);
    match before.step {
        Step::Resting => rest(&mut next, asks, seen, said, now),
        Step::Proving => prove(&mut next, asks, seen, said, about, now),
        Step::Waiting => wait(&mut next, asks, seen, about, now),
        Step::Retiring => retire(&mut next, seen, now),
    }
    next
}

/// Nothing moves while the login is switched off, or writes are paused (H-25).
fn held_back(asks: &Asks, seen: &Seen, now: Time) -> Option<(String, String)> {
    if !asks.enabled {
        let what = "the login is switched off in the manifest".to_owned();
        return Some((what, "`enabled = true`, or without the key".to_owned()));
    }
    let until = seen.paused.filter(|until| *until > now)?;
    let what = format!("writes are paused until {} UTC", until.clock());
    Some((what, "`mesh resume`".to_owned()))
}

fn rest(next: &mut Next, asks: &Asks, seen: &Seen, said: &Said, now: Time) {
    let journal = &mut next.journal;
    journal.waits_on.clear();
    if asks.every.is_some() && journal.counts_from.is_none() {
        journal.counts_from = Some(now);
    }
    let word = said
        .begin
        .as_ref()
        .filter(|begin| journal.asked.is_none_or(|asked| begin.at > asked));
    if asks.given {
        if let Some(begin) = word {
            journal.asked = Some(begin.at);
        }
        if seen.given && asks.cannot.is_none() {
            next.make = Some((Make::Given, Cause::Given));
        }
        return;
    }
    if asks.cannot.is_some() {
        return;
    }
    if let Some(begin) = word.filter(|begin| begin.due <= now) {
        journal.asked = Some(begin.at);
        next.make = Some((Make::New, Cause::Person(begin.reason.clone())));
        return;
    }
    // Without its secret nothing is minted but by a person's word (S-7).
    if !seen.lost && asks.every.is_some_and(|every| is_over(journal, every, now)) {
        next.make = Some((Make::New, Cause::Clock));
    }
}

/// Whether `rotate_every` is over, and was so at a look before: a clock that was set wrong for a moment, at the
/// start of a machine, begins nothing.
fn is_over(journal: &mut Journal, every: Duration, now: Time) -> bool {
    if journal.due(every).is_none_or(|due| now < due) {
        journal.due_seen = None;
        return false;
    }
    match journal.due_seen {
        Some(first) if first <= now => now.since(first) >= CONFIRM.min(every / 10),
        _ => {
            journal.due_seen = Some(now);
            false
        }
    }
}

/// A rotation begins. `current` is the password in force, `None` if it cannot be had any more: then the new one
/// takes its place at once. `made` is sealed on the disk already.
pub fn begin(
    journal: &mut Journal,
    current: Option<Held>,
    made: Held,
    cause: Cause,
    now: Time,
) -> (EventKind, String) {
    journal.number += 1;
    journal.began = Some(now);
    journal.cause = Some(cause.clone());
    journal.due_seen = None;
    journal.forced = None;
    journal.back = false;
    journal.waits_on.clear();
    let number = journal.number;
    if current.is_some() {
        journal.current = current;
        journal.other = Some(made);
        enter(journal, Step::Proving, now);
        return (
            EventKind::Rotating,
            format!("rotation {number} begins: {cause}"),
        );
    }
    journal.current = Some(made);
    journal.other = None;
    promoted(journal, now);
    let text = format!(
        "rotation {number} begins: {cause}; the password before it cannot be had, and is not valid beside it"
    );
    (EventKind::Rotating, text)
}

/// The login for which a candidate is made.
pub fn seat_of_candidate(journal: &Journal, lost: bool) -> Seat {
    match journal.way {
        Way::Turns if !lost => journal.in_use().other(),
        _ => journal.in_use(),
    }
}

fn prove(next: &mut Next, asks: &Asks, seen: &Seen, said: &Said, about: Option<&About>, now: Time) {
    let journal = &mut next.journal;
    // Who asks for another one while it is being made has asked for this one.
    if let Some(begin) = said.begin.as_ref().filter(|begin| begin.due <= now) {
        journal.asked = journal.asked.max(Some(begin.at));
    }
    let back = about.filter(|about| about.what == What::Back && !asks.given);
    let another = (asks.given && seen.given).then(|| "yet another password was given".to_owned());
    if let Some(why) = back.map(|about| about.reason.clone()).or(another) {
        let text = format!("rotation {} is given up: {why}", journal.number);
        journal.back = true;
        enter(journal, Step::Retiring, now);
        return next.events.push((EventKind::Rotating, text));
    }
    match &seen.backend {
        Backend::NotYet(why) => {
            let waits = vec![(
                format!("the new password on {}: {why}", journal.provider),
                String::new(),
            )];
            wait_for(journal, waits, now);
        }
        Backend::AsAsked => {
            std::mem::swap(&mut journal.current, &mut journal.other);
            promoted(journal, now);
            let text = format!(
                "rotation {}: the new password is proven on every server, and in force; the old one is valid too",
                journal.number
            );
            next.events.push((EventKind::Promoted, text));
        }
    }
}

fn promoted(journal: &mut Journal, now: Time) {
    journal.turn += 1;
    journal.counts_from = Some(now);
    enter(journal, Step::Waiting, now);
}

fn wait(next: &mut Next, asks: &Asks, seen: &Seen, about: Option<&About>, now: Time) {
    let journal = &mut next.journal;
    let number = journal.number;
    let word = |what| about.filter(|about| about.what == what);
    if let Some(about) = word(What::Back)
        && journal.other.is_some()
        && !journal.back
        && !asks.given
    {
        std::mem::swap(&mut journal.current, &mut journal.other);
        journal.back = true;
        promoted(journal, now);
        let text = format!(
            "rotation {number} goes back to the old password: {}",
            about.reason
        );
        return next.events.push((EventKind::Promoted, text));
    }
    let taken = word(What::Taken).filter(|about| about.turn == journal.turn);
    let mut outstanding = seen.outstanding.clone();
    if !seen.delivered && taken.is_none() {
        outstanding.extend(nobody_delivers(journal, asks, now));
    }
    if let Some(about) = word(What::Force)
        && !outstanding.is_empty()
    {
        journal.forced = Some(about.reason.clone());
        outstanding.clear();
    }
    // Nothing valid is taken away while what takes its place is not proven just now.
    if let Backend::NotYet(why) = &seen.backend {
        outstanding.push((
            format!("the password in force on {}: {why}", journal.provider),
            String::new(),
        ));
    }
    if !outstanding.is_empty() {
        return wait_for(journal, outstanding, now);
    }
    enter(journal, Step::Retiring, now);
    let who = match &journal.forced {
        Some(reason) => format!("by a person's word: {reason}"),
        None => "nobody is waited for".to_owned(),
    };
    next.events.push((
        EventKind::Rotating,
        format!("rotation {number}: the old password goes; {who}"),
    ));
}

/// Where nothing is delivered, a person says that the consumer has it, or a length of time that a person set.
fn nobody_delivers(journal: &Journal, asks: &Asks, now: Time) -> Option<(String, String)> {
    let help = format!(
        "`mesh ack rotation {}/{} --reason TEXT`",
        journal.provider, journal.consumer
    );
    let until = asks.grace.map(|grace| journal.since + grace);
    match until {
        Some(until) if until <= now => None,
        Some(until) => Some((
            format!("rotate_grace, which ends at {} UTC", until.clock()),
            help,
        )),
        None => {
            let what = format!(
                "a person's word that {} has the new password: nothing is delivered to it",
                journal.consumer
            );
            Some((what, help))
        }
    }
}

fn retire(next: &mut Next, seen: &Seen, now: Time) {
    let journal = &mut next.journal;
    if let Backend::NotYet(why) = &seen.backend {
        let waits = vec![(
            format!(
                "the old password to be gone from {}: {why}",
                journal.provider
            ),
            String::new(),
        )];
        return wait_for(journal, waits, now);
    }
    let gone = match journal.back {
        true => "what was new is valid no more",
        false => "the old password is valid no more",
    };
    let text = format!("rotation {} is finished: {gone}", journal.number);
    enter(journal, Step::Resting, now);
    next.events.push((EventKind::Rotated, text));
}

fn enter(journal: &mut Journal, step: Step, now: Time) {
    journal.step = step;
    journal.since = now;
    journal.waits_on.clear();
}

/// Who is waited for now; who was before is so since then.
fn wait_for(journal: &mut Journal, waits: Vec<(String, String)>, now: Time) {
    let before = std::mem::take(&mut journal.waits_on);
    let (step, number) = (journal.since, waits.len());
    journal.waits_on.reserve(number);
    for (on, unblock) in waits {
        let known = before.iter().find(|one| one.on == on);
        // At the first look of a step whoever is waited for is so since the step began.
        let since = match (known, before.is_empty()) {
            (Some(one), _) => one.since,
            (None, true) => step,
            (None, false) => now,
        };
        journal.waits_on.push(Waits { on, since, unblock });
    }
}

#[cfg(test)]
mod tests;
