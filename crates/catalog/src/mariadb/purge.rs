//! Deleting a database that an owner of ours left: the one way, by a person's word.
//!
//! MariaDB knows no owner of a database. One that was made here says so in its comment, and no other is
//! deleted.

use mesh_sdk::{Class, Cx, Error};

use super::adapter::Mariadb;
use super::check::{is_reserved, may_purge};
use super::classify;
use super::connect::{Session, text};
use super::read::{Whose, read};
use super::rights::Rights;
use super::sql;
use super::statements::MADE;

const WHAT: &str = "look at who may use the database";

impl Mariadb {
    /// What would go, in one line.
    pub(super) async fn data_named(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        may_purge(name)?;
        let mut session = self.session(cx).await?;
        self.left(cx, &mut session, name).await
    }

    /// Looks again, and drops it.
    pub(super) async fn purge_named(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        may_purge(name)?;
        let mut session = self.writer(cx).await?;
        if self.left(cx, &mut session, name).await?.is_none() {
            return Ok(());
        }
        if session.facts.read_only {
            let message = "waits for a writable server: it has `read_only` set";
            return Err(Error::new(Class::ReadOnly, message));
        }
        let drop = format!("DROP DATABASE IF EXISTS {}", sql::name(name));
        session.run("delete a database", &drop).await
    }

    /// A database that was made here and that nobody may use, in words; nothing where there is none.
    async fn left(
        &self,
        cx: &Cx,
        session: &mut Session,
        name: &str,
    ) -> Result<Option<String>, Error> {
        let stored = match session.facts.lower_case {
            true => name.to_lowercase(),
            false => name.to_owned(),
        };
        // A list of databases leaves out what we may not see; this says that it is denied.
        let show = format!("SHOW CREATE DATABASE {}", sql::name(&stored));
        match session.run("look at the database", &show).await {
            Ok(()) => {}
            Err(error) if error.class() == Class::Gone => return Ok(None),
            Err(error) => return Err(error),
        }
        let quoted = sql::text(&stored);
        let about = format!(
            "SELECT s.SCHEMA_COMMENT, COUNT(t.TABLE_NAME), \
               COALESCE(SUM(t.DATA_LENGTH + t.INDEX_LENGTH), 0) DIV 1024 \
             FROM information_schema.SCHEMATA s LEFT JOIN information_schema.TABLES t \
               ON t.TABLE_SCHEMA = s.SCHEMA_NAME \
             WHERE s.SCHEMA_NAME = {quoted} GROUP BY s.SCHEMA_COMMENT"
        );
        let rows = session.rows(WHAT, &about, || cx.progress()).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let [Some(comment), Some(tables), Some(size)] = [0, 1, 2].map(|at| text(row, at)) else {
            return Err(classify::garbled(WHAT));
        };
        if comment != MADE {
            return Err(stays(name, "Meshkeeper did not make it"));
        }
        let mut users = self.on_all(cx, session).await?;
        users.extend(self.on_one(cx, session, &stored).await?);
        users.sort();
        users.dedup();
        if !users.is_empty() {
            let shown: Vec<&str> = users.iter().take(4).map(String::as_str).collect();
            let why = format!("it may still be used by {}", shown.join(", "));
            return Err(stays(name, &why));
        }
        Ok(Some(format!(
            "database `{name}`, {tables} tables, {size} KiB"
        )))
    }

    /// Accounts with rights on every database that are no admin's.
    async fn on_all(&self, cx: &Cx, session: &mut Session) -> Result<Vec<String>, Error> {
        let seen = read(cx, session, Whose::All, false).await?;
        let admins = Rights::of_names(["SUPER"]);
        let uses = seen.accounts()?.into_iter().filter(|account| {
            let is_admin = admins.beyond(account.global).is_empty()
                || is_reserved(&account.user, self.endpoint.settings());
            !is_admin && account.global.reach_into_databases()
        });
        Ok(uses
            .map(|account| sql::account(&account.user, &account.host))
            .collect())
    }

    /// Accounts, roles and everybody with rights on this database, or on something in it.
    async fn on_one(
        &self,
        cx: &Cx,
        session: &mut Session,
        stored: &str,
    ) -> Result<Vec<String>, Error> {
        let name = sql::text(stored);
        let all = format!(
            "SELECT User, Host FROM mysql.db WHERE {name} LIKE Db \
             UNION SELECT User, Host FROM mysql.tables_priv WHERE Db = {name} \
             UNION SELECT User, Host FROM mysql.procs_priv WHERE Db = {name}"
        );
        let mut users = Vec::new();
        for row in session.rows(WHAT, &all, || cx.progress()).await? {
            let (Some(user), Some(host)) = (text(&row, 0), text(&row, 1)) else {
                return Err(classify::garbled(WHAT));
            };
            // `PUBLIC` is a reserved name, and is everybody.
            let everybody = user.eq_ignore_ascii_case("public");
            if everybody {
                users.push("everybody (PUBLIC)".to_owned());
            } else if !is_reserved(&user, self.endpoint.settings()) {
                users.push(match host.as_str() {
                    "" => format!("role {}", sql::name(&user)),
                    _ => sql::account(&user, &host),
                });
            }
        }
        Ok(users)
    }
}

fn stays(name: &str, why: &str) -> Error {
    Error::new(Class::Exists, format!("database `{name}` stays: {why}"))
}
