//! The desk on a socket of the data folder: a question a line, an answer a line. Whoever may open it may
//! do what an agent may, and nothing else.

use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{
    AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::warn;

use super::Desk;
use super::message::{self, Code, LONGEST_QUESTION, Refusal};

/// What it is called in the data folder.
pub const NAME: &str = "tasks.sock";
/// What it is called until it has its rights; as long as its name.
const NEW: &str = "tasks.new_";
/// Its owner and its group.
const RIGHTS: u32 = 0o660;
/// The longest path that a socket can have, in bytes; the system's `sun_path` ends with a zero.
const LONGEST_PATH: usize = 107;
/// So many are heard at the same time.
const AT_ONCE: usize = 32;
/// Whoever says nothing for so long is not heard any more.
const SILENCE: Duration = Duration::from_secs(60);
/// After a connection that could not be taken.
const PAUSE: Duration = Duration::from_millis(200);

/// Listens. One that an earlier process left behind is replaced: the data folder has one daemon.
pub(super) fn listen(
    folder: &Path,
    desk: Arc<Desk>,
    stop: CancellationToken,
) -> Result<JoinHandle<()>, String> {
    let path = std::path::absolute(folder.join(NAME)).unwrap_or_else(|_| folder.join(NAME));
    let length = path.as_os_str().as_bytes().len();
    if length > LONGEST_PATH {
        return Err(format!(
            "{} has {length} bytes, and the path of a socket has at most {LONGEST_PATH}: use a data folder with a shorter path",
            path.display()
        ));
    }
    let listener = bind(&path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(tokio::spawn(accept(listener, path, desk, stop)))
}

/// It has its name only once it has its rights.
fn bind(path: &Path) -> io::Result<UnixListener> {
    let new = path.with_file_name(NEW);
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let listener = UnixListener::bind(&new)?;
    fs::set_permissions(&new, fs::Permissions::from_mode(RIGHTS))?;
    fs::rename(&new, path)?;
    Ok(listener)
}

async fn accept(listener: UnixListener, path: PathBuf, desk: Arc<Desk>, stop: CancellationToken) {
    let places = Arc::new(Semaphore::new(AT_ONCE));
    loop {
        let taken = tokio::select! {
            taken = listener.accept() => taken,
            () = stop.cancelled() => break,
        };
        match taken {
            Ok((stream, _)) => {
                let (desk, stop) = (Arc::clone(&desk), stop.clone());
                let place = Arc::clone(&places).try_acquire_owned().ok();
                tokio::spawn(async move {
                    let heard = match place {
                        Some(_place) => hear(stream, &desk, &stop).await,
                        None => refuse(stream).await,
                    };
                    // Whoever went away needs no answer.
                    drop(heard);
                });
            }
            Err(error) => {
                warn!("an agent could not be heard: {error}");
                sleep(PAUSE).await;
            }
        }
    }
    drop(fs::remove_file(&path));
}

/// Answers each line, until the other side ends, is silent for long, or says what is no line.
async fn hear(stream: UnixStream, desk: &Desk, stop: &CancellationToken) -> io::Result<()> {
    let (read, mut write) = stream.into_split();
    let mut read = BufReader::new(read);
    loop {
        let line = tokio::select! {
            line = timeout(SILENCE, line(&mut read)) => line.unwrap_or(Ok(None))?,
            () = stop.cancelled() => return Ok(()),
        };
        let Some(line) = line else { return Ok(()) };
        let too_long = line.len() > LONGEST_QUESTION;
        let outcome = desk.answer_bytes(None, &line).await;
        say(&mut write, &message::answer(&outcome)).await?;
        if too_long {
            return Ok(());
        }
    }
}

async fn refuse(stream: UnixStream) -> io::Result<()> {
    let (_, mut write) = stream.into_split();
    let refusal = Refusal::new(Code::Busy, "too many ask at once: ask again");
    say(&mut write, &message::answer(&Err(refusal))).await
}

async fn say(write: &mut (impl AsyncWrite + Unpin), text: &str) -> io::Result<()> {
    let line = format!("{text}\n");
    match timeout(SILENCE, write.write_all(line.as_bytes())).await {
        Ok(written) => written,
        Err(_) => Err(io::ErrorKind::TimedOut.into()),
    }
}

/// A line without its end; of one that is too long, the beginning. `None`: nothing more comes.
async fn line(read: &mut BufReader<impl AsyncRead + Unpin>) -> io::Result<Option<Vec<u8>>> {
    let mut line = Vec::new();
    let most = LONGEST_QUESTION as u64 + 2;
    let count = read.take(most).read_until(b'\n', &mut line).await?;
    if line.last() == Some(&b'\n') {
        line.pop();
    }
    Ok((count > 0).then_some(line))
}
