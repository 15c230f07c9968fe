//! Tasks: conditions as they are handed to agents (C-6, C-7).
//!
//! A task is no thing of its own. It follows from conditions that stand and from what agents said about
//! them ([`Handled`]): wiped or put back from an older copy, the next look makes it anew. An agent's "done"
//! changes nothing but that its owner looks again; the owner's look decides.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::condition::{Condition, ConditionType, Severity, Status};
use crate::time::Time;

/// More conditions of one owner and type than this are one task.
const ALIKE: usize = 10;
/// So many subjects of a folded task are named.
const NAMED: usize = 10;
/// A task that so many attempts did not help is a person's.
pub const ATTEMPTS: u32 = 3;
/// What an agent said is kept so often, the newest.
const KEPT: usize = 5;
/// The longest evidence and note, in characters.
const LONGEST_TEXT: usize = 500;

/// The end of an attempt, in the agent's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    /// It should be well now: the owner looks again.
    Done,
    /// It could not.
    Failed,
    /// A person must decide.
    Person,
}

/// What an agent said at the end of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// When.
    pub at: Time,
    /// Which agent.
    pub by: String,
    /// How it ended.
    pub outcome: Outcome,
    /// In the agent's words; data, never believed.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// An agent works on it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Known to the agent alone: whoever has another one is told so, and nothing is written.
    pub token: String,
    /// Which agent.
    pub by: String,
    /// Until when; then it is anybody's again.
    pub until: Time,
}

/// What agents said about one task, as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Handled {
    /// The task's id.
    pub task: String,
    /// The owner of the conditions, which looks again when it is done.
    pub owner: String,
    /// What the one condition is about; none where it stands for many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub subject: Option<String>,
    /// When its first attempt began. Conditions that were raised later are another task.
    pub begun: Time,
    /// Attempts that began.
    pub attempts: u32,
    /// Who works on it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// What was said, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub reports: Vec<Report>,
}

/// How a task stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// Anybody may take it.
    Open,
    /// Somebody works on it.
    Claimed,
    /// An agent says that it is done, and its owner has not looked since.
    Verifying,
    /// Attempts did not help, or an agent said so: a person's.
    Person,
}

/// One task, as an agent is given it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Task {
    /// Short, and the same for as long as it stands.
    pub id: String,
    /// The conditions' type.
    #[serde(rename = "type")]
    pub kind: ConditionType,
    /// How much they matter.
    pub severity: Severity,
    /// Who raised them and looks again.
    pub owner: String,
    /// What they are about; of many, the first ten.
    pub subjects: Vec<String>,
    /// How many conditions it stands for.
    pub count: usize,
    /// What the type means.
    pub meaning: &'static str,
    /// What can be done.
    pub action: String,
    /// What the owner says. It may quote a backend: data, never an instruction.
    pub evidence: String,
    /// Since when the oldest stands.
    pub since: Time,
    /// How it stands.
    pub stage: Stage,
    /// Who works on it, until when.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Until when it is theirs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Attempts that began.
    pub attempts: u32,
    /// What agents said before, oldest first.
    pub reports: Vec<Report>,
}

/// Why an agent's word was not taken.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotTaken {
    /// Somebody else has it.
    #[error("{by} works on it")]
    Claimed {
        /// Who.
        by: String,
        /// Until when.
        until: Time,
    },
    /// The owner looks first, or a person must.
    #[error("{0}")]
    NotOpen(&'static str),
    /// The token is an older one, or none was given out.
    #[error("this claim is over: the task is somebody else's or open again")]
    Over,
}

/// A condition with what people said about it.
#[derive(Debug, Clone, Copy)]
pub struct Standing<'c> {
    /// The condition.
    pub condition: &'c Condition,
    /// Silenced or acknowledged: a person knows of it, and no agent is asked.
    pub known: bool,
}

/// The tasks that follow from what stands, worst and oldest first. `id` makes a short id of a text.
///
/// Left out is what nobody needs to act on: info, what a person knows of, what its owner cannot tell just
/// now, and what lies under a larger trouble of the same provider (C-6). More than ten alike are one.
pub fn tasks(
    standing: &[Standing<'_>],
    handled: &BTreeMap<String, Handled>,
    now: Time,
    id: impl Fn(&str) -> String,
) -> Vec<Task> {
    let covering: Vec<&Condition> = standing
        .iter()
        .map(|one| one.condition)
        .filter(|c| c.status == Status::True && covers(c.id.kind))
        .collect();
    let mut groups: BTreeMap<(&str, ConditionType), Vec<&Condition>> = BTreeMap::new();
    for one in standing {
        let c = one.condition;
        let asks = c.status == Status::True && c.severity > Severity::Info && !one.known;
        if asks && !covering.iter().any(|parent| lies_under(c, parent)) {
            groups.entry((&c.id.owner, c.id.kind)).or_default().push(c);
        }
    }
    let mut all = Vec::new();
    for ((owner, kind), members) in groups {
        if members.len() > ALIKE {
            let name = id(&format!("{owner} {kind}"));
            all.push(task(name, &members, handled, now));
            continue;
        }
        for one in members {
            let name = id(&format!("{owner} {kind} {}", one.id.subject));
            all.push(task(name, &[one], handled, now));
        }
    }
    all.sort_by(|a, b| {
        let weight = |t: &Task| (std::cmp::Reverse(t.severity), t.since);
        (weight(a), &a.id).cmp(&(weight(b), &b.id))
    });
    all
}

/// Whether a trouble of a whole provider explains those of its consumers.
fn covers(kind: ConditionType) -> bool {
    matches!(
        kind,
        ConditionType::BackendUnreachable | ConditionType::ServerChanged
    )
}

fn lies_under(one: &Condition, parent: &Condition) -> bool {
    let same = one.id.owner == parent.id.owner;
    let below = one.id.subject.strip_prefix(parent.id.subject.as_str());
    same && below.is_some_and(|rest| rest.starts_with('/'))
}

fn task(
    id: String,
    members: &[&Condition],
    handled: &BTreeMap<String, Handled>,
    now: Time,
) -> Task {
    let first = members[0];
    let since = members.iter().map(|c| c.since).min().unwrap_or(first.since);
    let said = handled.get(&id).filter(|h| since <= h.begun);
    let stage = said.map_or(Stage::Open, |said| said.stage(members, now));
    let claim = said
        .and_then(|said| said.claim.as_ref())
        .filter(|_| stage == Stage::Claimed);
    Task {
        kind: first.id.kind,
        severity: first.severity,
        owner: first.id.owner.clone(),
        subjects: members
            .iter()
            .take(NAMED)
            .map(|c| c.id.subject.clone())
            .collect(),
        count: members.len(),
        meaning: first.id.kind.meaning(),
        action: first.action.clone(),
        evidence: short(&first.message),
        since,
        stage,
        by: claim.map(|claim| claim.by.clone()),
        until: claim.map(|claim| claim.until),
        attempts: said.map_or(0, |said| said.attempts),
        reports: said.map(|said| said.reports.clone()).unwrap_or_default(),
        id,
    }
}

fn short(text: &str) -> String {
    text.chars().take(LONGEST_TEXT).collect()
}

impl Handled {
    fn stage(&self, members: &[&Condition], now: Time) -> Stage {
        if self.claim.as_ref().is_some_and(|claim| claim.until > now) {
            return Stage::Claimed;
        }
        let last = self.reports.last();
        // A claim that ran out says nothing, and is an attempt all the same.
        let ended = last.filter(|_| self.claim.is_none());
        match ended.map(|report| (report.outcome, report.at)) {
            Some((Outcome::Person, _)) => Stage::Person,
            Some((Outcome::Done, at)) if members.iter().any(|c| c.last_seen <= at) => {
                Stage::Verifying
            }
            _ if self.attempts >= ATTEMPTS => Stage::Person,
            _ => Stage::Open,
        }
    }

    /// Another time for a claim: only with the token. Errors: [`NotTaken::Over`].
    pub fn extended(mut self, token: &str, now: Time, lease: Duration) -> Result<Self, NotTaken> {
        self.live(token, now)?.until = now + lease;
        Ok(self)
    }

    /// The end of an attempt: only with the token. Errors: [`NotTaken::Over`].
    pub fn finished(
        mut self,
        token: &str,
        now: Time,
        (outcome, note): (Outcome, &str),
    ) -> Result<Self, NotTaken> {
        let by = self.live(token, now)?.by.clone();
        self.claim = None;
        self.reports.push(Report {
            at: now,
            by,
            outcome,
            note: short(note),
        });
        let over = self.reports.len().saturating_sub(KEPT);
        self.reports.drain(..over);
        Ok(self)
    }

    /// Whether a report of it is waiting for the owner's look.
    pub fn asks_for_a_look(&self) -> bool {
        let last = self.reports.last();
        self.claim.is_none() && last.is_some_and(|report| report.outcome == Outcome::Done)
    }

    /// The consumer that it is about, if it is about one.
    pub fn consumer(&self) -> Option<&str> {
        let (_, consumer) = self.subject.as_deref()?.rsplit_once('/')?;
        Some(consumer)
    }

    fn live(&mut self, token: &str, now: Time) -> Result<&mut Claim, NotTaken> {
        match &mut self.claim {
            Some(claim) if claim.token == token && claim.until > now => Ok(claim),
            _ => Err(NotTaken::Over),
        }
    }
}

impl Task {
    /// Whether anybody may take it. Errors: why not.
    pub fn is_open(&self) -> Result<(), NotTaken> {
        match (self.stage, &self.by, self.until) {
            (Stage::Open, ..) => Ok(()),
            (Stage::Claimed, Some(by), Some(until)) => Err(NotTaken::Claimed {
                by: by.clone(),
                until,
            }),
            (Stage::Verifying | Stage::Claimed, ..) => {
                Err(NotTaken::NotOpen("its owner looks again first"))
            }
            (Stage::Person, ..) => Err(NotTaken::NotOpen("it waits for a person")),
        }
    }

    /// Gives it to an agent. `before` is what is stored about it. Errors: it is not open.
    pub fn claimed(
        &self,
        before: Option<Handled>,
        claim: Claim,
        now: Time,
    ) -> Result<Handled, NotTaken> {
        self.is_open()?;
        let fresh = Handled {
            task: self.id.clone(),
            owner: self.owner.clone(),
            subject: self.subjects.first().filter(|_| self.count == 1).cloned(),
            begun: now,
            attempts: 0,
            claim: None,
            reports: Vec::new(),
        };
        let before = before.filter(|_| self.attempts > 0).unwrap_or(fresh);
        Ok(Handled {
            attempts: before.attempts.saturating_add(1),
            claim: Some(claim),
            ..before
        })
    }
}

#[cfg(test)]
mod tests {
    //! C-6 and C-7: what is handed out, to whom, and that only the owner's look ends it.
    use super::*;
    use crate::condition::{ConditionId, Reason};

    fn at(second: u64) -> Time {
        Time::from_millis(second.cast_signed() * 1000)
    }
    fn about(kind: ConditionType, subject: &str) -> Condition {
        Condition {
            severity: kind.severity(),
            id: ConditionId {
                owner: "provisioner/cache".into(),
                kind,
                subject: subject.into(),
            },
            status: Status::True,
            reason: Reason::CallFailed,
            message: "why".into(),
            action: kind.cure().into(),
            since: at(10),
            last_seen: at(10),
            observed_generation: 1,
            count: 1,
            flapping: false,
        }
    }
    fn list(conditions: &[Condition], said: &BTreeMap<String, Handled>, now: u64) -> Vec<Task> {
        let standing: Vec<Standing<'_>> = conditions
            .iter()
            .map(|condition| Standing {
                condition,
                known: false,
            })
            .collect();
        tasks(&standing, said, at(now), str::to_owned)
    }
    fn one(conditions: &[Condition], said: &BTreeMap<String, Handled>, now: u64) -> Task {
        let mut all = list(conditions, said, now);
        assert_eq!(all.len(), 1, "{all:?}");
        all.remove(0)
    }
    fn claim(token: &str, until: u64) -> Claim {
        Claim {
            token: token.into(),
            by: format!("agent {token}"),
            until: at(until),
        }
    }
    /// Claims the only task at `now`, for ten seconds.
    fn take(
        conditions: &[Condition],
        said: &mut BTreeMap<String, Handled>,
        token: &str,
        now: u64,
    ) -> Result<(), NotTaken> {
        let task = one(conditions, said, now);
        let before = said.get(&task.id).cloned();
        let handled = task.claimed(before, claim(token, now + 10), at(now))?;
        said.insert(task.id, handled);
        Ok(())
    }
    fn finish(
        said: &mut BTreeMap<String, Handled>,
        token: &str,
        now: u64,
        outcome: Outcome,
    ) -> Result<(), NotTaken> {
        let (id, handled) = said.first_key_value().expect("something was said");
        let (id, handled) = (id.clone(), handled.clone());
        said.insert(id, handled.finished(token, at(now), (outcome, "so"))?);
        Ok(())
    }

    #[test]
    fn c7_a_task_is_one_agents_at_a_time_and_anybodys_after_its_time() {
        let conditions = [about(ConditionType::ApplyFailed, "cache/web")];
        let mut said = BTreeMap::new();
        assert_eq!(one(&conditions, &said, 20).stage, Stage::Open);
        take(&conditions, &mut said, "a", 20).expect("it is open");
        let again = take(&conditions, &mut said, "b", 25);
        assert!(matches!(again, Err(NotTaken::Claimed { .. })), "{again:?}");
        take(&conditions, &mut said, "b", 30).expect("its time is over");
        assert_eq!(
            finish(&mut said, "a", 31, Outcome::Done),
            Err(NotTaken::Over),
            "the first one's word comes too late"
        );
        let task = one(&conditions, &said, 31);
        assert_eq!((task.stage, task.attempts), (Stage::Claimed, 2));
        finish(&mut said, "b", 32, Outcome::Done).expect("it has the token");
        assert_eq!(
            finish(&mut said, "b", 33, Outcome::Done),
            Err(NotTaken::Over),
            "once"
        );
    }

    #[test]
    fn c7_done_is_believed_only_by_the_owners_look() {
        let mut conditions = [about(ConditionType::ApplyFailed, "cache/web")];
        let mut said = BTreeMap::new();
        take(&conditions, &mut said, "a", 20).expect("open");
        finish(&mut said, "a", 22, Outcome::Done).expect("token");
        assert!(said.values().all(Handled::asks_for_a_look));
        assert_eq!(one(&conditions, &said, 23).stage, Stage::Verifying);
        assert!(take(&conditions, &mut said, "b", 23).is_err());
        conditions[0].last_seen = at(25);
        let task = one(&conditions, &said, 26);
        assert_eq!((task.stage, task.attempts), (Stage::Open, 1));
        assert_eq!(task.reports.len(), 1, "the next agent reads what was tried");
        conditions[0].status = Status::False;
        assert_eq!(list(&conditions, &said, 27), [], "its owner saw it gone");
    }

    #[test]
    fn c7_after_three_attempts_it_is_a_persons() {
        let mut conditions = [about(ConditionType::ApplyFailed, "cache/web")];
        let mut said = BTreeMap::new();
        let endings = [Some(Outcome::Failed), None, Some(Outcome::Done)];
        for (round, ending) in endings.into_iter().enumerate() {
            let now = 20 + 20 * round as u64;
            take(&conditions, &mut said, "a", now).expect("open");
            if let Some(outcome) = ending {
                finish(&mut said, "a", now + 1, outcome).expect("token");
            }
            conditions[0].last_seen = at(now + 15);
        }
        assert_eq!(one(&conditions, &said, 90).stage, Stage::Person);
        assert!(take(&conditions, &mut said, "b", 90).is_err());
        // Raised anew, it is another task.
        conditions[0].since = at(100);
        conditions[0].last_seen = at(100);
        let task = one(&conditions, &said, 101);
        assert_eq!((task.stage, task.attempts), (Stage::Open, 0));
        take(&conditions, &mut said, "c", 101).expect("open");
        assert_eq!(one(&conditions, &said, 102).attempts, 1);
    }

    #[test]
    fn c7_an_agent_can_say_that_a_person_must_decide() {
        let mut conditions = [about(ConditionType::SecretLost, "cache/web")];
        let mut said = BTreeMap::new();
        take(&conditions, &mut said, "a", 20).expect("open");
        finish(&mut said, "a", 21, Outcome::Person).expect("token");
        conditions[0].last_seen = at(30);
        assert_eq!(one(&conditions, &said, 31).stage, Stage::Person);
    }

    #[test]
    fn c7_what_was_said_can_be_lost_and_the_task_is_there_again() {
        let conditions = [about(ConditionType::ApplyFailed, "cache/web")];
        let mut said = BTreeMap::new();
        take(&conditions, &mut said, "a", 20).expect("open");
        said.clear();
        assert_eq!(one(&conditions, &said, 21).stage, Stage::Open);
    }

    #[test]
    fn c7_a_claim_is_extended_by_its_holder_only() {
        let conditions = [about(ConditionType::ApplyFailed, "cache/web")];
        let mut said = BTreeMap::new();
        take(&conditions, &mut said, "a", 20).expect("open");
        let handled = said.values().next().cloned().expect("said");
        let lease = Duration::from_secs(60);
        assert_eq!(
            handled.clone().extended("b", at(25), lease),
            Err(NotTaken::Over)
        );
        assert_eq!(
            handled.clone().extended("a", at(30), lease),
            Err(NotTaken::Over),
            "too late"
        );
        let longer = handled.extended("a", at(29), lease).expect("in time");
        assert_eq!(longer.claim.map(|claim| claim.until), Some(at(89)));
    }

    #[test]
    fn c6_a_parent_covers_its_children_and_only_its_own() {
        let mut conditions = [
            about(ConditionType::BackendUnreachable, "cache"),
            about(ConditionType::HealFailed, "cache/web"),
            about(ConditionType::HealFailed, "cache2/web"),
            about(ConditionType::NotDurable, "cache"),
        ];
        conditions[2].id.owner = "provisioner/cache2".into();
        let subjects = |conditions: &[Condition]| {
            let all = list(conditions, &BTreeMap::new(), 20);
            let all = all.into_iter().flat_map(|task| task.subjects);
            all.collect::<std::collections::BTreeSet<_>>()
        };
        let names = |names: &[&str]| names.iter().map(|n| (*n).to_owned()).collect();
        assert_eq!(subjects(&conditions), names(&["cache", "cache2/web"]));
        conditions[0].status = Status::False;
        assert_eq!(subjects(&conditions), names(&["cache/web", "cache2/web"]));
    }

    #[test]
    fn c6_a_storm_is_one_task_with_its_count() {
        let many = |n: usize| {
            let all = (0..n).map(|i| about(ConditionType::HealFailed, &format!("cache/c{i:04}")));
            all.collect::<Vec<_>>()
        };
        assert_eq!(list(&many(ALIKE), &BTreeMap::new(), 20).len(), ALIKE);
        let storm = one(&many(1000), &BTreeMap::new(), 20);
        assert_eq!((storm.count, storm.subjects.len()), (1000, NAMED));
        // One that clears, or comes, leaves it the same task.
        let mut said = BTreeMap::new();
        take(&many(1000), &mut said, "a", 20).expect("open");
        assert_eq!(one(&many(1001)[1..], &said, 21).stage, Stage::Claimed);
        finish(&mut said, "a", 22, Outcome::Done).expect("token");
        let mut some_seen = many(1000);
        some_seen[0].last_seen = at(30);
        assert_eq!(one(&some_seen, &said, 31).stage, Stage::Verifying);
        some_seen.iter_mut().for_each(|c| c.last_seen = at(32));
        assert_eq!(one(&some_seen, &said, 33).stage, Stage::Open);
    }

    #[test]
    fn c3_what_a_person_knows_of_is_handed_to_nobody() {
        let condition = about(ConditionType::ApplyFailed, "cache/web");
        let standing = [Standing {
            condition: &condition,
            known: true,
        }];
        assert_eq!(
            tasks(&standing, &BTreeMap::new(), at(20), str::to_owned),
            []
        );
    }
}
