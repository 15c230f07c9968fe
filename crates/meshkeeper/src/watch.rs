//! Sees when the manifest, or a secret that it names, changes.
//!
//! Two ways, always: the system tells of changes in the folders, and a slow poll looks by itself, since a
//! folder that is replaced tells nothing any more. A file that is still being written is waited for. A
//! manifest that cannot be read is told as such, and never as an empty one (R-8, O-36).

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{AccessKind, AccessMode};
use notify::{Event, EventKind, RecommendedWatcher, RecursiveMode, Watcher};
use tokio::sync::Notify;
use tokio::time::{Instant, sleep};

use crate::errors::Problems;
use crate::manifest::{self, ContentDigest, Kinds, Manifest, ReadFault, Reading};

/// The most folders that the system is asked to watch; the poll covers the rest.
const MAX_FOLDERS: usize = 128;

/// How fast changes are followed.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// How often to look without being told.
    pub poll: Duration,
    /// How long files must rest before they are read.
    pub quiet: Duration,
    /// How long to wait for rest at most.
    pub patience: Duration,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            poll: Duration::from_secs(5),
            quiet: Duration::from_millis(200),
            patience: Duration::from_secs(10),
        }
    }
}

/// Why there is something new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// The first reading.
    First,
    /// The manifest's text changed.
    Text,
    /// A file that it names changed.
    Files,
    /// Somebody asked for it (SIGHUP).
    Asked,
}

/// What is new.
#[derive(Debug, Clone)]
pub enum Change {
    /// The manifest as it is now; single entries may be refused.
    Reloaded {
        /// The manifest.
        manifest: Arc<Manifest>,
        /// Its mistakes and warnings.
        problems: Problems,
        /// Why it was read.
        cause: Cause,
    },
    /// There is no wish: the last good one stays in force.
    Unreadable(Unreadable),
}

/// Why there is no wish.
#[derive(Debug, Clone)]
pub enum Unreadable {
    /// The file cannot be read.
    File(ReadFault),
    /// Its mistakes make the whole doubtful.
    Mistakes(Problems),
}

impl Unreadable {
    /// One line for a condition.
    pub fn summary(&self) -> String {
        match self {
            Unreadable::File(fault) => fault.to_string(),
            Unreadable::Mistakes(problems) => problems.summary(),
        }
    }
}

#[derive(Default)]
struct Signal {
    wake: Notify,
    /// How often a reading was asked for.
    asked: AtomicU64,
    /// How often one of our files was named by an event.
    touched: AtomicU64,
    names: Mutex<BTreeSet<OsString>>,
}

impl Signal {
    fn event(&self, event: &Event) {
        // Reading a file is an event too: following that would never end.
        let written = EventKind::Access(AccessKind::Close(AccessMode::Write));
        if matches!(event.kind, EventKind::Access(_)) && event.kind != written {
            return;
        }
        let names = self.names.lock().unwrap_or_else(PoisonError::into_inner);
        let ours = |path: &PathBuf| path.file_name().is_some_and(|name| names.contains(name));
        if event.paths.is_empty() || event.paths.iter().any(ours) {
            self.touched.fetch_add(1, Ordering::Relaxed);
        }
        self.wake.notify_one();
    }
}

/// Asks for a reading, whatever the files say: what SIGHUP is bound to.
#[derive(Clone)]
pub struct Trigger(Arc<Signal>);

impl Trigger {
    /// Asks for it.
    pub fn fire(&self) {
        self.0.asked.fetch_add(1, Ordering::Relaxed);
        self.0.wake.notify_one();
    }
}

/// What tells one state of a file from another; `None` if it cannot be seen.
type Print = Option<(i64, i64, u64, u64, u64)>;

fn print(path: &Path) -> Print {
    let seen = std::fs::metadata(path).ok()?;
    Some((
        seen.mtime(),
        seen.mtime_nsec(),
        seen.size(),
        seen.ino(),
        seen.dev(),
    ))
}

/// The files, as they were seen last.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Prints {
    manifest: Print,
    files: Vec<Print>,
}

/// What was told last, so that the same is not told twice.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Told {
    Text(ContentDigest),
    Fault(ReadFault),
}

/// The last manifest that could be used.
struct Last {
    digest: ContentDigest,
    manifest: Arc<Manifest>,
    /// Its mistakes and warnings, if it had any.
    problems: Option<Problems>,
}

/// Watches one manifest.
pub struct Watch {
    path: PathBuf,
    kinds: Kinds,
    pace: Pace,
    signal: Arc<Signal>,
    watcher: Option<RecommendedWatcher>,
    folders: BTreeSet<PathBuf>,
    files: Arc<Vec<PathBuf>>,
    seen: Prints,
    heard: (u64, u64),
    told: Option<Told>,
    last: Option<Last>,
}

impl Watch {
    /// Begins to watch. The first [`Watch::next`] tells what is there now.
    pub fn start(path: PathBuf, kinds: Kinds, pace: Pace) -> Self {
        let mut watch = Self::idle(path, kinds, pace);
        watch.follow();
        watch
    }

    /// Begins to watch a manifest that was read just now. [`Watch::next`] tells what is other than that.
    pub fn start_with(manifest: Arc<Manifest>, kinds: Kinds, pace: Pace) -> Self {
        let mut watch = Self::idle(manifest.path.clone(), kinds, pace);
        watch.told = Some(Told::Text(manifest.digest));
        watch.last = Some(Last {
            digest: manifest.digest,
            manifest,
            problems: None,
        });
        watch.follow();
        // The manifest itself counts as unseen: its text is compared at the first look.
        watch.seen.files = watch.files.iter().map(|file| print(file)).collect();
        watch.signal.wake.notify_one();
        watch
    }

    fn idle(path: PathBuf, kinds: Kinds, pace: Pace) -> Self {
        let signal = Arc::new(Signal::default());
        let to = Arc::clone(&signal);
        let watcher =
            notify::recommended_watcher(move |event: notify::Result<Event>| match event {
                Ok(event) => to.event(&event),
                Err(_) => to.wake.notify_one(),
            });
        let watcher = watcher
            .inspect_err(|error| tracing::warn!(%error, "the system tells no changes of files; looking every few seconds"))
            .ok();
        Self {
            path,
            kinds,
            pace,
            signal,
            watcher,
            folders: BTreeSet::new(),
            files: Arc::default(),
            seen: Prints::default(),
            heard: (0, 0),
            told: None,
            last: None,
        }
    }
    /// What SIGHUP is bound to.
    pub fn trigger(&self) -> Trigger {
        Trigger(Arc::clone(&self.signal))
    }

    /// Waits for the next change. May be dropped at any await; nothing is lost.
    pub async fn next(&mut self) -> Change {
        loop {
            if self.told.is_some() {
                let woken = tokio::time::timeout(self.pace.poll, self.signal.wake.notified()).await;
                if woken.is_ok() {
                    sleep(self.pace.quiet).await;
                }
            }
            if let Some(change) = self.look().await {
                return change;
            }
        }
    }

    async fn look(&mut self) -> Option<Change> {
        let asked = self.signal.asked.load(Ordering::Relaxed);
        let touched = self.signal.touched.load(Ordering::Relaxed);
        let now = self.prints().await;
        let heard = (asked, touched) != self.heard;
        if now == self.seen && !heard && self.told.is_some() {
            return None;
        }
        let (now, reading) = self.read_at_rest(now).await;
        let files_changed = now.files != self.seen.files;
        let change = self.judge(reading, asked != self.heard.0, files_changed);
        // Only from here on counts what was seen: a reading that was given up is done again.
        self.heard = (asked, touched);
        self.seen = now;
        self.follow();
        self.seen.files = self.prints().await.files;
        change
    }

    /// Reads once the files have rested, and again if they moved while they were read.
    async fn read_at_rest(&self, mut now: Prints) -> (Prints, Result<Option<Reading>, ReadFault>) {
        let start = Instant::now();
        let mut rested = self.told.is_none();
        loop {
            while !rested && start.elapsed() < self.pace.patience {
                sleep(self.pace.quiet).await;
                let next = self.prints().await;
                rested = next == now;
                now = next;
            }
            let reading = self.read().await;
            let after = self.prints().await;
            if after == now || start.elapsed() >= self.pace.patience {
                return (after, reading);
            }
            (now, rested) = (after, false);
        }
    }

    fn judge(
        &mut self,
        reading: Result<Option<Reading>, ReadFault>,
        asked: bool,
        files_changed: bool,
    ) -> Option<Change> {
        let reading = match reading {
            Ok(None) => return self.same_text(asked, files_changed),
            Ok(Some(reading)) => Ok(reading),
            Err(fault) => Err(fault),
        };
        let told = match &reading {
            Ok(reading) => Told::Text(reading.digest),
            Err(fault) => Told::Fault(fault.clone()),
        };
        let first = self.told.is_none();
        let text_changed = self.told.as_ref() != Some(&told);
        self.told = Some(told);
        let cause = match (first, text_changed, files_changed, asked) {
            (true, ..) => Cause::First,
            (_, true, ..) => Cause::Text,
            (_, _, true, _) => Cause::Files,
            (_, _, _, true) => Cause::Asked,
            _ => return None,
        };
        match reading {
            Err(fault) => Some(Change::Unreadable(Unreadable::File(fault))),
            Ok(Reading {
                manifest: None,
                problems,
                ..
            }) if cause != Cause::Files => Some(Change::Unreadable(Unreadable::Mistakes(problems))),
            Ok(Reading { manifest: None, .. }) => None,
            Ok(Reading {
                manifest: Some(manifest),
                problems,
                digest,
            }) => {
                let manifest = Arc::new(manifest);
                self.last = Some(Last {
                    digest,
                    manifest: Arc::clone(&manifest),
                    problems: (!problems.is_empty()).then(|| problems.clone()),
                });
                Some(Change::Reloaded {
                    manifest,
                    problems,
                    cause,
                })
            }
        }
    }

    /// The text is that of the last manifest that could be used: it needs no second reading.
    fn same_text(&mut self, asked: bool, files_changed: bool) -> Option<Change> {
        let last = self.last.as_ref()?;
        let told = Told::Text(last.digest);
        let text_changed = self.told.as_ref() != Some(&told);
        self.told = Some(told);
        let cause = match (text_changed, files_changed, asked) {
            (true, ..) => Cause::Text,
            (_, true, _) => Cause::Files,
            (_, _, true) => Cause::Asked,
            _ => return None,
        };
        let none = || Problems::none(&self.path);
        Some(Change::Reloaded {
            manifest: Arc::clone(&last.manifest),
            problems: last.problems.clone().unwrap_or_else(none),
            cause,
        })
    }

    async fn prints(&self) -> Prints {
        let (path, files) = (self.path.clone(), Arc::clone(&self.files));
        let look = move || Prints {
            manifest: print(&path),
            files: files.iter().map(|file| print(file)).collect(),
        };
        tokio::task::spawn_blocking(look).await.unwrap_or_default()
    }
    /// `None`: the text is that of the last manifest.
    async fn read(&self) -> Result<Option<Reading>, ReadFault> {
        let (path, kinds) = (self.path.clone(), self.kinds.clone());
        let known = self.last.as_ref().map(|last| last.digest);
        let read = move || manifest::read_unless(&path, &kinds, known);
        let read = tokio::task::spawn_blocking(read).await;
        read.unwrap_or_else(|error| {
            let (path, reason) = (self.path.clone(), error.to_string());
            Err(ReadFault::Unreadable { path, reason })
        })
    }

    /// Asks the system to watch the folders of everything that matters now.
    fn follow(&mut self) {
        let files = self.last.as_ref().map(|last| last.manifest.files());
        self.files = Arc::new(files.unwrap_or_default());
        let all = || std::iter::once(&self.path).chain(self.files.iter());
        let names = all()
            .filter_map(|path| path.file_name())
            .map(OsString::from);
        *self
            .signal
            .names
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = names.collect();
        let folders: BTreeSet<PathBuf> = all().map(|path| folder(path)).take(MAX_FOLDERS).collect();
        let Some(watcher) = &mut self.watcher else {
            return;
        };
        for old in self.folders.difference(&folders) {
            let _ = watcher.unwatch(old);
        }
        for new in &folders {
            // Anew each time: a folder that was replaced looks the same and tells nothing any more.
            let _ = watcher.unwatch(new);
            if let Err(error) = watcher.watch(new, RecursiveMode::NonRecursive) {
                tracing::debug!(folder = %new.display(), %error, "this folder is only looked at every few seconds");
            }
        }
        self.folders = folders;
    }
}

fn folder(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => PathBuf::from("."),
    }
}
