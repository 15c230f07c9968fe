//! What a login may do in one database, guessed and measured as a wish would be.

use std::collections::{BTreeMap, BTreeSet};

use mesh_sdk::Login;

use super::compare::Wish;
use super::inside::Inside;
use super::look::Look;
use super::measure::{Measured, measure};
use super::rights::{Right, told};
use super::values::{PostgresValues, Privileges};
use crate::guess;

/// What a login may do in one database.
pub(super) struct Offer {
    pub(super) database: String,
    pub(super) privileges: Privileges,
    pub(super) schemas: Vec<String>,
    pub(super) beyond: Vec<String>,
}

impl Offer {
    /// The least say the most.
    pub(super) fn rank(&self) -> u8 {
        match self.privileges {
            Privileges::Owner => 0,
            Privileges::ReadWrite => 1,
            Privileges::ReadOnly => 2,
            Privileges::Nothing => 3,
        }
    }
    /// In words, for a login whose values say something else.
    pub(super) fn told(&self) -> String {
        let (level, database) = (self.privileges.as_str(), &self.database);
        match &self.schemas[..] {
            [] => format!("{level} of database {database}"),
            some => format!(
                "{level} on schema {} of database {database}",
                some.join(", ")
            ),
        }
    }
}

/// A wish that is tried on a login, without a password.
pub(super) struct Guess {
    oid: u32,
    privileges: Privileges,
    schemas: Vec<String>,
    database: String,
    pub(super) wish: mesh_sdk::Wish,
}

impl Guess {
    pub(super) fn new(
        (oid, login): (u32, &Login),
        database: &str,
        privileges: Privileges,
        schemas: Vec<String>,
    ) -> Self {
        let values = PostgresValues {
            database: database.to_owned(),
            privileges,
            schemas: schemas.clone(),
            extensions: Vec::new(),
            connection_limit: None,
        };
        Self {
            oid,
            privileges,
            schemas,
            database: database.to_owned(),
            wish: guess::wish(login.clone(), values),
        }
    }

    fn offer(&self, schemas: Vec<String>, beyond: Vec<String>) -> Offer {
        Offer {
            database: self.database.clone(),
            privileges: self.privileges,
            schemas,
            beyond,
        }
    }
}

/// Guesses about one login in one database, each with what is the matter with it.
type Tried<'g> = Vec<(&'g Guess, Measured)>;

/// Of each login what holds.
pub(super) fn judged(
    look: &Look<'_>,
    inside: &Inside,
    guesses: &[Guess],
    wishes: &[Wish<'_>],
) -> Vec<(u32, Offer)> {
    let mut by_login: BTreeMap<u32, Tried<'_>> = BTreeMap::new();
    for (guess, wish) in guesses.iter().zip(wishes) {
        let measured = measure(&look.view(wish, Some(inside), None), wish);
        by_login
            .entry(guess.oid)
            .or_default()
            .push((guess, measured));
    }
    let of_each = by_login.into_iter().flat_map(|(oid, tried)| {
        let offers = offers(&tried).into_iter();
        offers.map(move |offer| (oid, offer))
    });
    of_each.collect()
}

/// Each schema counts once, for the most that holds there; what is less than a level is told.
fn offers(tried: &Tried<'_>) -> Vec<Offer> {
    let holds = |level| {
        let those = tried.iter();
        those.filter(move |(guess, found)| guess.privileges == level && found.missing.is_empty())
    };
    if let Some((guess, found)) = holds(Privileges::Owner).next() {
        return vec![guess.offer(guess.schemas.clone(), surplus(found))];
    }
    let mut all: Vec<Offer> = Vec::new();
    let mut taken: BTreeSet<&[String]> = BTreeSet::new();
    for level in [Privileges::ReadWrite, Privileges::ReadOnly] {
        let mut offer: Option<Offer> = None;
        for (guess, found) in holds(level) {
            if taken.insert(&guess.schemas) {
                let offer = offer.get_or_insert_with(|| guess.offer(Vec::new(), Vec::new()));
                offer.schemas.extend(guess.schemas.iter().cloned());
                offer.beyond.extend(surplus(found));
            }
        }
        all.extend(offer);
    }
    for (guess, found) in tried {
        if guess.privileges == Privileges::ReadOnly && !taken.contains(&guess.schemas[..]) {
            let (schema, lacks) = (guess.schemas.join(", "), told(&found.missing));
            let some = format!(
                "some rights in schema {schema} of database {}; readonly would need {lacks}",
                guess.database
            );
            let mut offer = guess.offer(Vec::new(), vec![some]);
            offer.privileges = Privileges::Nothing;
            all.push(offer);
        }
    }
    all
}

fn surplus(found: &Measured) -> Vec<String> {
    found.surplus.iter().map(Right::told).collect()
}
