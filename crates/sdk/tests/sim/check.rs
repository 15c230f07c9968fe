//! The judge: it watches what the driver really did, keeps its own books, and knows nothing of the core.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mesh_sdk::Time;

use crate::backend::{Account, CANARY, Mark};

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
    /// Taken away although part of the wish could not be read.
    RemovedOnBrokenWish,
    /// Taken away without a whole list, with our own login in it, that showed it twice, far enough apart.
    RemovedUnlisted,
    /// Taken away without a person's word, where nothing proves a list.
    RemovedUnproven,
    /// Dropped before the grace was over since its last use.
    DroppedInUse,
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
    /// Whole lists that showed a login with our mark: the first, and the newest.
    shown: BTreeMap<(String, String), (Time, Time)>,
    /// What this pass heard of lists: whether there was one that proves something.
    listed: bool,
    /// The adapter can list; our own login is asked for.
    pub(crate) lists: (bool, bool),
    /// What a person retired.
    retired: BTreeSet<(String, String)>,
    /// When a login was switched off.
    off: BTreeMap<(String, String), Time>,
    /// Logins that others ask for on this server; and whether the wish was read whole.
    elsewhere: BTreeSet<String>,
    partial: bool,
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
                    *since = (since.0.min(now), self.epoch + 1);
                }
            }
        }
        self.timed_out = false;
        self.epoch += usize::from(jumped);
        if records_lost || jumped {
            self.removed.clear();
        }
        if jumped {
            // A stamp from the future counts as now.
            for (first, last) in self.shown.values_mut() {
                *first = (*first).min(now);
                *last = (*last).min(now);
            }
            self.off.values_mut().for_each(|at| *at = (*at).min(now));
        }
        self.records_lost |= records_lost;
    }
    /// Somebody of whom no wish told yet.
    pub(crate) fn meet(&mut self, consumer: &str) {
        self.of(consumer);
    }
    /// A wish was read: whether part of it could not be, and what others ask for on this server.
    pub(crate) fn around(&mut self, partial: bool, elsewhere: &BTreeSet<String>) {
        self.partial = partial;
        self.elsewhere.clone_from(elsewhere);
    }
    /// The backend listed these, with our mark for these consumers, in a list that is whole and has our
    /// own login in it.
    pub(crate) fn lists(&mut self, now: Time, ours: &[(String, String)]) {
        self.listed = true;
        for one in ours {
            let (_, last) = self.shown.entry(one.clone()).or_insert((now, now));
            *last = now;
        }
    }
    /// A person retires a login.
    pub(crate) fn retires(&mut self, consumer: &str, login: &str) {
        self.retired.insert((consumer.to_owned(), login.to_owned()));
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
            self.retired.retain(|(c, l)| c != consumer || l != login);
        }
        for consumer in kept {
            rest.remove(consumer);
            self.of(consumer).absent_since = None;
        }
        self.kept = kept.iter().cloned().collect();
        if self.partial {
            // Whom it names where nobody can read it: it says nothing of the others.
            return;
        }
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
        self.listed = false;
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
        let one = (consumer.to_owned(), login.to_owned());
        let retired = self.retired.contains(&one);
        let named = self.wanted.values().any(|(l, _)| l == login)
            || self.elsewhere.contains(login)
            || self.lists.1 && login == CANARY;
        let asked = self.wanted.contains_key(consumer) && !retired;
        if named || asked || self.kept.contains(consumer) {
            self.say(
                Broken::RemovedWanted,
                format!("{login} of {consumer} at {now:?}"),
            );
        }
        if self.partial {
            self.say(
                Broken::RemovedOnBrokenWish,
                format!("{login} of {consumer}"),
            );
        }
        let (lists, guarded) = self.lists;
        let seen = self.shown.get(&one).copied();
        let twice = seen.is_some_and(|(first, last)| last >= first + remove_after);
        if lists && guarded && !(twice && self.listed) {
            let words = format!("{login} of {consumer}: {seen:?}, now {}", self.listed);
            self.say(Broken::RemovedUnlisted, words);
        }
        if lists && !guarded && !self.approved.contains(&one) && !retired {
            self.say(Broken::RemovedUnproven, format!("{login} of {consumer}"));
        }
        self.off.insert(one.clone(), now);
        let (epoch, known) = (self.epoch, self.known.get(consumer));
        let read = known.and_then(|k| k.absent_since.zip(k.last_read));
        let early = match read {
            None => !self.records_lost,
            Some(((since, e), last)) => e == epoch && last < since + remove_after,
        };
        if early && !self.records_lost && !retired {
            self.say(Broken::RemovedEarly, format!("{consumer}: {read:?}"));
        }
        let ours = account.is_none_or(|a| matches!(&a.mark, Mark::Ours(o) if o == consumer));
        let elder = account.is_some_and(|a| a.elder) && !self.records_lost;
        let approved = self.approved.contains(&one) || retired;
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
    /// A login is dropped; when it was used last.
    pub(crate) fn drops(
        &mut self,
        consumer: &str,
        login: &str,
        now: Time,
        grace: Duration,
        used: Option<Time>,
    ) {
        let one = (consumer.to_owned(), login.to_owned());
        let off = self.off.get(&one).copied();
        // What is a few seconds apart may be one use.
        let slack = Duration::from_secs(8);
        let counts = used.filter(|at| off.is_some_and(|off| *at > off + slack));
        if let Some(at) = counts
            && now + slack < at + grace
        {
            self.say(
                Broken::DroppedInUse,
                format!("{login}: used {at:?}, now {now:?}"),
            );
        }
    }
    /// A login is gone, or in use again: an approval for it is used up.
    pub(crate) fn approval_ends(&mut self, consumer: &str, login: &str) {
        let other = |one: &(String, String)| one.0 != consumer || one.1 != login;
        self.approved.retain(other);
        self.gone.retain(other);
        self.shown.retain(|one, _| other(one));
        self.off.retain(|one, _| other(one));
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
