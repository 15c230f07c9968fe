//! What rights a login lacks, and which it has beyond, on the objects that its values name.
//!
//! What counts is what holds: a right that comes by membership, or that everybody has, is not missing.
//! Beyond is only what was granted to the login itself.

use std::collections::{BTreeMap, HashMap};

use super::compare::{View, Wish};
use super::inside::{Inside, Schema};
use super::rights::{Privs, Right, Sort};
use super::roles::{Database, Role};
use super::values::Privileges;

/// Rights, by what is the matter with them.
#[derive(Debug, Default)]
pub(super) struct Measured {
    pub(super) missing: Vec<Right>,
    pub(super) surplus: Vec<Right>,
    /// What only the admin login lacks to look after one that a person made: given with whatever else is
    /// written, and no difference by itself.
    pub(super) aside: Vec<Right>,
}

/// What is wanted on tables and sequences.
pub(super) fn wanted(privileges: Privileges, sort: Sort) -> Privs {
    match (privileges, sort) {
        // What an owner makes is its own.
        (Privileges::Owner | Privileges::Nothing, _) => Privs::NONE,
        (Privileges::ReadOnly, _) => Privs::SELECT,
        (Privileges::ReadWrite, Sort::Table) => Privs::ROWS,
        (Privileges::ReadWrite, Sort::Sequence) => Privs::SELECT.with(Privs::USAGE),
    }
}

fn wanted_on_schema(privileges: Privileges) -> Privs {
    match privileges {
        Privileges::Owner => Privs::USAGE.with(Privs::CREATE),
        Privileges::ReadWrite | Privileges::ReadOnly => Privs::USAGE,
        Privileges::Nothing => Privs::NONE,
    }
}

/// Measures one wish.
pub(super) fn measure(view: &View<'_>, wish: &Wish<'_>) -> Measured {
    let mut found = Measured::default();
    limit(view.role, wish, &mut found);
    if let Some(base) = wish.base() {
        // It acts as the first login, whose own wish says what that may do.
        if !view.shared.turns.contains(wish.login().as_str()) {
            found.missing.push(Right::Turn(base.as_str().to_owned()));
        }
        return found;
    }
    let values = wish.values();
    let owner = values.privileges == Privileges::Owner;
    if owner && !view.superuser && !view.role.is_some_and(|role| role.acted) {
        match view.role.is_some() && !wish.exact() {
            true => found.aside.push(Right::Acted),
            false => found.missing.push(Right::Acted),
        }
    }
    database(view, wish, &mut found);
    let Some(inside) = view.inside else {
        return found;
    };
    for name in &values.schemas {
        let Some(schema) = inside.schemas.get(name) else {
            if values.privileges != Privileges::Nothing {
                found.missing.push(Right::NewSchema(name.clone()));
            }
            continue;
        };
        on_schema(view, wish, inside, (name, schema), &mut found);
        for sort in Sort::BOTH {
            on_tables(view, wish, inside, name, sort, &mut found);
            later(view, wish, inside, name, sort, &mut found);
        }
    }
    let lacking = values
        .extensions
        .iter()
        .filter(|name| !inside.extensions.contains(*name));
    let home = values.schemas.first().map_or("public", String::as_str);
    found.missing.extend(lacking.map(|name| Right::Extension {
        name: name.clone(),
        schema: home.to_owned(),
    }));
    if owner && !inside.kept.is_empty() {
        found.missing.push(Right::Kept(inside.kept.clone()));
    }
    found
}

fn limit(role: Option<&Role>, wish: &Wish<'_>, found: &mut Measured) {
    let asked = wish
        .values()
        .connection_limit
        .and_then(|n| i32::try_from(n).ok());
    // A limit that nobody asked for is a person's on a login that is theirs.
    if asked.is_none() && !wish.exact() {
        return;
    }
    let (wanted, has) = (asked.unwrap_or(-1), role.map_or(-1, |role| role.limit));
    let size = |limit: i32| {
        if limit < 0 {
            i64::MAX
        } else {
            i64::from(limit)
        }
    };
    if role.is_none() && wanted >= 0 || size(has) < size(wanted) {
        found.missing.push(Right::Limit(wanted));
    } else if size(has) > size(wanted) {
        found.surplus.push(Right::Limit(wanted));
    }
}

fn database(view: &View<'_>, wish: &Wish<'_>, found: &mut Measured) {
    let values = wish.values();
    let (name, owner) = (&values.database, values.privileges == Privileges::Owner);
    let Some(database) = view.database else {
        found.missing.push(match owner {
            true => Right::OwnDatabase(name.clone()),
            false => Right::Database {
                name: name.clone(),
                privs: Privs::CONNECT,
            },
        });
        return;
    };
    let owns = view
        .role
        .is_some_and(|role| view.shared.owns(role, database));
    if owner && !owns {
        found.missing.push(Right::OwnDatabase(name.clone()));
    }
    let right = |privs| Right::Database {
        name: name.clone(),
        privs,
    };
    let connects = match view.role {
        Some(role) => view.shared.may_connect(role, database),
        None => everybody_connects(database),
    };
    if !connects && values.privileges != Privileges::Nothing {
        found.missing.push(right(Privs::CONNECT));
    }
    let Some(role) = view.role else { return };
    if owner {
        return;
    }
    if database.owner == role.oid {
        found.surplus.push(Right::OwnDatabase(name.clone()));
    } else if has(database.rights.get(&role.oid), Privs::CREATE) {
        found.surplus.push(right(Privs::CREATE));
    }
}

fn everybody_connects(database: &Database) -> bool {
    has(database.rights.get(&0), Privs::CONNECT)
}

fn has(rights: Option<&Privs>, wanted: Privs) -> bool {
    rights.is_some_and(|rights| rights.holds(wanted))
}

fn on_schema(
    view: &View<'_>,
    wish: &Wish<'_>,
    inside: &Inside,
    (name, schema): (&String, &Schema),
    found: &mut Measured,
) {
    let privileges = wish.values().privileges;
    let lacks = lacks_on_schema(view, wish, inside, name, schema);
    let right = |privs| Right::Schema {
        name: name.clone(),
        privs,
    };
    if !lacks.is_empty() {
        found.missing.push(right(lacks));
    }
    let Some(role) = view.role else { return };
    let granted = schema.rights.get(&role.oid).copied().unwrap_or_default();
    let beyond = granted.without(wanted_on_schema(privileges));
    if privileges != Privileges::Owner
        && !beyond.is_empty()
        && schema.owner != wish.login().as_str()
    {
        found.surplus.push(right(beyond));
    }
}

/// What a login lacks on a schema, as far as it is known.
fn lacks_on_schema(
    view: &View<'_>,
    wish: &Wish<'_>,
    inside: &Inside,
    name: &str,
    schema: &Schema,
) -> Privs {
    let wanted = wanted_on_schema(wish.values().privileges);
    let of = |who: u32| schema.rights.get(&who).copied().unwrap_or_default();
    let mut held = of(0);
    // Whoever owns the database is a member of this role of the server's, and so will an owner be.
    if schema.owner == "pg_database_owner" && wish.values().privileges == Privileges::Owner {
        held = held.with(wanted);
    }
    if let Some(role) = view.role {
        held = held.with(of(role.oid));
        if !inside.by_membership.is_empty() {
            let key = (role.oid, name.to_owned());
            let more = inside.by_membership.get(&key).copied().unwrap_or_default();
            held = held.with(more);
        }
        if role.superuser {
            held = held.with(wanted);
        }
    }
    wanted.without(held)
}

fn on_tables(
    view: &View<'_>,
    wish: &Wish<'_>,
    inside: &Inside,
    schema: &str,
    sort: Sort,
    found: &mut Measured,
) {
    let wanted = wanted(wish.values().privileges, sort);
    let Some(role) = view.role else {
        let all = inside.everything.get(schema, sort);
        if let Some(names) = all.filter(|_| !wanted.is_empty()) {
            found.missing.push(Right::On {
                sort,
                privs: wanted,
                names: names.clone(),
            });
        }
        return;
    };
    if inside.lacking.is_empty() && inside.beyond.is_empty() {
        return;
    }
    let key = (role.oid, schema.to_owned(), sort);
    let owner = wish.values().privileges == Privileges::Owner;
    let by_name = |named: Option<&super::inside::Named>, wanted: &dyn Fn(Privs) -> bool| {
        let all = named.into_iter().flatten();
        let all = all.filter(|(right, _)| wanted(Privs::of(right)));
        all.map(|(right, names)| Right::On {
            sort,
            privs: Privs::of(right),
            names: names.clone(),
        })
        .collect::<Vec<_>>()
    };
    let lacking = by_name(inside.lacking.get(&key), &|right| wanted.holds(right));
    found.missing.extend(merged(lacking));
    if !owner {
        let beyond = by_name(inside.beyond.get(&key), &|right| !wanted.holds(right));
        found.surplus.extend(merged(beyond));
    }
}

/// Rights on the same names, as one.
fn merged(all: Vec<Right>) -> Vec<Right> {
    let mut merged: Vec<Right> = Vec::new();
    for right in all {
        let Right::On {
            privs: more, names, ..
        } = &right
        else {
            continue;
        };
        let same = merged.iter_mut().find_map(|one| match one {
            Right::On {
                privs,
                names: others,
                ..
            } if others == names => Some(privs),
            _ => None,
        });
        match same {
            Some(privs) => *privs = privs.with(*more),
            None => merged.push(right),
        }
    }
    merged
}

fn later(
    view: &View<'_>,
    wish: &Wish<'_>,
    inside: &Inside,
    schema: &str,
    sort: Sort,
    found: &mut Measured,
) {
    let wanted = wanted(wish.values().privileges, sort);
    let of = |schema: &str| inside.later.get(schema, sort);
    let (here, everywhere) = (of(schema), of(""));
    let has = |by_role: &HashMap<u32, Privs>| {
        let rights = view.role.and_then(|role| by_role.get(&role.oid));
        rights.copied().unwrap_or_default()
    };
    let right = |maker: &str, privs| Right::Later {
        maker: maker.to_owned(),
        schema: Some(schema.to_owned()),
        sort,
        privs,
    };
    let makers = inside.makers.get(schema).into_iter().flatten();
    // What a maker's tables cannot be said beforehand is granted once they are there.
    for maker in makers.filter(|maker| maker.acted && maker.name != view.keeper) {
        let rights = |makers: Option<&BTreeMap<String, HashMap<u32, Privs>>>| {
            let of_maker = makers.and_then(|makers| makers.get(&maker.name));
            of_maker.map(has).unwrap_or_default()
        };
        let lacks = wanted.without(rights(here)).without(rights(everywhere));
        if !lacks.is_empty() && maker.name != wish.login().as_str() {
            found.missing.push(right(&maker.name, lacks));
        }
    }
    if wish.values().privileges == Privileges::Owner {
        return;
    }
    let makers = inside.makers.get(schema);
    let acted = |name: &str| {
        view.superuser
            || makers
                .into_iter()
                .flatten()
                .any(|m| m.acted && m.name == name)
    };
    for (maker, by_role) in here.into_iter().flatten() {
        let beyond = has(by_role).without(wanted);
        if !beyond.is_empty() && maker != wish.login().as_str() && acted(maker) {
            found.surplus.push(right(maker, beyond));
        }
    }
}

/// Which schemas have to be looked at table by table, because the counts do not add up for this wish.
pub(super) fn doubtful(view: &View<'_>, wish: &Wish<'_>) -> Doubtful {
    let mut doubtful = Doubtful::default();
    let (Some(role), Some(inside), None) = (view.role, view.inside, wish.base()) else {
        return doubtful;
    };
    let privileges = wish.values().privileges;
    for name in &wish.values().schemas {
        let Some(schema) = inside.schemas.get(name) else {
            continue;
        };
        let mut lacks = !lacks_on_schema(view, wish, inside, name, schema).is_empty();
        let mut beyond = false;
        for sort in Sort::BOTH {
            let wanted = wanted(privileges, sort);
            let total = inside.totals.get(name, sort).copied().unwrap_or(0);
            let counts = inside.counts.get(name, sort);
            if total > 0 {
                let on_all = |who| counts.map_or(Privs::NONE, |c| c.on_all(who, total));
                let held = on_all(role.oid);
                lacks |= !held.holds(wanted) && !held.with(on_all(0)).holds(wanted);
            }
            beyond |= counts.is_some_and(|c| !c.of_others(role.oid).without(wanted).is_empty());
        }
        if lacks {
            let writes = privileges == Privileges::ReadWrite;
            doubtful.lacking.push((role.oid, name.clone(), writes));
        }
        if beyond && privileges != Privileges::Owner {
            doubtful.beyond.push((role.oid, name.clone()));
        }
    }
    doubtful
}

/// What [`doubtful`] finds.
#[derive(Debug, Default)]
pub(super) struct Doubtful {
    pub(super) lacking: Vec<(u32, String, bool)>,
    pub(super) beyond: Vec<(u32, String)>,
}
