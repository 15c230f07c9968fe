//! Rows as the server sent them, by user. They are taken apart for whom somebody asks, and for no one else.

use std::collections::HashMap;
use std::hash::Hasher;
use std::sync::OnceLock;

use mysql_async::{Row, Value};

use super::account::{Account, Age};
use super::mark::Piece;
use super::rights::Rights;

/// What a row is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Table {
    /// `global_priv`: host and JSON.
    Accounts,
    /// `db`: host, pattern and letters.
    Rights,
    /// `tables_priv`: host, database and table of a mark's piece.
    Marks,
}

/// Rows of three tables. All bytes lie in one piece, so that no row needs pieces of its own.
#[derive(Debug, Default)]
pub(super) struct Rows {
    bytes: Vec<u8>,
    each: Vec<Place>,
    users: HashMap<Vec<u8>, User>,
}

/// Where a row lies, and which row of the same user comes next.
#[derive(Debug)]
struct Place {
    table: Table,
    from: usize,
    to: usize,
    next: Option<usize>,
}

#[derive(Debug)]
struct User {
    first: usize,
    last: usize,
    /// Its accounts, once somebody asked; none if they cannot be read.
    accounts: OnceLock<Option<Vec<Account>>>,
}

impl Rows {
    /// Keeps a row whose first column is the user. None if one of its columns is no text.
    pub(super) fn put(&mut self, table: Table, row: &Row) -> Option<()> {
        let user = bytes(row, 0)?;
        let from = self.bytes.len();
        for at in 1..row.len() {
            let column = bytes(row, at)?;
            let length = u32::try_from(column.len()).ok()?;
            self.bytes.extend_from_slice(&length.to_le_bytes());
            self.bytes.extend_from_slice(column);
        }
        let (to, at) = (self.bytes.len(), self.each.len());
        self.each.push(Place {
            table,
            from,
            to,
            next: None,
        });
        match self.users.get_mut(user) {
            Some(known) => {
                self.each[known.last].next = Some(at);
                known.last = at;
            }
            None => {
                let new = User {
                    first: at,
                    last: at,
                    accounts: OnceLock::new(),
                };
                self.users.insert(user.to_vec(), new);
            }
        }
        Some(())
    }

    /// Everybody who has rows.
    pub(super) fn users(&self) -> impl Iterator<Item = &[u8]> {
        self.users.keys().map(Vec::as_slice)
    }

    fn of(&self, user: &[u8]) -> impl Iterator<Item = &Place> {
        let mut next = self.users.get(user).map(|user| user.first);
        std::iter::from_fn(move || {
            let place = &self.each[next?];
            next = place.next;
            Some(place)
        })
    }

    /// All that is known of a user, byte by byte, into a fingerprint.
    pub(super) fn hash(&self, user: &[u8], state: &mut impl Hasher) {
        for place in self.of(user) {
            state.write_u8(place.table as u8);
            state.write_usize(place.to - place.from);
            state.write(&self.bytes[place.from..place.to]);
        }
        state.write_u8(u8::MAX);
    }

    /// The accounts of a user with their rights and marks, whatever their hosts. None if a row of them
    /// cannot be read.
    pub(super) fn accounts(&self, user: &[u8], age: Age) -> Option<&[Account]> {
        let Some(known) = self.users.get(user) else {
            return Some(&[]);
        };
        let read = || self.read(user, age);
        known.accounts.get_or_init(read).as_deref()
    }

    fn read(&self, user: &[u8], age: Age) -> Option<Vec<Account>> {
        let name = String::from_utf8_lossy(user);
        let mut all: Vec<Account> = Vec::new();
        for place in self.of(user) {
            let mut columns = Columns(&self.bytes[place.from..place.to]);
            let host = columns.next()?;
            if place.table == Table::Accounts {
                let kept = columns.next()?;
                let account = Account::read(&name, &host, &kept, age).ok()?;
                all.extend(account);
                continue;
            }
            // Rights without an account are nobody's.
            let Some(account) = all.iter_mut().find(|account| account.host == *host) else {
                continue;
            };
            let (first, second) = (columns.next()?.into_owned(), columns.next()?);
            match place.table {
                Table::Marks => account.pieces.push(Piece {
                    database: first,
                    table: second.into_owned(),
                }),
                _ => {
                    let rights = Rights::of_letters(second.as_bytes());
                    account.databases.push((first, rights));
                }
            }
        }
        Some(all)
    }
}

/// The columns of a kept row.
struct Columns<'a>(&'a [u8]);

impl<'a> Iterator for Columns<'a> {
    type Item = std::borrow::Cow<'a, str>;
    fn next(&mut self) -> Option<Self::Item> {
        let (length, rest) = self.0.split_first_chunk()?;
        let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
        let (column, rest) = rest.split_at_checked(length)?;
        self.0 = rest;
        Some(String::from_utf8_lossy(column))
    }
}

fn bytes(row: &Row, at: usize) -> Option<&[u8]> {
    match row.as_ref(at)? {
        Value::Bytes(bytes) => Some(bytes),
        _ => None,
    }
}
