//! The effects: making a login as asked, switching it off, taking it away.

use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, MarkSeen, Marker};

use super::adapter::Rabbit;
use super::api::{Api, Shown, User};
use super::compare::{Wish, diff, expected, mark_for, tags};
use super::draft::verifier;
use super::hash;

impl Rabbit {
    /// Looks, and writes only what differs.
    pub(super) async fn create_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        let mut api = self.api()?;
        let shown = api.look(cx, wish.login().as_str()).await?;
        let shown = shown.as_ref().map(|one| one.part(&one.users));
        self.apply(cx, &mut api, wish, shown.as_ref()).await
    }

    /// Writes what differs from what was looked at.
    pub(super) async fn apply(
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

    async fn put_user(
        &self,
        cx: &Cx,
        api: &mut Api<'_>,
        wish: &Wish<'_>,
        kept: Option<&str>,
        tags: &[String],
    ) -> Result<(), Error> {
        let (hash, algorithm) = verifier(wish, kept);
        api.put_user(cx, wish.login().as_str(), (&hash, algorithm), tags)
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

fn no_vhost(vhost: &str) -> Error {
    let told: String = vhost.chars().filter(|c| !c.is_control()).take(80).collect();
    let message = format!(
        "there is no virtual host `{told}`: make it (`rabbitmqctl add_vhost`), or say `create_vhost = true`"
    );
    Error::new(Class::RefusedValue, message)
}
