//! `mesh agent --run PROGRAM`: a program for each task, one after the other.

use std::process::Stdio;
use std::time::Duration;

use mesh_sdk::bus::{Bucket, Key};
use mesh_sdk::condition::ConditionType;
use mesh_sdk::decide::tasks::{Outcome, Task};
use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{sleep, timeout};

use super::Context;
use super::online::Online;
use super::task::{Claimed, name_of, take, told};
use super::tasks::kind_named;
use crate::cli::AgentArgs;
use crate::errors::Fault;
use crate::wiring::installation::Installation;
use crate::wiring::tasks::{self, LEASE, TaskFault};

/// Looks for tasks this often, also where no bell rings.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// A claim is made longer this often while the program runs.
const EXTEND_EVERY: Duration = Duration::from_secs(120);
/// A program that is asked to end has so long.
const TO_END: Duration = Duration::from_secs(5);
/// The exit code with which a program says that a person must decide.
const PERSON: i32 = 10;
/// Of what the program prints, so much is kept while it runs.
const MOST_OUTPUT: u64 = 64 * 1024;

/// Runs it.
pub(super) fn run(args: &AgentArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let kinds = args.kinds.iter().map(|kind| kind_named(kind));
    let kinds: Vec<ConditionType> = kinds.collect::<Result<_, _>>()?;
    let by = name_of(&args.by)?;
    let online = Online::start(cx)?;
    let (readable, mesh) = online.open_to_read(&cx.settings.data)?;
    drop(readable);
    let installation = online.open(&cx.settings.data, &mesh)?;
    let fits = |task: &Task| kinds.is_empty() || kinds.contains(&task.kind);
    let mut worked = std::collections::BTreeSet::new();
    loop {
        if online.stop.is_cancelled() {
            return Ok(0);
        }
        // With --once each task is tried once, however it ends.
        let fresh = |task: &Task| fits(task) && !(args.once && worked.contains(&task.id));
        match take(cx, (&online, &installation), fresh, (by, LEASE))? {
            Some(claimed) => {
                worked.insert(claimed.task.id.clone());
                work(&claimed, args, cx, (&online, &installation))?;
            }
            None if args.once => return Ok(0),
            None => online.run(wait(&installation, &online)),
        }
    }
}

/// Until something rings, or the time to look has come.
async fn wait(installation: &Installation, online: &Online) {
    let ring = async {
        let all = Key::everything();
        match installation.bus.watch(Bucket::Condition, &all).await {
            Ok(mut bell) => {
                bell.next().await;
            }
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        () = online.stop.cancelled() => {}
        _ = timeout(LOOK_EVERY, ring) => {}
    }
}

/// One attempt, from the program's start to the word about its end.
fn work(
    claimed: &Claimed,
    args: &AgentArgs,
    cx: &Context<'_>,
    (online, installation): (&Online, &Installation),
) -> Result<(), Fault> {
    let task = &claimed.task;
    cx.printer.note(&format!(
        "task {}: {} about {}",
        task.id,
        task.kind,
        task.subjects.first().map_or("", String::as_str)
    ));
    let ended = online.run(attempt(claimed, args, (online, installation)));
    let (outcome, note) = match ended {
        Ended::Said(outcome, note) => (outcome, note),
        Ended::Lost => {
            cx.printer.note(&format!(
                "task {}: the claim ran out or is somebody else's; its program was ended",
                task.id
            ));
            return Ok(());
        }
    };
    let note = online.scrubber.scrub(&note).into_owned();
    let bus = installation.bus.as_ref();
    let now = online.clock.now();
    let said = tasks::finish(bus, &task.id, &claimed.token, now, (outcome, &note));
    match online.run(said) {
        Ok(_) => {}
        Err(TaskFault::NotTaken(why)) => {
            cx.printer.note(&format!("task {}: {why}", task.id));
            return Ok(());
        }
        Err(fault @ TaskFault::Store(_)) => return Err(told(fault)),
    }
    let outcome = match outcome {
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Person => "for a person",
    };
    cx.printer
        .note(&format!("task {}: {outcome} {note}", task.id));
    Ok(())
}

enum Ended {
    Said(Outcome, String),
    /// The claim is over: nothing that the program says counts.
    Lost,
}

async fn attempt(
    claimed: &Claimed,
    args: &AgentArgs,
    (online, installation): (&Online, &Installation),
) -> Ended {
    let mut child = match start(args, claimed).await {
        Ok(child) => child,
        Err(error) => {
            let note = format!("{} could not be started: {error}", args.run.display());
            return Ended::Said(Outcome::Failed, note);
        }
    };
    let output = child.stdout.take();
    let reading = tokio::spawn(async move {
        let mut text = Vec::new();
        if let Some(output) = output {
            let _ = output.take(MOST_OUTPUT).read_to_end(&mut text).await;
        }
        String::from_utf8_lossy(&text).into_owned()
    });
    let ended = tokio::select! {
        status = child.wait() => match status.ok().and_then(|status| status.code()) {
            Some(0) => Some((Outcome::Done, None)),
            Some(PERSON) => Some((Outcome::Person, None)),
            Some(code) => Some((Outcome::Failed, Some(format!("it ended with {code}")))),
            None => Some((Outcome::Failed, Some("it was killed".to_owned()))),
        },
        () = keep(claimed, (online, installation)) => None,
        () = sleep(args.timeout) => Some((Outcome::Failed, Some("it took too long".to_owned()))),
        () = online.stop.cancelled() => {
            Some((Outcome::Failed, Some("the agent was told to stop".to_owned())))
        }
    };
    end(&mut child).await;
    let Some((outcome, why)) = ended else {
        return Ended::Lost;
    };
    // A grandchild may hold the pipe open: what came until now is enough.
    let said = timeout(TO_END, reading).await;
    let said = said.ok().and_then(Result::ok).unwrap_or_default();
    let said = said.lines().rfind(|line| !line.trim().is_empty());
    let note = [said.map(str::to_owned), why].into_iter().flatten();
    Ended::Said(outcome, note.collect::<Vec<_>>().join("; "))
}

async fn start(args: &AgentArgs, claimed: &Claimed) -> std::io::Result<Child> {
    let mut child = Command::new(&args.run)
        .args(&args.arg)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        // Ended with everything that it started.
        .process_group(0)
        .kill_on_drop(true)
        .spawn()?;
    // Who does not read its task may still do something about it.
    if let Some(mut stdin) = child.stdin.take() {
        // The token stays here: only this process says how it ended.
        let mut task = claimed.json.clone();
        if let Some(task) = task.as_object_mut() {
            task.remove("token");
        }
        let line = format!("{task}\n");
        tokio::spawn(async move {
            let _ = stdin.write_all(line.as_bytes()).await;
        });
    }
    Ok(child)
}

/// Keeps the claim, and returns when that is not possible any more.
async fn keep(claimed: &Claimed, (online, installation): (&Online, &Installation)) {
    let bus = installation.bus.as_ref();
    loop {
        sleep(EXTEND_EVERY).await;
        let now = online.clock.now();
        let extended = tasks::extend(bus, &claimed.task.id, &claimed.token, now, LEASE).await;
        // A store that cannot be asked now is asked again: the claim lasts for a few times yet.
        if let Err(TaskFault::NotTaken(_)) = extended {
            return;
        }
    }
}

/// Ends the program and what it started: first asked to, then made to.
async fn end(child: &mut Child) {
    let group = child
        .id()
        .and_then(|id| i32::try_from(id).ok())
        .and_then(Pid::from_raw);
    let Some(group) = group else {
        return;
    };
    let _ = kill_process_group(group, Signal::TERM);
    if timeout(TO_END, child.wait()).await.is_err() {
        let _ = kill_process_group(group, Signal::KILL);
        let _ = child.wait().await;
    }
}
