//! Creating, switching off, removing: the entry by one atomic step, then its memberships.

use std::collections::HashSet;

use futures_util::StreamExt as _;
use ldap3::{LdapResult, Mod};
use mesh_sdk::adapter::Sink;
use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, MarkSeen, Marker, Secret};

use super::adapter::Ldap;
use super::compare::{Diff, Known, Wish, diff};
use super::connect::Session;
use super::look::{Binds, Found, LastBind};
use super::values::Hash;
use super::{classify, dn, hash};

/// Writes in flight on one connection.
const WRITES: usize = 16;
/// The server's code for "that value is there already", and for "there is no such value".
const VALUE_THERE: u32 = 20;
const NO_SUCH_VALUE: u32 = 16;
/// The last member of a group that must have one.
const LAST_MEMBER: u32 = 65;

impl Ldap {
    pub(super) async fn create_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        let session = self.session(cx).await?;
        let found = self.look_up(cx, &session, wish.login().as_str()).await?;
        self.make(cx, &session, wish, found.as_ref()).await
    }

    pub(super) async fn create_many(
        &self,
        cx: &Cx,
        wishes: &[Wish<'_>],
        outcomes: &Sink<()>,
    ) -> Result<(), Error> {
        let session = self.session(cx).await?;
        let found = self.find_all(cx, &session).await?;
        let each = futures_util::stream::iter(wishes.iter().enumerate());
        let each = each.for_each_concurrent(WRITES, async |(index, wish)| {
            let login = wish.login().as_str();
            let outcome = match self.may_touch(login) {
                Ok(()) => self.make(cx, &session, wish, found.get(login)).await,
                refused => refused,
            };
            outcomes.put(index, outcome);
        });
        each.await;
        Ok(())
    }

    /// Makes one login as asked, from what was found of it. Only differences are written.
    async fn make(
        &self,
        cx: &Cx,
        session: &Session,
        wish: &Wish<'_>,
        found: Option<&Found>,
    ) -> Result<(), Error> {
        let Some(password) = wish.password() else {
            let message = "there is no password to give it yet";
            return Err(Error::new(Class::RefusedValue, message));
        };
        self.groups_are_there(cx, session, wish, found).await?;
        let Some(Found { entry, groups }) = found else {
            self.add(session, wish).await?;
            cx.progress();
            self.believe(wish, password).await?;
            for group in &wish.values().groups {
                self.member(session, wish.login().as_str(), group, true)
                    .await?;
            }
            return Ok(());
        };
        let known = self.known(wish, entry, &Binds::NotAgain).await?;
        let differs = diff(wish, entry, groups, known);
        self.change(session, wish, found, &differs).await?;
        cx.progress();
        let login = wish.login().as_str();
        for group in &differs.missing {
            self.member(session, login, group, true).await?;
        }
        for group in differs.surplus.iter().filter(|_| wish.exact()) {
            self.member(session, login, group, false).await?;
        }
        Ok(())
    }

    /// After a write: that the server understood it.
    async fn believe(&self, wish: &Wish<'_>, password: &Secret) -> Result<(), Error> {
        // What a bind said before counts no more.
        wish.memo(LastBind::default).forget();
        if self.options.hash != Hash::Ssha512 || !wish.enabled() {
            return Ok(());
        }
        self.trust_sha512(wish.login().as_str(), password).await
    }

    /// A group that is not there is refused before anything is written.
    async fn groups_are_there(
        &self,
        cx: &Cx,
        session: &Session,
        wish: &Wish<'_>,
        found: Option<&Found>,
    ) -> Result<(), Error> {
        let Some(base) = &self.options.groups else {
            return Ok(());
        };
        let known = found.map(|one| &one.groups);
        for group in &wish.values().groups {
            if known.is_some_and(|groups| groups.contains(group)) {
                continue;
            }
            let filter = format!("(cn={})", dn::in_filter(group));
            let all = super::connect::search(cx, session, base, &filter, &["cn"]).await?;
            let is = |one: &ldap3::SearchEntry| {
                dn::value_below("cn", &one.dn, base).as_deref() == Some(group.as_str())
            };
            if !all.iter().any(is) {
                let message = format!("`groups`: there is no group `{group}` below `{base}`");
                return Err(Error::new(Class::RefusedValue, message));
            }
        }
        Ok(())
    }

    /// New values for all the passwords that are asked for.
    fn values(&self, wish: &Wish<'_>) -> Result<Vec<String>, Error> {
        wish.passwords()
            .map(|password| hash::make(self.options.hash, password.expose()))
            .collect()
    }

    async fn add(&self, session: &Session, wish: &Wish<'_>) -> Result<(), Error> {
        let login = wish.login().as_str();
        let values = switched(wish, self.values(wish)?);
        let one = |text: &str| HashSet::from([text.as_bytes().to_vec()]);
        let attributes = vec![
            (
                b"objectClass".to_vec(),
                HashSet::from([b"account".to_vec(), b"simpleSecurityObject".to_vec()]),
            ),
            (b"uid".to_vec(), one(login)),
            (b"userPassword".to_vec(), values),
            (b"description".to_vec(), one(wish.mark().as_str())),
        ];
        let mut client = session.client.clone();
        let added = client.add(&self.dn(login), attributes).await;
        one_at_most(wish, done("add the entry", added))
    }

    async fn change(
        &self,
        session: &Session,
        wish: &Wish<'_>,
        found: Option<&Found>,
        differs: &Diff,
    ) -> Result<(), Error> {
        let Some(Found { entry, .. }) = found else {
            return Ok(());
        };
        let stored = &entry.passwords;
        // A lock-out is lifted by a new value.
        let fits = matches!(differs.password, Known::Fits(_)) && !differs.more && !differs.locked;
        // They fit, and their hashes cannot be read: they stay as they are.
        let unread = fits && stored.is_empty() && wish.enabled();
        let values = match fits && !stored.is_empty() {
            true => stored
                .iter()
                .map(|value| hash::on(value).to_owned())
                .collect(),
            false if unread => Vec::new(),
            false => self.values(wish)?,
        };
        let values = switched(wish, values);
        let mut changes = Vec::new();
        let has = stored
            .iter()
            .map(|value| value.as_bytes().to_vec())
            .collect();
        if !values.is_empty() && values != has {
            changes.push(Mod::Replace(b"userPassword".to_vec(), values));
        }
        if differs.mark != MarkSeen::Ours || differs.other_marks {
            let mine = entry
                .descriptions
                .iter()
                .filter(|text| !text.starts_with(Marker::PREFIX));
            let mut values: HashSet<Vec<u8>> = mine.map(|text| text.clone().into_bytes()).collect();
            values.insert(wish.mark().as_str().as_bytes().to_vec());
            changes.push(Mod::Replace(b"description".to_vec(), values));
        }
        if changes.is_empty() {
            return Ok(());
        }
        let mut client = session.client.clone();
        let changed = client
            .modify(&self.dn(wish.login().as_str()), changes)
            .await;
        one_at_most(wish, done("change the entry", changed))
    }

    /// Puts a login into a group, or takes it out.
    async fn member(
        &self,
        session: &Session,
        login: &str,
        group: &str,
        inside: bool,
    ) -> Result<(), Error> {
        let Some(base) = &self.options.groups else {
            return Ok(());
        };
        let attribute = self.options.member().as_bytes().to_vec();
        let own = HashSet::from([self.dn(login).into_bytes()]);
        let change = match inside {
            true => Mod::Add(attribute, own),
            false => Mod::Delete(attribute, own),
        };
        let mut client = session.client.clone();
        let changed = client
            .modify(&dn::of("cn", group, base), vec![change])
            .await;
        match changed {
            Ok(result) if result.rc == VALUE_THERE || result.rc == NO_SUCH_VALUE => Ok(()),
            changed => done(&format!("change the group `{group}`"), changed),
        }
    }

    /// What carries our mark for that consumer; `None` if it is gone already.
    async fn ours(
        &self,
        cx: &Cx,
        session: &Session,
        marker: &Marker,
        going: &Departing,
    ) -> Result<Option<Found>, Error> {
        let found = self.look_up(cx, session, going.login.as_str()).await?;
        let mark = found
            .as_ref()
            .map(|one| one.entry.mark(marker, &going.consumer));
        match mark {
            None | Some(MarkSeen::Ours) => Ok(found),
            Some(_) => {
                let message = format!("`{}` does not carry our mark", going.login);
                Err(Error::new(Class::Exists, message))
            }
        }
    }

    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let login = going.login.as_str();
        self.may_touch(login)?;
        let session = self.session(cx).await?;
        let Some(found) = self.ours(cx, &session, marker, going).await? else {
            return Ok(());
        };
        for group in &found.groups {
            match self.member(&session, login, group, false).await {
                // A group that must have a member keeps the name, which is nobody's then.
                Err(error)
                    if error
                        .message()
                        .ends_with(&format!("(LDAP code {LAST_MEMBER})")) => {}
                other => other?,
            }
        }
        let mut client = session.client.clone();
        let deleted = client.delete(&self.dn(login)).await;
        match done("remove the entry", deleted) {
            Err(error) if error.class() == Class::Gone => Ok(()),
            other => other,
        }
    }

    pub(super) async fn disable_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let login = going.login.as_str();
        self.may_touch(login)?;
        let session = self.session(cx).await?;
        let Some(found) = self.ours(cx, &session, marker, going).await? else {
            return Ok(());
        };
        let stored = &found.entry.passwords;
        if stored.is_empty() {
            let message =
                "the admin may not read `userPassword`, so it cannot be kept to go back to";
            return Err(Error::new(Class::Denied, message));
        }
        if stored.iter().all(|value| hash::is_off(value)) {
            return Ok(());
        }
        let values = stored.iter().map(|value| hash::off(value).into_bytes());
        let change = Mod::Replace(b"userPassword".to_vec(), values.collect());
        let mut client = session.client.clone();
        done(
            "switch the login off",
            client.modify(&self.dn(login), vec![change]).await,
        )
    }
}

/// A refusal of two passwords, with its cure.
fn one_at_most(wish: &Wish<'_>, outcome: Result<(), Error>) -> Result<(), Error> {
    match outcome {
        Err(error) if error.class() == Class::RefusedValue && wish.second_password().is_some() => {
            let message = format!(
                "{}; if a password policy allows one password, say `one_password = true` in the provider's options",
                error.message()
            );
            Err(Error::new(Class::RefusedValue, message))
        }
        outcome => outcome,
    }
}

/// Values as they are to be stored: on or off.
fn switched(wish: &Wish<'_>, values: Vec<String>) -> HashSet<Vec<u8>> {
    let each = values.into_iter().map(|value| match wish.enabled() {
        true => value.into_bytes(),
        false => hash::off(&value).into_bytes(),
    });
    each.collect()
}

fn done(what: &str, outcome: Result<LdapResult, ldap3::LdapError>) -> Result<(), Error> {
    let result = outcome.map_err(|error| classify::broken(what, &error))?;
    match result.rc {
        0 => Ok(()),
        _ => Err(classify::refused(what, &result)),
    }
}
