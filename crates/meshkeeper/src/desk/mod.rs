//! The desk: where agents ask for tasks, extend them and say how they ended (C-7).
//!
//! [`message`] is what is asked and answered; this file answers it from the store. `mesh up` has it served on
//! a [`socket`] of its data folder and, where the bus is on NATS servers, as a [`service`] there, and rings
//! the [`bell`] for tasks that are open. [`Way`] is the other side: how a command reaches a desk.

mod bell;
pub mod message;
mod service;
mod socket;
mod way;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::claim::{self, Holder, Lease};
use mesh_sdk::bus::{Bus, Fault};
use mesh_sdk::clock::Clock;
use mesh_sdk::decide::tasks::{Stage, Task};
use mesh_sdk::scrub::Scrubber;
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::warn;

use crate::status::{self, PictureFault};
use crate::wiring::installation::{self, Installation, Runner};
use crate::wiring::tasks;
use message::{Claim, Code, Extend, Finish, List, Question, Refusal};

pub use socket::NAME as SOCKET;
pub use way::{AskFault, Ring, Way};

/// For what is being answered when a desk is closed.
const TO_CLOSE: Duration = Duration::from_secs(5);

/// Answers agents from the store.
pub struct Desk {
    bus: Arc<dyn Bus>,
    clock: Clock,
    scrubber: Arc<Scrubber>,
    loops: Loops,
    /// A list is cut after so many bytes.
    longest_list: usize,
}

/// How it is known whether loops run, without which no owner can tell of its conditions.
enum Loops {
    /// On this data folder.
    Folder(PathBuf),
    /// On the host that the bus names.
    Shared,
}

impl Desk {
    /// Of an open data folder.
    pub fn of(installation: &Installation, clock: Clock, scrubber: &Arc<Scrubber>) -> Self {
        let loops = match installation.is_shared() {
            true => Loops::Shared,
            false => Loops::Folder(installation.folder.clone()),
        };
        Self {
            bus: Arc::clone(&installation.bus),
            clock,
            scrubber: Arc::clone(scrubber),
            loops,
            longest_list: usize::MAX,
        }
    }
    /// The same for whoever must not be told more than fits into one message.
    fn bounded(self) -> Self {
        Self {
            longest_list: message::LONGEST_LIST,
            ..self
        }
    }

    /// Answers a question.
    pub async fn answer(&self, question: &Question) -> Result<Value, Refusal> {
        question.check()?;
        match question {
            Question::List(list) => self.list(list).await,
            Question::Claim(claim) => self.claim(claim).await,
            Question::Extend(extend) => self.extend(extend).await,
            Question::Finish(finish) => self.finish(finish).await,
        }
    }
    /// Answers what came as bytes; `word` is what a subject says.
    async fn answer_bytes(&self, word: Option<&str>, bytes: &[u8]) -> Result<Value, Refusal> {
        self.answer(&Question::read(word, bytes)?).await
    }

    /// Every task that stands.
    async fn standing(&self) -> Result<Vec<Task>, PictureFault> {
        let (bus, now) = (self.bus.as_ref(), self.clock.now());
        let runs = match &self.loops {
            Loops::Folder(folder) => installation::running(folder) == Some(Runner::Daemon),
            Loops::Shared => lead(bus).await?.is_some(),
        };
        let providers = status::providers(bus).await?;
        let loops = status::loops(bus, &providers, now, runs).await?;
        let conditions = status::conditions(bus, &loops, now).await?;
        Ok(tasks::standing(bus, &conditions, now).await?)
    }

    async fn list(&self, list: &List) -> Result<Value, Refusal> {
        let kinds = message::kinds(&list.types)?;
        let mut all = self.standing().await?;
        all.retain(|task| kinds.is_empty() || kinds.contains(&task.kind));
        all.retain(|task| !list.open || task.stage == Stage::Open);
        let (mut told, mut bytes) = (Vec::new(), 0);
        for task in &all {
            let task = message::task(task);
            bytes += task.to_string().len();
            if bytes > self.longest_list {
                break;
            }
            told.push(task);
        }
        let left_off = all.len() - told.len();
        Ok(match left_off {
            0 => json!({ "tasks": told }),
            _ => json!({ "tasks": told, "left_off": left_off }),
        })
    }

    /// Takes the worst open task that fits. Whoever is quicker gets it, and the next one is tried.
    async fn claim(&self, claim: &Claim) -> Result<Value, Refusal> {
        let (kinds, lease) = (
            message::kinds(&claim.types)?,
            message::lease(claim.seconds)?,
        );
        let all = self.standing().await?;
        if let Some(id) = &claim.id {
            let named = all.iter().find(|task| task.id == *id);
            let none = || Refusal::new(Code::NoSuchTask, format!("no task `{id}` stands"));
            named.ok_or_else(none)?.is_open()?;
        }
        let fits = |task: &Task| {
            task.stage == Stage::Open
                && claim.id.as_ref().is_none_or(|id| task.id == *id)
                && (kinds.is_empty() || kinds.contains(&task.kind))
                && !claim.except.contains(&task.id)
        };
        for task in all.into_iter().filter(fits) {
            let token = tasks::token()?;
            let by = (claim.by.as_str(), token.clone());
            let claimed = tasks::claim(self.bus.as_ref(), &task, by, self.clock.now(), lease);
            match claimed.await {
                Ok(handled) => {
                    let task = Task {
                        stage: Stage::Claimed,
                        by: Some(claim.by.clone()),
                        until: handled.claim.map(|claim| claim.until),
                        attempts: handled.attempts,
                        ..task
                    };
                    let mut told = message::task(&task);
                    told["token"] = Value::String(token);
                    return Ok(told);
                }
                Err(tasks::TaskFault::NotTaken(why)) if claim.id.is_some() => {
                    return Err(why.into());
                }
                Err(tasks::TaskFault::NotTaken(_)) => {}
                Err(tasks::TaskFault::Store(fault)) => return Err(fault.into()),
            }
        }
        Err(Refusal::new(Code::NoneOpen, "no such task is open"))
    }

    async fn extend(&self, extend: &Extend) -> Result<Value, Refusal> {
        let (now, lease) = (self.clock.now(), message::lease(extend.seconds)?);
        let (id, token) = (&extend.id, &extend.token);
        let extended = tasks::extend(self.bus.as_ref(), id, token, now, lease).await?;
        let until = extended.claim.map(|claim| status::time_text(claim.until));
        Ok(json!({ "id": id, "until": until }))
    }

    async fn finish(&self, finish: &Finish) -> Result<Value, Refusal> {
        let (id, token, now) = (&finish.id, &finish.token, self.clock.now());
        let note = self.scrubber.scrub(&finish.note);
        let how = (finish.outcome, note.as_ref());
        tasks::finish(self.bus.as_ref(), id, token, now, how).await?;
        Ok(json!({ "id": id, "outcome": finish.outcome }))
    }
}

/// The daemon that has the loops, on a bus that several hosts share.
async fn lead(bus: &dyn Bus) -> Result<Option<Holder>, Fault> {
    let holder = claim::holder(bus, &Lease::Installation).await?;
    Ok(holder.filter(|holder| holder.runner == Runner::Daemon.as_str()))
}

/// A desk that is served. Dropping it, too, closes it soon.
pub struct Served {
    stop: CancellationToken,
    running: Vec<JoinHandle<()>>,
}

/// Serves the desk of an open data folder: on its socket and, on a bus of several hosts, as a service there.
/// What cannot be served is told in the log, and keeps nothing else from running.
pub async fn serve(
    installation: &Installation,
    (mesh, host): (&str, &str),
    clock: Clock,
    scrubber: &Arc<Scrubber>,
) -> Served {
    let desk = Arc::new(Desk::of(installation, clock, scrubber).bounded());
    let stop = CancellationToken::new();
    let mut running = Vec::new();
    match socket::listen(&installation.folder, Arc::clone(&desk), stop.clone()) {
        Ok(listening) => running.push(listening),
        Err(why) => warn!("no socket for agents: {why}"),
    }
    if let Some(servers) = installation.servers() {
        match service::serve(&servers, mesh, Arc::clone(&desk), stop.clone()).await {
            Ok(serving) => running.push(serving),
            Err(why) => warn!("no service for agents: {why}"),
        }
        let ringing = bell::keep(desk, servers, host.to_owned(), stop.clone());
        running.push(tokio::spawn(ringing));
    }
    Served { stop, running }
}

impl Served {
    /// Ends it: what is being answered is answered.
    pub async fn close(mut self) {
        self.stop.cancel();
        for mut task in std::mem::take(&mut self.running) {
            if tokio::time::timeout(TO_CLOSE, &mut task).await.is_err() {
                task.abort();
            }
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop.cancel();
    }
}
