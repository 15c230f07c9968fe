//! Finding: every login of the server as the values under which it would be held as it stands. Nothing here
//! writes.

use std::collections::{BTreeMap, HashMap};

use mesh_sdk::adapter::Found;
use mesh_sdk::{Class, Cx, Error, Login, MarkSeen, Marker, Provision};

use super::account::Account;
use super::adapter::Mariadb;
use super::check::is_nameable;
use super::compare::{Diff, diff, listed_mark, login_of, told};
use super::connect::{Session, text};
use super::read::{Seen, Whose, read};
use super::rights::{GRANT_OPTION, Rights, is_global};
use super::sql;
use super::values::{Auth, DatabaseRights, MariadbValues, Privileges, Set};
use super::verifier::{ED25519, NATIVE};
use crate::guess;

/// What other tables say of accounts, by user and host.
type Notes = HashMap<(String, String), Vec<String>>;

impl Mariadb {
    /// Every login with its values, from the same reading that looks are answered from.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<MariadbValues>>, Error> {
        let mut session = self.session(cx).await?;
        let seen = read(cx, &mut session, Whose::All, true).await?;
        let notes = notes(cx, &mut session).await?;
        let mut logins: BTreeMap<&str, Vec<&Account>> = BTreeMap::new();
        for account in seen.accounts()? {
            let known = logins.entry(account.user.as_str()).or_default();
            known.push(account);
        }
        let mut all = Vec::new();
        for (user, mut accounts) in logins {
            accounts.sort_by(|a, b| a.host.cmp(&b.host));
            let Some(login) = login_of(user).filter(|_| self.may_touch(user).is_ok()) else {
                continue;
            };
            all.extend(found(&login, &accounts, &seen, &notes, marker)?);
        }
        Ok(all)
    }
}

/// The one account of a login that is told: one that nobody stands before, if there is one.
fn found(
    login: &Login,
    accounts: &[&Account],
    seen: &Seen,
    notes: &Notes,
    marker: &Marker,
) -> Result<Option<Found<MariadbValues>>, Error> {
    let mut told: Option<(&Account, MariadbValues, Diff)> = None;
    for account in accounts {
        let foreign = match listed_mark(marker, account) {
            MarkSeen::Foreign => true,
            MarkSeen::OursFor(consumer) => consumer.is_canary(),
            _ => false,
        };
        let Some(auth) = auth(account).filter(|_| !foreign) else {
            continue;
        };
        let values = values(account, auth, seen);
        let Some(found) = measured(login, values.clone(), seen, marker)? else {
            continue;
        };
        let better = told
            .as_ref()
            .is_none_or(|(.., known)| !known.shadows.is_empty() && found.shadows.is_empty());
        if better {
            told = Some((account, values, found));
        }
    }
    let Some((account, values, measured)) = told else {
        return Ok(None);
    };
    let mut one = Found::new(login.clone(), values);
    one.enabled = !account.locked && !account.expired;
    one.beyond = beyond(account, &measured, notes);
    let others = accounts.iter().filter(|other| other.host != account.host);
    one.beyond.extend(others.map(|other| {
        format!(
            "another account, {}",
            sql::account(&other.user, &other.host)
        )
    }));
    Ok(Some(one))
}

/// How it logs in, where values have a word for that.
fn auth(account: &Account) -> Option<Auth> {
    match &account.methods[..] {
        [only] if only.is_open() || only.verifier.is_empty() => None,
        [only] if only.plugin == NATIVE => Some(Auth::Native),
        [only] if only.plugin == ED25519 => Some(Auth::Ed25519),
        _ => None,
    }
}

/// What an account may do, as values say it.
fn values(account: &Account, auth: Auth, seen: &Seen) -> MariadbValues {
    let mut databases: Vec<DatabaseRights> = Vec::new();
    for (pattern, rights) in &account.databases {
        let Some(database) = sql::meant(pattern).filter(|name| is_nameable(name)) else {
            continue;
        };
        let known = databases.iter().any(|one| one.database == database);
        if let Some(privileges) = named(*rights, &database, seen)
            && !known
        {
            databases.push(DatabaseRights {
                database,
                privileges,
            });
        }
    }
    // The one that is called like the login comes first, then those with the most rights.
    databases.sort_by_key(|one| {
        let rights = Rights::asked(&one.privileges).names().len();
        let other = one.database != account.user;
        (other, usize::MAX - rights, one.database.clone())
    });
    let mut databases = databases.into_iter();
    let first = databases.next();
    let global = account.global.names().into_iter();
    MariadbValues {
        privileges: first.as_ref().map(|one| one.privileges.clone()),
        database: first.map(|one| one.database),
        also: databases.collect(),
        global: global
            .filter(|name| is_global(name))
            .map(str::to_owned)
            .collect(),
        host: (account.host != "%").then(|| account.host.clone()),
        auth,
        max_connections: u32::try_from(account.max_connections)
            .ok()
            .filter(|limit| *limit > 0),
    }
}

/// Rights on a database by the word that means them, or one by one.
fn named(rights: Rights, database: &str, seen: &Seen) -> Option<Privileges> {
    let rights = rights.beyond(Rights::of_names([GRANT_OPTION]));
    let sets = [Set::Owner, Set::Readwrite, Set::Readonly].map(Privileges::Set);
    let is_set = |set: &Privileges| {
        let there = *set != Privileges::Set(Set::Owner) || seen.has_database(database);
        Rights::asked(set) == rights && there
    };
    if let Some(set) = sets.into_iter().find(is_set) {
        return Some(set);
    }
    let names = rights.names().into_iter().map(str::to_owned);
    (!rights.is_empty()).then(|| Privileges::Each(names.collect()))
}

/// How the account would differ from a wish with these values.
fn measured(
    login: &Login,
    values: MariadbValues,
    seen: &Seen,
    marker: &Marker,
) -> Result<Option<Diff>, Error> {
    let wish = guess::wish(login.clone(), values);
    let wish = Provision::of(&wish, true, marker);
    wish.map(|wish| diff(&wish, seen)).transpose()
}

fn beyond(account: &Account, measured: &Diff, notes: &Notes) -> Vec<String> {
    let mut all = account.beyond.clone();
    if account.expired {
        all.push("its password is expired".to_owned());
    }
    let surplus = measured.surplus.iter();
    all.extend(surplus.map(|place| told(std::slice::from_ref(place))));
    let key = (account.user.clone(), account.host.clone());
    all.extend(notes.get(&key).into_iter().flatten().cloned());
    let missing = measured.missing.iter();
    all.extend(missing.map(|place| format!("not {}", told(std::slice::from_ref(place)))));
    if !measured.shadows.is_empty() {
        all.push(measured.shadowed());
    }
    all
}

/// Rights on tables and routines, and roles. What may not be looked at is said of everybody.
async fn notes(cx: &Cx, session: &mut Session) -> Result<Notes, Error> {
    let mut notes = Notes::new();
    let tables = "SELECT User, Host, CONCAT(CONCAT_WS(', ', NULLIF(Table_priv, ''), \
          IF(Column_priv = '', NULL, CONCAT(Column_priv, ' of columns'))), ' on ', Db, '.', Table_name) \
        FROM mysql.tables_priv WHERE Db NOT LIKE 'mk1.%'";
    let routines = "SELECT User, Host, CONCAT(Proc_priv, ' on ', LOWER(Routine_type), ' ', Db, '.', Routine_name) \
        FROM mysql.procs_priv";
    let roles = "SELECT User, Host, CONCAT('role ', Role) FROM mysql.roles_mapping";
    let all = [
        ("rights on tables", "tables_priv", tables),
        ("rights on routines", "procs_priv", routines),
        ("roles", "roles_mapping", roles),
    ];
    for (what, table, query) in all {
        let rows = match session
            .rows("look at the logins", query, || cx.progress())
            .await
        {
            Ok(rows) => rows,
            Err(error) if error.class() == Class::Denied => {
                let note = format!(
                    "{what} were not looked at: the admin login lacks SELECT on mysql.{table}"
                );
                for account in everybody(cx, session).await? {
                    notes.entry(account).or_default().push(note.clone());
                }
                continue;
            }
            Err(error) => return Err(error),
        };
        for row in &rows {
            if let [Some(user), Some(host), Some(note)] = [0, 1, 2].map(|at| text(row, at)) {
                notes.entry((user, host)).or_default().push(note);
            }
        }
    }
    Ok(notes)
}

async fn everybody(cx: &Cx, session: &mut Session) -> Result<Vec<(String, String)>, Error> {
    let all = "SELECT User, Host FROM mysql.global_priv";
    let rows = session
        .rows("look at the logins", all, || cx.progress())
        .await?;
    let named = |row| Some((text(row, 0)?, text(row, 1)?));
    Ok(rows.iter().filter_map(named).collect())
}
