//! The judge: it watches what the driver really did, keeps its own books, and knows nothing of the core.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mesh_sdk::Time;

use crate::backend::{Account, Mark};

const HOUR: Duration = Duration::from_secs(3600);
/// Successful re-applies of one consumer within an hour that nothing explains (H-11, H-15): four before
/// a tug of war shows, then 1, 2, 4 … minutes apart.
const MOST_REAPPLIES: usize = 13;

/// A rule that was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Broken {
    /// Something was applied that was not lost, new or changed.
    AppliedWithoutLoss,
    /// Something was written for a consumer that could not be asked.
    WroteAfterUnknown,
    /// Somebody was asked after a time-out.
    AskedAfterTimeout,
    /// Applied again and again.
    NotBraked,
    /// Not asked for too many passes.
    Starved,
    /// A login that is not ours was changed or taken away.
    TookOver,
    /// A password was minted for a consumer that is not new.
    MintedTwice,
    /// A login that a wish names was taken away.
    RemovedWanted,
    /// Taken away before the wish was read twice, far enough apart.
    RemovedEarly,
    /// More taken away than the brake lets through, without a person's word.
    RemovedTooMany,
    /// Written on a server that nobody approved.
    WroteOnChangedServer,
    /// Written while paused.
    WroteWhilePaused,
    /// In trouble for long, and no fact says so.
    SilentTrouble,
    /// A condition was cleared without a look.
    ClearedUnseen,
    /// Not held although nothing is in the way any more.
    NotConverged,
    /// Well, and still something is done, stored or told.
    NotQuiet,
}

/// What a look said, as the backend gave it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Heard {
    /// Held.
    Held,
    /// Lost.
    Lost,
    /// The call failed.
    Unknown,
    /// The call hung.
    Hung,
}

/// What the judge knows of one consumer.
#[derive(Debug, Clone, Default)]
struct Known {
    heard: Option<Heard>,
    /// Successful applies of this wish on this run of the server, with no word in between.
    reapplied: Vec<Time>,
    /// For adapters that cannot look: the wish that was applied and not invalidated since.
    trusted: Option<u64>,
    planned_in_vain: usize,
    absent_since: Option<(Time, usize)>,
    last_read: Option<Time>,
    trouble_since: Option<Time>,
}

/// The judge.
#[derive(Debug, Default)]
pub(crate) struct Checker {
    /// What was broken, with words.
    pub(crate) broken: Vec<(Broken, String)>,
    known: BTreeMap<String, Known>,
    wanted: BTreeMap<String, (String, u64)>,
    kept: BTreeSet<String>,
    timed_out: bool,
    /// The clock was moved: stamps cannot be compared with earlier ones.
    epoch: usize,
    removed: Vec<Time>,
    approved: BTreeSet<(String, String)>,
    gone: BTreeSet<(String, String)>,
    /// Records were lost or put back: what only they knew cannot be demanded.
    pub(crate) records_lost: bool,
}

impl Checker {
    fn say(&mut self, what: Broken, words: String) {
        self.broken.push((what, words));
    }
    fn of(&mut self, consumer: &str) -> &mut Known {
        self.known.entry(consumer.to_owned()).or_default()
    }

    /// A process begins.
    pub(crate) fn process(&mut self, now: Time, records_lost: bool, jumped: bool) {
        for known in self.known.values_mut() {
            known.trusted = None;
            if records_lost {
                known.reapplied.clear();
                known.planned_in_vain = 0;
                known.absent_since = None;
                known.trouble_since = None;
            }
            if jumped {
                known.trouble_since = None;
                known.reapplied.clear();
                // A stamp from the future counts as now.
                if let Some(since) = &mut known.absent_since {
                    *since = (now, self.epoch + 1);
                }
            }
        }
        self.timed_out = false;
        self.epoch += usize::from(jumped);
        if records_lost || jumped {
            self.removed.clear();
        }
        self.records_lost |= records_lost;
    }
    /// A whole wish was read: consumer, login, digest; and the consumers that it names and keeps.
    pub(crate) fn wish(&mut self, now: Time, wanted: &[(String, String, u64)], kept: &[String]) {
        let epoch = self.epoch;
        let mut rest: BTreeSet<String> = self.known.keys().cloned().collect();
        for (consumer, login, digest) in wanted {
            rest.remove(consumer);
            let asked = (login.clone(), *digest);
            let known = self.known.entry(consumer.clone()).or_default();
            known.absent_since = None;
            if self.wanted.get(consumer) != Some(&asked) {
                known.reapplied.clear();
                known.trouble_since = None;
            }
            self.wanted.insert(consumer.clone(), asked);
        }
        for consumer in kept {
            rest.remove(consumer);
            self.of(consumer).absent_since = None;
        }
        self.kept = kept.iter().cloned().collect();
        for consumer in rest {
            self.wanted.remove(&consumer);
            let known = self.of(&consumer);
            let since = known.absent_since.filter(|(_, e)| *e == epoch);
            known.absent_since = since.or(Some((now, epoch)));
            known.last_read = Some(now);
            known.trouble_since = None;
            known.planned_in_vain = 0;
        }
    }
    /// A person's word for one or all.
    pub(crate) fn word(&mut self, consumer: Option<&str>) {
        for (name, known) in &mut self.known {
            if consumer.is_none_or(|c| c == name) {
                known.reapplied.clear();
                known.trusted = None;
            }
        }
    }
    /// The server restarted, or is another one: losses are explained.
    pub(crate) fn server_restarted(&mut self) {
        for known in self.known.values_mut() {
            known.reapplied.clear();
            known.trusted = None;
        }
    }
    /// A person lets exactly these go.
    pub(crate) fn approved(&mut self, these: BTreeSet<(String, String)>) {
        self.approved.extend(these);
    }

    /// A pass begins, and plans to ask these.
    pub(crate) fn pass(&mut self) {
        self.timed_out = false;
        for known in self.known.values_mut() {
            known.heard = None;
        }
    }
    /// The backend was asked.
    pub(crate) fn heard(&mut self, consumer: &str, heard: Heard) {
        if self.timed_out {
            self.say(
                Broken::AskedAfterTimeout,
                format!("{consumer} after a time-out"),
            );
        }
        self.timed_out |= heard == Heard::Hung;
        let known = self.of(consumer);
        known.heard = Some(heard);
        known.planned_in_vain = 0;
    }
    /// It was planned and not asked.
    pub(crate) fn in_vain(&mut self, consumer: &str, most: usize) {
        let known = self.of(consumer);
        known.planned_in_vain += 1;
        if known.planned_in_vain > most {
            let passes = known.planned_in_vain;
            self.say(Broken::Starved, format!("{consumer} for {passes} passes"));
        }
    }

    /// A step is about to write: is it allowed at all?
    pub(crate) fn writes(&mut self, consumer: &str, paused: bool, changed_server: bool) {
        if paused {
            self.say(Broken::WroteWhilePaused, consumer.to_owned());
        }
        if changed_server {
            self.say(Broken::WroteOnChangedServer, consumer.to_owned());
        }
        if let Some(heard @ (Heard::Unknown | Heard::Hung)) = self.of(consumer).heard {
            self.say(
                Broken::WroteAfterUnknown,
                format!("{consumer} was {heard:?}"),
            );
        }
    }
    /// A password is minted.
    pub(crate) fn mints(&mut self, consumer: &str, store_has_one: bool, marked: bool) {
        if store_has_one || marked {
            let words = format!("{consumer}: store {store_has_one}, marked login {marked}");
            self.say(Broken::MintedTwice, words);
        }
    }
    /// Whether a login that is there may be written: a mark, our history or the password says so.
    pub(crate) fn create_on(
        &mut self,
        consumer: &str,
        before: Option<&Account>,
        ever_ours: bool,
        fits: bool,
        adopt: bool,
    ) {
        let Some(account) = before else { return };
        let allowed = match &account.mark {
            Mark::Ours(owner) if owner == consumer => true,
            Mark::Foreign => adopt && fits,
            _ => ever_ours || fits,
        };
        if !allowed {
            self.say(Broken::TookOver, format!("{consumer}: {account:?}"));
        }
    }
    /// `create` was called.
    pub(crate) fn created(&mut self, consumer: &str, now: Time, ok: bool, can_look: bool) {
        let wanted = self.wanted.get(consumer).map(|(_, digest)| *digest);
        let known = self.of(consumer);
        let (heard, trusted) = (known.heard, known.trusted);
        if can_look && heard != Some(Heard::Lost) {
            self.say(
                Broken::AppliedWithoutLoss,
                format!("{consumer} was {heard:?}"),
            );
        }
        if !can_look && trusted.is_some() && trusted == wanted {
            self.say(
                Broken::AppliedWithoutLoss,
                format!("{consumer} was trusted"),
            );
        }
        if !ok {
            return;
        }
        let known = self.of(consumer);
        known.trusted = wanted;
        known.reapplied.retain(|at| now.since(*at) < HOUR);
        known.reapplied.push(now);
        let count = known.reapplied.len();
        if count > MOST_REAPPLIES {
            self.say(
                Broken::NotBraked,
                format!("{consumer} {count} times in an hour"),
            );
        }
    }

    /// A login is taken away: switched off, or dropped without having been switched off before.
    pub(crate) fn takes_away(
        &mut self,
        consumer: &str,
        login: &str,
        now: Time,
        remove_after: Duration,
        account: Option<&Account>,
    ) {
        let named = self.wanted.values().any(|(l, _)| l == login);
        if named || self.wanted.contains_key(consumer) || self.kept.contains(consumer) {
            self.say(
                Broken::RemovedWanted,
                format!("{login} of {consumer} at {now:?}"),
            );
        }
        let (epoch, known) = (self.epoch, self.known.get(consumer));
        let read = known.and_then(|k| k.absent_since.zip(k.last_read));
        let early = match read {
            None => !self.records_lost,
            Some(((since, e), last)) => e == epoch && last < since + remove_after,
        };
        if early && !self.records_lost {
            self.say(Broken::RemovedEarly, format!("{consumer}: {read:?}"));
        }
        let ours = account.is_none_or(|a| matches!(&a.mark, Mark::Ours(o) if o == consumer));
        let elder = account.is_some_and(|a| a.elder) && !self.records_lost;
        let approved = self
            .approved
            .contains(&(consumer.to_owned(), login.to_owned()));
        if !ours || elder && !approved {
            self.say(Broken::TookOver, format!("{consumer}: took {account:?}"));
        }
        // One that is switched off again, since somebody switched it on, is one removal.
        let again = !self.gone.insert((consumer.to_owned(), login.to_owned()));
        if approved || again {
            return;
        }
        self.removed.retain(|at| now.since(*at) < HOUR);
        self.removed.push(now);
        let (count, left) = (
            self.removed.len(),
            self.wanted
                .keys()
                .chain(&self.kept)
                .collect::<BTreeSet<_>>()
                .len(),
        );
        let before = count + left;
        if count > 3.max(before / 10) || count * 2 > before || left == 0 {
            self.say(
                Broken::RemovedTooMany,
                format!("{count} of {before} within an hour"),
            );
        }
    }
    /// A login is gone, or in use again: an approval for it is used up.
    pub(crate) fn approval_ends(&mut self, consumer: &str) {
        self.approved.retain(|(c, _)| c != consumer);
        self.gone.retain(|(c, _)| c != consumer);
    }

    /// How a consumer stands after a pass, and whether any fact covers it.
    pub(crate) fn stands(
        &mut self,
        consumer: &str,
        now: Time,
        fine: bool,
        told: bool,
        patience: Duration,
    ) {
        let known = self.of(consumer);
        if fine || told {
            known.trouble_since = None;
            return;
        }
        let since = *known.trouble_since.get_or_insert(now);
        if now.since(since) > patience {
            let words = format!("{consumer} since {since:?}");
            self.say(Broken::SilentTrouble, words);
        }
    }
    /// A condition about a consumer was cleared as seen gone.
    pub(crate) fn cleared(&mut self, consumer: &str, can_look: bool) {
        let heard = self.of(consumer).heard;
        if can_look && !matches!(heard, Some(Heard::Held | Heard::Lost)) {
            self.say(Broken::ClearedUnseen, format!("{consumer}: {heard:?}"));
        }
    }
    /// After all faults are over.
    pub(crate) fn in_the_end(&mut self, what: Broken, words: String) {
        self.say(what, words);
    }
}
