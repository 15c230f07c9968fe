//! Looking at one consumer or at many, and listing all logins. Nothing here writes.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::{BoxFuture, join_all};
use mesh_sdk::adapter::{Listed, Sink};
use mesh_sdk::{Answer, Cx, Error, Login, Marker};

use super::adapter::Etcd;
use super::api::{Api, Door};
use super::compare::{Wish, diff, listed_mark, look};
use super::grants::Grants;
use super::proof::{Said, proven};

/// How many connections a look at many uses.
const CONNECTIONS: usize = 4;
/// How many logins one look at many tries at most: each costs the server some 100 ms of one core. Those
/// that are left over are held by presence, and are tried by the next look.
const LOGINS: usize = 32;

/// A call for one name; `None` where there is none of that name.
type OneCall<T> =
    for<'a, 'c> fn(&'a mut Api<'c>, &'a Cx, &'a str) -> BoxFuture<'a, Result<Option<T>, Error>>;

impl Etcd {
    /// One.
    pub(super) async fn look_at_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<Answer, Error> {
        let mut api = self.api(cx).await?;
        let epoch = self.ledger.read(cx, &mut api).await?;
        let mut door = self.door()?;
        self.judge(cx, &mut api, &mut door, wish, epoch, || true)
            .await
    }

    /// Each, unless nothing can have changed since it was held.
    pub(super) async fn look_at_all(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        answers: &Sink<Answer>,
    ) -> Result<(), Error> {
        let mut api = self.api(cx).await?;
        let epoch = self.ledger.read(cx, &mut api).await?;
        let mut rest = Vec::new();
        let held = wishes.iter().enumerate().filter_map(|(index, wish)| {
            let now = self.ledger.moment(epoch, wish.login().as_str());
            let known = wish.password().is_some() && proven(wish).was_held(now);
            if !known {
                rest.push(index);
            }
            known.then(|| (index, Ok(Answer::held(mesh_sdk::Proof::Verifier))))
        });
        answers.put_each(held.collect::<Vec<_>>());
        if rest.is_empty() {
            return Ok(());
        }
        let (next, tried) = (AtomicUsize::new(0), AtomicUsize::new(0));
        drop(api);
        let work = || {
            let (next, tried, rest) = (&next, &tried, &rest);
            async move {
                let (mut api, mut door) = (self.api(cx).await?, self.door()?);
                while let Some(index) = rest.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let may_knock = || tried.fetch_add(1, Ordering::Relaxed) < LOGINS;
                    let wish = &wishes[*index];
                    let answer = self
                        .judge(cx, &mut api, &mut door, wish, epoch, may_knock)
                        .await;
                    if let Err(error) = &answer
                        && error.class().is_transient()
                    {
                        next.store(rest.len(), Ordering::Relaxed);
                        return Err(error.clone());
                    }
                    answers.put(*index, answer);
                }
                Ok(())
            }
        };
        let workers = CONNECTIONS.min(rest.len());
        join_all((0..workers).map(|_| work()))
            .await
            .into_iter()
            .collect()
    }

    async fn judge(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        door: &mut Door<'_>,
        wish: &Wish<'_>,
        epoch: Option<u64>,
        may_knock: impl FnOnce() -> bool,
    ) -> Result<Answer, Error> {
        let login = wish.login().as_str();
        let now = self.ledger.moment(epoch, login);
        let facts = proven(wish);
        if wish.password().is_some() && facts.was_held(now) {
            return Ok(Answer::held(mesh_sdk::Proof::Verifier));
        }
        let Some(shown) = look(cx, api, wish).await? else {
            return Ok(Answer::absent());
        };
        let may_knock = || self.client.may_carry_passwords() && may_knock();
        let said = match wish.password() {
            Some(password) => {
                facts
                    .look(cx, door, (login, password), now, may_knock)
                    .await?
            }
            None => Said::NotAsked,
        };
        let answer = diff(wish, &shown).answer(wish, said);
        let proven = matches!(said, Said::LoggedIn | Said::AsBefore);
        let plainly = matches!(&answer, Answer::Held(held) if held.warning.is_none());
        // An adopted login may be asked for exactly the next time.
        facts.note((proven && plainly).then_some(now));
        Ok(answer)
    }

    /// Every login with its roles: a call for the names and one for each.
    pub(super) async fn list_all(&self, cx: &Cx, marker: &Marker) -> Result<Vec<Listed>, Error> {
        let listed = self.users(cx).await?.into_iter().filter_map(|user| {
            let login = Login::new(&user.0).ok()?;
            Some(Listed::new(login, listed_mark(marker, &user.1), true))
        });
        Ok(listed.collect())
    }

    /// Every user with its roles.
    pub(super) async fn users(&self, cx: &Cx) -> Result<Vec<(String, Vec<String>)>, Error> {
        let names = self.api(cx).await?.users(cx).await?;
        self.each(cx, &names, |api, cx, name| Box::pin(api.user(cx, name)))
            .await
    }

    /// These roles with what they grant.
    pub(super) async fn roles(
        &self,
        cx: &Cx,
        names: &[String],
    ) -> Result<Vec<(String, Grants)>, Error> {
        let found = self.each(cx, names, |api, cx, name| Box::pin(api.role(cx, name)));
        let shown = |(name, all): (String, Vec<_>)| (name, Grants::shown(&all));
        Ok(found.await?.into_iter().map(shown).collect())
    }

    /// A call for each name. One that went meanwhile is not among the answers.
    async fn each<T: Send>(
        &self,
        cx: &Cx,
        names: &[String],
        ask: OneCall<T>,
    ) -> Result<Vec<(String, T)>, Error> {
        let (next, all) = (
            AtomicUsize::new(0),
            Mutex::new(Vec::with_capacity(names.len())),
        );
        let work = || {
            let (next, all) = (&next, &all);
            async move {
                let mut api = self.api(cx).await?;
                while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                    if let Some(found) = ask(&mut api, cx, name).await?
                        && let Ok(mut all) = all.lock()
                    {
                        all.push((name.clone(), found));
                    }
                }
                Ok::<_, Error>(())
            }
        };
        let workers = CONNECTIONS.min(names.len());
        let ends = join_all((0..workers).map(|_| work())).await;
        ends.into_iter().collect::<Result<(), Error>>()?;
        Ok(all.into_inner().unwrap_or_default())
    }
}
