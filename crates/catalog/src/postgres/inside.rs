//! What one database knows: its schemas, and who may do what with the tables in them. A few queries for
//! any number of logins; those that do not have all that is asked for are looked at table by table.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use mesh_sdk::{Cx, Error};
use tokio_postgres::types::Type;

use super::counted::{Counts, Each};
use super::rights::{Privs, Sort};
use super::roles::column;
use super::session::{Param, Session};

/// `|| '{}'` makes a plain copy of a list of rights: `aclexplode` unpacks a packed one anew for each row
/// that it gives, which made a list of 1,000 take 0.2 s instead of 3 ms.
///
/// Tables of every kind, and sequences; those of extensions are the extensions' business. `$1` is a list
/// of schemas.
const RELATIONS: &str = "SELECT c.oid, c.relname, n.nspname, c.relowner, \
       CASE c.relkind WHEN 'S' THEN 'S' ELSE 'r' END AS sort, \
       coalesce(c.relacl, acldefault(CASE c.relkind WHEN 'S' THEN 's'::\"char\" ELSE 'r'::\"char\" END, \
         c.relowner)) || '{}'::aclitem[] AS acl \
     FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace \
     WHERE n.nspname::text = ANY($1) AND c.relkind IN ('r', 'p', 'v', 'm', 'f', 'S') \
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass \
         AND d.objid = c.oid AND d.deptype = 'e')";

/// A schema.
#[derive(Debug, Clone, Default)]
pub(super) struct Schema {
    pub(super) owner: String,
    /// Rights by role; 0 is everybody.
    pub(super) rights: HashMap<u32, Privs>,
}

/// One that makes tables, or could.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Maker {
    pub(super) name: String,
    pub(super) oid: u32,
    /// The admin login may say what becomes of what it makes.
    pub(super) acted: bool,
}

/// By schema (`""` is everywhere) and sort: of each maker's, what a role will have.
pub(super) type Later = Each<BTreeMap<String, HashMap<u32, Privs>>>;

/// Which schemas, tables and roles are looked at, and what was found.
#[derive(Debug, Default)]
pub(super) struct Inside {
    pub(super) schemas: HashMap<String, Schema>,
    /// How many there are.
    pub(super) totals: Each<i64>,
    pub(super) counts: Each<Counts>,
    pub(super) later: Later,
    pub(super) makers: HashMap<String, BTreeSet<Maker>>,
    pub(super) extensions: BTreeSet<String>,
    /// What the keeper owns here, as `ALTER` names it.
    pub(super) kept: Vec<(String, String)>,
    /// Table by table, for those that lack something: what is missing by name.
    pub(super) lacking: HashMap<(u32, String, Sort), Named>,
    /// And what they have beyond.
    pub(super) beyond: HashMap<(u32, String, Sort), Named>,
    /// Everything there is, for logins that are not there yet.
    pub(super) everything: Each<Vec<(String, String)>>,
    /// Rights on schemas that come by membership.
    pub(super) by_membership: HashMap<(u32, String), Privs>,
}

/// Names of tables or sequences by privilege.
pub(super) type Named = BTreeMap<String, Vec<(String, String)>>;

/// What a look is for.
pub(super) struct Ask<'a> {
    pub(super) schemas: Vec<&'a str>,
    /// Roles that are there.
    pub(super) roles: Vec<u32>,
    pub(super) extensions: bool,
    /// Some logins are not there yet: whatever there is will be granted to them.
    pub(super) absent: bool,
    /// The keeper, where its leftovers are asked for.
    pub(super) keeper: Option<u32>,
}

impl Inside {
    /// The first look: in one round trip.
    pub(super) async fn read(cx: &Cx, session: &Session, ask: &Ask<'_>) -> Result<Self, Error> {
        let mut roles = ask.roles.clone();
        roles.push(0);
        let schemas = (
            &ask.schemas as &(dyn tokio_postgres::types::ToSql + Sync),
            Type::TEXT_ARRAY,
        );
        let with_roles = [schemas.clone(), (&roles as _, Type::OID_ARRAY)];
        let schemas = [schemas];
        let mut found = Self::default();
        // What is granted on tables is nothing to compare with where nobody is there.
        let there = !ask.roles.is_empty();
        let (a, b, c, d, e, f, g, h) = tokio::join!(
            found_schemas(session, &with_roles),
            if_wanted(there, found_totals(session, &schemas)),
            if_wanted(there, found_counts(session, &with_roles)),
            if_wanted(there, found_later(session, &with_roles)),
            found_makers(session, &schemas),
            if_wanted(ask.extensions, found_extensions(session)),
            found_kept(session, ask.keeper),
            if_wanted(ask.absent, found_everything(session, &schemas)),
        );
        cx.progress();
        found.schemas = a?;
        found.totals = b?;
        found.counts = c?;
        found.later = d?;
        found.makers = e?;
        found.extensions = f?;
        found.kept = g?;
        found.everything = h?;
        Ok(found)
    }

    /// Table by table: what these roles lack of what is wanted, and rights on schemas by membership.
    pub(super) async fn read_lacking(
        &mut self,
        session: &Session,
        pairs: &[(u32, String, bool)],
    ) -> Result<(), Error> {
        const WHAT: &str = "look at rights table by table";
        if pairs.is_empty() {
            return Ok(());
        }
        let roles: Vec<u32> = pairs.iter().map(|(role, ..)| *role).collect();
        let named: Vec<&str> = pairs.iter().map(|(_, schema, _)| schema.as_str()).collect();
        let writes: Vec<bool> = pairs.iter().map(|(.., writes)| *writes).collect();
        let mut schemas = named.clone();
        schemas.sort_unstable();
        schemas.dedup();
        let sql = format!(
            "SELECT t.r, c.nspname::text, c.relname::text, c.sort, p.p \
             FROM unnest($2, $3, $4) AS t(r, s, w) JOIN ({RELATIONS}) c ON c.nspname::text = t.s, \
               LATERAL (SELECT p FROM unnest(CASE \
                 WHEN c.sort = 'S' AND t.w THEN ARRAY['SELECT', 'USAGE'] \
                 WHEN t.w THEN ARRAY['SELECT', 'INSERT', 'UPDATE', 'DELETE'] \
                 ELSE ARRAY['SELECT'] END) AS p) p \
             WHERE NOT CASE c.sort WHEN 'S' THEN has_sequence_privilege(t.r, c.oid, p.p) \
               ELSE has_table_privilege(t.r, c.oid, p.p) END \
             ORDER BY 1, 2, 3"
        );
        let params: [Param<'_>; 4] = [
            (&schemas, Type::TEXT_ARRAY),
            (&roles, Type::OID_ARRAY),
            (&named, Type::TEXT_ARRAY),
            (&writes, Type::BOOL_ARRAY),
        ];
        for row in session.query(WHAT, &sql, &params).await? {
            let key = (
                column(&row, 0, WHAT)?,
                column(&row, 1, WHAT)?,
                sort(&row, 3, WHAT)?,
            );
            let name = (column(&row, 1, WHAT)?, column(&row, 2, WHAT)?);
            let right: String = column(&row, 4, WHAT)?;
            self.lacking
                .entry(key)
                .or_default()
                .entry(right)
                .or_default()
                .push(name);
        }
        let sql = "SELECT t.r, t.s, has_schema_privilege(t.r, n.oid, 'USAGE'), \
                     has_schema_privilege(t.r, n.oid, 'CREATE') \
                   FROM unnest($1, $2) AS t(r, s) JOIN pg_namespace n ON n.nspname::text = t.s";
        let params: [Param<'_>; 2] = [(&roles, Type::OID_ARRAY), (&named, Type::TEXT_ARRAY)];
        for row in session.query(WHAT, sql, &params).await? {
            let is = |at| column::<Option<bool>>(&row, at, WHAT).map(|is| is == Some(true));
            let usage = if is(2)? { Privs::USAGE } else { Privs::NONE };
            let create = if is(3)? { Privs::CREATE } else { Privs::NONE };
            let key = (column(&row, 0, WHAT)?, column(&row, 1, WHAT)?);
            self.by_membership.insert(key, usage.with(create));
        }
        Ok(())
    }

    /// Table by table: what these roles were granted on what others own.
    pub(super) async fn read_beyond(
        &mut self,
        session: &Session,
        schemas: &[&str],
        roles: &[u32],
    ) -> Result<(), Error> {
        const WHAT: &str = "look at rights table by table";
        if roles.is_empty() {
            return Ok(());
        }
        let sql = format!(
            "SELECT DISTINCT e.grantee, c.nspname::text, c.relname::text, c.sort, e.privilege_type \
             FROM ({RELATIONS}) c, aclexplode(c.acl) e \
             WHERE e.grantee = ANY($2) AND e.grantee <> c.relowner ORDER BY 1, 2, 3"
        );
        let params: [Param<'_>; 2] = [(&schemas, Type::TEXT_ARRAY), (&roles, Type::OID_ARRAY)];
        for row in session.query(WHAT, &sql, &params).await? {
            let key = (
                column(&row, 0, WHAT)?,
                column(&row, 1, WHAT)?,
                sort(&row, 3, WHAT)?,
            );
            let name = (column(&row, 1, WHAT)?, column(&row, 2, WHAT)?);
            let right: String = column(&row, 4, WHAT)?;
            self.beyond
                .entry(key)
                .or_default()
                .entry(right)
                .or_default()
                .push(name);
        }
        Ok(())
    }
}

/// Nothing, where it is not wanted.
async fn if_wanted<T: Default>(
    wanted: bool,
    found: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    match wanted {
        true => found.await,
        false => Ok(T::default()),
    }
}

/// The names of all there is.
async fn found_everything(
    session: &Session,
    params: &[Param<'_>],
) -> Result<Each<Vec<(String, String)>>, Error> {
    const WHAT: &str = "list the tables";
    let sql = format!(
        "SELECT c.nspname::text, c.relname::text, c.sort FROM ({RELATIONS}) c ORDER BY 1, 2"
    );
    let mut all = Each::<Vec<_>>::default();
    for row in session.query(WHAT, &sql, params).await? {
        let schema: String = column(&row, 0, WHAT)?;
        let names = all.entry(&schema, sort(&row, 2, WHAT)?);
        names.push((schema, column(&row, 1, WHAT)?));
    }
    Ok(all)
}

fn sort(row: &tokio_postgres::Row, at: usize, what: &str) -> Result<Sort, Error> {
    column::<String>(row, at, what).map(|letter| Sort::of(&letter))
}

async fn found_schemas(
    session: &Session,
    params: &[Param<'_>],
) -> Result<HashMap<String, Schema>, Error> {
    const WHAT: &str = "look at the schemas";
    let sql = "SELECT n.nspname::text, pg_get_userbyid(n.nspowner)::text, e.grantee, e.privilege_type \
               FROM pg_namespace n LEFT JOIN LATERAL ( \
                 SELECT x.grantee, x.privilege_type \
                 FROM aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner)) || '{}'::aclitem[]) x \
                 WHERE x.grantee = ANY($2)) e ON true \
               WHERE n.nspname::text = ANY($1)";
    let mut all: HashMap<String, Schema> = HashMap::new();
    for row in session.query(WHAT, sql, params).await? {
        let schema = all.entry(column(&row, 0, WHAT)?).or_default();
        schema.owner = column(&row, 1, WHAT)?;
        let grantee: Option<u32> = column(&row, 2, WHAT)?;
        let right: Option<String> = column(&row, 3, WHAT)?;
        if let (Some(grantee), Some(right)) = (grantee, right) {
            let rights = schema.rights.entry(grantee).or_default();
            *rights = rights.with(Privs::of(&right));
        }
    }
    Ok(all)
}

async fn found_totals(session: &Session, params: &[Param<'_>]) -> Result<Each<i64>, Error> {
    const WHAT: &str = "count the tables";
    let sql =
        format!("SELECT c.nspname::text, c.sort, count(*) FROM ({RELATIONS}) c GROUP BY 1, 2");
    let mut all = Each::default();
    for row in session.query(WHAT, &sql, params).await? {
        *all.entry(column(&row, 0, WHAT)?, sort(&row, 1, WHAT)?) = column(&row, 2, WHAT)?;
    }
    Ok(all)
}

/// Tables with the same rights are unpacked once, and a privilege comes with all who have it: a row for
/// each login would cost more than all the rest of a look.
async fn found_counts(session: &Session, params: &[Param<'_>]) -> Result<Each<Counts>, Error> {
    const WHAT: &str = "count rights on tables";
    let sql = format!(
        "SELECT g.s, g.sort, g.relowner, g.n, e.p, e.who \
         FROM (SELECT c.nspname::text AS s, c.sort, c.relowner, c.acl, count(*) AS n \
               FROM ({RELATIONS}) c GROUP BY 1, 2, 3, 4) g, \
           LATERAL (SELECT x.privilege_type AS p, array_agg(x.grantee) AS who \
             FROM aclexplode(g.acl) x WHERE x.grantee = ANY($2) GROUP BY 1) e"
    );
    let mut all = Each::<Counts>::default();
    for row in session.query(WHAT, &sql, params).await? {
        let (owner, tables): (u32, i64) = (column(&row, 2, WHAT)?, column(&row, 3, WHAT)?);
        let right = Privs::of(column::<&str>(&row, 4, WHAT)?);
        let counts = all.entry(column(&row, 0, WHAT)?, sort(&row, 1, WHAT)?);
        for role in each_once(column(&row, 5, WHAT)?) {
            counts.add(role, owner, right, tables);
        }
    }
    Ok(all)
}

/// Two may have granted the same.
fn each_once(mut roles: Vec<u32>) -> Vec<u32> {
    roles.sort_unstable();
    roles.dedup();
    roles
}

async fn found_later(session: &Session, params: &[Param<'_>]) -> Result<Later, Error> {
    const WHAT: &str = "look at default privileges";
    let sql = "SELECT coalesce(n.nspname::text, ''), d.defaclobjtype::text, \
                 pg_get_userbyid(d.defaclrole)::text, e.p, e.who \
               FROM pg_default_acl d LEFT JOIN pg_namespace n ON n.oid = d.defaclnamespace, \
                 LATERAL (SELECT x.privilege_type AS p, array_agg(x.grantee) AS who \
                   FROM aclexplode(d.defaclacl || '{}'::aclitem[]) x \
                   WHERE x.grantee = ANY($2) GROUP BY 1) e \
               WHERE d.defaclobjtype IN ('r', 'S') \
                 AND (d.defaclnamespace = 0 OR n.nspname::text = ANY($1))";
    let mut all = Later::default();
    for row in session.query(WHAT, sql, params).await? {
        let right = Privs::of(column::<&str>(&row, 3, WHAT)?);
        let makers = all.entry(column(&row, 0, WHAT)?, sort(&row, 1, WHAT)?);
        let of_maker = makers.entry(column(&row, 2, WHAT)?).or_default();
        for role in column::<Vec<u32>>(&row, 4, WHAT)? {
            let rights = of_maker.entry(role).or_default();
            *rights = rights.with(right);
        }
    }
    Ok(all)
}

/// Who makes tables in a schema, or could: the owners of the database, of the schema and of tables in it,
/// and whoever was granted CREATE. The server's own roles make none.
async fn found_makers(
    session: &Session,
    params: &[Param<'_>],
) -> Result<HashMap<String, BTreeSet<Maker>>, Error> {
    const WHAT: &str = "look at who makes tables";
    let sql = format!(
        "WITH m AS ( \
           SELECT nspname AS s, nspowner AS r FROM pg_namespace WHERE nspname::text = ANY($1) \
           UNION SELECT n.nspname, d.datdba FROM pg_namespace n, pg_database d \
             WHERE n.nspname::text = ANY($1) AND d.datname = current_database() \
           UNION SELECT n.nspname, e.grantee FROM pg_namespace n, \
               aclexplode(coalesce(n.nspacl, acldefault('n', n.nspowner)) || '{{}}'::aclitem[]) e \
             WHERE n.nspname::text = ANY($1) AND e.privilege_type = 'CREATE' AND e.grantee <> 0 \
           UNION SELECT c.nspname, c.relowner FROM ({RELATIONS}) c) \
         SELECT m.s::text, r.oid, r.rolname::text, pg_has_role(r.oid, 'USAGE') \
         FROM m JOIN pg_roles r ON r.oid = m.r WHERE r.rolname !~ '^pg_'"
    );
    let mut all: HashMap<String, BTreeSet<Maker>> = HashMap::new();
    for row in session.query(WHAT, &sql, params).await? {
        let maker = Maker {
            oid: column(&row, 1, WHAT)?,
            name: column(&row, 2, WHAT)?,
            acted: column(&row, 3, WHAT)?,
        };
        all.entry(column(&row, 0, WHAT)?).or_default().insert(maker);
    }
    Ok(all)
}

async fn found_extensions(session: &Session) -> Result<BTreeSet<String>, Error> {
    const WHAT: &str = "look at the extensions";
    let rows = session
        .query(WHAT, "SELECT extname::text FROM pg_extension", &[])
        .await?;
    rows.iter().map(|row| column(row, 0, WHAT)).collect()
}

/// What the keeper owns in this database. A sequence of a column goes with its table, and what belongs to
/// an extension with that.
async fn found_kept(
    session: &Session,
    keeper: Option<u32>,
) -> Result<Vec<(String, String)>, Error> {
    const WHAT: &str = "look at what the keeper owns";
    let Some(keeper) = keeper else {
        return Ok(Vec::new());
    };
    let sql = "SELECT o.type, o.identity FROM pg_shdepend s, \
                 LATERAL pg_identify_object(s.classid, s.objid, s.objsubid) o \
               WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = $1 AND s.deptype = 'o' \
                 AND s.dbid = (SELECT oid FROM pg_database WHERE datname = current_database()) \
                 AND s.classid NOT IN ('pg_default_acl'::regclass, 'pg_user_mapping'::regclass, \
                   'pg_extension'::regclass) \
                 AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = s.classid \
                   AND d.objid = s.objid AND d.deptype IN ('a', 'i', 'e') \
                   AND (d.deptype = 'e' OR d.refobjsubid > 0)) \
               ORDER BY o.type <> 'schema', 1, 2";
    let rows = session.query(WHAT, sql, &[(&keeper, Type::OID)]).await?;
    let read = |row| {
        let (kind, identity): (String, String) = (column(row, 0, WHAT)?, column(row, 1, WHAT)?);
        let kind = match kind.as_str() {
            "composite type" | "domain" => "TYPE".to_owned(),
            "statistics object" => "STATISTICS".to_owned(),
            "foreign-data wrapper" => "FOREIGN DATA WRAPPER".to_owned(),
            other => other.to_uppercase(),
        };
        Ok((kind, identity))
    };
    rows.iter().map(read).collect()
}
