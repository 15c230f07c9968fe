//! How far one removal has come, and what it still waits for.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::time::Time;

/// No wait of a failed step is longer.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

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
    /// A whole list did not show it any more, first then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) missing: Option<Time>,
    /// When it was switched off.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub off_at: Option<Time>,
    /// A person let it go by name.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(super) approved: bool,
    /// Why it is left alone although it should go.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left_alone: Option<String>,
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
            missing: None,
            off_at: None,
            approved: false,
            left_alone: None,
            failures: 0,
            not_before: None,
            shown: None,
        }
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
    /// a login that leaves also waits for the grace before it is dropped.
    pub fn until(&self, settings: &Settings) -> Time {
        match self.off_at {
            Some(at) => at + settings.grace,
            None => self.since + settings.remove_after,
        }
    }
    pub(super) fn clamp(&mut self, now: Time) {
        self.since = self.since.not_after(now);
        self.wish_last = self.wish_last.not_after(now);
        self.off_at = self.off_at.map(|at| at.not_after(now));
        self.missing = self.missing.map(|at| at.not_after(now));
        self.listed = self
            .listed
            .map(|(a, b)| (a.not_after(now), b.not_after(now)));
        self.not_before = self.not_before.map(|at| at.not_after(now + LONGEST_WAIT));
    }
    /// A person's word: tried again now, and judged anew. Answers whether there was anything to end.
    pub(super) fn release(&mut self) -> bool {
        let alone = self.left_alone.take().is_some();
        let waited = self.not_before.take().is_some();
        self.failures = 0;
        alone || waited
    }
    /// A whole wish without it was read again. Answers whether that is news to be stored.
    pub(super) fn unwanted_still(&mut self, now: Time, apart: Duration) -> bool {
        let news = self.wish_last < self.since + apart && now > self.wish_last;
        if news {
            self.wish_last = now;
        }
        news
    }
    /// A whole list shows it with our mark. Answers whether that is news to be stored.
    pub(super) fn shown(&mut self, now: Time, enabled: bool, apart: Duration) -> bool {
        self.shown = Some((now, enabled));
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
    /// and the list shows it still.
    pub(super) fn is_sure(&self, now: Time, settings: &Settings, can_list: bool) -> bool {
        let apart = |a: Time, b: Time| b >= a + settings.remove_after;
        let listed = self.listed.is_some_and(|(first, last)| apart(first, last));
        let fresh = |(at, _): (Time, bool)| now.since(at) <= 2 * list_period(settings);
        apart(self.since, self.wish_last) && (!can_list || listed && self.shown.is_some_and(fresh))
    }
}

/// How often the server's logins are listed while something is leaving.
pub(super) fn list_period(settings: &Settings) -> Duration {
    settings.list_every.min(settings.remove_after)
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
