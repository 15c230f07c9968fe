//! Taking access away: for a while, or for good. What a login owns stays, with the keeper.

use mesh_sdk::provision::Departing;
use mesh_sdk::{Class, Cx, Error, MarkSeen, Marker};
use tokio_postgres::types::Type;

use super::adapter::Postgres;
use super::batch::end_sessions;
use super::compare::marks;
use super::rights::act_for;
use super::roles::{self, Role, column};
use super::session::Session;
use super::sql::{ident, literal};

/// What a person reads on the keeper.
const ABOUT: &str = "Meshkeeper: owns what removed logins left behind. Nobody logs in as it.";

/// A place where a role left something.
struct Place {
    database: String,
    open: bool,
    owns: bool,
}

impl Postgres {
    /// The login, if it is there and marked for this consumer; an error if it is somebody else's.
    async fn ours(
        &self,
        session: &Session,
        marker: &Marker,
        going: &Departing,
    ) -> Result<Option<Role>, Error> {
        let login = going.login.as_str();
        let Some(role) = roles::named(session, &[login]).await?.remove(login) else {
            return Ok(None);
        };
        let comment = role.comment.as_deref().unwrap_or_default();
        let seen = marks(comment).map(|text| marker.read(text, &going.consumer));
        if MarkSeen::strongest(seen) == MarkSeen::Ours {
            return Ok(Some(role));
        }
        let message = format!("`{login}` does not carry our mark for `{}`", going.consumer);
        Err(Error::new(Class::Exists, message))
    }

    /// Switches off and ends the sessions.
    pub(super) async fn disable_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        self.may_touch(going.login.as_str())?;
        let session = self.endpoint.admin().await?;
        if let Some(role) = self.ours(&session, marker, going).await? {
            self.switch_off(cx, &session, going.login.as_str(), &role)
                .await?;
        }
        cx.progress();
        session.close();
        Ok(())
    }

    /// Switches off, hands what it owns to the keeper, in every database, and drops the role.
    pub(super) async fn remove_one(
        &self,
        cx: &Cx,
        marker: &Marker,
        going: &Departing,
    ) -> Result<(), Error> {
        let login = going.login.as_str();
        self.may_touch(login)?;
        let session = self.endpoint.admin().await?;
        let Some(role) = self.ours(&session, marker, going).await? else {
            return Ok(());
        };
        self.switch_off(cx, &session, login, &role).await?;
        cx.progress();
        let places = places(&session, role.oid).await?;
        if !places.is_empty() && !session.facts.superuser && !role.acted {
            let act = act_for(login, session.facts.major);
            self.transaction(cx, &session, &[act])
                .await
                .map_err(|f| f.told("act for the login"))?;
        }
        if places.iter().any(|place| place.owns) {
            self.make_keeper(cx, &session).await?;
        }
        session.close();
        for place in &places {
            self.clear(cx, login, role.oid, place).await?;
        }
        let session = self.endpoint.admin().await?;
        let drop_role = format!("DROP ROLE IF EXISTS {}", ident(login));
        let dropped = self.transaction(cx, &session, &[drop_role]).await;
        session.close();
        dropped.map_err(|failed| failed.told(&format!("remove `{login}`")))
    }

    /// In one database: what it owns goes to the keeper, and what it may goes away.
    async fn clear(&self, cx: &Cx, login: &str, oid: u32, place: &Place) -> Result<(), Error> {
        let what = format!(
            "hand over what `{login}` has in database `{}`",
            place.database
        );
        if !place.open {
            let message = format!("{what}: the database takes no connections");
            return Err(Error::new(Class::Denied, message));
        }
        let session = self.endpoint.admin_in(&place.database).await?;
        let (who, keeper) = (ident(login), ident(self.keeper()));
        if place.owns {
            let hand_over = format!("REASSIGN OWNED BY {who} TO {keeper}");
            self.transaction(cx, &session, &[hand_over])
                .await
                .map_err(|failed| failed.told(&what))?;
            cx.progress();
        }
        // Dropping would take data with it if anything were left.
        if owns_still(&session, oid).await? {
            let message = format!("{what}: something of it is still there");
            return Err(Error::new(Class::Busy, message));
        }
        let rights = format!("DROP OWNED BY {who}");
        self.transaction(cx, &session, &[rights])
            .await
            .map_err(|failed| failed.told(&what))?;
        cx.progress();
        session.close();
        Ok(())
    }

    /// Makes the role that owns what others left, if it is not there, and lets the admin act for it.
    pub(super) async fn make_keeper(&self, cx: &Cx, session: &Session) -> Result<(), Error> {
        const WHAT: &str = "make the keeper";
        let (name, major) = (self.keeper(), session.facts.major);
        let found = roles::named(session, &[name]).await?.remove(name);
        let mut statements = Vec::new();
        if found.is_none() {
            statements.push(format!("CREATE ROLE {} NOLOGIN", ident(name)));
            statements.push(format!(
                "COMMENT ON ROLE {} IS {}",
                ident(name),
                literal(ABOUT)
            ));
        }
        if !session.facts.superuser && !found.is_some_and(|keeper| keeper.acted) {
            statements.push(act_for(name, major));
        }
        if statements.is_empty() {
            return Ok(());
        }
        match self.transaction(cx, session, &statements).await {
            Ok(()) => Ok(()),
            // Another one made it at the same time.
            Err(failed) if failed.told(WHAT).class() == Class::Exists => Ok(()),
            Err(failed) => Err(failed.told(WHAT)),
        }
    }

    async fn switch_off(
        &self,
        cx: &Cx,
        session: &Session,
        login: &str,
        role: &Role,
    ) -> Result<(), Error> {
        if role.login {
            session.must_write()?;
            let off = format!("ALTER ROLE {} NOLOGIN", ident(login));
            let what = format!("switch `{login}` off");
            self.transaction(cx, session, &[off])
                .await
                .map_err(|failed| failed.told(&what))?;
        }
        end_sessions(session, role.oid).await
    }
}

/// Every database that has something of a role, and our own where only the server as a whole does.
async fn places(session: &Session, role: u32) -> Result<Vec<Place>, Error> {
    const WHAT: &str = "look for what a login has";
    let sql = "SELECT d.datname::text, d.datallowconn, bool_or(s.deptype = 'o') \
               FROM pg_shdepend s JOIN pg_database d ON d.oid = s.dbid \
                 OR (s.dbid = 0 AND d.datname = current_database()) \
               WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = $1 \
                 AND s.deptype IN ('o', 'a', 'i', 'r') \
               GROUP BY 1, 2 ORDER BY 1";
    let mut places = Vec::new();
    for row in session.query(WHAT, sql, &[(&role, Type::OID)]).await? {
        places.push(Place {
            database: column(&row, 0, WHAT)?,
            open: column(&row, 1, WHAT)?,
            owns: column(&row, 2, WHAT)?,
        });
    }
    Ok(places)
}

/// Whether a role owns anything in this database that holds data, or any database.
async fn owns_still(session: &Session, role: u32) -> Result<bool, Error> {
    const WHAT: &str = "look for what a login owns";
    let sql = "SELECT count(*) FROM pg_shdepend s \
               WHERE s.refclassid = 'pg_authid'::regclass AND s.refobjid = $1 AND s.deptype = 'o' \
                 AND s.classid NOT IN ('pg_default_acl'::regclass, 'pg_user_mapping'::regclass) \
                 AND s.dbid IN (0, (SELECT oid FROM pg_database WHERE datname = current_database()))";
    let rows = session.query(WHAT, sql, &[(&role, Type::OID)]).await?;
    let count: i64 = match rows.first() {
        Some(row) => column(row, 0, WHAT)?,
        None => 0,
    };
    Ok(count > 0)
}
