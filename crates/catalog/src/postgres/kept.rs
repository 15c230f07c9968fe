//! Sessions of the admin's that wait for their next call.
//!
//! A login costs the server a process and its verifier's rounds, and a pass comes every minute. So a session
//! on which all went well is kept for the next call in its database. One that was cut off, or on which
//! anything failed, never comes here (H-9). So that nobody is served by what is long out of date, and nobody
//! else waits for long: no session is kept idle for longer than [`IDLE`], or used when it is older than
//! [`AGE`], and there are never more than the provider's `kept_sessions`, or an eighth of what the server
//! takes.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::time::{Instant, sleep};

use super::session::{Facts, Line};

/// How long a session waits for its next call: longer than passes are apart, unless said otherwise.
const IDLE: Duration = Duration::from_secs(150);
/// How old a session may be when it is used: a changed password of the admin's, or another server behind the
/// same name, is noticed then at the latest.
const AGE: Duration = Duration::from_secs(600);

/// One that waits.
pub(super) struct Idle {
    pub(super) line: Line,
    pub(super) database: Arc<str>,
    /// As they were when it was asked last.
    pub(super) facts: Facts,
    since: Instant,
}

impl Idle {
    pub(super) fn new(line: Line, database: Arc<str>, facts: Facts) -> Self {
        let since = Instant::now();
        Self {
            line,
            database,
            facts,
            since,
        }
    }
    fn is_good(&self) -> bool {
        self.since.elapsed() < IDLE && self.line.age() < AGE && !self.line.is_over()
    }
}

/// All that wait. Dropped, it ends them.
#[derive(Default)]
pub(super) struct Kept(Mutex<Waiting>);

#[derive(Default)]
struct Waiting {
    all: Vec<Idle>,
    /// Somebody comes and ends those that wait for too long.
    swept: bool,
}

impl Drop for Kept {
    fn drop(&mut self) {
        part(self.waiting().all.drain(..));
    }
}

fn part(all: impl IntoIterator<Item = Idle>) {
    for idle in all {
        drop(idle.line.part());
    }
}

impl Kept {
    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// One in this database, if there is one.
    pub(super) fn take(&self, database: &str) -> Option<Idle> {
        self.sweep();
        let all = &mut self.waiting().all;
        let at = all.iter().rposition(|idle| &*idle.database == database)?;
        Some(all.remove(at))
    }

    /// Keeps one, if there is room; else it ends. Those that are here stay, since the next pass asks in the
    /// same order; but one that `goes_first` takes the place of another.
    pub(super) fn put(self: &Arc<Self>, idle: Idle, most: usize, goes_first: bool) {
        self.sweep();
        let ended = {
            let mut waiting = self.waiting();
            let full = waiting.all.len() >= most;
            let other = |all: &[Idle]| all.iter().position(|one| one.database != idle.database);
            let place = match full {
                true if goes_first && most > 0 => other(&waiting.all),
                _ => None,
            };
            match place {
                Some(at) => Some(std::mem::replace(&mut waiting.all[at], idle)),
                None if full => Some(idle),
                None => {
                    waiting.all.push(idle);
                    self.come_back(&mut waiting);
                    None
                }
            }
        };
        part(ended);
    }

    /// Sees to it that those which wait too long are ended though no call comes.
    fn come_back(self: &Arc<Self>, waiting: &mut Waiting) {
        let Ok(runtime) = Handle::try_current() else {
            return;
        };
        if std::mem::replace(&mut waiting.swept, true) {
            return;
        }
        let kept = Arc::downgrade(self);
        runtime.spawn(async move {
            loop {
                sleep(IDLE / 2).await;
                let Some(kept) = kept.upgrade() else { return };
                kept.sweep();
                let mut waiting = kept.waiting();
                if waiting.all.is_empty() {
                    waiting.swept = false;
                    return;
                }
            }
        });
    }

    fn sweep(&self) {
        let gone: Vec<Idle> = self
            .waiting()
            .all
            .extract_if(.., |idle| !idle.is_good())
            .collect();
        part(gone);
    }

    /// Ends those in one database, or all, and returns when they are over. Whether there were any.
    pub(super) async fn end(&self, database: Option<&str>) -> bool {
        let which = |idle: &mut Idle| database.is_none_or(|name| &*idle.database == name);
        let ended: Vec<Idle> = self.waiting().all.extract_if(.., which).collect();
        let any = !ended.is_empty();
        for idle in ended {
            if let Some(task) = idle.line.part() {
                let _ = task.await;
            }
        }
        any
    }
}
