//! The effects on one login: making it as asked, switching it off, taking it away.

use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Difference, Error, MarkSeen, Marker};

use super::account::Account;
use super::adapter::Mariadb;
use super::compare::{Diff, Wish, diff};
use super::connect::Session;
use super::read::{Seen, Whose, ask_for_databases, read};
use super::sql;
use super::statements::{drop, kill, lock, repair, whole};

impl Mariadb {
    /// Looks, and writes only what differs.
    pub(super) async fn create_one(&self, cx: &Cx, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_write(wish)?;
        let mut session = self.writer(cx).await?;
        self.apply(cx, &mut session, wish).await
    }

    /// Refuses what is never touched, and what has nothing to be made with.
    pub(super) fn may_write(&self, wish: &Wish<'_>) -> Result<(), Error> {
        self.may_touch(wish.login().as_str())?;
        if wish.enabled() && wish.password().is_none() {
            return Err(Error::new(Class::Bug, "there is no password to set"));
        }
        Ok(())
    }

    /// Looks, and writes only what differs, on a connection that is there.
    pub(super) async fn apply(
        &self,
        cx: &Cx,
        session: &mut Session,
        wish: &Wish<'_>,
    ) -> Result<(), Error> {
        let wishes = std::slice::from_ref(wish);
        let databases = ask_for_databases(wishes);
        let seen = read(cx, session, Whose::of(wishes), databases).await?;
        let found = diff(wish, &seen)?;
        self.write(cx, session, wish, &seen, &found).await
    }

    /// Writes the differences; in the end, an account that stands in the way is an error, since nothing
    /// here may take it away.
    pub(super) async fn write(
        &self,
        cx: &Cx,
        session: &mut Session,
        wish: &Wish<'_>,
        seen: &Seen,
        found: &Diff,
    ) -> Result<(), Error> {
        let login = wish.login().as_str();
        if !found.is_none(wish.exact()) {
            let statements = match seen.account(login, &wish.values().account_host())? {
                Some(shown) => repair(wish, found, shown),
                None => whole(wish, found),
            };
            for statement in statements {
                session
                    .run("make a login as asked", &statement.sql())
                    .await?;
                cx.progress();
            }
        }
        if found.switch == Some(Difference::Enabled) {
            end_sessions(session, login).await?;
        }
        if found.shadows.is_empty() {
            return Ok(());
        }
        let message = format!(
            "{}; drop it (`DROP USER {}`), or name a `host` that it does not stand before",
            found.shadowed(),
            found.shadows.join(", ")
        );
        Err(Error::new(Class::Exists, message))
    }

    /// Locks first, so that nobody comes back, then ends the sessions, then drops: whatever is half done,
    /// the next try finds the account and finishes.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let mut session = self.writer(cx).await?;
        let ours = self.ours(cx, &mut session, marker, going).await?;
        for account in &ours {
            if !account.locked {
                run_unless_gone(&mut session, &lock(&named(account))).await?;
            }
        }
        if !ours.is_empty() {
            end_sessions(&mut session, going.login.as_str()).await?;
        }
        for account in &ours {
            run_unless_gone(&mut session, &drop(&named(account))).await?;
            cx.progress();
        }
        Ok(())
    }

    /// Locks and ends the sessions; password, rights and mark stay.
    pub(super) async fn disable_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let mut session = self.writer(cx).await?;
        let ours = self.ours(cx, &mut session, marker, going).await?;
        for account in &ours {
            if !account.locked {
                run_unless_gone(&mut session, &lock(&named(account))).await?;
            }
        }
        if !ours.is_empty() {
            end_sessions(&mut session, going.login.as_str()).await?;
        }
        Ok(())
    }

    /// The accounts of a login that carry our mark for its consumer, whatever their hosts; none if there is
    /// no such login. An error if there are accounts, and none is ours.
    async fn ours(
        &self,
        cx: &Cx,
        session: &mut Session,
        marker: &Marker,
        going: &Departing,
    ) -> Result<Vec<Account>, Error> {
        let login = going.login.as_str();
        self.may_touch(login)?;
        let seen = read(cx, session, Whose::Logins(vec![login]), false).await?;
        let all = seen.of(login)?;
        let is_ours = |account: &&Account| {
            let marks = account.marks();
            let seen = marks.iter().map(|text| marker.read(text, &going.consumer));
            MarkSeen::strongest(seen) == MarkSeen::Ours
        };
        let ours: Vec<Account> = all.iter().filter(is_ours).cloned().collect();
        if ours.is_empty() && !all.is_empty() {
            let message = format!(
                "`{}` does not carry our mark for `{}`",
                going.login, going.consumer
            );
            return Err(Error::new(Class::Exists, message));
        }
        Ok(ours)
    }
}

fn named(account: &Account) -> String {
    sql::account(&account.user, &account.host)
}

async fn run_unless_gone(session: &mut Session, statement: &str) -> Result<(), Error> {
    match session.run("take a login away", statement).await {
        Err(error) if error.class() == Class::Gone => Ok(()),
        other => other,
    }
}

async fn end_sessions(session: &mut Session, login: &str) -> Result<(), Error> {
    session.run("end a login's sessions", &kill(login)).await
}
