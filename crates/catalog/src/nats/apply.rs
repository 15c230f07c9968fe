//! Changing the file, and having the server load it.

use std::sync::Arc;
use std::time::Duration;

use mesh_sdk::adapter::Sink;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, MarkSeen, Marker, Secret};
use tokio::time::timeout;

use super::adapter::Nats;
use super::compare::{Fit, Wish, diff, rights_to_have};
use super::file::{Edit, Entry, Line, UsersFile};
use super::hash::{Done, Job, Known, QUICK, work};
use super::look::{Seen, blocking, fits};
use super::{check, classify, disk};

/// How often a batch that the server does not take is halved, to find whom it does not take.
const MOST_RELOADS: usize = 40;

/// How often the server is asked to load, and how long each answer is waited for: 100,000 users take it 4 s.
const TRIES: usize = 3;
const PATIENCE: Duration = Duration::from_secs(8);

/// Edits of some wishes, by their place among the wishes.
type Edits = Vec<(usize, Edit)>;

impl Nats {
    /// Makes all of them, with one writing of the file and one reload.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut seen = self.see(cx).await?;
        let file = Arc::clone(&seen.file);
        let (edits, fine) = self.plan(cx, &file, wishes, outcomes).await?;
        if edits.is_empty() && !fine.is_empty() && !seen.loaded {
            self.load(cx, &mut seen).await?;
        }
        self.carry_out(cx, &mut seen, edits, outcomes).await?;
        outcomes.put_each(fine.into_iter().map(|at| (at, Ok(()))));
        Ok(())
    }

    /// Writes and loads; what the server does not take is halved until it is known who it is.
    async fn carry_out(
        &self,
        cx: &Cx,
        seen: &mut Seen,
        edits: Edits,
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut left = vec![edits];
        let mut reloads = 0;
        while let Some(mut part) = left.pop() {
            if part.is_empty() {
                continue;
            }
            reloads += 1;
            let done = self.write_and_load(cx, seen, &part).await;
            let error = match done {
                Ok(()) => {
                    outcomes.put_each(part.into_iter().map(|(at, _)| (at, Ok(()))));
                    continue;
                }
                Err(error) if !is_verdict(&error) => return Err(error),
                Err(error) => error,
            };
            if part.len() == 1 || reloads >= MOST_RELOADS {
                outcomes.put_each(part.into_iter().map(|(at, _)| (at, Err(error.clone()))));
                continue;
            }
            let second = part.split_off(part.len() / 2);
            left.push(second);
            left.push(part);
        }
        Ok(())
    }

    /// On success the file has the edits, and the server serves them. If the server does not take them,
    /// the file is as before: a server that starts must find one that it can read.
    async fn write_and_load(
        &self,
        cx: &Cx,
        seen: &mut Seen,
        edits: &[(usize, Edit)],
    ) -> Result<(), Error> {
        let edits: Vec<&Edit> = edits.iter().map(|(_, edit)| edit).collect();
        let (old, new) = (seen.file.text().to_owned(), seen.file.with(&edits));
        // What we could not read again is never written.
        let after = self.read_text(cx, new.clone()).await;
        let after = after.map_err(|_| classify::garbled("write the users file"))?;
        self.replace(seen, old.clone(), new.clone()).await?;
        match self.reload(cx, seen).await {
            Ok(()) => {
                seen.file = after;
                self.note_reading(seen).await
            }
            Err(error) => {
                if is_verdict(&error) {
                    // The server kept what it had, which is what stands there again.
                    self.replace(seen, new, old).await?;
                }
                Err(error)
            }
        }
    }

    /// Has the server load the file as it is.
    async fn load(&self, cx: &Cx, seen: &mut Seen) -> Result<(), Error> {
        self.reload(cx, seen).await?;
        self.note_reading(seen).await
    }

    /// Has the server read its configuration. It answers when that is done, or why it kept what it had. Its
    /// answer may get lost while it moves its subscriptions to what it has read: then it is asked again, on
    /// another connection, which does no harm.
    async fn reload(&self, cx: &Cx, seen: &mut Seen) -> Result<(), Error> {
        const WHAT: &str = "have the server load the users";
        for _ in 0..TRIES {
            let subject = format!("$SYS.REQ.SERVER.{}.RELOAD", seen.wire.info.server_id);
            let Ok(answer) = timeout(PATIENCE, seen.wire.ask(WHAT, &subject)).await else {
                seen.wire = self.admin(cx).await?;
                continue;
            };
            let answer = answer?;
            cx.progress();
            return match answer.get("error") {
                None => Ok(()),
                Some(error) => Err(classify::not_loaded(
                    error["description"].as_str().unwrap_or(""),
                )),
            };
        }
        Err(classify::late(WHAT))
    }

    async fn replace(&self, seen: &mut Seen, old: String, new: String) -> Result<(), Error> {
        let path = self.path()?;
        // Even if this call is cut off, nobody else here writes before this writing is over.
        let guard = seen.guard.take();
        let replaced = blocking(move || (disk::replace(&path, &old, &new), guard));
        let (replaced, guard) = replaced.await?;
        seen.guard = guard;
        replaced
    }

    /// What is to be written, and who is in order already; whoever cannot be made is told so at once.
    async fn plan(
        &self,
        cx: &Cx,
        file: &UsersFile,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(Edits, Vec<usize>), Error> {
        let fits = fits(cx, file, wishes).await?;
        let (mut todo, mut fine, mut jobs) = (Vec::new(), Vec::new(), Vec::new());
        for (at, (wish, fit)) in wishes.iter().zip(fits).enumerate() {
            let entry = file.find(wish.login().as_str());
            if let Err(error) = self.may_create(wish) {
                outcomes.put(at, Err(error));
                continue;
            }
            if entry.is_some_and(|entry| diff(wish, entry, fit).is_none(wish.exact())) {
                fine.push(at);
                continue;
            }
            let keeps = matches!(fit, Fit::Hash | Fit::Unknown);
            let stored = entry
                .and_then(|entry| entry.stored.clone())
                .filter(|_| keeps);
            if stored.is_none() {
                jobs.push(self.hashing(wish));
            }
            todo.push((at, wish, entry, stored));
        }
        let mut made = work(cx, jobs).await?.into_iter();
        let mut edits = Vec::with_capacity(todo.len());
        for (at, wish, entry, stored) in todo {
            let stored = match stored {
                Some(stored) => stored,
                None => match made.next() {
                    Some(Done::Made(hash)) => hash,
                    _ => return Err(classify::garbled("hash a password")),
                },
            };
            if wish.password().is_some() {
                Known::of(wish).keep(&stored);
            }
            edits.push((at, edit(wish, entry, &stored)));
        }
        Ok((edits, fine))
    }

    fn hashing(&self, wish: &Wish<'_>) -> Job {
        let chosen = self.options.as_ref().map_or(QUICK, |o| o.bcrypt_cost);
        let cost = if wish.is_generated() { QUICK } else { chosen };
        match wish.password() {
            Some(password) => Job::Make(password.clone(), cost),
            // A login that is made switched off, before it has a password: nothing fits.
            None => Job::Make(Secret::from(wish.mark().as_str()), QUICK),
        }
    }

    fn may_create(&self, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        check::wish(&self.settings, wish)
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))?;
        if wish.password().is_none() && wish.enabled() {
            let message = "there is no password to make this login with";
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }

    fn may_touch(&self, login: &str) -> Result<(), Error> {
        if check::is_reserved(login, &self.settings) {
            let message = format!("`{login}` is reserved and never touched");
            return Err(Error::new(Class::RefusedValue, message));
        }
        Ok(())
    }

    /// Takes a login out of the file.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        self.depart(cx, marker, going, |entry| Some(Edit::drop(&entry.login)))
            .await
    }

    /// Leaves a login in the file as a comment.
    pub(super) async fn switch_off(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        self.depart(cx, marker, going, |entry| {
            let line = Line {
                login: &entry.login,
                stored: entry.stored.as_deref().unwrap_or(""),
                rights: &entry.rights.clone().unwrap_or_default(),
                mark: entry.mark.as_deref(),
                on: false,
            };
            entry.on.then(|| Edit::put(&line))
        })
        .await
    }

    async fn depart(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
        edit: impl Fn(&Entry) -> Option<Edit>,
    ) -> Result<(), Error> {
        self.may_touch(going.login.as_str())?;
        let mut seen = self.see(cx).await?;
        let file = Arc::clone(&seen.file);
        let Some(entry) = file.find(going.login.as_str()) else {
            // Gone from the file; a server that has not seen that yet would still let it in.
            return match seen.loaded {
                true => Ok(()),
                false => self.load(cx, &mut seen).await,
            };
        };
        let mark = entry.mark.as_deref().unwrap_or("");
        if marker.read(mark, &going.consumer) != MarkSeen::Ours {
            let message = "this login does not carry our mark for this consumer: it is left alone";
            return Err(Error::new(Class::Exists, message));
        }
        match edit(entry) {
            Some(edit) => self.write_and_load(cx, &mut seen, &[(0, edit)]).await,
            None if !seen.loaded => self.load(cx, &mut seen).await,
            None => Ok(()),
        }
    }
}

/// The line for a wish.
fn edit(wish: &Wish<'_>, entry: Option<&Entry>, stored: &str) -> Edit {
    Edit::put(&Line {
        login: wish.login().as_str(),
        stored,
        rights: &rights_to_have(wish, entry),
        mark: Some(wish.mark().as_str()),
        on: wish.enabled(),
    })
}

/// Whether the server said no to what we wrote.
fn is_verdict(error: &Error) -> bool {
    matches!(error.class(), Class::RefusedValue | Class::Exists)
}
