//! What is remembered of one consumer from pass to pass and from process to process (H-24).

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::departure::Departure;
use super::settings::Settings;
use crate::answer::{Differences, Proof};
use crate::error::{Class, Error};
use crate::name::{ConsumerName, Login};
use crate::provision::Digest;
use crate::time::Time;

/// What a harness remembers of one consumer, stored so that the passes of successive processes are one
/// series (H-24). A help, never the truth.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    /// The login that this record speaks of.
    pub login: Login,
    /// What was applied or adopted, and seen held.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied: Option<Digest>,
    /// What was about to be applied; after a crash it says that it may have happened (H-23).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Digest>,
    /// When `applied` was written last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub applied_at: Option<Time>,
    /// The login existed before us and was taken over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub adopted: bool,
    /// The last real answer.
    #[serde(default)]
    pub last: Last,
    /// The server's run under which it was last held, or last applied with success (H-11).
    #[serde(default)]
    pub run: u32,
    /// Since when it cannot be asked, and why (H-7).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unknown: Option<Box<Unknown>>,
    /// An apply succeeded and no check has answered since: the next one is the brake's (H-11).
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub awaiting_check: bool,
    /// How often it was lost again after a successful apply (H-11).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub strikes: u32,
    /// When it was found changed after being held, without a restart: the last four (H-15).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<Time>,
    /// How it differed when it was found changed or lost again: what the conditions of brake and tug of
    /// war name, also while a repair holds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed: Option<Box<str>>,
    /// How far the tug of war has stretched the checks (H-15).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub tug: u32,
    /// Failed creates in a row, and the last one's reason (H-3, H-12).
    #[serde(default, skip_serializing_if = "is_zero")]
    pub failures: u32,
    /// The last failed effect.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<Box<Error>>,
    /// Not asked for before this time: brake, delay, or taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub not_before: Option<Time>,
    /// The wish that met a login which is not ours (H-18).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken: Option<Digest>,
    /// Whose of ours that login is, by its mark: a person may hand it over.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub taken_from: Option<ConsumerName>,
    /// Asked for no more: how far its removal has come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub departure: Option<Box<Departure>>,
    /// Logins that this consumer had before and that still work.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub superseded: Vec<Login>,
    /// Others of its logins that leave: a departure is of a login, not of a consumer.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub others: BTreeMap<Login, Departure>,
    /// Those of the superseded and the others that existed before us.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub elders: Vec<Login>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde hands a reference")]
pub(super) fn is_zero(n: &u32) -> bool {
    *n == 0
}
pub(super) fn is_nobody(n: &usize) -> bool {
    *n == 0
}

/// The last real answer about a consumer.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Last {
    /// None yet.
    #[default]
    Never,
    /// Held, proven so, since then.
    Held {
        /// How it was proven.
        proof: Proof,
        /// Since when it is held without a break.
        since: Time,
        /// What is amiss although it is held.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        warning: Option<Box<str>>,
    },
    /// Lost, since then.
    Lost {
        /// How it differs.
        differences: Differences,
        /// Names of what differs.
        detail: Box<str>,
        /// Since when.
        at: Time,
    },
}

/// Since when and why a consumer cannot be asked.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unknown {
    /// Since when.
    pub since: Time,
    /// The class of the last failure.
    pub class: Class,
    /// Its message.
    pub why: Box<str>,
}

impl Unknown {
    /// A call of the server as a whole failed, again or for the first time. Answers whether that is news
    /// to be stored.
    pub(super) fn note(fails: &mut Option<Box<Unknown>>, now: Time, error: &Error) -> bool {
        let before = fails.take();
        let news = before
            .as_ref()
            .is_none_or(|before| before.class != error.class());
        *fails = Some(Box::new(Unknown {
            since: before.map_or(now, |before| before.since),
            class: error.class(),
            why: error.message().into(),
        }));
        news
    }
}

impl Record {
    /// A record that says nothing yet.
    pub fn new(login: Login) -> Self {
        Self {
            login,
            applied: None,
            intent: None,
            applied_at: None,
            adopted: false,
            last: Last::Never,
            run: 0,
            unknown: None,
            awaiting_check: false,
            strikes: 0,
            changes: Vec::new(),
            changed: None,
            tug: 0,
            failures: 0,
            failed: None,
            not_before: None,
            taken: None,
            taken_from: None,
            departure: None,
            superseded: Vec::new(),
            others: BTreeMap::new(),
            elders: Vec::new(),
        }
    }
    /// A record that says nothing of its login any more, and keeps what it says of its others.
    pub(super) fn without_its_login(&mut self) -> Self {
        Self {
            superseded: std::mem::take(&mut self.superseded),
            others: std::mem::take(&mut self.others),
            elders: std::mem::take(&mut self.elders),
            ..Self::new(self.login.clone())
        }
    }
    /// Every login of this consumer that leaves, and how far that has come.
    pub fn departures(&self) -> impl Iterator<Item = (&Login, &Departure)> {
        let own = self.departure.as_deref().map(|d| (&self.login, d));
        own.into_iter().chain(&self.others)
    }
    pub(super) fn departures_mut(&mut self) -> impl Iterator<Item = (&Login, &mut Departure)> {
        let own = self.departure.as_deref_mut().map(|d| (&self.login, d));
        own.into_iter().chain(&mut self.others)
    }
    /// How far the departure of one of its logins has come, if it leaves.
    pub fn departure_of(&self, login: &Login) -> Option<&Departure> {
        match &self.departure {
            Some(departure) if self.login == *login => Some(departure),
            _ => self.others.get(login),
        }
    }
    pub(super) fn departure_of_mut(&mut self, login: &Login) -> Option<&mut Departure> {
        match &mut self.departure {
            Some(departure) if self.login == *login => Some(departure),
            _ => self.others.get_mut(login),
        }
    }
    /// Whether any login of this consumer leaves.
    pub fn leaves(&self) -> bool {
        self.departure.is_some() || !self.others.is_empty()
    }
    /// Whether one of its logins existed before us: then only a person lets it go.
    pub fn is_elder(&self, login: &Login) -> bool {
        self.adopted && self.login == *login || self.elders.contains(login)
    }
    /// Ends brake, tug, delay and "taken": a changed wish or a person's word did (H-3, H-11). Answers
    /// whether there was anything to end.
    pub(super) fn release(&mut self) -> bool {
        let before = (self.awaiting_check, self.strikes, self.tug, self.failures);
        let stood = before != (false, 0, 0, 0)
            || !self.changes.is_empty()
            || self.failed.is_some()
            || self.not_before.is_some()
            || self.taken.is_some();
        self.awaiting_check = false;
        self.strikes = 0;
        self.tug = 0;
        self.changes.clear();
        self.changed = None;
        self.failures = 0;
        self.failed = None;
        self.not_before = None;
        self.taken = None;
        self.taken_from = None;
        stood
    }
    /// Forgets that it was held, and keeps that the login is ours: it was switched off on purpose, and
    /// is to be applied again without that being a loss.
    pub(super) fn apply_again(&mut self) {
        if let Some(applied) = self.applied.take() {
            self.intent = Some(applied);
        }
        self.last = Last::Never;
    }
    /// Whose a login is that was left alone, for people.
    pub fn taken_words(&self, consumer: &ConsumerName) -> String {
        let login = self.login.as_str().escape_debug();
        match &self.taken_from {
            Some(former) if former == consumer => {
                format!("the login `{login}` is this consumer's under another provider's name")
            }
            Some(former) => format!("the login `{login}` is `{former}`'s, of this mesh"),
            None => format!("the login `{login}` exists and is not ours"),
        }
    }
    /// Whether one of this consumer's logins, now or before, is this one.
    pub fn had(&self, login: &Login) -> bool {
        self.claims(login) || self.superseded.contains(login) || self.departure_of(login).is_some()
    }
    /// Whether it is braked: lost again after success, or in a tug of war.
    pub fn is_braked(&self) -> bool {
        self.strikes > 0 || self.tug > 0
    }
    /// How long its checks wait at most: an hour where the login is not ours, doubling while braked.
    pub(super) fn wait(&self, settings: &Settings) -> Duration {
        match self.strikes.max(self.tug) {
            _ if self.taken.is_some() => super::settings::BRAKE_MAX,
            0 => Duration::ZERO,
            times => super::brake::check_interval(settings, times),
        }
    }
    /// Whether the record says that this login is ours (H-18).
    pub fn claims(&self, login: &Login) -> bool {
        self.login == *login && (self.applied.is_some() || self.intent.is_some() || self.adopted)
    }
    /// Stamps from the future count as now (O-37).
    pub(super) fn clamp(&mut self, now: Time, settings: &Settings) {
        let longest = super::settings::BRAKE_MAX.max(settings.verify_every);
        self.applied_at = self.applied_at.map(|at| at.not_after(now));
        self.not_before = self.not_before.map(|at| at.not_after(now + longest));
        self.changes
            .iter_mut()
            .for_each(|at| *at = at.not_after(now));
        if let Some(unknown) = &mut self.unknown {
            unknown.since = unknown.since.not_after(now);
        }
        match &mut self.last {
            Last::Never => {}
            Last::Held { since: at, .. } | Last::Lost { at, .. } => *at = at.not_after(now),
        }
        for (_, departure) in self.departures_mut() {
            departure.clamp(now);
        }
    }
}
