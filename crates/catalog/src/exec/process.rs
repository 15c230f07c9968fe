//! One running program: its pipes, and who waits for which answer.

use std::collections::HashMap;
use std::path::Path;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use mesh_sdk::adapter::ProviderSettings;
use mesh_sdk::{Error, Secret};
use serde::Serialize;
use serde_json::Value;
use tokio::io::{AsyncBufRead, AsyncWriteExt as _, BufReader};
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use zeroize::Zeroizing;

use super::lines::{LONGEST, Read, read_line};
use super::protocol::{AdminLine, Greeting, Hello, Line, Request, VERSIONS};
use super::values::ExecOptions;
use super::{classify, environment};

/// How long a program may take to say hello.
const HELLO: Duration = Duration::from_secs(10);
/// The longest line of standard error that is logged.
const LOGGED: usize = 4096;
/// Requests that wait to be written.
const QUEUE: usize = 64;

/// A line to write; it may hold a password, and is wiped.
type Bytes = Zeroizing<Vec<u8>>;

/// A part of an answer.
pub(super) enum Said {
    Progress,
    Item(Value),
    End(Result<Value, Error>),
}

/// Who waits for what, and whether it is over.
#[derive(Default)]
struct Waiting {
    open: HashMap<u64, mpsc::UnboundedSender<Said>>,
    over: Option<Error>,
}

#[derive(Default)]
pub(super) struct Shared {
    waiting: Mutex<Waiting>,
    hinted: Notify,
}

impl Shared {
    /// Nothing more comes from the program: everybody who waits is told why.
    fn end(&self, why: &Error) {
        self.hinted.notify_one();
        let Ok(mut waiting) = self.waiting.lock() else {
            return;
        };
        let why = waiting.over.get_or_insert_with(|| why.clone()).clone();
        for (_, door) in waiting.open.drain() {
            let _ = door.send(Said::End(Err(why.clone())));
        }
    }
    pub(super) fn over(&self) -> Option<Error> {
        self.waiting.lock().ok()?.over.clone()
    }
    /// Hands a line on. The error says what is wrong with it.
    fn take(&self, line: &[u8]) -> Result<(), &'static str> {
        let line: Line = serde_json::from_slice(line).map_err(|_| "is not of the protocol")?;
        if line.hint {
            // Kept for the one who listens, if it is not listening just now.
            self.hinted.notify_one();
        }
        let Some(id) = line.id else {
            return if line.hint { Ok(()) } else { Err("has no id") };
        };
        let mut waiting = self.waiting.lock().map_err(|_| "came too late")?;
        let said = match (line.item, line.ok, line.error) {
            (Some(item), None, None) => Said::Item(item),
            (None, Some(ok), None) => Said::End(Ok(ok)),
            (None, None, Some(trouble)) => Said::End(Err(classify::told("the program", &trouble))),
            (None, None, None) if line.progress => Said::Progress,
            _ => return Err("is not exactly one of `ok`, `error`, `item` and `progress`"),
        };
        // An answer that nobody waits for any more is one to a call that was cut off.
        let ends = matches!(said, Said::End(_));
        if let Some(door) = waiting.open.get(&id) {
            let _ = door.send(said);
        }
        if ends {
            waiting.open.remove(&id);
        }
        Ok(())
    }
}

/// A program that said hello. Killed on drop.
pub(super) struct Process {
    pub(super) hello: Hello,
    child: Mutex<Child>,
    shared: Arc<Shared>,
    door: mpsc::Sender<Bytes>,
    next: AtomicU64,
    flights: AtomicUsize,
    retired: AtomicBool,
    tasks: [JoinHandle<()>; 3],
}

impl Process {
    /// Starts the program and waits for its hello. Dropped meanwhile, the program is killed.
    pub(super) async fn start(
        settings: &ProviderSettings,
        options: &ExecOptions,
    ) -> Result<Self, Error> {
        let mut child = command(settings, options)
            .spawn()
            .map_err(|error| classify::not_started(&error))?;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(mut stdin), Some(stdout), Some(stderr)) = pipes else {
            return Err(classify::ended());
        };
        let logs = tokio::spawn(log(settings.provider.to_string(), stderr));
        let mut stdout = BufReader::new(stdout);
        let greeting = greeting(settings, options)?;
        let exchange = exchange(&mut stdin, &mut stdout, &greeting);
        let greeted = tokio::time::timeout(HELLO, exchange).await;
        let hello = match greeted.unwrap_or_else(|_| Err(classify::late())) {
            Ok(hello) => hello,
            Err(error) => {
                logs.abort();
                return Err(error);
            }
        };
        let shared = Arc::new(Shared::default());
        let (door, lines) = mpsc::channel(QUEUE);
        let tasks = [
            tokio::spawn(write(stdin, lines, Arc::clone(&shared))),
            tokio::spawn(read(stdout, Arc::clone(&shared))),
            logs,
        ];
        Ok(Self {
            hello,
            child: Mutex::new(child),
            shared,
            door,
            next: AtomicU64::new(1),
            flights: AtomicUsize::new(0),
            retired: AtomicBool::new(false),
            tasks,
        })
    }

    /// Whether a new request may be sent to it.
    pub(super) fn is_usable(&self) -> bool {
        let ended = |child: &mut Child| !matches!(child.try_wait(), Ok(None));
        let gone = self
            .child
            .lock()
            .map_or(true, |mut child| ended(&mut child));
        !gone && self.shared.over().is_none() && !self.retired.load(Ordering::Acquire)
    }

    /// Waits for a hint, or for the program's end, which is one as good as any.
    pub(super) async fn hinted(&self) {
        if self.shared.over().is_none() {
            self.shared.hinted.notified().await;
        }
    }

    /// Sends a request. Whoever drops the flight before it has landed ends this program's use (H-9).
    pub(super) async fn send<B: Serialize>(&self, op: &str, body: B) -> Result<Flight<'_>, Error> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let line = line(&Request { id, op, body })?;
        let (door, answers) = mpsc::unbounded_channel();
        {
            let waiting = self.shared.waiting.lock();
            let mut waiting = waiting.map_err(|_| classify::ended())?;
            if let Some(why) = &waiting.over {
                return Err(why.clone());
            }
            waiting.open.insert(id, door);
        }
        self.flights.fetch_add(1, Ordering::AcqRel);
        let mut flight = Flight {
            process: self,
            id,
            answers,
            landed: false,
        };
        if self.door.send(line).await.is_err() {
            flight.landed = true;
            return Err(self.shared.over().unwrap_or_else(classify::ended));
        }
        Ok(flight)
    }

    fn kill(&self) {
        if let Ok(mut child) = self.child.lock() {
            // An error says that it is gone already.
            let _ = child.start_kill();
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// A request on its way, until its last answer.
pub(super) struct Flight<'p> {
    process: &'p Process,
    id: u64,
    answers: mpsc::UnboundedReceiver<Said>,
    landed: bool,
}

impl Flight<'_> {
    /// The next part of the answer; the last one is [`Said::End`].
    pub(super) async fn next(&mut self) -> Said {
        let said = self.answers.recv().await;
        let said = said.unwrap_or_else(|| {
            let why = self.process.shared.over();
            Said::End(Err(why.unwrap_or_else(classify::ended)))
        });
        self.landed = matches!(said, Said::End(_));
        said
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        let process = self.process;
        if let Ok(mut waiting) = process.shared.waiting.lock() {
            waiting.open.remove(&self.id);
        }
        if !self.landed {
            process.retired.store(true, Ordering::Release);
        }
        let last = process.flights.fetch_sub(1, Ordering::AcqRel) == 1;
        if last && process.retired.load(Ordering::Acquire) {
            process.kill();
        }
    }
}

fn command(settings: &ProviderSettings, options: &ExecOptions) -> Command {
    let program = Path::new(&settings.path);
    let mut command = Command::new(program);
    command
        .args(&options.args)
        .env_clear()
        .envs(environment::kept())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        // A Ctrl-C is ours to hear: the step in hand is finished, and the program with it.
        .process_group(0)
        .kill_on_drop(true);
    if let Some(folder) = program.parent() {
        command.current_dir(folder);
    }
    command
}

fn greeting(settings: &ProviderSettings, options: &ExecOptions) -> Result<Bytes, Error> {
    let admin = settings.admin.as_ref().map(|admin| AdminLine {
        user: &admin.user,
        password: admin.password.as_ref().and_then(Secret::expose_str),
    });
    line(&Greeting {
        op: "hello",
        versions: VERSIONS,
        provider: settings.provider.as_str(),
        admin,
        settings: &options.settings,
    })
}

fn line(what: &impl Serialize) -> Result<Bytes, Error> {
    // Grown in place a buffer would leave copies behind: most lines fit from the start.
    let mut bytes = Zeroizing::new(Vec::with_capacity(4096));
    serde_json::to_writer(&mut *bytes, what)
        .map_err(|_| classify::odd("ask", "cannot be asked for as JSON"))?;
    bytes.push(b'\n');
    Ok(bytes)
}

async fn exchange(
    stdin: &mut ChildStdin,
    stdout: &mut BufReader<ChildStdout>,
    greeting: &Bytes,
) -> Result<Hello, Error> {
    let sent = async {
        stdin.write_all(greeting).await?;
        stdin.flush().await
    };
    // A program that does not read may still have said why.
    let _ = sent.await;
    let mut line = Vec::new();
    match read_line(stdout, LONGEST, &mut line).await {
        Read::End => return Err(classify::ended()),
        Read::TooLong => return Err(classify::garbled(1, "is too long")),
        Read::Line => {}
    }
    let hello: Hello = serde_json::from_slice(&line)
        .map_err(|_| classify::garbled(1, "is not the protocol's hello"))?;
    if let Some(trouble) = &hello.error {
        return Err(classify::told("hello", trouble));
    }
    if !VERSIONS.contains(&hello.version) {
        let message = format!(
            "the program speaks version {} of the protocol; spoken here: {VERSIONS:?}",
            hello.version
        );
        return Err(Error::new(mesh_sdk::Class::Cannot, message));
    }
    Ok(hello)
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Bytes>, shared: Arc<Shared>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() || stdin.flush().await.is_err() {
            return shared.end(&classify::ended());
        }
    }
}

async fn read(mut stdout: impl AsyncBufRead + Unpin, shared: Arc<Shared>) {
    let mut line = Vec::new();
    // The hello was the first.
    let mut number = 1;
    loop {
        number += 1;
        let wrong = match read_line(&mut stdout, LONGEST, &mut line).await {
            Read::End => return shared.end(&classify::ended()),
            Read::TooLong => Err("is too long"),
            Read::Line => shared.take(&line),
        };
        if let Err(why) = wrong {
            return shared.end(&classify::garbled(number, why));
        }
    }
}

/// What the program says on standard error is for people, line by line.
async fn log(provider: String, stderr: ChildStderr) {
    let mut stderr = BufReader::new(stderr);
    let mut line = Vec::new();
    loop {
        let read = read_line(&mut stderr, LOGGED, &mut line).await;
        if read == Read::End {
            return;
        }
        let text = String::from_utf8_lossy(&line);
        let text: String = text.chars().filter(|c| !c.is_control()).collect();
        if !text.is_empty() {
            tracing::debug!(provider, "the program says: {text}");
        }
    }
}
