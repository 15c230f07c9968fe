//! The statements that make an account as asked. MariaDB has no transaction around them: each is done for
//! itself, in an order in which whatever is half done is finished by the next try.

use mesh_sdk::{Difference, MarkSeen};

use super::account::Account;
use super::compare::{Diff, Pass, Wish, identified};
use super::mark::{self, Piece};
use super::rights::Rights;
use super::sql;

/// A statement whose effect may be shared: `CREATE USER a, b, c …`, `GRANT … TO a, b, c`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Statement {
    /// What comes before the account, for people as well: it holds no verifier.
    pub(super) head: String,
    /// The account, with what belongs to it alone.
    pub(super) item: String,
    /// What comes behind.
    pub(super) tail: String,
}

impl Statement {
    fn new(head: impl Into<String>, item: impl Into<String>) -> Self {
        Self {
            head: head.into(),
            item: item.into(),
            tail: String::new(),
        }
    }
    fn with_tail(self, tail: String) -> Self {
        Self { tail, ..self }
    }
    /// As the server takes it.
    pub(super) fn sql(&self) -> String {
        format!("{}{}{}", self.head, self.item, self.tail)
    }
}

/// All for an account that is not there.
pub(super) fn whole(wish: &Wish<'_>, diff: &Diff) -> Vec<Statement> {
    let account = account(wish);
    let item = format!("{account} {}", identified(wish));
    let tail = options(diff_limit(wish), (!wish.enabled()).then_some(true));
    let mut all = databases(diff);
    all.push(Statement::new("CREATE USER ", item).with_tail(tail));
    let mark = mark::pieces(wish.mark().as_str());
    all.extend(
        mark.iter()
            .map(|piece| Statement::new(piece.grant(), &account)),
    );
    all.extend(grants(diff, &account));
    all.extend(strays(wish, diff));
    all
}

/// What changes an account that is there; the differences alone.
pub(super) fn repair(wish: &Wish<'_>, diff: &Diff, shown: &Account) -> Vec<Statement> {
    let account = account(wish);
    let mut all = databases(diff);
    let again = wish.password().is_some() && (diff.open || diff.pass != Pass::Right);
    let off = diff.switch.map(|switch| switch == Difference::Enabled);
    if again || diff.limit.is_some() || off.is_some() {
        let item = match again {
            true => format!("{account} {}", identified(wish)),
            false => account.clone(),
        };
        let tail = options(diff.limit, off);
        all.push(Statement::new("ALTER USER ", item).with_tail(tail));
    }
    if diff.mark != MarkSeen::Ours {
        all.extend(marked_anew(wish, shown, &account));
    }
    all.extend(grants(diff, &account));
    if wish.exact() {
        let revoke = |(place, rights): &(Option<String>, Rights)| {
            Statement::new(sql::revoke(*rights, place.as_deref()), &account)
        };
        all.extend(diff.surplus.iter().map(revoke));
    }
    all.extend(strays(wish, diff));
    all
}

/// The account of a wish.
pub(super) fn account(wish: &Wish<'_>) -> String {
    sql::account(wish.login().as_str(), &wish.values().account_host())
}

fn diff_limit(wish: &Wish<'_>) -> Option<i64> {
    wish.values().max_connections.map(i64::from)
}

fn options(limit: Option<i64>, off: Option<bool>) -> String {
    let mut tail = String::new();
    if let Some(limit) = limit {
        tail.push_str(&format!(" WITH MAX_USER_CONNECTIONS {limit}"));
    }
    match off {
        Some(true) => tail.push_str(" ACCOUNT LOCK"),
        Some(false) => tail.push_str(" ACCOUNT UNLOCK"),
        None => {}
    }
    tail
}

/// What a database that was made here says of itself: only such a one is ever deleted.
pub(super) const MADE: &str = "Made by Meshkeeper for its owner";

fn databases(diff: &Diff) -> Vec<Statement> {
    let make = |name: &String| {
        let tail = format!(" COMMENT {}", sql::text(MADE));
        Statement::new("CREATE DATABASE IF NOT EXISTS ", sql::name(name)).with_tail(tail)
    };
    diff.databases.iter().map(make).collect()
}

fn grants(diff: &Diff, account: &str) -> Vec<Statement> {
    let grant = |(place, rights): &(Option<String>, Rights)| {
        Statement::new(sql::grant(*rights, place.as_deref()), account)
    };
    diff.missing.iter().map(grant).collect()
}

/// Takes back whatever is no mark of this wish, and leaves this wish's.
fn marked_anew(wish: &Wish<'_>, shown: &Account, account: &str) -> Vec<Statement> {
    let wanted = mark::pieces(wish.mark().as_str());
    let wrong = shown.pieces.iter().filter(|piece| !wanted.contains(piece));
    let lacking = wanted.iter().filter(|piece| !shown.pieces.contains(piece));
    let wrong = wrong.map(Piece::revoke).collect::<Vec<_>>().into_iter();
    let all = wrong.chain(lacking.map(Piece::grant));
    all.map(|head| Statement::new(head, account)).collect()
}

/// The same login under another host, from when the wish named that one: it has our mark.
fn strays(wish: &Wish<'_>, diff: &Diff) -> Vec<Statement> {
    let login = wish.login().as_str();
    let drop = |host: &String| Statement::new("DROP USER ", sql::account(login, host));
    diff.stray.iter().map(drop).collect()
}

/// Switches accounts off.
pub(super) fn lock(account: &str) -> String {
    format!("ALTER USER {account} ACCOUNT LOCK")
}

/// Takes an account away, with its rights and its mark.
pub(super) fn drop(account: &str) -> String {
    format!("DROP USER {account}")
}

/// Ends the sessions of a login, wherever they come from.
pub(super) fn kill(login: &str) -> String {
    format!("KILL HARD CONNECTION USER {}", sql::account(login, "%"))
}
