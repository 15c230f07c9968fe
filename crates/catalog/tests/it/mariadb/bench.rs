//! What the suite wants to do to a MariaDB, by its own client program.

use std::time::Duration;

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    Fault, MariadbOptions, MariadbServer, Proxy, Result, ServerError, until,
};
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{ProviderName, Secret};
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, OptsBuilder};
use serde_json::{Value, json};
use tokio::sync::Mutex;

/// The admin's password in the tests.
pub(crate) const ADMIN: &str = "admin-password";

/// The rights that the kind's page names, on the databases of the tests.
pub(crate) const LEAST: &str = "\
    CREATE USER 'mesh'@'127.0.0.1' IDENTIFIED BY 'admin-password';\
    GRANT CREATE USER, CONNECTION ADMIN, PROCESS ON *.* TO 'mesh'@'127.0.0.1';\
    GRANT SELECT ON mysql.global_priv TO 'mesh'@'127.0.0.1';\
    GRANT SELECT ON mysql.db TO 'mesh'@'127.0.0.1';\
    GRANT SELECT ON mysql.tables_priv TO 'mesh'@'127.0.0.1';\
    GRANT SELECT ON mysql.roles_mapping TO 'mesh'@'127.0.0.1';\
    GRANT SELECT ON mysql.procs_priv TO 'mesh'@'127.0.0.1';\
    GRANT CREATE ON `mk1.%`.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION;\
    GRANT ALL PRIVILEGES ON `shop\\_%`.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION;";

/// An admin that may do everything.
pub(crate) const ALL: &str = "\
    CREATE USER 'mesh'@'127.0.0.1' IDENTIFIED BY 'admin-password';\
    GRANT ALL PRIVILEGES ON *.* TO 'mesh'@'127.0.0.1' WITH GRANT OPTION;";

/// Settings for a server on a port of this machine.
pub(crate) fn settings(port: u16) -> ProviderSettings {
    let provider = ProviderName::new("database").expect("a name");
    let mut settings = ProviderSettings::new(provider, "mariadb", "127.0.0.1", port);
    settings.admin = Some(Admin {
        user: "mesh".to_owned(),
        password: Some(Secret::from(ADMIN)),
    });
    settings
}

/// A server with the admin, and without the accounts that have no name.
pub(crate) async fn server(admin: &str, options: MariadbOptions) -> MariadbServer {
    let server = match MariadbServer::start(options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    };
    server.sql(admin).await.expect("the admin");
    server
}

/// A server behind a proxy.
pub(crate) struct MariadbBench {
    how: &'static str,
    auth: &'static str,
    server: Mutex<MariadbServer>,
    proxy: Proxy,
}

impl MariadbBench {
    pub(crate) async fn new(how: &'static str, admin: &str, auth: &'static str) -> Self {
        let options = MariadbOptions {
            options: vec!["--general-log".to_owned()],
            ..MariadbOptions::default()
        };
        let server = server(admin, options).await;
        if auth == "ed25519" {
            let plugin = server.sql("INSTALL SONAME 'auth_ed25519'").await;
            plugin.expect("the plugin");
        }
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        Self {
            how,
            auth,
            server: Mutex::new(server),
            proxy,
        }
    }
    async fn sql(&self, statements: &str) -> Result<String> {
        self.server.lock().await.sql(statements).await
    }
    /// `IDENTIFIED …` for a password, as a person writes it.
    fn identified(&self, password: &str) -> String {
        let password = text(password);
        match self.auth {
            "ed25519" => format!("IDENTIFIED VIA ed25519 USING PASSWORD({password})"),
            _ => format!("IDENTIFIED BY {password}"),
        }
    }
}

fn text(value: &str) -> String {
    format!("'{}'", value.replace('\\', "\\\\").replace('\'', "''"))
}

fn account(login: &str) -> String {
    format!("{}@'%'", text(login))
}

/// How the adapter writes a mark that is short: the last part is the table.
pub(crate) fn place(mark: &str) -> String {
    let (body, seal) = mark.rsplit_once('.').unwrap_or((mark, ""));
    format!("`{body}`.`1-1.{seal}`")
}

struct Open(Conn);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        self.0.ping().await.is_ok()
    }
}

#[async_trait]
impl Bench for MariadbBench {
    fn name(&self) -> String {
        format!("MariaDB 10.11, {}", self.how)
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.proxy.port())
    }
    fn values(&self, consumer: &str) -> Value {
        // Whoever leaves data has a database to itself.
        if consumer.ends_with("data") {
            return json!({ "database": format!("shop_{consumer}"), "privileges": "owner", "auth": self.auth });
        }
        json!({ "database": "shop_a", "privileges": "owner", "max_connections": 20, "auth": self.auth })
    }
    fn other_values(&self, _consumer: &str) -> Value {
        json!({
            "database": "shop_b", "privileges": ["SELECT", "EXECUTE"], "auth": self.auth,
            "also": [{ "database": "shop_%", "privileges": "readonly" }],
        })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        // A server without the plugin; where it is there, a right that the admin cannot hand out would be
        // another error.
        (self.auth == "native").then(|| json!({ "database": "shop_a", "auth": "ed25519" }))
    }
    fn reserved(&self) -> Vec<String> {
        ["root", "mariadb.sys", "mesh"].map(str::to_owned).into()
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        self.server.lock().await.lets_in(login, password).await
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let port = self.server.lock().await.port();
        let opts = OptsBuilder::default()
            .ip_or_hostname("127.0.0.1")
            .tcp_port(port)
            .prefer_socket(false)
            .user(Some(login))
            .pass(Some(password));
        let conn = Conn::new(opts).await;
        let conn = conn.map_err(|error| ServerError::new(error.to_string()))?;
        Ok(Box::new(Open(conn)))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        let ask = format!(
            "SELECT COUNT(*) FROM mysql.global_priv WHERE User = {}",
            text(login)
        );
        Ok(self.sql(&ask).await?.trim() != "0")
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let who = account(login);
        let made = format!(
            "CREATE USER {who} {}; GRANT SELECT ON `shop\\_a`.* TO {who};",
            self.identified(password)
        );
        self.sql(&made).await.map(|_| ())
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        let dropped = format!("DROP USER {}", account(login));
        self.sql(&dropped).await.map(|_| ())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let set = format!(
            "ALTER USER {} {}",
            account(login),
            self.identified(password)
        );
        self.sql(&set).await.map(|_| ())
    }
    async fn add_password(&self, login: &str, password: &str) -> Result<Done> {
        // Another way in beside the one that is there, whose verifier is handed back as it is.
        let ask = format!(
            "SELECT JSON_VALUE(Priv, '$.plugin'), JSON_VALUE(Priv, '$.authentication_string') \
             FROM mysql.global_priv WHERE User = {}",
            text(login)
        );
        let told = self.sql(&ask).await?;
        let (plugin, verifier) = told.trim().split_once('\t').unwrap_or_default();
        let add = format!(
            "ALTER USER {} IDENTIFIED VIA {plugin} USING {} OR {} USING PASSWORD({})",
            account(login),
            text(verifier),
            plugin,
            text(password)
        );
        self.sql(&add).await?;
        Ok(Done::Yes)
    }
    async fn open_to_all(&self, login: &str) -> Result<Done> {
        let open = format!("ALTER USER {} IDENTIFIED BY ''", account(login));
        self.sql(&open).await?;
        Ok(Done::Yes)
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        let off = format!("ALTER USER {} ACCOUNT LOCK", account(login));
        self.sql(&off).await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        let on = format!("ALTER USER {} ACCOUNT UNLOCK", account(login));
        self.sql(&on).await?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        let take = format!("REVOKE SELECT ON `shop\\_a`.* FROM {}", account(login));
        self.sql(&take).await.map(|_| ())
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        let who = account(login);
        let add = format!(
            "GRANT GRANT OPTION ON `shop\\_a`.* TO {who}; GRANT SELECT ON `shop\\_more`.* TO {who};"
        );
        self.sql(&add).await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        let ask = format!(
            "SELECT CONCAT('REVOKE CREATE ON `', Db, '`.`', Table_name, '` FROM {};') \
             FROM mysql.tables_priv WHERE User = {}",
            account(login).replace('\'', "''"),
            text(login)
        );
        let statements = self.sql(&ask).await?;
        self.sql(&statements).await.map(|_| ())
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        self.strip_mark(login).await?;
        let set = format!("GRANT CREATE ON {} TO {}", place(mark), account(login));
        self.sql(&set).await.map(|_| ())
    }

    async fn leave_data(&self, login: &str, password: &str) -> Result<Option<String>> {
        let database = format!("shop_{login}");
        let port = self.server.lock().await.port();
        let made = "CREATE TABLE kept AS SELECT 'tea' AS what";
        run_as(port, (login, password), &database, made).await?;
        Ok(Some(database))
    }
    async fn uses_data(&self, owner: &str, login: &str, password: &str) -> Result<Option<bool>> {
        let port = self.server.lock().await.port();
        let change = "CREATE OR REPLACE VIEW seen AS SELECT what FROM kept; \
                      UPDATE seen SET what = 'tea'; DROP VIEW seen";
        let done = run_as(port, (login, password), &format!("shop_{owner}"), change).await;
        match done {
            Ok(_) => Ok(Some(true)),
            Err(error) if error.to_string().contains("denied") => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }
    async fn has_data(&self, login: &str) -> Result<bool> {
        let ask = format!(
            "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = {}",
            text(&format!("shop_{login}"))
        );
        Ok(self.sql(&ask).await?.trim() == "1")
    }
    fn tells_attempts(&self) -> Done {
        Done::Never("MariaDB counts refused logins for the server as a whole, not by account")
    }

    async fn writes(&self) -> Result<u64> {
        const COUNTED: &str = "VARIABLE_NAME IN ('Com_create_user', 'Com_alter_user', 'Com_drop_user', \
             'Com_rename_user', 'Com_grant', 'Com_revoke', 'Com_revoke_all', 'Com_create_db', 'Com_drop_db', \
             'Com_insert', 'Com_update', 'Com_delete', 'Com_replace', 'Com_flush', 'Com_create_table')";
        self.server.lock().await.counters(COUNTED).await
    }
    async fn failed_logins(&self) -> Result<u64> {
        self.server
            .lock()
            .await
            .counter("Access_denied_errors")
            .await
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        let mut traces = self.proxy.asked().concat();
        let server = self.server.lock().await;
        traces.extend(server.log().into_bytes());
        // What the bench itself did is in the log of statements too: only the admin's lines count.
        traces.extend(admins_lines(&server.statements()));
        Ok(traces)
    }

    async fn restart(&self) -> Result<Restart> {
        let mut server = self.server.lock().await;
        // Its run is the second of its start: two starts within one second are told as the same.
        let up = &*server;
        until("a second of its life", Duration::from_secs(10), || async {
            match up.counter("Uptime").await {
                Ok(2..) => Ok(()),
                Ok(up) => Err(format!("{up} s")),
                Err(error) => Err(error.to_string()),
            }
        })
        .await?;
        server.restart().await?;
        Ok(Restart::Keeps)
    }
    async fn stop(&self) -> Result<()> {
        self.server.lock().await.stop().await
    }
    async fn go_on(&self) -> Result<()> {
        self.server.lock().await.go_on()
    }
    fn fault(&self, fault: Fault) {
        self.proxy.set(fault);
    }
}

/// Says something as a login, in a database.
pub(crate) async fn run_as(
    port: u16,
    (login, password): (&str, &str),
    database: &str,
    sql: &str,
) -> Result<()> {
    let opts = OptsBuilder::default()
        .ip_or_hostname("127.0.0.1")
        .tcp_port(port)
        .prefer_socket(false)
        .db_name(Some(database))
        .user(Some(login))
        .pass(Some(password));
    let failed = |error: mysql_async::Error| ServerError::new(error.to_string());
    let mut conn = Conn::new(opts).await.map_err(failed)?;
    conn.query_drop(sql).await.map_err(failed)?;
    conn.disconnect().await.map_err(failed)
}

/// The statements of the connections of `mesh`.
fn admins_lines(log: &[u8]) -> Vec<u8> {
    let log = String::from_utf8_lossy(log);
    let mut ids = std::collections::HashSet::new();
    let (mut kept, mut is_ours) = (Vec::new(), false);
    for line in log.lines() {
        let fields: Vec<&str> = line.split('\t').collect();
        let entry = fields.iter().find_map(|field| {
            let (id, word) = field.trim().split_once(' ')?;
            Some((id.parse::<u64>().ok()?, word))
        });
        if let Some((id, word)) = entry {
            if word == "Connect" {
                let mesh = line.contains("mesh@");
                if mesh {
                    ids.insert(id)
                } else {
                    ids.remove(&id)
                };
            }
            is_ours = ids.contains(&id);
        }
        if is_ours {
            kept.extend_from_slice(line.as_bytes());
        }
    }
    kept
}
