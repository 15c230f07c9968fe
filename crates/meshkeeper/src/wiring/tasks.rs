//! Tasks: what agents are handed, and how what they say reaches the store and the owners (C-7).

use std::collections::BTreeMap;
use std::time::Duration;

use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::decide::tasks::{self, Claim, Handled, NotTaken, Outcome, Standing, Task};
use mesh_sdk::event::{Event, EventKind};
use mesh_sdk::mark::keyed;
use mesh_sdk::{Secret, Time};

use super::shapes::Word;
use super::words;
use crate::status::ConditionView;

/// How long a claim lasts unless it is extended.
pub const LEASE: Duration = Duration::from_secs(600);

/// Why an agent's word did not come to be.
#[derive(Debug, thiserror::Error)]
pub enum TaskFault {
    /// The task is not to be had, or no longer the agent's.
    #[error(transparent)]
    NotTaken(#[from] NotTaken),
    /// The store cannot be used.
    #[error(transparent)]
    Store(#[from] Fault),
}

/// The tasks that stand, worst and oldest first.
pub async fn standing(
    bus: &dyn Bus,
    conditions: &[ConditionView],
    now: Time,
) -> Result<Vec<Task>, Fault> {
    let said = words::read(bus).await?;
    let handled = said.words().filter_map(|word| match word {
        Word::Task(handled) => Some((handled.task.clone(), handled.clone())),
        _ => None,
    });
    let handled: BTreeMap<String, Handled> = handled.collect();
    let standing: Vec<Standing<'_>> = conditions
        .iter()
        .map(|view| Standing {
            condition: &view.condition,
            known: view.acknowledged_until.is_some() || view.silenced_until.is_some(),
        })
        .collect();
    Ok(tasks::tasks(&standing, &handled, now, id))
}

/// Eight letters that stand for one task, the same in every process.
fn id(text: &str) -> String {
    let digest = keyed(&Secret::from("task"), b"id", &[text.as_bytes()]);
    digest.iter().take(4).map(|b| format!("{b:02x}")).collect()
}

/// A token that nobody guesses.
pub fn token() -> Result<String, Fault> {
    let mut bytes = [0; 12];
    mesh_bus::mint::os_random(&mut bytes).map_err(|error| Fault::Unreachable(error.to_string()))?;
    Ok(bytes.iter().map(|b| format!("{b:02x}")).collect())
}

/// Gives a task to an agent.
pub async fn claim(
    bus: &dyn Bus,
    task: &Task,
    (by, token): (&str, String),
    now: Time,
    lease: Duration,
) -> Result<Handled, TaskFault> {
    let claim = Claim {
        token,
        by: by.to_owned(),
        until: now + lease,
    };
    let taken = change(bus, &task.id, |before| {
        // Somebody may have been quicker since the task was read.
        let newer = before.as_ref().and_then(|h| h.claim.as_ref());
        match newer.filter(|held| held.until > now && held.token != claim.token) {
            Some(held) => Err(NotTaken::Claimed {
                by: held.by.clone(),
                until: held.until,
            }),
            None => task.claimed(before, claim.clone(), now),
        }
    });
    let taken = taken.await?;
    words::note(bus, &task_event(&taken, by, "claimed", now)).await?;
    Ok(taken)
}

/// Another while for a claim.
pub async fn extend(
    bus: &dyn Bus,
    id: &str,
    token: &str,
    now: Time,
    lease: Duration,
) -> Result<Handled, TaskFault> {
    change(bus, id, |before| {
        before.ok_or(NotTaken::Over)?.extended(token, now, lease)
    })
    .await
}

/// The end of an attempt. Where it is said to be done, the owner looks again as soon as it hears.
pub async fn finish(
    bus: &dyn Bus,
    id: &str,
    token: &str,
    now: Time,
    (outcome, note): (Outcome, &str),
) -> Result<Handled, TaskFault> {
    let handled = change(bus, id, |before| {
        before
            .ok_or(NotTaken::Over)?
            .finished(token, now, (outcome, note))
    });
    let handled = handled.await?;
    if let Some(report) = handled.reports.last() {
        let how = match outcome {
            Outcome::Done => "says that it is done; its owner looks again",
            Outcome::Failed => "could not",
            Outcome::Person => "says that a person must decide",
        };
        let detail = match report.note.as_str() {
            "" => how.to_owned(),
            note => format!("{how}: {note}"),
        };
        words::note(bus, &task_event(&handled, &report.by, &detail, now)).await?;
    }
    Ok(handled)
}

/// Changes what is stored about a task, whoever else does so meanwhile.
async fn change(
    bus: &dyn Bus,
    id: &str,
    next: impl Fn(Option<Handled>) -> Result<Handled, NotTaken>,
) -> Result<Handled, TaskFault> {
    let key = Word::task_key(id);
    let handled = |value: &[u8]| match serde_json::from_slice(value) {
        Ok(Word::Task(handled)) => Ok(handled),
        Ok(_) => Err(Fault::Corrupt(format!("{key} is no task"))),
        Err(error) => Err(Fault::Corrupt(format!("{key}: {error}"))),
    };
    let word = words::change(bus, &key, |before| {
        let before = before.map(handled).transpose()?;
        Ok::<Word, TaskFault>(Word::Task(next(before)?))
    });
    match word.await? {
        Word::Task(handled) => Ok(handled),
        _ => Err(Fault::Corrupt(format!("{key} is no task")).into()),
    }
}

fn task_event(handled: &Handled, by: &str, detail: &str, now: Time) -> Event {
    Event {
        at: now,
        kind: EventKind::Task,
        owner: format!("agent {by}"),
        provider: handled
            .owner
            .split_once('/')
            .map_or(String::new(), |(_, provider)| provider.to_owned()),
        consumer: String::new(),
        detail: format!(
            "task {}, attempt {}: {detail}",
            handled.task, handled.attempts
        ),
        count: 1,
    }
}
