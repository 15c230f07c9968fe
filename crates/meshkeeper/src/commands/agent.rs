//! `mesh agent --run PROGRAM`: a program for each task, one after the other.

use std::process::Stdio;
use std::time::Duration;

use mesh_sdk::decide::tasks::Outcome;
use rustix::process::{Pid, Signal, kill_process_group};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::{Child, Command};
use tokio::time::{Instant, sleep, timeout};

use super::Context;
use super::online::Online;
use super::reach::{Does, checked, reach, told};
use super::task::seconds;
use crate::cli::AgentArgs;
use crate::desk::message::{Claim, Code, Extend, Finish, MOST, Question, TaskView};
use crate::desk::{AskFault, Ring, Way};
use crate::errors::Fault;

/// Looks for tasks this often where nothing tells of them.
const LOOK_EVERY: Duration = Duration::from_secs(10);
/// And this often where the bell does.
const LOOK_SELDOM: Duration = Duration::from_secs(30);
/// While the program runs its claim is made longer so often within its length.
const EXTENSIONS: u32 = 5;
/// An outcome that nobody took is said again so often.
const SAID: usize = 5;
/// After this long.
const SAY_AGAIN: Duration = Duration::from_secs(2);
/// A program that is asked to end has so long.
const TO_END: Duration = Duration::from_secs(5);
/// The exit code with which a program says that a person must decide.
const PERSON: i32 = 10;
/// Of what the program prints, so much is kept while it runs.
const MOST_OUTPUT: u64 = 64 * 1024;

/// A claim that was made: the task, and the token that its other words need.
struct Claimed {
    task: TaskView,
    token: String,
    /// The task as the program reads it. The token stays here: only this process says how it ended.
    json: Value,
}

impl Claimed {
    fn of(mut answer: Value) -> Option<Self> {
        let mut task: TaskView = serde_json::from_value(answer.clone()).ok()?;
        answer.as_object_mut()?.remove("token");
        Some(Self {
            token: task.token.take()?,
            task,
            json: answer,
        })
    }
}

/// What there is to do next.
enum Next {
    Work(Box<Claimed>),
    /// No task is open, or none can be asked for now.
    Nothing,
    Stop,
}

/// Runs it.
pub(super) fn run(args: &AgentArgs, cx: &Context<'_>) -> Result<u8, Fault> {
    let mut claim = Claim {
        by: args.by.clone(),
        id: None,
        types: args.kinds.clone(),
        except: Vec::new(),
        seconds: Some(seconds(args.length)),
    };
    checked(Question::Claim(claim.clone()))?;
    let online = Online::start(cx)?;
    let way = reach(&args.reach, cx, &online, Does::Write)?;
    let mut ring = online.run(way.bell());
    let mut agent = Agent {
        args,
        cx,
        online: &online,
        way: &way,
        reached: false,
    };
    loop {
        online.run(ring.hush());
        match agent.next(&claim)? {
            Next::Work(claimed) => agent.work(&claimed, &mut claim.except),
            Next::Nothing if args.once => return Ok(0),
            Next::Nothing => online.run(wait(&mut ring, args, &online)),
            Next::Stop => return Ok(0),
        }
    }
}

/// Until something rings, or the time to look has come.
async fn wait(ring: &mut Ring, args: &AgentArgs, online: &Online) {
    let fits = |kind: &str| {
        let mut kinds = args.kinds.iter();
        args.kinds.is_empty() || kinds.any(|wanted| wanted.eq_ignore_ascii_case(kind))
    };
    let every = match ring {
        Ring::Service(_) => LOOK_SELDOM,
        Ring::Store(..) | Ring::Never => LOOK_EVERY,
    };
    tokio::select! {
        () = online.stop.cancelled() => {}
        _ = timeout(every, ring.next(fits)) => {}
    }
}

/// How an attempt ended.
enum Ended {
    Said(Outcome, String),
    /// The claim is over: nothing that the program says counts.
    Lost,
}

struct Agent<'a> {
    args: &'a AgentArgs,
    cx: &'a Context<'a>,
    online: &'a Online,
    way: &'a Way,
    /// It was answered once.
    reached: bool,
}

impl Agent<'_> {
    /// Asks for a task. Errors: it was never answered, or cannot ask so.
    fn next(&mut self, claim: &Claim) -> Result<Next, Fault> {
        // With --once each task is tried once, however it ends.
        if self.online.stop.is_cancelled() || claim.except.len() >= MOST {
            return Ok(Next::Stop);
        }
        let question = Question::Claim(claim.clone());
        let asked = self.online.run(async {
            tokio::select! {
                asked = self.way.ask(&question) => Some(asked),
                () = self.online.stop.cancelled() => None,
            }
        });
        match asked {
            None => Ok(Next::Stop),
            Some(Ok(answer)) => {
                self.reached = true;
                let odd = || AskFault::Unreachable("the answer cannot be read".to_owned());
                let claimed = Claimed::of(answer).ok_or_else(|| told(odd()))?;
                Ok(Next::Work(Box::new(claimed)))
            }
            Some(Err(AskFault::Refused(refusal))) if refusal.code == Code::NoneOpen => {
                self.reached = true;
                Ok(Next::Nothing)
            }
            // Who has answered once will answer again.
            Some(Err(fault)) if self.reached && !self.args.once && fault.may_pass() => {
                let text = format!("no task can be asked for: {fault}");
                self.cx.printer.note(&text);
                Ok(Next::Nothing)
            }
            Some(Err(fault)) => Err(told(fault)),
        }
    }

    /// One attempt, from the program's start to the word about its end.
    fn work(&self, claimed: &Claimed, worked: &mut Vec<String>) {
        let (task, online, printer) = (&claimed.task, self.online, self.cx.printer);
        if self.args.once {
            worked.push(task.id.clone());
        }
        printer.note(&format!(
            "task {}: {} about {}",
            task.id,
            task.kind,
            task.subjects.first().map_or("", String::as_str)
        ));
        let ended = online.run(self.attempt(claimed));
        let (outcome, note) = match ended {
            Ended::Said(outcome, note) => (outcome, note),
            Ended::Lost => {
                printer.note(&format!(
                    "task {}: the claim ran out or is somebody else's; its program was ended",
                    task.id
                ));
                return;
            }
        };
        let note = online.scrubber.scrub(&note).into_owned();
        let finish = Question::Finish(Finish {
            id: task.id.clone(),
            token: claimed.token.clone(),
            outcome,
            note: note.clone(),
        });
        if let Err(fault) = online.run(self.say(&finish)) {
            // Whatever became of it, the claim ends.
            printer.note(&format!("task {}: {fault}", task.id));
            return;
        }
        let outcome = match outcome {
            Outcome::Done => "done",
            Outcome::Failed => "failed",
            Outcome::Person => "for a person",
        };
        printer.note(&format!("task {}: {outcome} {note}", task.id));
    }

    /// Says how it ended; again, where nobody took it.
    async fn say(&self, finish: &Question) -> Result<(), AskFault> {
        let mut tries = 1;
        loop {
            match self.way.ask(finish).await {
                Ok(_) => return Ok(()),
                Err(fault) if fault.may_pass() && tries < SAID => tries += 1,
                Err(fault) => return Err(fault),
            }
            sleep(SAY_AGAIN).await;
        }
    }

    async fn attempt(&self, claimed: &Claimed) -> Ended {
        let (args, online) = (self.args, self.online);
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
            () = self.keep(claimed) => None,
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

    /// Keeps the claim, and returns when it is over: it was refused, or nobody was reached for its length.
    async fn keep(&self, claimed: &Claimed) {
        let extend = Question::Extend(Extend {
            id: claimed.task.id.clone(),
            token: claimed.token.clone(),
            seconds: Some(seconds(self.args.length)),
        });
        let mut since = Instant::now();
        loop {
            sleep(self.args.length / EXTENSIONS).await;
            let asked = Instant::now();
            match self.way.ask(&extend).await {
                Ok(_) => since = asked,
                Err(fault) if fault.may_pass() && since.elapsed() < self.args.length => {}
                Err(_) => return,
            }
        }
    }
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
        let line = format!("{}\n", claimed.json);
        tokio::spawn(async move {
            let _ = stdin.write_all(line.as_bytes()).await;
        });
    }
    Ok(child)
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
