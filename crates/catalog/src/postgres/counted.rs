//! What is counted of tables and sequences, by schema.

use std::collections::HashMap;

use super::rights::{Privs, Sort};

/// Something of the tables, and of the sequences, of each schema.
#[derive(Debug, Clone)]
pub(super) struct Each<T>(HashMap<String, [Option<T>; 2]>);

impl<T> Default for Each<T> {
    fn default() -> Self {
        Self(HashMap::new())
    }
}

impl<T: Default> Each<T> {
    pub(super) fn get(&self, schema: &str, sort: Sort) -> Option<&T> {
        self.0.get(schema)?[sort as usize].as_ref()
    }
    pub(super) fn entry(&mut self, schema: &str, sort: Sort) -> &mut T {
        if !self.0.contains_key(schema) {
            self.0.insert(schema.to_owned(), [None, None]);
        }
        let both = self.0.entry(schema.to_owned()).or_default();
        both[sort as usize].get_or_insert_default()
    }
}

/// On how many tables, or sequences, of a schema each role has each privilege.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts(HashMap<u32, OfRole>);

#[derive(Debug, Clone, Default)]
struct OfRole {
    /// On any, by privilege.
    all: [i64; Privs::MANY],
    /// On those that others own.
    of_others: Privs,
}

impl Counts {
    /// The privileges that a role has on so many.
    pub(super) fn on_all(&self, role: u32, total: i64) -> Privs {
        let all = self.0.get(&role).map(|of| &of.all);
        let each = Privs::every().zip(all.into_iter().flatten());
        each.filter(|(_, count)| **count == total)
            .fold(Privs::NONE, |held, (right, _)| held.with(right))
    }
    /// What it has on those that others own.
    pub(super) fn of_others(&self, role: u32) -> Privs {
        self.0.get(&role).map_or(Privs::NONE, |of| of.of_others)
    }
    pub(super) fn add(&mut self, role: u32, owner: u32, right: Privs, count: i64) {
        let of = self.0.entry(role).or_default();
        if let Some(at) = right.place() {
            of.all[at] += count;
        }
        if role != owner {
            of.of_others = of.of_others.with(right);
        }
    }
}
