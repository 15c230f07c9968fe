//! Deleting the database that an owner of ours left: the one way, by a person's word.
//!
//! The keeper owns what removed owners left, and nobody else gives it a database but a person. So what the
//! keeper owns is ours to delete, once nobody else may use it.

use mesh_sdk::{Class, Cx, Error};
use tokio_postgres::types::Type;

use super::adapter::Postgres;
use super::check::may_purge;
use super::roles::column;
use super::session::Session;
use super::sql::ident;

const WHAT: &str = "look at who may use the database";

/// Roles that own or were granted something in a database (`$1`), on it, or have a session there; members of
/// the keeper (`$2`); and logins that read or write everything. Superusers and the admin login are admins.
const USERS: &str = "SELECT r.rolname::text FROM pg_roles r \
     WHERE NOT r.rolsuper AND r.rolname <> current_user AND r.oid <> $2 AND (\
       EXISTS (SELECT FROM pg_shdepend s \
         WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = r.oid \
           AND s.deptype IN ('o', 'a', 'i', 'r') \
           AND (s.dbid = $1 OR s.dbid = 0 AND s.classid = 'pg_database'::regclass AND s.objid = $1)) \
       OR EXISTS (SELECT FROM pg_auth_members m WHERE m.roleid = $2 AND m.member = r.oid) \
       OR r.rolcanlogin AND (pg_has_role(r.oid, 'pg_read_all_data', 'USAGE') \
         OR pg_has_role(r.oid, 'pg_write_all_data', 'USAGE')) \
       OR EXISTS (SELECT FROM pg_stat_activity a WHERE a.datid = $1 AND a.usesysid = r.oid)) \
     ORDER BY 1 LIMIT 4";

/// What everybody may read, change, or have done by an owner's right. Extensions are the server's business.
const PUBLIC: &str = "WITH own AS (SELECT oid, nspname FROM pg_namespace \
       WHERE nspname !~ '^pg_' AND nspname <> 'information_schema') \
     SELECT format('%s.%s', own.nspname, c.relname) FROM own JOIN pg_class c ON c.relnamespace = own.oid \
     WHERE (EXISTS (SELECT FROM aclexplode(c.relacl) e WHERE e.grantee = 0) \
         OR EXISTS (SELECT FROM pg_attribute a, aclexplode(a.attacl) e \
           WHERE a.attrelid = c.oid AND e.grantee = 0)) \
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_class'::regclass \
         AND d.objid = c.oid AND d.deptype = 'e') \
     UNION SELECT format('%s.%s()', own.nspname, p.proname) FROM own JOIN pg_proc p ON p.pronamespace = own.oid \
     WHERE p.prosecdef AND (p.proacl IS NULL \
         OR EXISTS (SELECT FROM aclexplode(p.proacl) e WHERE e.grantee = 0)) \
       AND NOT EXISTS (SELECT FROM pg_depend d WHERE d.classid = 'pg_proc'::regclass \
         AND d.objid = p.oid AND d.deptype = 'e') \
     ORDER BY 1 LIMIT 1";

impl Postgres {
    /// What would go, in one line.
    pub(super) async fn data_named(&self, cx: &Cx, name: &str) -> Result<Option<String>, Error> {
        may_purge(name, self.endpoint.settings())?;
        let session = self.endpoint.admin().await?;
        let size = self.left(cx, &session, name).await?;
        session.close();
        Ok(size.map(|size| format!("database `{name}`, {size}, which the keeper owns")))
    }

    /// Looks again, and drops it. Nobody is thrown out: a session that is open there makes it fail.
    pub(super) async fn purge_named(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        may_purge(name, self.endpoint.settings())?;
        let session = self.endpoint.admin().await?;
        if self.left(cx, &session, name).await?.is_none() {
            return Ok(());
        }
        session.must_write()?;
        self.make_keeper(cx, &session).await?;
        self.end_our_own(&session, name).await?;
        let sql = format!("DROP DATABASE IF EXISTS {}", ident(name));
        let dropped = session.run(&sql).await;
        session.close();
        dropped.map_err(|failed| failed.told(&format!("delete database `{name}`")))
    }

    /// Ends the sessions that this and other processes of ours keep in it for their next call.
    async fn end_our_own(&self, session: &Session, name: &str) -> Result<(), Error> {
        self.endpoint.end_kept_in(name).await;
        let sql = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity \
                   WHERE datname::text = $1 AND usename = current_user AND state = 'idle' \
                     AND application_name = 'meshkeeper' AND pid <> pg_backend_pid()";
        let what = "end our own sessions in the database";
        session.query(what, sql, &[(&name, Type::TEXT)]).await?;
        Ok(())
    }

    /// The size of a database that the keeper owns and nobody else may use; nothing where there is none.
    async fn left(&self, cx: &Cx, session: &Session, name: &str) -> Result<Option<String>, Error> {
        let sql = "SELECT d.oid, d.datdba, pg_get_userbyid(d.datdba)::text, \
                     d.datallowconn AND NOT d.datistemplate, \
                     has_database_privilege('public', d.oid, 'CONNECT'), \
                     CASE WHEN has_database_privilege(d.oid, 'CONNECT') \
                       THEN pg_size_pretty(pg_database_size(d.oid)) ELSE 'of unknown size' END \
                   FROM pg_database d WHERE d.datname::text = $1";
        let rows = session.query(WHAT, sql, &[(&name, Type::TEXT)]).await?;
        let Some(row) = rows.first() else {
            return Ok(None);
        };
        let (oid, owner): (u32, u32) = (column(row, 0, WHAT)?, column(row, 1, WHAT)?);
        let owner_name: String = column(row, 2, WHAT)?;
        if owner_name != self.keeper() {
            let why = format!(
                "`{owner_name}` owns it, and not the keeper `{}`",
                self.keeper()
            );
            return Err(used(name, &why));
        }
        if !column::<bool>(row, 3, WHAT)? {
            return Err(used(name, "it is a template, or takes no connections"));
        }
        let params = [(&oid as _, Type::OID), (&owner as _, Type::OID)];
        let users = session.query(WHAT, USERS, &params).await?;
        cx.progress();
        let users: Vec<String> = users
            .iter()
            .map(|row| column(row, 0, WHAT))
            .collect::<Result<_, _>>()?;
        if let Some((last, before)) = users.split_last() {
            let mut who: String = before.iter().map(|user| format!("`{user}`, ")).collect();
            who.push_str(&format!("`{last}`"));
            return Err(used(
                name,
                &format!("still used, or owned in part, by {who}"),
            ));
        }
        if column::<bool>(row, 4, WHAT)? {
            self.not_public(cx, name).await?;
        }
        column(row, 5, WHAT).map(Some)
    }

    /// Refuses a database of which everybody may use something.
    async fn not_public(&self, cx: &Cx, name: &str) -> Result<(), Error> {
        let session = self.endpoint.admin_in(name).await?;
        let rows = session.query(WHAT, PUBLIC, &[]).await?;
        session.close();
        cx.progress();
        match rows.first() {
            None => Ok(()),
            Some(row) => {
                let what: String = column(row, 0, WHAT)?;
                Err(used(name, &format!("everybody may use `{what}` in it")))
            }
        }
    }
}

fn used(name: &str, why: &str) -> Error {
    Error::new(Class::Exists, format!("database `{name}` stays: {why}"))
}
