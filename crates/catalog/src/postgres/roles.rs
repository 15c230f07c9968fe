//! What the whole server knows: roles with their verifiers and marks, databases with their owners. A few
//! queries for any number of logins (H-16).

use std::collections::{BTreeSet, HashMap, HashSet};

use mesh_sdk::{Cx, Error, Login};
use tokio_postgres::Row;
use tokio_postgres::types::Type;

use super::classify;
use super::compare::Wish;
use super::rights::Privs;
use super::session::{Facts, Param, Session};
use super::values::Privileges;

/// A role, as far as a wish is about it. It has no `Debug`: a verifier is nothing to print.
#[derive(Clone)]
pub(super) struct Role {
    pub(super) oid: u32,
    /// As it is stored; `None` where there is none, or where it cannot be read.
    pub(super) verifier: Option<String>,
    /// It has the right to log in.
    pub(super) login: bool,
    /// Its `VALID UNTIL` is over.
    pub(super) expired: bool,
    /// Its own limit of connections; -1 for none.
    pub(super) limit: i32,
    pub(super) comment: Option<String>,
    pub(super) superuser: bool,
    /// The admin login may act for it.
    pub(super) acted: bool,
}

/// A database.
#[derive(Debug, Clone, Default)]
pub(super) struct Database {
    pub(super) oid: u32,
    pub(super) owner: u32,
    pub(super) owner_name: String,
    /// It takes connections.
    pub(super) open: bool,
    /// Rights by role; 0 is everybody.
    pub(super) rights: HashMap<u32, Privs>,
}

/// The server, as far as some wishes are about it.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) roles: HashMap<String, Role>,
    pub(super) databases: HashMap<String, Database>,
    /// Roles that may act as another: an owner by membership.
    acts_as: HashSet<(u32, u32)>,
    /// Roles that may connect though neither they nor everybody were granted it.
    connects: HashSet<(u32, u32)>,
    /// Logins that act, from the moment they log in, as the one with which they take turns.
    pub(super) turns: HashSet<String>,
    /// The role that keeps what removed logins left.
    pub(super) keeper: Option<u32>,
    /// The admin login itself.
    pub(super) admin: u32,
}

/// So few are asked for by name.
const FEW: usize = 64;

/// The columns of a role, from the catalogue that may be read. `$1` is a list of names.
fn roles_query(verifiers: bool, facts: &Facts, condition: &str) -> String {
    let (table, verifier) = match verifiers {
        true => ("pg_authid", "a.rolpassword"),
        false => ("pg_roles", "NULL::text"),
    };
    let acted = match (facts.superuser, facts.major) {
        // It may act for everybody, and the server need not be asked 10,000 times.
        (true, _) => "true",
        (false, 16..) => "pg_has_role(a.oid, 'USAGE') AND pg_has_role(a.oid, 'SET')",
        (false, _) => "pg_has_role(a.oid, 'USAGE')",
    };
    format!(
        "SELECT a.oid, a.rolname::text, {verifier}, a.rolcanlogin, \
           coalesce(a.rolvaliduntil <= now(), false), a.rolconnlimit, d.description, a.rolsuper, \
           {acted} \
         FROM {table} a LEFT JOIN pg_shdescription d \
           ON d.objoid = a.oid AND d.classoid = 'pg_authid'::regclass WHERE {condition}"
    )
}

/// Reads a column, whatever type the library finds for it.
pub(super) fn column<'r, T: tokio_postgres::types::FromSql<'r>>(
    row: &'r Row,
    at: usize,
    what: &str,
) -> Result<T, Error> {
    row.try_get(at).map_err(|_| classify::garbled(what))
}

fn role(row: &Row) -> Result<(String, Role), Error> {
    const WHAT: &str = "look at the roles";
    let role = Role {
        oid: column(row, 0, WHAT)?,
        verifier: column(row, 2, WHAT)?,
        login: column(row, 3, WHAT)?,
        expired: column(row, 4, WHAT)?,
        limit: column(row, 5, WHAT)?,
        comment: column(row, 6, WHAT)?,
        superuser: column(row, 7, WHAT)?,
        acted: column(row, 8, WHAT)?,
    };
    Ok((column(row, 1, WHAT)?, role))
}

/// The roles of these names. As a set and not by `= ANY`: the server compares each role with the whole list
/// where it does not know the list as it plans, and 10,000 with 10,000 takes 0.4 s.
pub(super) async fn named(
    session: &Session,
    names: &[&str],
) -> Result<HashMap<String, Role>, Error> {
    by(
        session,
        "a.rolname::text IN (SELECT unnest($1))",
        &[(&names, Type::TEXT_ARRAY)],
    )
    .await
}

async fn by(
    session: &Session,
    condition: &str,
    params: &[Param<'_>],
) -> Result<HashMap<String, Role>, Error> {
    let sql = roles_query(session.facts.verifiers, &session.facts, condition);
    let rows = session.query("look at the roles", &sql, params).await?;
    rows.iter().map(role).collect()
}

/// The same by fewer words, where there are `total` roles and these are half of them or more: then the server
/// is quicker to tell of all than to compare each with a list.
async fn of_wishes(
    session: &Session,
    wishes: &[Wish<'_>],
    total: usize,
) -> Result<HashMap<String, Role>, Error> {
    if wishes.len() >= total.div_ceil(2).max(FEW) {
        return by(session, "true", &[]).await;
    }
    let bases = wishes.iter().filter_map(|w| w.base());
    let names = wishes.iter().map(|w| w.login()).chain(bases);
    let names: Vec<&str> = names.map(Login::as_str).collect();
    named(session, &names).await
}

/// Every role that is not the server's own.
pub(super) async fn all(session: &Session) -> Result<Vec<(String, Role)>, Error> {
    let sql = roles_query(
        false,
        &session.facts,
        "a.rolname !~ '^pg_' ORDER BY a.rolname",
    );
    let rows = session.query("list the roles", &sql, &[]).await?;
    rows.iter().map(role).collect()
}

/// Looks at everything that is shared, for these wishes: in one round trip, and another one where rights come
/// by membership.
pub(super) async fn look(
    cx: &Cx,
    session: &Session,
    wishes: &[Wish<'_>],
    keeper: &str,
    total: usize,
) -> Result<Shared, Error> {
    let mut shared = Shared::default();
    let databases = shared.read_databases(session, wishes, keeper);
    let (roles, ()) = tokio::try_join!(of_wishes(session, wishes, total), databases)?;
    shared.roles = roles;
    cx.progress();
    shared.read_exceptions(session, wishes).await?;
    shared.read_turns(session, wishes).await?;
    cx.progress();
    Ok(shared)
}

impl Shared {
    /// A privilege comes as one row with everybody who has it.
    async fn read_databases(
        &mut self,
        session: &Session,
        wishes: &[Wish<'_>],
        keeper: &str,
    ) -> Result<(), Error> {
        const WHAT: &str = "look at the databases";
        let all = wishes.iter().map(|w| w.values().database.as_str());
        let names: BTreeSet<&str> = all.collect();
        let names: Vec<&str> = names.into_iter().collect();
        let sql = "SELECT d.oid, d.datname::text, d.datdba, pg_get_userbyid(d.datdba)::text, \
                     d.datallowconn, e.p, e.who, \
                     (SELECT oid FROM pg_roles WHERE rolname::text = $2), \
                     (SELECT oid FROM pg_roles WHERE rolname = current_user) \
                   FROM pg_database d LEFT JOIN LATERAL ( \
                     SELECT x.privilege_type AS p, array_agg(x.grantee) AS who \
                     FROM aclexplode(coalesce(d.datacl, acldefault('d', d.datdba)) || '{}'::aclitem[]) x \
                     GROUP BY 1) e ON true \
                   WHERE d.datname::text = ANY($1)";
        let params: [Param<'_>; 2] = [(&names, Type::TEXT_ARRAY), (&keeper, Type::TEXT)];
        for row in session.query(WHAT, sql, &params).await? {
            let name: String = column(&row, 1, WHAT)?;
            let database = self.databases.entry(name).or_default();
            database.oid = column(&row, 0, WHAT)?;
            database.owner = column(&row, 2, WHAT)?;
            database.owner_name = column(&row, 3, WHAT)?;
            database.open = column(&row, 4, WHAT)?;
            let right: Option<&str> = column(&row, 5, WHAT)?;
            let grantees: Option<Vec<u32>> = column(&row, 6, WHAT)?;
            if let (Some(right), Some(grantees)) = (right, grantees) {
                let right = Privs::of(right);
                for grantee in grantees {
                    let rights = database.rights.entry(grantee).or_default();
                    *rights = rights.with(right);
                }
            }
            self.keeper = column(&row, 7, WHAT)?;
            self.admin = column(&row, 8, WHAT)?;
        }
        Ok(())
    }

    /// What the plain lists do not show: rights by membership. Asked only for those that need it.
    async fn read_exceptions(
        &mut self,
        session: &Session,
        wishes: &[Wish<'_>],
    ) -> Result<(), Error> {
        const WHAT: &str = "look at memberships";
        let (mut roles, mut owners, mut databases) = (Vec::new(), Vec::new(), Vec::new());
        for wish in wishes.iter().filter(|wish| wish.base().is_none()) {
            let Some((role, database)) = self.both(wish) else {
                continue;
            };
            let other = wish.values().privileges == Privileges::Owner && database.owner != role.oid;
            if other || !connects_plainly(role, database) {
                roles.push(role.oid);
                owners.push(database.owner);
                databases.push(database.oid);
            }
        }
        if roles.is_empty() {
            return Ok(());
        }
        let sql = "SELECT t.r, t.o, t.d, pg_has_role(t.r, t.o, 'USAGE'), \
                     has_database_privilege(t.r, t.d, 'CONNECT') \
                   FROM unnest($1, $2, $3) AS t(r, o, d)";
        let list = Type::OID_ARRAY;
        let params: [Param<'_>; 3] = [
            (&roles, list.clone()),
            (&owners, list.clone()),
            (&databases, list),
        ];
        for row in session.query(WHAT, sql, &params).await? {
            let role: u32 = column(&row, 0, WHAT)?;
            // What went meanwhile is told as nothing.
            let is = |at| column::<Option<bool>>(&row, at, WHAT).map(|is| is == Some(true));
            if is(3)? {
                self.acts_as.insert((role, column(&row, 1, WHAT)?));
            }
            if is(4)? {
                self.connects.insert((role, column(&row, 2, WHAT)?));
            }
        }
        Ok(())
    }

    /// Who takes turns with another login, and acts as that one. Asked only where a wish says so.
    async fn read_turns(&mut self, session: &Session, wishes: &[Wish<'_>]) -> Result<(), Error> {
        const WHAT: &str = "look at logins in turn";
        let turns = wishes
            .iter()
            .filter_map(|w| Some((w.login().as_str(), w.base()?.as_str())));
        let (logins, bases): (Vec<&str>, Vec<&str>) = turns.unzip();
        if logins.is_empty() {
            return Ok(());
        }
        let become_it = match session.facts.major {
            16.. => "pg_has_role(m.oid, b.oid, 'SET')",
            _ => "pg_has_role(m.oid, b.oid, 'MEMBER')",
        };
        let sql = format!(
            "SELECT t.l FROM unnest($1, $2) AS t(l, b) \
               JOIN pg_roles m ON m.rolname::text = t.l JOIN pg_roles b ON b.rolname::text = t.b \
               JOIN pg_db_role_setting s ON s.setrole = m.oid AND s.setdatabase = 0 \
             WHERE 'role=' || t.b = ANY(s.setconfig) \
               AND pg_has_role(m.oid, b.oid, 'USAGE') AND {become_it}"
        );
        let list = Type::TEXT_ARRAY;
        let params: [Param<'_>; 2] = [(&logins, list.clone()), (&bases, list)];
        for row in session.query(WHAT, &sql, &params).await? {
            self.turns.insert(column(&row, 0, WHAT)?);
        }
        Ok(())
    }

    fn both(&self, wish: &Wish<'_>) -> Option<(&Role, &Database)> {
        let role = self.roles.get(wish.login().as_str())?;
        Some((role, self.databases.get(&wish.values().database)?))
    }

    /// Whether a role is a database's owner, itself or by membership.
    pub(super) fn owns(&self, role: &Role, database: &Database) -> bool {
        role.oid == database.owner || self.acts_as.contains(&(role.oid, database.owner))
    }
    /// Whether it may connect.
    pub(super) fn may_connect(&self, role: &Role, database: &Database) -> bool {
        connects_plainly(role, database) || self.connects.contains(&(role.oid, database.oid))
    }
}

fn connects_plainly(role: &Role, database: &Database) -> bool {
    let has = |who| {
        database
            .rights
            .get(&who)
            .is_some_and(|rights| rights.holds(Privs::CONNECT))
    };
    role.superuser || has(0) || has(role.oid)
}
