//! The effects: making a login as asked, and taking it away.

use std::sync::atomic::{AtomicUsize, Ordering};

use futures_util::future::join_all;
use mesh_sdk::adapter::Sink;
use mesh_sdk::mark::keyed;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, MarkSeen, Marker, Secret};

use super::adapter::Etcd;
use super::api::{Api, version};
use super::compare::{Diff, Wish, diff, grants_role, look, mark_for};
use super::grants::Grants;
use super::hash::verifier;
use super::proof::{Said, proven};

/// How many connections make many logins: each write waits for the disk, and the server writes what
/// comes together in one go.
const CONNECTIONS: usize = 8;
/// What a login that takes turns with another has behind its name.
const TURN: &str = "__b";

impl Etcd {
    /// Looks, and writes only what differs.
    pub(super) async fn create_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        let mut api = self.api(cx).await?;
        self.create_with(cx, &mut api, wish).await
    }

    async fn create_with(&self, cx: &Cx, api: &mut Api<'_>, wish: &Wish<'_>) -> Result<(), Error> {
        let login = wish.login().as_str();
        self.may_touch(login)?;
        if !wish.enabled() {
            return Err(Error::cannot("switch a login off: etcd has no such thing"));
        }
        let Some(password) = wish.password() else {
            return Err(Error::new(Class::Bug, "there is no password to set"));
        };
        api.changes = 0;
        let outcome = self.apply(cx, api, wish, password).await;
        // However it ended, something may have changed.
        if api.changes > 0 || outcome.is_err() {
            self.ledger.touch(login, api.changes);
        }
        outcome
    }

    async fn apply(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        password: &Secret,
    ) -> Result<(), Error> {
        let login = wish.login().as_str();
        let Some(shown) = look(cx, api, wish).await? else {
            return self.make(cx, api, wish, password).await;
        };
        if !self.fits(cx, api, wish, password).await? {
            self.set_password(cx, api, wish, password, false).await?;
        }
        let diff = diff(wish, &shown);
        if diff.is_none(wish.exact()) {
            return Ok(());
        }
        if wish.exact() {
            take_surplus(cx, api, wish, &diff).await?;
        }
        give(
            cx,
            api,
            wish,
            &diff.missing,
            shown.grants.is_none(),
            diff.has_role,
        )
        .await?;
        if diff.mark != MarkSeen::Ours {
            let others = shown
                .roles
                .iter()
                .filter(|role| role.starts_with(Marker::PREFIX));
            for other in others.filter(|role| role.as_str() != wish.mark().as_str()) {
                api.revoke(cx, login, other).await?;
            }
            if !shown.roles.iter().any(|role| role == wish.mark().as_str()) {
                api.add_role(cx, wish.mark().as_str()).await?;
                api.grant(cx, login, wish.mark().as_str()).await?;
            }
        }
        Ok(())
    }

    /// Whether the password is the one that is asked for, by the cheapest way, and never by a second
    /// wrong login after a look's.
    async fn fits(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        password: &Secret,
    ) -> Result<bool, Error> {
        let facts = proven(wish);
        if facts.take_refusal() {
            return Ok(false);
        }
        let epoch = self.ledger.read(cx, api).await?;
        let login = wish.login().as_str();
        let now = self.ledger.moment(epoch, login);
        let may_knock = || self.client.may_carry_passwords();
        let mut door = self.door()?;
        let said = facts
            .look(cx, &mut door, (login, password), now, may_knock)
            .await?;
        Ok(matches!(said, Said::LoggedIn | Said::AsBefore))
    }

    /// The roles first, so that the user has its mark as soon as it can do anything.
    async fn make(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        password: &Secret,
    ) -> Result<(), Error> {
        let (login, mark) = (wish.login().as_str(), wish.mark());
        api.add_role(cx, mark.as_str()).await?;
        self.set_password(cx, api, wish, password, true).await?;
        api.grant(cx, login, mark.as_str()).await?;
        let (wanted, role) = (Grants::wanted(wish.values()), grants_role(mark.as_str()));
        if !wanted.is_empty() && !api.add_role(cx, &role).await? {
            // One that was left may have other permissions.
            let left = Grants::shown(&api.role(cx, &role).await?.unwrap_or_default());
            for range in left.ranges().filter(|range| !wanted.has(range)) {
                api.forbid(cx, &role, range).await?;
            }
        }
        give(cx, api, wish, &wanted, false, false).await
    }

    /// From 3.5 on only a hash goes over the admin's connection. A new user can be made with a plain
    /// password only, so it is made with one that nobody knows.
    async fn set_password(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        password: &Secret,
        is_new: bool,
    ) -> Result<(), Error> {
        let login = wish.login().as_str();
        let (_, version) = version(cx, &self.client).await?;
        if version >= (3, 5) {
            if is_new {
                let nobodys = keyed(password, b"etcd nobody's", &[login.as_bytes()]);
                let nobodys: String = nobodys.iter().map(|byte| format!("{byte:02x}")).collect();
                api.add_user(cx, login, &nobodys).await?;
            }
            let hash = verifier(cx, login, password, self.cost(wish)).await?;
            return api
                .change_password(cx, login, ("hashedPassword", &hash))
                .await;
        }
        if !self.client.may_carry_passwords() {
            let message = "etcd before 3.5 takes plain passwords only, and this connection is not encrypted \
                 and verified";
            return Err(Error::new(Class::RefusedValue, message));
        }
        let plain = password.expose_str().unwrap_or_default();
        match is_new {
            true => api.add_user(cx, login, plain).await,
            false => api.change_password(cx, login, ("password", plain)).await,
        }
    }

    /// Many, over a few connections; one that fails stops no other.
    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let next = AtomicUsize::new(0);
        let work = || async {
            let mut api = self.api(cx).await?;
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(wish) = wishes.get(at) else {
                    return Ok(());
                };
                match self.create_with(cx, &mut api, wish).await {
                    // Nobody goes on asking a server that cannot be asked now.
                    Err(error) if error.class().is_transient() => {
                        next.store(wishes.len(), Ordering::Relaxed);
                        return Err(error);
                    }
                    outcome => outcomes.put(at, outcome),
                }
            }
        };
        let workers = CONNECTIONS.min(wishes.len());
        join_all((0..workers).map(|_| work()))
            .await
            .into_iter()
            .collect()
    }

    /// Only with our mark for that consumer. The server forgets its tokens; its roles go too, unless the
    /// login that takes turns with it has them.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let login = going.login.as_str();
        self.may_touch(login)?;
        let mut api = self.api(cx).await?;
        if let Some(roles) = api.user(cx, login).await? {
            if mark_for(marker, &roles, &going.consumer) != MarkSeen::Ours {
                let consumer = &going.consumer;
                let message = format!("`{login}` does not carry our mark for `{consumer}`");
                return Err(Error::new(Class::Exists, message));
            }
            let removed = api.delete_user(cx, login).await;
            self.ledger.touch(login, api.changes);
            removed?;
        }
        let changes = api.changes;
        let cleared = clear(cx, &mut api, marker, going).await;
        self.ledger.touch(login, api.changes - changes);
        cleared
    }
}

async fn clear(
    cx: &Cx,
    api: &mut Api<'_>,
    marker: &Marker,
    going: &Departing,
) -> Result<(), Error> {
    let (login, mark) = (going.login.as_str(), marker.mark(&going.consumer));
    let other = match login.strip_suffix(TURN) {
        Some(first) => first.to_owned(),
        None => format!("{login}{TURN}"),
    };
    if !other.is_empty() {
        let others = api.user(cx, &other).await?.unwrap_or_default();
        if others.iter().any(|role| role == mark.as_str()) {
            return Ok(());
        }
    }
    for role in [grants_role(mark.as_str()), mark.as_str().to_owned()] {
        if api.role(cx, &role).await?.is_some() {
            api.delete_role(cx, &role).await?;
        }
    }
    Ok(())
}

async fn take_surplus(
    cx: &Cx,
    api: &mut Api<'_>,
    wish: &Wish<'_>,
    diff: &Diff,
) -> Result<(), Error> {
    let (login, mark) = (wish.login().as_str(), wish.mark());
    for role in &diff.other_roles {
        api.revoke(cx, login, role).await?;
    }
    for range in diff.mark_grants.ranges() {
        api.forbid(cx, mark.as_str(), range).await?;
    }
    let (role, wanted) = (grants_role(mark.as_str()), Grants::wanted(wish.values()));
    for range in diff.surplus.ranges().filter(|range| !wanted.has(range)) {
        api.forbid(cx, &role, range).await?;
    }
    // Where less is asked for on the same range, it takes the place of the more.
    for permission in wanted.within(&diff.surplus).iter() {
        api.permit(cx, &role, &permission).await?;
    }
    Ok(())
}

async fn give(
    cx: &Cx,
    api: &mut Api<'_>,
    wish: &Wish<'_>,
    missing: &Grants,
    make_role: bool,
    has_role: bool,
) -> Result<(), Error> {
    let role = grants_role(wish.mark().as_str());
    if missing.is_empty() {
        return Ok(());
    }
    if make_role {
        api.add_role(cx, &role).await?;
    }
    for permission in missing.iter() {
        api.permit(cx, &role, &permission).await?;
    }
    if !has_role {
        api.grant(cx, wish.login().as_str(), &role).await?;
    }
    Ok(())
}
