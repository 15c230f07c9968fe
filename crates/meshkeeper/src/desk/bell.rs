//! The bell: each open task is told when it opens, and again and again while it is open. A hint, kept
//! nowhere: whoever missed one hears the next, whatever was wiped in between.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::JetstreamBus;
use mesh_sdk::bus::{Bucket, Bus, Key, Watch};
use mesh_sdk::decide::tasks::{Stage, Task};
use serde_json::json;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::debug;

use super::message::VERSION;
use super::{Desk, lead};
use crate::status::time_text;

/// A task that was told this long ago is told again.
const AGAIN: Duration = Duration::from_secs(30);
/// Looks this often, also where nothing changes: with the above, within 60 s.
const LOOK_EVERY: Duration = Duration::from_secs(15);
/// Changes that come together are looked at together: a look reads all conditions.
const GATHER: Duration = Duration::from_secs(2);
/// So many are told after one look, the worst first; the others after the next.
const MOST: usize = 50;

/// Tells of open tasks for as long as this host is the one that acts on the bus.
pub(super) async fn keep(
    desk: Arc<Desk>,
    servers: Arc<JetstreamBus>,
    host: String,
    stop: CancellationToken,
) {
    let ringing = async {
        let mut told = Told::default();
        let everything = Key::everything();
        let mut conditions = desk.bus.watch(Bucket::Condition, &everything).await.ok();
        let mut words = desk.bus.watch(Bucket::Word, &everything).await.ok();
        loop {
            if acts(desk.bus.as_ref(), &host).await {
                match desk.standing().await {
                    Ok(tasks) => ring(&servers, told.due(&tasks, Instant::now())).await,
                    Err(fault) => debug!("no bell rings: {fault}"),
                }
            } else {
                told = Told::default();
            }
            sleep(GATHER).await;
            tokio::select! {
                () = rung(&mut conditions) => {}
                () = rung(&mut words) => {}
                () = sleep(LOOK_EVERY) => {}
            }
        }
    };
    tokio::select! {
        () = ringing => {}
        () = stop.cancelled() => {}
    }
}

/// Whether this host has the loops: one rings for all.
async fn acts(bus: &dyn Bus, host: &str) -> bool {
    let lead = lead(bus).await.ok().flatten();
    lead.is_some_and(|lead| lead.host == host)
}

async fn rung(watch: &mut Option<Box<dyn Watch>>) {
    match watch {
        Some(watch) => drop(watch.next().await),
        None => std::future::pending().await,
    }
}

async fn ring(servers: &JetstreamBus, tasks: Vec<&Task>) {
    for task in tasks {
        let text = json!({
            "v": VERSION, "id": task.id, "type": task.kind, "severity": task.severity,
            "owner": task.owner, "since": time_text(task.since),
        });
        servers
            .ring(task.kind.as_str(), &task.id, text.to_string())
            .await;
    }
}

/// When each open task was told last.
#[derive(Default)]
struct Told(BTreeMap<String, Instant>);

impl Told {
    /// Those that are told now. One that was not open meanwhile is new again.
    fn due<'t>(&mut self, tasks: &'t [Task], now: Instant) -> Vec<&'t Task> {
        let open = || tasks.iter().filter(|task| task.stage == Stage::Open);
        let mut before = std::mem::take(&mut self.0);
        for task in open() {
            if let Some((id, at)) = before.remove_entry(&task.id) {
                self.0.insert(id, at);
            }
        }
        let due = open().filter(|task| {
            let last = self.0.get(&task.id);
            last.is_none_or(|last| now.duration_since(*last) >= AGAIN)
        });
        let due: Vec<&Task> = due.take(MOST).collect();
        for task in &due {
            self.0.insert(task.id.clone(), now);
        }
        due
    }
}

#[cfg(test)]
mod tests {
    //! C-7: told when it opens, again while it is open, and few at a time.
    use super::*;
    use mesh_sdk::Time;
    use mesh_sdk::condition::ConditionType;

    fn task(id: usize, stage: Stage) -> Task {
        let kind = ConditionType::LoginTaken;
        Task {
            id: format!("{id:08}"),
            kind,
            severity: kind.severity(),
            owner: "provisioner/cache".into(),
            subjects: vec!["cache/web".into()],
            count: 1,
            meaning: kind.meaning(),
            action: String::new(),
            evidence: String::new(),
            since: Time::from_millis(0),
            stage,
            by: None,
            until: None,
            attempts: 0,
            reports: Vec::new(),
        }
    }

    #[test]
    fn c7_an_open_task_is_told_at_once_and_within_each_minute() {
        let (began, mut told) = (Instant::now(), Told::default());
        let at = |seconds| began + Duration::from_secs(seconds);
        let mut tasks = vec![task(1, Stage::Open), task(2, Stage::Person)];
        assert_eq!(told.due(&tasks, at(0)).len(), 1);
        assert_eq!(told.due(&tasks, at(10)).len(), 0);
        assert_eq!(told.due(&tasks, at(30)).len(), 1);
        tasks[0].stage = Stage::Claimed;
        assert_eq!(told.due(&tasks, at(31)).len(), 0);
        tasks[0].stage = Stage::Open;
        assert_eq!(told.due(&tasks, at(32)).len(), 1, "open anew");
        assert!(AGAIN + LOOK_EVERY + GATHER < Duration::from_secs(60));
    }

    #[test]
    fn c6_of_very_many_each_is_told_in_its_turn() {
        let (began, mut told) = (Instant::now(), Told::default());
        let tasks: Vec<Task> = (0..120).map(|id| task(id, Stage::Open)).collect();
        let mut heard = Vec::new();
        for look in 0..3 {
            let due = told.due(&tasks, began + Duration::from_secs(look));
            assert!(due.len() <= MOST);
            heard.extend(due.into_iter().map(|task| task.id.clone()));
        }
        assert_eq!(heard.len(), 120);
    }
}
