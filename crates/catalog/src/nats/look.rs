//! Looking: at the file, at whether the server has loaded it, and at what it lets in. Nothing here writes.

use std::hash::BuildHasher;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use mesh_sdk::adapter::{Listed, Sink};
use mesh_sdk::{Answer, Class, Cx, Error, Held, Login, Marker, Proof};
use tokio::sync::OwnedMutexGuard;
use tokio::task::spawn_blocking;

use super::adapter::Nats;
use super::compare::{Fit, Wish, diff, listed_mark, refused_by_the_server};
use super::disk;
use super::file::UsersFile;
use super::hash::{Done, Job, Known, is_hash, work};
use super::rights::Rights;
use super::wire::{Entered, Wire, enter, is_encrypted};
use super::{classify, stamp};

/// How many are logged in as at each bulk look, one after the other; the next look takes the next ones.
const LOGINS_A_LOOK: usize = 4;
/// No system steps the times of files more coarsely, in nanoseconds.
const CLOCK_STEP: i128 = 20_000_000;

/// The file and the server at one moment, during which this adapter changes neither.
pub(super) struct Seen {
    pub(super) wire: Wire,
    pub(super) file: Arc<UsersFile>,
    /// Whether the server has read the file since it was changed.
    pub(super) loaded: bool,
    pub(super) guard: Option<OwnedMutexGuard<()>>,
}

impl Nats {
    /// A connection that is logged in as the admin.
    pub(super) async fn admin(&self, cx: &Cx) -> Result<Wire, Error> {
        let admin = self.settings.admin.as_ref();
        let user = admin.map_or("", |admin| admin.user.as_str());
        let password = admin.and_then(|admin| admin.password.as_ref());
        let password = password.and_then(|p| p.expose_str()).unwrap_or("");
        let (wire, entered) = enter(&self.settings, user, password).await?;
        cx.progress();
        let denied = |message: &str| Err(Error::new(Class::Denied, message));
        match entered {
            Entered::Yes => Ok(wire),
            Entered::Refused => denied("log in as the admin: refused"),
            Entered::Open => denied("the server asks nobody for a login: it has no users at all"),
        }
    }

    /// Reads the file, and asks the server when it read it last.
    pub(super) async fn see(&self, cx: &Cx) -> Result<Seen, Error> {
        let guard = self.writing.clone().lock_owned().await;
        let mut wire = self.admin(cx).await?;
        let path = self.path()?;
        let snapshot = blocking(move || disk::read(&path)).await??;
        let read_at = load_time(&mut wire).await?;
        cx.progress();
        let loaded = self.is_loaded(&wire, read_at, &snapshot);
        let file = self.read_text(cx, snapshot.text).await?;
        Ok(Seen {
            wire,
            file,
            loaded,
            guard: Some(guard),
        })
    }

    /// The text, read; the one that was read last is not read again.
    pub(super) async fn read_text(&self, cx: &Cx, text: String) -> Result<Arc<UsersFile>, Error> {
        let known = self.last_read.lock().ok().and_then(|last| last.clone());
        if let Some(file) = known.filter(|file| file.text() == text) {
            return Ok(file);
        }
        let _computing = cx.computing();
        let file = Arc::new(blocking(move || UsersFile::read(text)).await??);
        if let Ok(mut last) = self.last_read.lock() {
            *last = Some(Arc::clone(&file));
        }
        Ok(file)
    }

    /// Whether the server has read this text. What is known about its last reading decides; else the times
    /// of both do.
    fn is_loaded(&self, wire: &Wire, read_at: i128, snapshot: &disk::Snapshot) -> bool {
        let by_time = read_at >= snapshot.changed;
        let now = self.reading(wire, read_at, &snapshot.text);
        let Ok(mut served) = self.served.lock() else {
            return by_time;
        };
        match &*served {
            Some(known) if (&known.0, known.1) == (&now.0, now.1) => *known == now,
            _ => {
                // A file's times come in steps: what was written right behind the reading looks older.
                if read_at >= snapshot.changed + CLOCK_STEP {
                    *served = Some(now);
                }
                by_time
            }
        }
    }

    /// Notes that the server has just read the file as it was seen.
    pub(super) async fn note_reading(&self, seen: &mut Seen) -> Result<(), Error> {
        let read_at = load_time(&mut seen.wire).await?;
        let reading = self.reading(&seen.wire, read_at, seen.file.text());
        if let Ok(mut served) = self.served.lock() {
            *served = Some(reading);
        }
        seen.loaded = true;
        Ok(())
    }

    fn reading(&self, wire: &Wire, read_at: i128, text: &str) -> (String, i128, u64) {
        let text = self.hasher.hash_one(text);
        (wire.info.server_id.clone(), read_at, text)
    }

    pub(super) fn path(&self) -> Result<PathBuf, Error> {
        match &self.options {
            Ok(options) => Ok(PathBuf::from(&options.users_file)),
            Err(refusal) => Err(Error::new(Class::RefusedValue, refusal.to_string())),
        }
    }

    /// One look, with a login as the consumer.
    pub(super) async fn look_at_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let seen = self.see(cx).await?;
        let wishes = std::slice::from_ref(wish);
        let fit = fits(cx, &seen.file, wishes).await?;
        let answer = judge(&seen, wish, fit[0]);
        drop(seen);
        match self.logged_in(cx, wish, &answer).await {
            Ok(Some(answer)) => Ok(answer),
            Ok(None) => Ok(answer),
            // It is there, and has no room for one more connection: the file's word stands.
            Err(error) if error.class() == Class::Busy => Ok(answer),
            Err(error) => Err(error),
        }
    }

    /// One reading of the file for all, and a login for a few.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let seen = self.see(cx).await?;
        let fits = fits(cx, &seen.file, wishes).await?;
        let judged = wishes.iter().zip(fits);
        let judged: Vec<Answer> = judged.map(|(wish, fit)| judge(&seen, wish, fit)).collect();
        drop(seen);
        let all = judged.iter().cloned().enumerate();
        answers.put_each(all.map(|(at, answer)| (at, Ok(answer))));
        let first = self.next_login.load(Ordering::Relaxed);
        let mut tried = 0;
        for step in 0..wishes.len() {
            let at = first.wrapping_add(step) % wishes.len();
            match self.logged_in(cx, &wishes[at], &judged[at]).await {
                Ok(None) => continue,
                Ok(Some(answer)) => answers.put(at, Ok(answer)),
                // The file has answered for all; a login that says nothing takes nothing back.
                Err(_) => break,
            }
            tried += 1;
            if tried == LOGINS_A_LOOK {
                let next = first.wrapping_add(step + 1) % wishes.len();
                self.next_login.store(next, Ordering::Relaxed);
                break;
            }
        }
        Ok(())
    }

    /// Logs in as the consumer, on a connection of its own, where that proves something and is safe: a
    /// wrong password is never sent, as the file has shown before that it would be one.
    async fn logged_in(
        &self,
        cx: &Cx,
        wish: &Wish<'_>,
        by_file: &Answer,
    ) -> Result<Option<Answer>, Error> {
        let Answer::Held(held) = by_file else {
            return Ok(None);
        };
        let Some(password) = wish.password().and_then(|p| p.expose_str()) else {
            return Ok(None);
        };
        let may_connect = Rights::wanted(wish.values()).lets_clients_in();
        if !wish.enabled() || !may_connect || !self.may_carry_passwords() {
            return Ok(None);
        }
        let (_, entered) = enter(&self.settings, wish.login().as_str(), password).await?;
        cx.progress();
        Ok(Some(match entered {
            Entered::Yes => Answer::Held(Held {
                proof: Proof::Login,
                warning: held.warning.clone(),
            }),
            Entered::Refused => refused_by_the_server(),
            Entered::Open => Answer::Held(Held {
                proof: Proof::Verifier,
                warning: Some("the server lets anybody in with any password".into()),
            }),
        }))
    }

    /// Whether a consumer's own password may go over a connection (H-17).
    fn may_carry_passwords(&self) -> bool {
        self.settings
            .may_carry_passwords(is_encrypted(&self.settings))
    }

    /// Every login of the file.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let seen = self.see(cx).await?;
        let entries = seen.file.entries().iter();
        let listed = entries.filter_map(|entry| {
            let login = Login::new(&entry.login).ok()?;
            Some(Listed::new(login, listed_mark(marker, entry), entry.on))
        });
        Ok(listed.collect())
    }
}

fn judge(seen: &Seen, wish: &Wish<'_>, fit: Fit) -> Answer {
    match seen.file.find(wish.login().as_str()) {
        None => Answer::absent(),
        Some(entry) => diff(wish, entry, fit).answer(wish, seen.loaded),
    }
}

/// When the server read its configuration last, with success.
async fn load_time(wire: &mut Wire) -> Result<i128, Error> {
    const WHAT: &str = "ask when the configuration was loaded";
    let subject = format!("$SYS.REQ.SERVER.{}.VARZ", wire.info.server_id);
    let answer = wire.ask(WHAT, &subject).await?;
    let time = answer["data"]["config_load_time"].as_str();
    let time = time.and_then(stamp::nanos);
    time.ok_or_else(|| classify::garbled(WHAT))
}

/// Whether each wish's password is the one in the file. What was proven once is compared as text.
pub(super) async fn fits(
    cx: &Cx,
    file: &UsersFile,
    wishes: &[Wish<'_>],
) -> Result<Vec<Fit>, Error> {
    let mut fits = vec![Fit::Not; wishes.len()];
    let (mut slow, mut jobs) = (Vec::new(), Vec::new());
    for (at, wish) in wishes.iter().enumerate() {
        let stored = file.find(wish.login().as_str());
        let stored = stored.and_then(|entry| entry.stored.as_deref());
        fits[at] = match (wish.password(), stored) {
            (None, _) => Fit::Unknown,
            (Some(_), None) => Fit::Not,
            (Some(_), Some(stored)) if Known::of(wish).is(stored) => Fit::Hash,
            (Some(password), Some(stored)) if is_hash(stored) => {
                slow.push((at, stored));
                jobs.push(Job::Prove(password.clone(), stored.to_owned()));
                Fit::Not
            }
            (Some(password), Some(stored)) if password.expose() == stored.as_bytes() => Fit::Plain,
            (Some(_), Some(_)) => Fit::Not,
        };
    }
    for ((at, stored), done) in slow.into_iter().zip(work(cx, jobs).await?) {
        if matches!(done, Done::Proven(true)) {
            fits[at] = Fit::Hash;
            Known::of(&wishes[at]).keep(stored);
        }
    }
    Ok(fits)
}

/// Runs what waits for the disk or computes long on a thread of its own.
pub(super) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Error> {
    let failed = |_| Error::new(Class::Bug, "a thread of ours ended early");
    spawn_blocking(work).await.map_err(failed)
}
