//! A PostgreSQL of a test.

use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};
use tokio::runtime::Runtime;

use crate::lab::Lab;

/// A login, and no more.
pub(crate) fn login_alone(_: &str) -> String {
    "database = \"postgres\"\nprivileges = \"none\"".to_owned()
}

/// A database of its own.
pub(crate) fn own_database(name: &str) -> String {
    format!("database = \"{name}\"\nprivileges = \"owner\"")
}

/// One, and what its calls run on.
pub(crate) struct Postgres {
    pub(crate) server: PostgresServer,
    pub(crate) runtime: Runtime,
}

impl Postgres {
    pub(crate) fn start() -> Self {
        let runtime = Runtime::new().expect("runtime");
        let start = PostgresServer::start(PostgresFlavor::V15, PostgresOptions::default());
        let server = runtime.block_on(start).expect("PostgreSQL");
        Self { server, runtime }
    }
    pub(crate) fn sql(&self, text: &str) -> String {
        let call = self.server.sql("postgres", text);
        self.runtime.block_on(call).expect("sql")
    }
    pub(crate) fn enters(&self, login: &str, password: &str) -> bool {
        self.enters_in("postgres", login, password)
    }
    pub(crate) fn enters_in(&self, database: &str, login: &str, password: &str) -> bool {
        let call = self.server.sql_as(login, password, database, "SELECT 1");
        self.runtime.block_on(call).is_ok()
    }
    /// Has a manifest ask for these consumers on it, called `it`. `bus`: a line of `[mesh]`; `needs`: what each one
    /// needs.
    pub(crate) fn asked_for(
        &self,
        lab: &Lab,
        bus: &str,
        consumers: &[&str],
        needs: impl Fn(&str) -> String,
        more: &str,
    ) {
        let mut text = format!(
            "[mesh]\nid = \"home\"\n{bus}\n\n[provider.it]\nkind = \"postgres\"\n\
             url = \"postgres://127.0.0.1:{}/postgres\"\nverify_every = \"2s\"\n\
             admin = {{ user = \"postgres\", password = {{ file = \"admin.password\" }} }}\n",
            self.server.port(),
        );
        for name in consumers {
            text += &format!("\n[consumer.{name}.needs.it]\n{}\n", needs(name));
        }
        lab.write("admin.password", PostgresServer::PASSWORD);
        lab.manifest(&format!("{text}{more}"));
    }
    /// Every row that says who may do what, with the transaction that wrote it: any write changes this.
    pub(crate) fn rows(&self) -> String {
        self.sql(
            "SELECT string_agg(r, E'\\n' ORDER BY r) FROM (\
             SELECT format('%s %s %s %s', xmin, rolname, rolcanlogin, rolpassword) r FROM pg_authid \
             UNION ALL SELECT format('%s member %s %s', xmin, roleid, member) FROM pg_auth_members \
             UNION ALL SELECT format('%s %s %s', xmin, datname, datacl) FROM pg_database \
             UNION ALL SELECT format('%s says %s', xmin, description) FROM pg_shdescription) a",
        )
    }
}
