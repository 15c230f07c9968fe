//! What the server holds, read from its own tables with one packet of queries: for some logins, or for all.

use std::collections::HashSet;
use std::hash::Hasher;

use mesh_sdk::{Cx, Error};

use super::account::{Account, Age};
use super::classify;
use super::compare::{Wish, owned};
use super::connect::{Facts, Query, Session, text};
use super::rights::COLUMNS;
use super::rows::{Rows, Table};
use super::sql;

const WHAT: &str = "look at the accounts";

/// So many logins are asked for by name; for more than that the tables are read whole.
const NAMED: usize = 500;

/// The accounts that were read.
#[derive(Debug, Default)]
pub(super) struct Seen {
    rows: Rows,
    /// The databases that there are, where that was asked.
    databases: HashSet<String>,
    facts: Facts,
}

/// Whose accounts to read.
pub(super) enum Whose<'a> {
    /// Those of these logins, and the anonymous ones.
    Logins(Vec<&'a str>),
    /// All.
    All,
}

impl<'a> Whose<'a> {
    /// Those that wishes are about.
    pub(super) fn of(wishes: &[Wish<'a>]) -> Self {
        match wishes.len() {
            0..=NAMED => Self::Logins(wishes.iter().map(|w| w.login().as_str()).collect()),
            _ => Self::All,
        }
    }
}

/// Whether wishes have to know which databases there are.
pub(super) fn ask_for_databases(wishes: &[Wish<'_>]) -> bool {
    let owns = |wish: &Wish<'_>| owned(wish.values()).next().is_some();
    wishes.iter().any(owns)
}

impl Seen {
    /// The accounts of a login, whatever their hosts.
    ///
    /// # Errors
    /// A row of them cannot be read.
    pub(super) fn of(&self, login: &str) -> Result<&[Account], Error> {
        self.of_user(login.as_bytes())
    }
    fn of_user(&self, user: &[u8]) -> Result<&[Account], Error> {
        let accounts = self.rows.accounts(user, self.facts.age);
        accounts.ok_or_else(|| classify::garbled(WHAT))
    }
    /// The one account of a login and a host.
    pub(super) fn account(&self, login: &str, host: &str) -> Result<Option<&Account>, Error> {
        let same = |account: &&Account| account.host.eq_ignore_ascii_case(host);
        Ok(self.of(login)?.iter().find(same))
    }
    /// Accounts without a name: whoever has no account of a more exact host is one of them.
    pub(super) fn anonymous(&self) -> Result<&[Account], Error> {
        self.of("")
    }
    /// All that were read.
    pub(super) fn accounts(&self) -> Result<Vec<&Account>, Error> {
        let mut all = Vec::new();
        for user in self.rows.users() {
            all.extend(self.of_user(user)?);
        }
        Ok(all)
    }
    /// A database's name as this server keeps it.
    pub(super) fn stored(&self, database: &str) -> String {
        match self.facts.lower_case {
            true => database.to_lowercase(),
            false => database.to_owned(),
        }
    }
    pub(super) fn has_database(&self, database: &str) -> bool {
        self.databases.contains(&self.stored(database))
    }
    /// Whether the server lets everybody in.
    pub(super) fn open(&self) -> bool {
        self.facts.open
    }
    pub(super) fn age(&self) -> Age {
        self.facts.age
    }
    /// Whatever a login is judged by, beside its own rows and the clock, into a fingerprint.
    pub(super) fn hash_common(&self, state: &mut impl Hasher) {
        state.write_u8(u8::from(self.facts.open));
        state.write_u8(u8::from(self.facts.lower_case));
        state.write_i64(self.facts.age.lifetime);
        // Accounts without a name stand before others.
        self.hash_of("", state);
    }
    /// The rows of a login into a fingerprint.
    pub(super) fn hash_of(&self, login: &str, state: &mut impl Hasher) {
        self.rows.hash(login.as_bytes(), state);
    }
}

/// Reads accounts with their rights and marks; and which databases there are, if `databases` says so.
pub(super) async fn read(
    cx: &Cx,
    session: &mut Session,
    whose: Whose<'_>,
    databases: bool,
) -> Result<Seen, Error> {
    const TABLES: [Table; 3] = [Table::Accounts, Table::Rights, Table::Marks];
    let mut queries = queries(&whose);
    if databases {
        let all = "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA";
        queries.push(Query::new("list the databases", all));
    }
    let mut seen = Seen {
        facts: session.facts.clone(),
        ..Seen::default()
    };
    let put = |at: usize, row: mysql_async::Row| {
        match TABLES.get(at) {
            Some(table) => seen.rows.put(*table, &row)?,
            None => seen.databases.extend(text(&row, 0)),
        }
        Some(())
    };
    session.ask(&queries, put, || cx.progress()).await?;
    Ok(seen)
}

fn queries(whose: &Whose<'_>) -> Vec<Query> {
    let (users, rights) = match whose {
        Whose::Logins(logins) => {
            // The accounts without a name are always among them.
            let all = std::iter::once(&"").chain(logins);
            let all: Vec<String> = all.map(|login| sql::text(login)).collect();
            let listed = format!("User IN ({})", all.join(", "));
            (format!(" WHERE {listed}"), format!(" AND {listed}"))
        }
        Whose::All => (String::new(), String::new()),
    };
    let columns: Vec<&str> = COLUMNS.iter().map(|(column, _)| *column).collect();
    let columns = columns.join(", ");
    vec![
        Query::new(
            WHAT,
            format!("SELECT User, Host, Priv FROM mysql.global_priv{users}"),
        ),
        Query::new(
            "look at the rights",
            format!(
                "SELECT User, Host, Db, CONCAT({columns}) FROM mysql.db WHERE User <> ''{rights}"
            ),
        ),
        Query::new(
            "look at the marks",
            format!(
                "SELECT User, Host, Db, Table_name FROM mysql.tables_priv WHERE Db LIKE 'mk1.%' \
                 AND Db NOT LIKE 'mk1.=%'{rights}"
            ),
        ),
    ]
}
