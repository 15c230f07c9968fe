//! PostgreSQL.
//!
//! - **Proof**: the stored SCRAM verifier, recomputed from the password once and compared as text from then
//!   on (`verifier`). It needs `SELECT` on `pg_authid`. Without that, by logging in (`login`), on this
//!   machine or over verified TLS only, at most 50 logins a look; the others are told by `presence`.
//! - **Restart**: forgets nothing.
//! - **Identity**: the system identifier. It stays over restarts, failovers and physical restores; a new
//!   `initdb` with a dump played back is another server.
//! - **Mark**: in the role's comment, as one word beside whatever a person wrote there. `COMMENT ON ROLE`
//!   by hand takes it away, which is seen and healed.
//! - **Passwords**: the admin's connection carries verifiers, with 4096 rounds. `md5` is never made; where
//!   it is found on a login of ours, it is replaced.
//! - **Privileges**: an `owner` owns its database, which is made if it is not there. `readwrite` and
//!   `readonly` are granted on every table and sequence of the schemas, and by default privileges on what
//!   each maker there will make: the owners of the database, of the schema and of tables in it, and whoever
//!   may create in it. A right that comes by membership or to everybody counts as held.
//! - **Sessions**: `NOLOGIN`, a new password and even `DROP ROLE` leave open sessions alone, so switching off
//!   and removing end them.
//! - **Removing** hands what the login owns to a keeper role, `meshkeeper_keeper`, in every database, and
//!   drops the login. An owner that comes back to its database gets it all again.
//! - **Rotation**: two logins take turns. The second (`LOGIN__b`) is a member of the first and has `role` set to it, so
//!   that its sessions are the first's from their first statement on, and again after `RESET ROLE` and `DISCARD ALL`
//!   (seen on 15, 16 and 18): whatever either makes is owned by the first, and a right that the first has or
//!   lacks is both's. `session_user`, `pg_stat_activity` and the connection limit tell the two apart. It needs no
//!   right of the admin login beyond those below. An app that says `SET ROLE NONE` makes things of its own, which
//!   go to the keeper with it and from there to the owner.
//! - **Rights by membership**: `privileges = "none"` grants nothing, for logins whose rights a person gives by
//!   roles. The canary has it too, in the admin's own database.
//! - **In use**: sessions that are open now, as `pg_stat_activity` tells them. Logins that were refused are in
//!   the server's log alone, and are not told.
//! - **Finding** logins looks into each database that the admin login may connect to. Of a login with rights
//!   in several, the values say the most in one database, and the rest is told in words, as are memberships,
//!   attributes such as `CREATEDB`, and objects that it owns.
//! - **Purging** drops a database that the keeper owns, and no other: what nobody but an owner of ours left,
//!   the keeper owns. It is refused while any role that is no superuser owns or was granted anything in it, is a
//!   member of the keeper or has a session there, while a login is a member of `pg_read_all_data` or
//!   `pg_write_all_data`, or while everybody may read or change a table there. What the keeper owns in somebody
//!   else's database is never purged.
//! - **Fence**: where a lease says who acts, each transaction demands that nobody had it later, in the same packet
//!   (`fence`). It is one more word in the canary's comment, written once by each holder. `CREATE DATABASE` cannot be in a
//!   transaction: the demand is made right before it. With `canary = false` there is no fence.
//! - **A standby** is asked like any other server; what needs a write waits.
//! - **Connections**: `connections` (3) that work at once, one that waits for hints, and up to `kept_sessions` (16,
//!   and never more than an eighth of the server's `max_connections`) idle ones that are kept for the next pass:
//!   one in each database that a wish names. Dropping such a database by hand needs `WITH (FORCE)`.
//! - **A pooler** between us and the server is no good: name the server's own address.
//!
//! The least admin login, and what the versions differ in:
//!
//! ```sql
//! CREATE ROLE mesh LOGIN CREATEROLE CREATEDB PASSWORD '…';
//! GRANT pg_signal_backend TO mesh;
//! GRANT SELECT ON pg_catalog.pg_authid TO mesh;       -- in the database of the provider's URL
//! -- Better still, so that no login has to be tried to learn whether passwords are asked for:
//! GRANT SELECT ON pg_hba_file_rules TO mesh;
//! GRANT EXECUTE ON FUNCTION pg_hba_file_rules() TO mesh;
//! -- For each login that mesh did not make and shall adopt, from PostgreSQL 16 on:
//! GRANT web TO mesh WITH ADMIN OPTION;
//! -- For each database or table that is somebody else's and shall be granted on:
//! GRANT its_owner TO mesh;
//! ```
//!
//! `docs/decisions/0050-postgres-verifiers.md` and those after it say why.

mod adapter;
mod apply;
mod batch;
mod check;
mod classify;
mod compare;
mod connect;
mod counted;
mod doctor;
mod fence;
mod find;
mod hba;
mod inside;
mod kept;
mod login;
mod look;
mod measure;
mod offer;
mod proof;
mod purge;
mod remove;
mod rights;
mod roles;
mod scram;
mod server;
mod session;
mod sql;
mod uses;
mod values;

use mesh_sdk::adapter::{Descriptor, ProviderSettings, Refusal, Scheme, Service};
use mesh_sdk::{Class, Error, Kind, Provision};

pub use adapter::Postgres;
pub use values::{PostgresOptions, PostgresValues, Privileges};

/// The kind `postgres`.
#[derive(Debug, Clone, Copy, Default)]
pub struct PostgresKind;

/// The scheme of an encrypted connection. Clients know none; they say it in an option.
const TLS_SCHEME: &str = "postgres+tls";

const SCHEMES: [Scheme; 3] = [
    Scheme::plain("postgres", 5432),
    Scheme::plain("postgresql", 5432),
    Scheme::tls(TLS_SCHEME, 5432),
];

impl Kind for PostgresKind {
    type Adapter = Postgres;

    fn descriptor(&self) -> Descriptor {
        let mut page = Descriptor::new("postgres", "PostgreSQL 15, 16 and 18");
        page.schemes = &SCHEMES;
        page.capabilities = adapter::CAPABILITIES;
        page.proof = "verifier: the SCRAM verifier in `pg_authid`; login where that cannot be read";
        page.restart = "nothing";
        page.identity =
            "the system identifier, which a new `initdb` changes and a failover does not";
        page.admin_rights = &doctor::RIGHTS;
        page.reserved = &[
            "postgres",
            "public",
            "none",
            "pg_*",
            "the admin login",
            "meshkeeper_keeper",
            "meshkeeper_canary",
        ];
        page.limits = "login, database, schema: 1 to 63 bytes without NUL; password: 1 to 16384 bytes of \
                       UTF-8 without NUL";
        page.keeps = "databases, schemas, tables and all else that the login owned; the keeper owns it then. Purging \
             drops a database that the keeper owns and that nobody but admins may use";
        page.rotation = "two logins in turn. From the moment it logs in, the second acts as the first (`ALTER ROLE … SET role`): \
                         what either makes is the first's, which stays, switched off, while the second has its turn";
        page.mark = "one word in the comment of the role; the canary's holds the fence, too: what an earlier holder of \
                     the lease still writes is refused in its own transaction (not with `canary = false`)";
        page
    }

    fn check(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, PostgresValues>,
    ) -> Result<(), Refusal> {
        check::wish(provider, wish)
    }

    /// The canary is switched off, and nothing is granted to it.
    fn canary(&self, provider: &ProviderSettings) -> Option<PostgresValues> {
        Some(PostgresValues {
            database: connect::home(provider).to_owned(),
            privileges: Privileges::Nothing,
            schemas: Vec::new(),
            extensions: Vec::new(),
            connection_limit: None,
        })
    }

    /// An owner's database. What others write is in a database of somebody else.
    fn data_of(&self, values: &PostgresValues) -> Vec<String> {
        let owned = values.privileges == Privileges::Owner;
        owned.then(|| values.database.clone()).into_iter().collect()
    }

    fn options_schema(&self) -> Option<serde_json::Value> {
        Some(schemars::schema_for!(PostgresOptions).to_value())
    }

    fn service(
        &self,
        provider: &ProviderSettings,
        wish: &Provision<'_, PostgresValues>,
    ) -> Service {
        let mut plain = provider.clone();
        if plain.scheme == TLS_SCHEME {
            plain.scheme = "postgres".to_owned();
        }
        Service {
            address: plain.address(),
            path: wish.values().database.clone(),
        }
    }

    fn check_provider(&self, provider: &ProviderSettings) -> Result<(), Refusal> {
        check::provider(provider)
    }

    fn open(&self, provider: ProviderSettings) -> Result<Postgres, Error> {
        let options = provider
            .typed_options()
            .map_err(|refusal| Error::new(Class::RefusedValue, refusal.to_string()))?;
        Ok(Postgres::new(provider, options))
    }
}
