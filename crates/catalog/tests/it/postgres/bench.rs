//! What the suite wants to do to a PostgreSQL, by psql.

use async_trait::async_trait;
use mesh_conformance::adapter::{Bench, Done, Restart, Session};
use mesh_conformance::servers::{
    Fault, PostgresFlavor, PostgresOptions, PostgresServer, Proxy, Result, ServerError,
};
use mesh_sdk::adapter::{Admin, ProviderSettings};
use mesh_sdk::{ProviderName, Secret};
use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_postgres::NoTls;

/// The password of the admin with the least rights.
pub(crate) const LEAST: &str = "least-password";

/// Who the adapter comes as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// A superuser.
    Super,
    /// The rights that the adapter's page names, and no others.
    Least,
    /// The same, but for reading verifiers.
    Blind,
}

/// A server behind a proxy.
pub(crate) struct PostgresBench {
    who: Who,
    server: Mutex<PostgresServer>,
    proxy: Proxy,
}

/// Settings for a server on a port of this machine.
pub(crate) fn settings(port: u16, who: Who) -> ProviderSettings {
    let provider = ProviderName::new("database").expect("a name");
    let mut settings = ProviderSettings::new(provider, "postgres", "127.0.0.1", port);
    let (user, password) = match who {
        Who::Super => ("postgres", PostgresServer::PASSWORD),
        Who::Least | Who::Blind => ("mesh", LEAST),
    };
    settings.admin = Some(Admin {
        user: user.to_owned(),
        password: Some(Secret::from(password)),
    });
    settings
}

/// A server with a shop, and the admin.
pub(crate) async fn shop(
    flavor: PostgresFlavor,
    who: Who,
    options: PostgresOptions,
) -> PostgresServer {
    let server = super::server(flavor, options).await;
    server
        .sql("postgres", "CREATE ROLE shopkeeper NOLOGIN")
        .await
        .expect("a role");
    if who != Who::Super {
        server
            .sql("postgres", &least(flavor, who))
            .await
            .expect("an admin");
    }
    server
        .sql("postgres", "CREATE DATABASE shop OWNER shopkeeper")
        .await
        .expect("a database");
    let tables = "SET ROLE shopkeeper; \
        CREATE TABLE items (id serial PRIMARY KEY, name text); \
        CREATE VIEW names AS SELECT name FROM items; \
        CREATE SCHEMA more; CREATE TABLE more.things (id int)";
    server.sql("shop", tables).await.expect("tables");
    server
}

/// The least admin, as the adapter's page has it.
fn least(flavor: PostgresFlavor, who: Who) -> String {
    let mut sql = format!(
        "CREATE ROLE mesh LOGIN CREATEROLE CREATEDB PASSWORD '{LEAST}'; \
         GRANT pg_signal_backend TO mesh; GRANT shopkeeper TO mesh"
    );
    if who == Who::Least {
        sql.push_str("; GRANT SELECT ON pg_catalog.pg_authid TO mesh");
    }
    let _ = flavor;
    sql
}

impl PostgresBench {
    pub(crate) async fn new(flavor: PostgresFlavor, who: Who) -> Self {
        let config = [
            ("log_statement", "ddl"),
            ("log_line_prefix", "%a|"),
            ("log_connections", "off"),
        ];
        let options = PostgresOptions {
            config: config
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..PostgresOptions::default()
        };
        let server = shop(flavor, who, options).await;
        let proxy = Proxy::before(server.port()).await.expect("a proxy");
        Self {
            who,
            server: Mutex::new(server),
            proxy,
        }
    }

    async fn sql(&self, database: &str, statements: &str) -> Result<String> {
        self.server.lock().await.sql(database, statements).await
    }
    async fn count(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let log = self.server.lock().await.log();
        log.lines().filter(|line| wanted(line)).count() as u64
    }
}

/// A name in quotes.
pub(crate) fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
/// A text in quotes.
pub(crate) fn text(value: &str) -> String {
    format!("E'{}'", value.replace('\\', "\\\\").replace('\'', "\\'"))
}

struct Open(tokio_postgres::Client);

#[async_trait]
impl Session for Open {
    async fn is_alive(&mut self) -> bool {
        self.0.simple_query("SELECT 1").await.is_ok()
    }
}

#[async_trait]
impl Bench for PostgresBench {
    fn name(&self) -> String {
        let who = match self.who {
            Who::Super => "with a superuser",
            Who::Least => "with the least rights",
            Who::Blind => "without a look at verifiers",
        };
        format!("PostgreSQL {who}")
    }
    fn settings(&self) -> ProviderSettings {
        settings(self.proxy.port(), self.who)
    }
    fn values(&self, consumer: &str) -> Value {
        // Whoever leaves data has to own a database: what others write is in somebody else's.
        if consumer.ends_with("data") {
            return json!({ "database": consumer, "privileges": "owner" });
        }
        json!({ "database": "shop", "privileges": "readwrite" })
    }
    fn other_values(&self, _consumer: &str) -> Value {
        json!({
            "database": "shop", "privileges": "readonly", "schemas": ["public", "more"],
            "connection_limit": 7,
        })
    }
    fn values_that_the_server_refuses(&self) -> Option<Value> {
        Some(json!({ "database": "no such database", "privileges": "readonly" }))
    }
    fn reserved(&self) -> Vec<String> {
        let mut all = vec!["postgres".to_owned(), "pg_read_all_data".to_owned()];
        if self.who != Who::Super {
            all.push("mesh".to_owned());
        }
        all
    }

    async fn lets_in(&self, login: &str, password: &str) -> Result<bool> {
        let server = self.server.lock().await;
        match server.sql_as(login, password, "shop", "SELECT 1").await {
            Ok(_) => Ok(true),
            Err(error) if error.to_string().contains("FATAL") => Ok(false),
            Err(error) => Err(error),
        }
    }
    async fn open_session(&self, login: &str, password: &str) -> Result<Box<dyn Session>> {
        let port = self.server.lock().await.port();
        let mut config = tokio_postgres::Config::new();
        config
            .host("127.0.0.1")
            .port(port)
            .user(login)
            .password(password)
            .dbname("shop");
        let connected = config.connect(NoTls).await;
        let (client, connection) = connected.map_err(|e| ServerError::new(e.to_string()))?;
        tokio::spawn(async { drop(connection.await) });
        Ok(Box::new(Open(client)))
    }
    async fn exists(&self, login: &str) -> Result<bool> {
        let sql = format!(
            "SELECT count(*) FROM pg_roles WHERE rolname = {}",
            text(login)
        );
        Ok(self.sql("postgres", &sql).await? == "1")
    }

    async fn make(&self, login: &str, password: &str) -> Result<()> {
        let mut sql = format!(
            "CREATE ROLE {} LOGIN PASSWORD {}",
            ident(login),
            text(password)
        );
        // What a person has to say on newer servers to hand a login over.
        if self.who != Who::Super && self.server.lock().await.flavor().major() >= 16 {
            sql.push_str(&format!(
                "; GRANT {} TO mesh WITH ADMIN OPTION",
                ident(login)
            ));
        }
        self.sql("postgres", &sql).await?;
        Ok(())
    }
    async fn drop_login(&self, login: &str) -> Result<()> {
        let who = ident(login);
        self.sql("shop", &format!("DROP OWNED BY {who}; DROP ROLE {who}"))
            .await?;
        Ok(())
    }
    async fn set_password(&self, login: &str, password: &str) -> Result<()> {
        let sql = format!("ALTER ROLE {} PASSWORD {}", ident(login), text(password));
        self.sql("postgres", &sql).await?;
        Ok(())
    }
    async fn add_password(&self, _login: &str, _password: &str) -> Result<Done> {
        Ok(Done::Never("a role has one password"))
    }
    async fn open_to_all(&self, _login: &str) -> Result<Done> {
        Ok(Done::Never(
            "that is a rule of the server's configuration, and told as a warning",
        ))
    }
    async fn switch_off(&self, login: &str) -> Result<Done> {
        self.sql("postgres", &format!("ALTER ROLE {} NOLOGIN", ident(login)))
            .await?;
        Ok(Done::Yes)
    }
    async fn switch_on(&self, login: &str) -> Result<Done> {
        self.sql("postgres", &format!("ALTER ROLE {} LOGIN", ident(login)))
            .await?;
        Ok(Done::Yes)
    }
    async fn take_rights(&self, login: &str) -> Result<()> {
        let sql = format!("REVOKE SELECT ON items FROM {}", ident(login));
        self.sql("shop", &sql).await?;
        Ok(())
    }
    async fn add_rights(&self, login: &str) -> Result<Done> {
        let sql = format!("GRANT TRUNCATE ON items TO {}", ident(login));
        self.sql("shop", &sql).await?;
        Ok(Done::Yes)
    }
    async fn strip_mark(&self, login: &str) -> Result<()> {
        self.sql(
            "postgres",
            &format!("COMMENT ON ROLE {} IS NULL", ident(login)),
        )
        .await?;
        Ok(())
    }
    async fn replace_mark(&self, login: &str, mark: &str) -> Result<()> {
        let sql = format!("COMMENT ON ROLE {} IS {}", ident(login), text(mark));
        self.sql("postgres", &sql).await?;
        Ok(())
    }

    async fn leave_data(&self, login: &str, password: &str) -> Result<Option<String>> {
        let sql = "CREATE TABLE kept (what text); INSERT INTO kept VALUES ('tea')";
        let server = self.server.lock().await;
        server.sql_as(login, password, login, sql).await?;
        Ok(Some(login.to_owned()))
    }
    async fn uses_data(&self, owner: &str, login: &str, password: &str) -> Result<Option<bool>> {
        // What only an owner may; and what is made on the way is everybody's who owns.
        let sql = "ALTER TABLE kept ADD COLUMN more int; ALTER TABLE kept DROP COLUMN more; \
                   DROP TABLE IF EXISTS mine; CREATE TABLE mine AS SELECT what FROM kept";
        let server = self.server.lock().await;
        match server.sql_as(login, password, owner, sql).await {
            Ok(_) => Ok(Some(true)),
            Err(error) if error.to_string().contains("must be owner") => Ok(Some(false)),
            Err(error) if error.to_string().contains("permission denied") => Ok(Some(false)),
            Err(error) => Err(error),
        }
    }
    async fn has_data(&self, login: &str) -> Result<bool> {
        let sql = format!(
            "SELECT count(*) FROM pg_database WHERE datname = {}",
            text(login)
        );
        if self.sql("postgres", &sql).await? == "0" {
            return Ok(false);
        }
        Ok(self.sql(login, "SELECT what FROM kept").await? == "tea")
    }
    fn tells_attempts(&self) -> Done {
        Done::Never(
            "a login that was refused is in the server's log alone, which SQL does not reach",
        )
    }

    async fn writes(&self) -> Result<u64> {
        Ok(self
            .count(|line| line.starts_with("meshkeeper|LOG:  statement:"))
            .await)
    }
    async fn failed_logins(&self) -> Result<u64> {
        Ok(self.count(|line| line.contains("|FATAL:  ")).await)
    }
    async fn traces(&self) -> Result<Vec<u8>> {
        // A connection that only proves a password is not an admin's: it says that in its first packet.
        let admin = match self.who {
            Who::Super => "user\0postgres\0",
            Who::Least | Who::Blind => "user\0mesh\0",
        };
        let is_admins = |one: &[u8]| one.windows(admin.len()).any(|w| w == admin.as_bytes());
        let asked = self.proxy.asked();
        let admins = asked.iter().filter(|one| is_admins(one));
        let mut traces = admins.cloned().collect::<Vec<_>>().concat();
        traces.extend(self.server.lock().await.log().into_bytes());
        Ok(traces)
    }

    async fn restart(&self) -> Result<Restart> {
        self.server.lock().await.restart().await?;
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
        // What was kept from before would not meet it.
        self.proxy.cut();
    }
}
