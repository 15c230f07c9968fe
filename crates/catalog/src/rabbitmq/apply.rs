//! The effects: making a login as asked, switching it off, taking it away.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use mesh_sdk::adapter::Sink;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, MarkSeen, Marker};

use super::adapter::Rabbit;
use super::api::{Api, Shown, User};
use super::compare::{Wish, diff, expected, mark_for, tags};
use super::hash;
use super::look::{FEW, Index};

/// How many connections make many logins; more gain nothing (`docs/decisions/0061-rabbitmq-bulk.md`).
const CONNECTIONS: usize = 8;

impl Rabbit {
    /// Looks, and writes only what differs.
    pub(super) async fn create_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        let mut api = self.api()?;
        let shown = api.look(cx, wish.login().as_str()).await?;
        let shown = shown.as_ref().map(|one| one.part(&one.users));
        self.apply(cx, &mut api, wish, shown.as_ref()).await
    }

    async fn apply(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        shown: Option<&Shown<&User>>,
    ) -> Result<(), Error> {
        if wish.enabled() && wish.password().is_none() {
            return Err(Error::new(Class::Bug, "there is no password to set"));
        }
        let Some(shown) = shown else {
            return self.make(cx, api, wish).await;
        };
        let diff = diff(wish, shown);
        if diff.is_none(wish.exact()) {
            return Ok(());
        }
        let login = wish.login().as_str();
        // What is too much goes before anything comes.
        if wish.exact() {
            // Where one is asked for in its place, it is overwritten.
            let replaced = |vhost: &str| diff.missing.permissions.iter().any(|p| p.vhost == vhost);
            let asked = expected(wish);
            for one in &diff.surplus.permissions {
                match asked.permissions.iter().find(|p| p.vhost == one.vhost) {
                    _ if replaced(&one.vhost) => {}
                    Some(wanted) => api.put_permission(cx, wanted).await?,
                    None => api.delete_permission(cx, &one.vhost, login).await?,
                }
            }
            for one in &diff.surplus.topics {
                api.delete_topic(cx, one).await?;
            }
        }
        if diff.is_of_user(wish) {
            let tags = tags(wish, Some(shown.users));
            let kept = (!diff.password).then_some(shown.users.password_hash.as_str());
            self.put_user(cx, api, wish, kept, &tags).await?;
        }
        if wish.enabled() && diff.limited {
            api.delete_limit(cx, login).await?;
        }
        self.grant(cx, api, wish, &diff.missing).await?;
        if !wish.enabled() && diff.usable {
            api.end_sessions(cx, login).await?;
        }
        Ok(())
    }

    /// A new one: first without rights, then with them. If the server does not take them, it is as if
    /// nothing had been made.
    async fn make(&self, cx: &Cx, api: &mut Api<'_>, wish: &Wish<'_>) -> Result<(), Error> {
        let asked = expected(wish);
        self.put_user(cx, api, wish, None, &tags(wish, None))
            .await?;
        let rights = super::compare::Rights {
            permissions: asked.permissions.clone(),
            topics: asked.topics.clone(),
            tags: Vec::new(),
        };
        let granted = self.grant(cx, api, wish, &rights).await;
        if granted
            .as_ref()
            .is_err_and(|error| error.class() == Class::RefusedValue)
        {
            api.delete_user(cx, wish.login().as_str()).await?;
        }
        granted
    }

    /// With the verifier that is there where it fits, so that nothing but the difference changes. A login
    /// that is to be off keeps its verifier, under an algorithm that can match nothing.
    async fn put_user(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        kept: Option<&str>,
        tags: &[String],
    ) -> Result<(), Error> {
        let asked = expected(wish);
        let hash = kept.or(asked.hash.as_deref()).unwrap_or_default();
        let algorithm = match wish.enabled() {
            true => hash::algorithm_of(hash),
            false => hash::unusable_for(hash),
        };
        api.put_user(cx, wish.login().as_str(), (hash, algorithm), tags)
            .await
    }

    async fn grant(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        rights: &super::compare::Rights,
    ) -> Result<(), Error> {
        for one in &rights.permissions {
            let Err(error) = api.put_permission(cx, one).await else {
                continue;
            };
            // One answer for a virtual host and for a user that is not there.
            let refused = error.class() == Class::RefusedValue;
            if !refused || api.has_vhost(cx, &one.vhost).await? {
                return Err(error);
            }
            if !wish.values().create_vhost {
                return Err(no_vhost(&one.vhost));
            }
            api.make_vhost(cx, &one.vhost, self.admin()).await?;
            api.put_permission(cx, one).await?;
        }
        for one in &rights.topics {
            api.put_topic(cx, one).await?;
        }
        Ok(())
    }

    /// Many, over a few connections, each login by itself: one that fails stops no other, and what is in
    /// order is not written.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        if wishes.len() <= FEW {
            let mut api = self.api()?;
            for (index, wish) in wishes.iter().enumerate() {
                let outcome = self.create_with(cx, &mut api, wish).await;
                settle(index, outcome, outcomes)?;
            }
            return Ok(());
        }
        let all = self.api()?.look_at_all(cx).await?;
        let index = Index::of(&all);
        let (next, working) = (AtomicUsize::new(0), AtomicUsize::new(CONNECTIONS));
        let work = || async {
            let mut api = self.api()?;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(wish) = wishes.get(at) else {
                    return Ok(());
                };
                let outcome = match self.may_touch(wish.login().as_str()) {
                    Ok(()) => {
                        let shown = index.find(wish.login().as_str());
                        self.apply(cx, &mut api, wish, shown.as_ref()).await
                    }
                    Err(error) => Err(error),
                };
                let Err(error) = settle(at, outcome, outcomes) else {
                    continue;
                };
                // A server that is busy is asked by one fewer; only the last one stops for it. Nobody
                // goes on asking a server that cannot be asked at all.
                let others = working.fetch_sub(1, Ordering::Relaxed) > 1;
                if error.class() != Class::Busy || !others {
                    next.store(wishes.len(), Ordering::Relaxed);
                }
                return Err(error);
            }
        };
        let ends = join_all((0..CONNECTIONS).map(|_| work())).await;
        ends.into_iter().collect()
    }

    async fn create_with(&self, cx: &Cx, api: &mut Api<'_>, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        let shown = api.look(cx, wish.login().as_str()).await?;
        let shown = shown.as_ref().map(|one| one.part(&one.users));
        self.apply(cx, api, wish, shown.as_ref()).await
    }

    /// Only with our mark for that consumer; the server ends its sessions.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let mut api = self.api()?;
        match self.ours(cx, &mut api, marker, going).await? {
            Some(_) => api.delete_user(cx, going.login.as_str()).await,
            None => Ok(()),
        }
    }

    /// Only with our mark for that consumer. The verifier, the tags and the permissions stay.
    pub(super) async fn disable_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let mut api = self.api()?;
        let Some(user) = self.ours(cx, &mut api, marker, going).await? else {
            return Ok(());
        };
        let login = going.login.as_str();
        if hash::is_usable(&user.password_hash, &user.hashing_algorithm) {
            let hash = user.password_hash.as_str();
            api.put_user(cx, login, (hash, hash::unusable_for(hash)), &user.tags())
                .await?;
        }
        api.end_sessions(cx, login).await
    }

    /// The login if it is there and ours; an error if it is somebody else's.
    async fn ours(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        marker: &Marker,
        going: &Departing,
    ) -> Result<Option<User>, Error> {
        self.may_touch(going.login.as_str())?;
        let Some(user) = api.user(cx, going.login.as_str()).await? else {
            return Ok(None);
        };
        if mark_for(marker, &user, &going.consumer) != MarkSeen::Ours {
            let (login, consumer) = (&going.login, &going.consumer);
            let message = format!("`{login}` does not carry our mark for `{consumer}`");
            return Err(Error::new(Class::Exists, message));
        }
        Ok(Some(user))
    }
}

/// Puts an outcome. One that says that nobody can be served now is given back instead.
fn settle(index: usize, outcome: Result<(), Error>, outcomes: &Sink<()>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.class().is_transient() => Err(error),
        outcome => {
            outcomes.put(index, outcome);
            Ok(())
        }
    }
}

fn no_vhost(vhost: &str) -> Error {
    let told: String = vhost.chars().filter(|c| !c.is_control()).take(80).collect();
    let message = format!(
        "there is no virtual host `{told}`: make it (`rabbitmqctl add_vhost`), or say `create_vhost = true`"
    );
    Error::new(Class::RefusedValue, message)
}
