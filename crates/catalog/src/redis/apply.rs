//! The effects: making a login as asked, switching it off, taking it away, and having the server keep it.

use mesh_sdk::adapter::Sink;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, Login, MarkSeen, Marker};

use super::acl::Shown;
use super::adapter::{Redis, get_user};
use super::compare::{Wish, diff};
use super::connect::Session;
use super::rules::{Rules, repair, switches_off, whole};
use super::wire::{Reply, Request};

/// How many commands go out before the replies to those before them are read.
const PART: usize = 256;
/// How many logins are made before the cost of saving is sampled on them.
const FIRST: usize = 16;

impl Redis {
    /// Looks, and writes only what differs, in one command.
    pub(super) async fn create_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        let mut session = self.session(cx).await?;
        if self.apply(cx, &mut session, wish).await? {
            self.save(cx, &mut session, &[wish.login().as_str()])
                .await?;
        }
        Ok(())
    }

    /// Whether anything had to be written.
    async fn apply(&self, cx: &Cx, session: &mut Session, wish: &Wish<'_>) -> Result<bool, Error> {
        if wish.enabled() && wish.password().is_none() {
            return Err(Error::new(Class::Bug, "there is no password to set"));
        }
        let table = self.table(cx, session).await?;
        let shown = get_user(session, wish.login().as_str()).await?;
        let (rules, ends_sessions) = match &shown {
            None => (whole(wish, &session.facts)?, false),
            Some(shown) => {
                let diff = diff(&table, wish, shown)?;
                if diff.is_none(wish.exact()) {
                    return Ok(false);
                }
                let rules = repair(wish, &session.facts, shown, &diff)?;
                (rules, switches_off(&diff))
            }
        };
        set_user(session, wish.login(), &rules).await?;
        if ends_sessions {
            end_sessions(session, wish.login()).await?;
        }
        cx.progress();
        Ok(true)
    }

    /// Many, in one pipeline of whole users: looking first would cost more than writing. Adopted logins
    /// and those to be kept switched off go one by one, since more than one command belongs to each.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut session = self.session(cx).await?;
        let (plain, special): (Vec<usize>, Vec<usize>) =
            (0..wishes.len()).partition(|i| wishes[*i].exact() && wishes[*i].enabled());
        let mut wrote = false;
        for index in special {
            let wish = &wishes[index];
            let outcome = match self.may_touch(wish.login().as_str()) {
                Ok(()) => self.apply(cx, &mut session, wish).await,
                Err(error) => Err(error),
            };
            wrote |= matches!(outcome, Ok(true));
            if let Err(error) = &outcome
                && matches!(error.class(), Class::Unreachable | Class::TimedOut)
            {
                return Err(error.clone());
            }
            outcomes.put(index, outcome.map(|_| ()));
        }
        self.create_plain(cx, &mut session, wishes, &plain, outcomes, wrote)
            .await
    }

    async fn create_plain(
        &self,
        cx: &Cx,
        session: &mut Session,
        wishes: &[Wish<'_>],
        plain: &[usize],
        outcomes: &Sink<()>,
        wrote: bool,
    ) -> Result<(), Error> {
        if self.aclfile(session).await? == Some(false) {
            return self.pipeline(cx, session, wishes, plain, outcomes).await;
        }
        // Each part is saved before the next is made, so that no save has more texts to work out than the
        // budget allows; the first is small, and tells what a text costs.
        let names: Vec<&str> = plain.iter().map(|i| wishes[*i].login().as_str()).collect();
        let (mut done, mut size) = (0, FIRST);
        let mut saving = true;
        while done < plain.len() {
            let next = plain.len().min(done.saturating_add(size));
            self.pipeline(cx, session, wishes, &plain[done..next], outcomes)
                .await?;
            if saving {
                let fit = self.save(cx, session, &names[done..next]).await?;
                saving = fit.is_some();
                size = fit.unwrap_or(usize::MAX);
            }
            done = next;
        }
        if plain.is_empty() && wrote {
            self.save(cx, session, &[]).await?;
        }
        Ok(())
    }

    /// Sends a part while the one before it is worked off.
    async fn pipeline(
        &self,
        cx: &Cx,
        session: &mut Session,
        wishes: &[Wish<'_>],
        those: &[usize],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let mut waiting: Vec<usize> = Vec::new();
        for part in those.chunks(PART) {
            let mut request = Request::with_room(part.len() * 384);
            let mut sent = Vec::with_capacity(part.len());
            for index in part {
                let wish = &wishes[*index];
                let login = wish.login().as_str();
                let rules = self
                    .may_touch(login)
                    .and_then(|()| whole(wish, &session.facts));
                match rules {
                    Ok(rules) => {
                        push_user(&mut request, login, &rules);
                        sent.push(*index);
                    }
                    Err(error) => outcomes.put(*index, Err(error)),
                }
            }
            session.wire.send(&request).await?;
            read_outcomes(cx, session, &waiting, outcomes).await?;
            waiting = sent;
        }
        read_outcomes(cx, session, &waiting, outcomes).await?;
        let run = session.facts.run.clone();
        self.state
            .change(&run, |known| known.users += those.len() as u64);
        Ok(())
    }

    /// Only with our mark for that consumer; dropping a user ends its sessions.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let mut session = self.session(cx).await?;
        if self.ours(&mut session, marker, going).await?.is_none() {
            return Ok(());
        }
        let name = going.login.as_str().as_bytes();
        session
            .wire
            .ask("remove a login", &[b"ACL", b"DELUSER", name])
            .await?;
        self.save(cx, &mut session, &[]).await?;
        Ok(())
    }

    /// Only with our mark for that consumer; its sessions are ended, since `off` alone keeps them.
    pub(super) async fn disable_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let mut session = self.session(cx).await?;
        let Some(shown) = self.ours(&mut session, marker, going).await? else {
            return Ok(());
        };
        if shown.on {
            set_user(&mut session, &going.login, &Rules::off()).await?;
        }
        end_sessions(&mut session, &going.login).await?;
        if shown.on {
            self.save(cx, &mut session, &[going.login.as_str()]).await?;
        }
        Ok(())
    }

    /// The login if it is there and ours; an error if it is somebody else's.
    async fn ours(
        &self,
        session: &mut Session,
        marker: &Marker,
        going: &Departing,
    ) -> Result<Option<Shown>, Error> {
        self.may_touch(going.login.as_str())?;
        let Some(shown) = get_user(session, going.login.as_str()).await? else {
            return Ok(None);
        };
        let seen = shown
            .marks
            .iter()
            .map(|text| marker.read(text, &going.consumer));
        if MarkSeen::strongest(seen) != MarkSeen::Ours {
            let message = format!(
                "`{}` does not carry our mark for `{}`",
                going.login, going.consumer
            );
            return Err(Error::new(Class::Exists, message));
        }
        Ok(Some(shown))
    }

    /// Whether the server has an ACL file; `None` where the admin may not ask.
    pub(super) async fn aclfile(&self, session: &mut Session) -> Result<Option<bool>, Error> {
        let run = session.facts.run.clone();
        if let known @ Some(_) = self.state.of(&run).aclfile {
            return Ok(known);
        }
        session
            .wire
            .send(&Request::one(&[b"CONFIG", b"GET", b"aclfile"]))
            .await?;
        let reply = session.wire.reply().await?;
        let value = reply.list().and_then(|pair| pair.get(1)?.text());
        let has = value.map(|path| !path.is_empty());
        self.state.change(&run, |known| known.aclfile = has);
        Ok(has)
    }

    /// Has the server write its ACL file, if it has one and that is within the budget. A file that could
    /// not be written is told by `server()` and fails nobody's `create`. Gives back how many changes the
    /// next save may have, or `None` if saving is not to be tried again in this call.
    async fn save(
        &self,
        cx: &Cx,
        session: &mut Session,
        changed: &[&str],
    ) -> Result<Option<usize>, Error> {
        if self.aclfile(session).await? == Some(false) {
            return Ok(None);
        }
        let run = session.facts.run.clone();
        let estimate = self.estimate(cx, session, changed).await?;
        if !estimate.fits(cx.block_budget) {
            let millis = estimate.block.as_millis();
            let told = format!(
                "its ACL file is behind: saving would block it for about {millis} ms; run `ACL SAVE` \
                 when that does no harm"
            );
            self.state.change(&run, |known| known.unsaved = Some(told));
            return Ok(None);
        }
        session.wire.send(&Request::one(&[b"ACL", b"SAVE"])).await?;
        let reply = session.wire.reply().await?;
        cx.progress();
        let saved = match reply.ok("save the ACL file") {
            Ok(_) => {
                self.warm(session, estimate.changes, None);
                Ok(())
            }
            Err(error) => Err(error),
        };
        self.state.change(&run, |known| match &saved {
            Ok(()) => (known.aclfile, known.unsaved) = (Some(true), None),
            Err(error) if error.class() == Class::Gone => known.aclfile = Some(false),
            Err(error) => known.unsaved = Some(error.message().to_owned()),
        });
        if saved.is_err() {
            return Ok(None);
        }
        let per_user = estimate.per_user.as_micros().max(1);
        // A margin, for texts that are dearer than the sample.
        let fit = cx.block_budget.as_micros() * 3 / 5 / per_user;
        Ok(Some(usize::try_from(fit).unwrap_or(usize::MAX).max(1)))
    }
}

fn push_user(request: &mut Request, login: &str, rules: &Rules) {
    let args = [&b"ACL"[..], b"SETUSER", login.as_bytes()].into_iter();
    request.push_each(rules.len() + 3, args.chain(rules.iter()));
}

async fn set_user(session: &mut Session, login: &Login, rules: &Rules) -> Result<(), Error> {
    let mut request = Request::with_room(512);
    push_user(&mut request, login.as_str(), rules);
    session.wire.send(&request).await?;
    session.wire.reply().await?.ok("set a login")?;
    Ok(())
}

async fn end_sessions(session: &mut Session, login: &Login) -> Result<(), Error> {
    let name = login.as_str().as_bytes();
    let kill: [&[u8]; 4] = [b"CLIENT", b"KILL", b"USER", name];
    session.wire.ask("end a login's sessions", &kill).await?;
    Ok(())
}

async fn read_outcomes(
    cx: &Cx,
    session: &mut Session,
    those: &[usize],
    outcomes: &Sink<()>,
) -> Result<(), Error> {
    if those.is_empty() {
        return Ok(());
    }
    let mut results = Vec::with_capacity(those.len());
    for index in those {
        let reply: Reply = session.wire.reply().await?;
        results.push((*index, reply.ok("set a login").map(|_| ())));
    }
    cx.progress();
    outcomes.put_each(results);
    Ok(())
}
