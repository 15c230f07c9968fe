//! How far one removal has come, and what it still waits for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::error::Error;
use crate::time::Time;

/// No wait of a failed step is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

/// A use in the moment of switching off is no use after it.
const SETTLES: Duration = Duration::from_secs(5);
/// A use that is newer by less is the same one, told in other seconds.
const NEWS: Duration = Duration::from_secs(2);

/// That a login which leaves was used, or that somebody tried to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Used {
    /// When, by our clock.
    pub at: Time,
    /// How, for people.
    pub how: Box<str>,
}

/// How far a removal has come.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Departure {
    /// Since when it is asked for no more.
    pub since: Time,
    /// A whole wish without it was read again then. It moves only until that is long enough ago.
    wish_last: Time,
    /// A whole list that shows it with our mark was read then, first and again.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) listed: Option<(Time, Time)>,
    /// No login of ours proved those lists: they count only together with a person's word.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) unproven: bool,
    /// A whole list did not show it any more, first then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<Time>,
    /// When it was switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_at: Option<Time>,
    /// A person let it go by name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) approved: bool,
    /// A person retired it although its consumer is asked for, under another login.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub retired: bool,
    /// Its last use that the server told of, while it leaves or is off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub used: Option<Box<Used>>,
    /// Why it is left alone although it should go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_alone: Option<String>,
    /// Its last step's failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) failed: Option<Box<Error>>,
    /// Failed steps in a row.
    #[serde(default, skip_serializing_if = "super::record::is_zero")]
    pub(super) failures: u32,
    /// Not tried before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) not_before: Option<Time>,
    /// When a list of this process showed it with our mark, and whether it could be used then.
    #[serde(skip)]
    pub(super) shown: Option<(Time, bool)>,
}

/// The steps of a removal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Still usable; shown as leaving.
    Leaving,
    /// Switched off, its sessions ended.
    Off,
}

impl Departure {
    pub(super) fn new(now: Time) -> Self {
        Self {
            since: now,
            wish_last: now,
            listed: None,
            unproven: false,
            missing: None,
            off_at: None,
            approved: false,
            retired: false,
            used: None,
            left_alone: None,
            failed: None,
            failures: 0,
            not_before: None,
            shown: None,
        }
    }
    /// It begins to leave now, whatever came before. One that is off stays off for the whole grace.
    pub(super) fn anew(&mut self, now: Time) {
        *self = Self {
            off_at: self.off_at.map(|_| now),
            retired: self.retired,
            used: self.used.take(),
            ..Self::new(now)
        };
    }
    /// Where it stands.
    pub fn phase(&self) -> Phase {
        if self.off_at.is_some() {
            Phase::Off
        } else {
            Phase::Leaving
        }
    }
    /// Until when it stays in this phase at least, where the adapter can switch off. Where it cannot,
    /// a login that leaves also waits for the grace before it is dropped. A use makes the grace begin
    /// anew.
    pub fn until(&self, settings: &Settings) -> Time {
        match self.off_at {
            Some(at) => self.used_since().map_or(at, |used| used.at.max(at)) + settings.grace,
            None => self.since + settings.remove_after,
        }
    }
    /// Whether a person let it go by name.
    pub fn is_approved(&self) -> bool {
        self.approved
    }
    /// When it may be dropped.
    pub(super) fn dropped_at(&self, settings: &Settings, can_disable: bool) -> Time {
        let until = self.until(settings);
        if can_disable || self.off_at.is_some() {
            return until;
        }
        self.used_since().map_or(until, |used| used.at.max(until)) + settings.grace
    }
    /// Its last use since it was switched off, or since it leaves.
    pub fn used_since(&self) -> Option<&Used> {
        let from = self.uses_count_from();
        self.used.as_deref().filter(|used| used.at > from)
    }
    fn uses_count_from(&self) -> Time {
        self.off_at.map_or(self.since, |at| at + SETTLES)
    }
    /// The server tells of a use. Answers whether that is news to be stored.
    pub(super) fn note_use(&mut self, at: Time, how: &str) -> bool {
        let known = self.used_since().map(|used| used.at);
        let from = known.map_or(self.uses_count_from(), |at| at + NEWS);
        if at <= from {
            return false;
        }
        let how = how.into();
        self.used = Some(Box::new(Used { at, how }));
        true
    }
    pub(super) fn clamp(&mut self, now: Time) {
        self.since = self.since.not_after(now);
        self.wish_last = self.wish_last.not_after(now);
        self.off_at = self.off_at.map(|at| at.not_after(now));
        self.missing = self.missing.map(|at| at.not_after(now));
        if let Some(used) = &mut self.used {
            used.at = used.at.not_after(now);
        }
        self.listed = self
            .listed
            .map(|(a, b)| (a.not_after(now), b.not_after(now)));
        self.not_before = self.not_before.map(|at| at.not_after(now + LONGEST_WAIT));
    }
    /// A person's word: tried again now, and judged anew. Answers whether there was anything to end.
    pub(super) fn release(&mut self) -> bool {
        let alone = self.left_alone.take().is_some();
        let waited = self.not_before.take().is_some();
        let failed = self.failed.take().is_some();
        self.failures = 0;
        alone || waited || failed
    }
    /// A whole wish without it was read again. Answers whether that is news to be stored.
    pub(super) fn unwanted_still(&mut self, now: Time, apart: Duration) -> bool {
        let news = self.wish_last < self.since + apart && now > self.wish_last;
        if news {
            self.wish_last = now;
        }
        news
    }
    /// A list shows it with our mark. Answers whether that is news to be stored.
    pub(super) fn shown(
        &mut self,
        now: Time,
        enabled: bool,
        apart: Duration,
        proven: bool,
    ) -> bool {
        self.shown = Some((now, enabled));
        if proven && std::mem::take(&mut self.unproven) {
            self.listed = None;
        }
        self.unproven |= !proven && self.listed.is_none();
        let back = self.missing.take().is_some();
        self.left_alone = None;
        match &mut self.listed {
            Some((first, last)) if *last < *first + apart => *last = now,
            Some(_) => return back,
            none => *none = Some((now, now)),
        }
        true
    }
    /// Both the wish and (where the adapter can list) the list were read whole twice, this far apart
    ///
    pub(super) fn is_sure(&self, settings: &Settings, can_list: bool) -> bool {
        let apart = |a: Time, b: Time| b >= a + settings.remove_after;
        let listed = self.listed.is_some_and(|(first, last)| apart(first, last));
        apart(self.since, self.wish_last) && (!can_list || listed)
    }
    /// Whether a list of this pass, which began then, shows it with our mark; and whether it could be
    /// used then.
    pub(super) fn shown_since(&self, began: Time) -> Option<bool> {
        let (at, enabled) = self.shown?;
        (at >= began).then_some(enabled)
    }
}

/// How often the server's logins are listed: more often while something is leaving.
pub(super) fn list_period(settings: &Settings, leaving: bool) -> Duration {
    if leaving {
        settings.list_every.min(settings.remove_after)
    } else {
        settings.list_every
    }
}

impl Departure {
    /// No list told anything about it yet.
    pub(super) fn was_never_listed(&self) -> bool {
        self.listed.is_none() && self.missing.is_none() && self.left_alone.is_none()
    }
    /// Usable still, and it would go without a person's word.
    pub(super) fn goes_by_itself(&self) -> bool {
        self.phase() == Phase::Leaving && !self.approved && self.left_alone.is_none()
    }
}
