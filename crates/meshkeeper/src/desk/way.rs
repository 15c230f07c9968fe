//! How a command reaches a desk: the store itself, a socket, or a service on NATS servers.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use mesh_bus::jetstream::{Caller, Rings};
use mesh_sdk::bus::{Bucket, Bus, Key, Watch};
use serde_json::Value;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::UnixStream;
use tokio::time::timeout;

use super::Desk;
use super::message::{self, Code, Question, Refusal};

/// How long an answer is waited for: a desk may read everything that stands before it answers.
const ANSWER: Duration = Duration::from_secs(15);
/// The longest answer, in bytes; more than any desk gives.
const LONGEST: u64 = 1 << 20;

/// A desk that can be asked.
pub enum Way {
    /// On the store itself.
    Store(Box<Desk>),
    /// Through the socket of a `mesh up`.
    Socket(PathBuf),
    /// Through the service of any `mesh up` on a bus of NATS servers.
    Service(Box<Caller>),
}

/// Why there is no answer.
#[derive(Debug, thiserror::Error)]
pub enum AskFault {
    /// It was refused.
    #[error(transparent)]
    Refused(#[from] Refusal),
    /// Nobody answered. What was asked may have happened.
    #[error("{0}")]
    Unreachable(String),
}

impl AskFault {
    /// Whether it may be otherwise soon.
    pub fn may_pass(&self) -> bool {
        match self {
            AskFault::Refused(refusal) => matches!(refusal.code, Code::Busy | Code::Unavailable),
            AskFault::Unreachable(_) => true,
        }
    }
}

impl Way {
    /// Asks.
    pub async fn ask(&self, question: &Question) -> Result<Value, AskFault> {
        let answer = match self {
            Way::Store(desk) => return Ok(desk.answer(question).await?),
            Way::Socket(path) => {
                let asked = timeout(ANSWER, over_socket(path, &question.text())).await;
                let seconds = ANSWER.as_secs();
                let told =
                    |why: String| AskFault::Unreachable(format!("{}: {why}", path.display()));
                let asked = asked.map_err(|_| told(format!("no answer within {seconds} s")))?;
                asked.map_err(|error| told(why_not(&error)))?
            }
            Way::Service(caller) => {
                let asked = caller
                    .ask(question.word(), question.text().into_bytes())
                    .await;
                asked.map_err(|fault| AskFault::Unreachable(fault.to_string()))?
            }
        };
        let answer = message::read_answer(&answer);
        let odd = |why| AskFault::Unreachable(format!("the answer cannot be read: {why}"));
        Ok(answer.map_err(odd)??)
    }

    /// Begins to hear when there may be something to take.
    pub async fn bell(&self) -> Ring {
        match self {
            Way::Store(desk) => match desk.bus.watch(Bucket::Condition, &Key::everything()).await {
                Ok(watch) => Ring::Store(Arc::clone(&desk.bus), watch),
                Err(_) => Ring::Never,
            },
            Way::Socket(_) => Ring::Never,
            Way::Service(caller) => caller.rings().await.map_or(Ring::Never, Ring::Service),
        }
    }
}

/// Rings when there may be something to take, and need not: whoever waits for it looks by a timer, too.
pub enum Ring {
    /// A change of the conditions. The bus lives for as long as its watch is heard.
    Store(Arc<dyn Bus>, Box<dyn Watch>),
    /// A task that is told.
    Service(Rings),
    /// Nothing rings.
    Never,
}

impl Ring {
    /// Forgets what rang until now: whoever asks next sees it anyway.
    pub async fn hush(&mut self) {
        loop {
            tokio::select! {
                biased;
                () = self.next(|_| true) => {}
                () = std::future::ready(()) => return,
            }
        }
    }
    /// The next ring. `fits`: of which type of condition.
    pub async fn next(&mut self, fits: impl Fn(&str) -> bool) {
        match self {
            Ring::Store(_, watch) => drop(watch.next().await),
            Ring::Service(rings) => loop {
                match rings.next().await {
                    Some((kind, _)) if fits(&kind) => return,
                    Some(_) => {}
                    None => std::future::pending().await,
                }
            },
            Ring::Never => std::future::pending().await,
        }
    }
}

async fn over_socket(path: &PathBuf, question: &str) -> io::Result<Vec<u8>> {
    let (read, mut write) = UnixStream::connect(path).await?.into_split();
    // Whoever is refused for lack of room is told so, and may find the door shut.
    drop(write.write_all(format!("{question}\n").as_bytes()).await);
    let mut answer = Vec::new();
    let mut read = BufReader::new(read).take(LONGEST);
    read.read_until(b'\n', &mut answer).await?;
    if answer.is_empty() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(answer)
}

fn why_not(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused => {
            "nobody listens there: does `mesh up` run?".to_owned()
        }
        io::ErrorKind::PermissionDenied => "this user may not open it".to_owned(),
        _ => error.to_string(),
    }
}
