//! Finding: every login of the server as the values under which it would be held as it stands. Nothing here
//! writes.
//!
//! What a login may do is guessed from what was granted to it, and each guess is measured as a wish would
//! be: only what nothing is missing of is offered.

use std::collections::{BTreeSet, HashMap};

use mesh_sdk::adapter::Found;
use mesh_sdk::{Class, Cx, Error, Login, MarkSeen, Marker, Provision};

use super::adapter::Postgres;
use super::compare::{Wish, listed_mark};
use super::connect::home;
use super::inside::{Ask, Inside};
use super::offer::{Guess, Offer, judged};
use super::rights::Sort;
use super::roles::column;
use super::session::Session;
use super::values::{PostgresValues, Privileges};

const WHAT: &str = "look at the logins";

/// A login that could be asked for.
struct Candidate {
    oid: u32,
    login: Login,
    enabled: bool,
    limit: i32,
    beyond: Vec<String>,
}

/// A database, and what was granted on it as a whole.
struct Place {
    name: String,
    owner: u32,
    looked_into: bool,
    granted: HashMap<u32, Vec<String>>,
}

impl Candidate {
    fn guess(&self, place: &Place, privileges: Privileges, schemas: Vec<String>) -> Guess {
        Guess::new((self.oid, &self.login), &place.name, privileges, schemas)
    }

    /// Whether anything was granted to it in a schema, that does not follow from owning it.
    fn was_granted(&self, inside: &Inside, schema: &str) -> bool {
        let on_schema = inside.schemas.get(schema).is_some_and(|found| {
            found.owner != self.login.as_str() && found.rights.contains_key(&self.oid)
        });
        let on_tables = |sort| {
            let now = inside.counts.get(schema, sort);
            let later = inside.later.get(schema, sort);
            now.is_some_and(|counts| !counts.of_others(self.oid).is_empty())
                || later.is_some_and(|makers| makers.values().any(|to| to.contains_key(&self.oid)))
        };
        on_schema || Sort::BOTH.into_iter().any(on_tables)
    }
}

impl Postgres {
    /// Every login with its values.
    pub(super) async fn find_all(
        &self,
        cx: &Cx,
        marker: &Marker,
    ) -> Result<Vec<Found<PostgresValues>>, Error> {
        let session = self.endpoint.admin().await?;
        let mut candidates = self.candidates(&session, marker).await?;
        let places = places(&session).await?;
        cx.progress();
        let owned = owned_objects(&session).await?;
        session.close();
        let mut offers: HashMap<u32, Vec<Offer>> = HashMap::new();
        for place in &places {
            match self.offers_in(cx, marker, place, &candidates).await {
                Ok(found) => {
                    for (oid, offer) in found {
                        offers.entry(oid).or_default().push(offer);
                    }
                }
                Err(error) if error.class() == Class::Denied => {
                    let name = &place.name;
                    let note = format!("what it may do in database {name} could not be looked at");
                    let there = |one: &&mut Candidate| {
                        place.owner == one.oid || place.granted.contains_key(&one.oid)
                    };
                    let those = candidates.iter_mut().filter(there);
                    those.for_each(|one| one.beyond.push(note.clone()));
                }
                Err(error) => return Err(error),
            }
        }
        let found = candidates.into_iter().map(|one| {
            let all = offers.remove(&one.oid).unwrap_or_default();
            self.found(one, all, &places, &owned)
        });
        Ok(found.collect())
    }

    /// Roles that log in or did, and that are nobody else's.
    async fn candidates(
        &self,
        session: &Session,
        marker: &Marker,
    ) -> Result<Vec<Candidate>, Error> {
        let (table, had_password) = match session.facts.verifiers {
            true => ("pg_authid", "a.rolpassword IS NOT NULL"),
            false => ("pg_roles", "false"),
        };
        let sql = format!(
            "SELECT a.oid, a.rolname::text, a.rolcanlogin, coalesce(a.rolvaliduntil <= now(), false), \
               a.rolconnlimit, \
               coalesce((SELECT d.description FROM pg_shdescription d \
                 WHERE d.objoid = a.oid AND d.classoid = 'pg_authid'::regclass), ''), {had_password}, \
               array_remove(ARRAY[ \
                 CASE WHEN a.rolsuper THEN 'SUPERUSER' END, CASE WHEN a.rolcreatedb THEN 'CREATEDB' END, \
                 CASE WHEN a.rolcreaterole THEN 'CREATEROLE' END, \
                 CASE WHEN a.rolreplication THEN 'REPLICATION' END, \
                 CASE WHEN a.rolbypassrls THEN 'BYPASSRLS' END, \
                 CASE WHEN isfinite(a.rolvaliduntil) THEN 'VALID UNTIL ' || a.rolvaliduntil::text END], \
                 NULL), \
               ARRAY(SELECT g.rolname::text FROM pg_auth_members m JOIN pg_roles g ON g.oid = m.roleid \
                 WHERE m.member = a.oid ORDER BY 1) \
             FROM {table} a WHERE a.rolname !~ '^pg_' ORDER BY a.rolname"
        );
        let mut all = Vec::new();
        for row in session.query(WHAT, &sql, &[]).await? {
            let name: String = column(&row, 1, WHAT)?;
            let Ok(login) = Login::new(&name) else {
                continue;
            };
            let mark = listed_mark(marker, &column::<String>(&row, 5, WHAT)?);
            let ours = match &mark {
                MarkSeen::OursFor(consumer) if consumer.is_canary() => continue,
                MarkSeen::Foreign => continue,
                MarkSeen::OursFor(_) => true,
                _ => false,
            };
            let on: bool = column(&row, 2, WHAT)?;
            let was = on || column(&row, 6, WHAT)? || ours;
            if !was || self.may_touch(&name).is_err() {
                continue;
            }
            let (expired, limit): (bool, i32) = (column(&row, 3, WHAT)?, column(&row, 4, WHAT)?);
            let mut beyond: Vec<String> = column(&row, 7, WHAT)?;
            let groups: Vec<String> = column(&row, 8, WHAT)?;
            beyond.extend(groups.iter().map(|group| format!("member of {group}")));
            all.push(Candidate {
                oid: column(&row, 0, WHAT)?,
                login,
                enabled: on && !expired && limit != 0,
                limit,
                beyond,
            });
        }
        Ok(all)
    }

    /// What each may do in one database, of those that were granted anything there.
    async fn offers_in(
        &self,
        cx: &Cx,
        marker: &Marker,
        place: &Place,
        candidates: &[Candidate],
    ) -> Result<Vec<(u32, Offer)>, Error> {
        if !place.looked_into {
            return Err(Error::new(Class::Denied, "it takes no connections"));
        }
        let session = self.endpoint.admin_in(&place.name).await?;
        cx.progress();
        let schemas = schemas(&session).await?;
        let ask = Ask {
            schemas: schemas.iter().map(String::as_str).collect(),
            roles: candidates.iter().map(|one| one.oid).collect(),
            extensions: false,
            absent: false,
            keeper: None,
        };
        let inside = Inside::read(cx, &session, &ask).await?;
        let is_home = place.name == home(self.endpoint.settings());
        let mut guesses = Vec::new();
        for one in candidates {
            if place.owner == one.oid && !is_home {
                let public = schemas.iter().filter(|schema| *schema == "public");
                for schemas in [public.cloned().collect(), Vec::new()] {
                    guesses.push(one.guess(place, Privileges::Owner, schemas));
                }
                continue;
            }
            for schema in schemas.iter().filter(|s| one.was_granted(&inside, s)) {
                for privileges in [Privileges::ReadWrite, Privileges::ReadOnly] {
                    guesses.push(one.guess(place, privileges, vec![schema.clone()]));
                }
            }
        }
        let wishes: Vec<Wish<'_>> = guesses
            .iter()
            .filter_map(|guess| Provision::of(&guess.wish, true, marker))
            .collect();
        if wishes.is_empty() {
            session.close();
            return Ok(Vec::new());
        }
        let look = self.look(cx, &session, &wishes).await?;
        let inside = look.inside(cx, &session, &wishes).await?;
        session.close();
        Ok(judged(&look, &inside, &guesses, &wishes))
    }

    /// The values that say the most, and the rest in words.
    fn found(
        &self,
        one: Candidate,
        mut offers: Vec<Offer>,
        places: &[Place],
        owned: &HashMap<u32, Vec<(String, String)>>,
    ) -> Found<PostgresValues> {
        let own_name = one.login.as_str();
        offers.sort_by_key(|offer| {
            let other_name = offer.database != own_name;
            (offer.rank(), other_name, usize::MAX - offer.schemas.len())
        });
        let mut offers = offers.into_iter();
        let mut beyond = one.beyond;
        let best = offers.next().unwrap_or_else(|| {
            let connects = places
                .iter()
                .find(|place| place.granted.contains_key(&one.oid));
            let home = home(self.endpoint.settings()).to_owned();
            let database = connects.map_or(home, |place| place.name.clone());
            Offer {
                database,
                privileges: Privileges::Nothing,
                schemas: Vec::new(),
                beyond: Vec::new(),
            }
        });
        beyond.extend(best.beyond);
        for other in offers {
            if other.privileges != Privileges::Nothing {
                beyond.push(other.told());
            }
            beyond.extend(other.beyond);
        }
        let chosen = (best.privileges, best.database.as_str());
        beyond.extend(elsewhere(one.oid, chosen, places, owned));
        let values = PostgresValues {
            database: best.database,
            privileges: best.privileges,
            schemas: best.schemas,
            extensions: Vec::new(),
            connection_limit: u32::try_from(one.limit).ok().filter(|limit| *limit > 0),
        };
        let mut unique = BTreeSet::new();
        beyond.retain(|line| unique.insert(line.clone()));
        let mut found = Found::new(one.login, values);
        found.enabled = one.enabled;
        found.beyond = beyond;
        found
    }
}

/// What a role owns or was granted that is not what its values say.
fn elsewhere(
    role: u32,
    (privileges, database): (Privileges, &str),
    places: &[Place],
    owned: &HashMap<u32, Vec<(String, String)>>,
) -> Vec<String> {
    let is_said = |name: &str| privileges == Privileges::Owner && name == database;
    let mut all = Vec::new();
    for place in places {
        if place.owner == role && !is_said(&place.name) {
            all.push(format!("owner of database {}", place.name));
        }
        let connects = privileges != Privileges::Nothing && place.name == database;
        if let Some(granted) = place.granted.get(&role).filter(|_| !connects) {
            all.push(format!("{} on database {}", granted.join(", "), place.name));
        }
    }
    for (place, what) in owned.get(&role).into_iter().flatten() {
        if !is_said(place) {
            all.push(format!("{what} in database {place}"));
        }
    }
    all
}

/// Every database that is no template.
async fn places(session: &Session) -> Result<Vec<Place>, Error> {
    let sql = "SELECT d.datname::text, d.datdba, d.datallowconn, e.grantee, e.privilege_type \
               FROM pg_database d LEFT JOIN LATERAL ( \
                 SELECT x.grantee, x.privilege_type \
                 FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba)) || '{}'::aclitem[]) x \
                 WHERE x.grantee NOT IN (0, d.datdba)) e ON true \
               WHERE NOT d.datistemplate ORDER BY 1, 5";
    let mut all: Vec<Place> = Vec::new();
    for row in session.query(WHAT, sql, &[]).await? {
        let name: String = column(&row, 0, WHAT)?;
        if all.last().is_none_or(|place| place.name != name) {
            all.push(Place {
                name,
                owner: column(&row, 1, WHAT)?,
                looked_into: column(&row, 2, WHAT)?,
                granted: HashMap::new(),
            });
        }
        let grantee: Option<u32> = column(&row, 3, WHAT)?;
        let right: Option<String> = column(&row, 4, WHAT)?;
        if let (Some(place), Some(grantee), Some(right)) = (all.last_mut(), grantee, right) {
            place.granted.entry(grantee).or_default().push(right);
        }
    }
    Ok(all)
}

async fn schemas(session: &Session) -> Result<Vec<String>, Error> {
    let sql = "SELECT nspname::text FROM pg_namespace \
               WHERE nspname !~ '^pg_' AND nspname <> 'information_schema' ORDER BY 1";
    let rows = session.query(WHAT, sql, &[]).await?;
    rows.iter().map(|row| column(row, 0, WHAT)).collect()
}

/// What roles own within databases, and what they were granted there that values never speak of.
async fn owned_objects(session: &Session) -> Result<HashMap<u32, Vec<(String, String)>>, Error> {
    let sql = "SELECT s.refobjid, d.datname::text, s.deptype = 'o', count(*) \
               FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid \
               WHERE s.refclassid = 'pg_authid'::regclass AND (s.deptype = 'o' \
                   AND s.classid NOT IN ('pg_default_acl'::regclass, 'pg_user_mapping'::regclass) \
                 OR s.deptype = 'a' AND (s.objsubid > 0 OR s.classid NOT IN ('pg_class'::regclass, \
                   'pg_namespace'::regclass, 'pg_default_acl'::regclass))) \
               GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 DESC";
    let mut all: HashMap<u32, Vec<(String, String)>> = HashMap::new();
    for row in session.query(WHAT, sql, &[]).await? {
        let (owns, count): (bool, i64) = (column(&row, 2, WHAT)?, column(&row, 3, WHAT)?);
        let what = match owns {
            true => format!("owner of {count} objects"),
            false => format!("rights on {count} columns, functions or other objects"),
        };
        let place = (column(&row, 1, WHAT)?, what);
        all.entry(column(&row, 0, WHAT)?).or_default().push(place);
    }
    Ok(all)
}
