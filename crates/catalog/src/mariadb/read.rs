//! What the server holds, read from its own tables: three queries for one login, and three for all.

use std::collections::{HashMap, HashSet};

use mesh_sdk::{Cx, Error};

use super::account::Account;
use super::classify;
use super::connect::{Facts, Session, text};
use super::mark::Piece;
use super::rights::{COLUMNS, Rights};
use super::sql;

const WHAT: &str = "look at the accounts";

/// The accounts that were read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    by_user: HashMap<String, Vec<Account>>,
    /// The databases that there are, where that was asked.
    databases: HashSet<String>,
    lower_case: bool,
}

/// Whose accounts to read.
pub(super) enum Whose<'a> {
    /// Those of one login, and the anonymous ones.
    Login(&'a str),
    /// All.
    All,
}

impl Seen {
    /// The accounts of a login, whatever their hosts.
    pub(super) fn of(&self, login: &str) -> &[Account] {
        self.by_user.get(login).map_or(&[], Vec::as_slice)
    }
    /// The one account of a login and a host.
    pub(super) fn account(&self, login: &str, host: &str) -> Option<&Account> {
        let same = |account: &&Account| account.host.eq_ignore_ascii_case(host);
        self.of(login).iter().find(same)
    }
    /// Accounts without a name: whoever has no account of a more exact host is one of them.
    pub(super) fn anonymous(&self) -> &[Account] {
        self.of("")
    }
    pub(super) fn accounts(&self) -> impl Iterator<Item = &Account> {
        self.by_user.values().flatten()
    }
    /// A database's name as this server keeps it.
    pub(super) fn stored(&self, database: &str) -> String {
        match self.lower_case {
            true => database.to_lowercase(),
            false => database.to_owned(),
        }
    }
    pub(super) fn has_database(&self, database: &str) -> bool {
        self.databases.contains(&self.stored(database))
    }
    fn find(&mut self, user: &str, host: &str) -> Option<&mut Account> {
        let accounts = self.by_user.get_mut(user)?;
        accounts.iter_mut().find(|account| account.host == host)
    }
}

/// Reads accounts with their rights and marks; and which databases there are, if `databases` says so.
pub(super) async fn read(
    cx: &Cx,
    session: &mut Session,
    whose: Whose<'_>,
    databases: bool,
) -> Result<Seen, Error> {
    let (users, rights) = match whose {
        Whose::Login(login) => {
            let login = sql::text(login);
            (
                format!(" WHERE User = {login} OR User = ''"),
                format!(" AND User = {login}"),
            )
        }
        Whose::All => (String::new(), String::new()),
    };
    let mut seen = Seen {
        lower_case: session.facts.lower_case,
        ..Seen::default()
    };
    read_accounts(cx, session, &users, &mut seen).await?;
    read_databases(cx, session, &rights, &mut seen).await?;
    read_marks(cx, session, &rights, &mut seen).await?;
    if databases {
        let all = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA";
        let rows = session
            .rows("list the databases", all, || cx.progress())
            .await?;
        seen.databases = rows.iter().filter_map(|row| text(row, 0)).collect();
    }
    Ok(seen)
}

async fn read_accounts(
    cx: &Cx,
    session: &mut Session,
    users: &str,
    seen: &mut Seen,
) -> Result<(), Error> {
    let all = format!("SELECT User, Host, Priv FROM mysql.global_priv{users}");
    let rows = session.rows(WHAT, &all, || cx.progress()).await?;
    let _computing = cx.computing();
    for row in &rows {
        let account = one_account(&session.facts, row)?;
        if let Some(account) = account {
            let user = account.user.clone();
            seen.by_user.entry(user).or_default().push(account);
        }
    }
    Ok(())
}

fn one_account(facts: &Facts, row: &mysql_async::Row) -> Result<Option<Account>, Error> {
    let garbled = || classify::garbled(WHAT);
    let (user, host) = (text(row, 0), text(row, 1));
    let (user, host) = user.zip(host).ok_or_else(garbled)?;
    let kept = text(row, 2).ok_or_else(garbled)?;
    Account::read(user, host, &kept, facts.age).map_err(|_| garbled())
}

async fn read_databases(
    cx: &Cx,
    session: &mut Session,
    rights: &str,
    seen: &mut Seen,
) -> Result<(), Error> {
    let columns: Vec<&str> = COLUMNS.iter().map(|(column, _)| *column).collect();
    let all = format!(
        "SELECT User, Host, Db, CONCAT({}) FROM mysql.db WHERE User <> ''{rights}",
        columns.join(", ")
    );
    for row in session
        .rows("look at the rights", &all, || cx.progress())
        .await?
    {
        let [Some(user), Some(host), Some(pattern), Some(letters)] =
            [0, 1, 2, 3].map(|at| text(&row, at))
        else {
            return Err(classify::garbled("look at the rights"));
        };
        // Rights without an account are nobody's.
        if let Some(account) = seen.find(&user, &host) {
            let rights = Rights::of_letters(letters.as_bytes());
            account.databases.push((pattern, rights));
        }
    }
    Ok(())
}

async fn read_marks(
    cx: &Cx,
    session: &mut Session,
    rights: &str,
    seen: &mut Seen,
) -> Result<(), Error> {
    let all = format!(
        "SELECT User, Host, Db, Table_name FROM mysql.tables_priv WHERE Db LIKE 'mk1.%'{rights}"
    );
    for row in session
        .rows("look at the marks", &all, || cx.progress())
        .await?
    {
        let [Some(user), Some(host), Some(database), Some(table)] =
            [0, 1, 2, 3].map(|at| text(&row, at))
        else {
            return Err(classify::garbled("look at the marks"));
        };
        if let Some(account) = seen.find(&user, &host) {
            account.pieces.push(Piece { database, table });
        }
    }
    Ok(())
}
