//! The PostgreSQL adapter beside plain statements, on a real server in the same run.
//!
//! `cargo bench -p mesh-catalog --bench postgres -- [15|16|18] [consumers] [databases] [rounds]`
#![allow(clippy::print_stdout, reason = "a bench tells its figures")]
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a bench may end with a panic"
)]

use std::time::Duration;

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};
use mesh_sdk::adapter::{Admin, ProviderSettings, Sink};
use mesh_sdk::handle::{AnyKind, Asked};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Answer, ConsumerName, Cx, Login, Marker, MeshId, ProviderName, Secret, Wish};
use tokio::time::Instant;
use tokio_postgres::{Client, Config, NoTls};

/// How many logins go into one plain transaction.
const BATCH: usize = 64;

/// What is run.
struct Run {
    server: PostgresServer,
    count: usize,
    databases: usize,
    rounds: u32,
}

fn main() {
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    // `cargo bench` adds `--bench`.
    let mut args = std::env::args().skip(1).filter(|arg| arg != "--bench");
    let flavor = match args.next().as_deref() {
        Some("16") => PostgresFlavor::V16,
        Some("18") => PostgresFlavor::V18,
        _ => PostgresFlavor::V15,
    };
    let mut number = |otherwise| {
        args.next()
            .and_then(|n| n.parse().ok())
            .unwrap_or(otherwise)
    };
    let (count, databases, rounds) = (number(10_000), number(10), number(1));
    runtime.block_on(async {
        let options = PostgresOptions::default();
        let server = PostgresServer::start(flavor, options)
            .await
            .expect("a server");
        let rounds = u32::try_from(rounds).expect("rounds");
        let run = Run {
            server,
            count,
            databases,
            rounds,
        };
        println!(
            "PostgreSQL {}: {count} readers of {databases} databases, {rounds} rounds",
            flavor.major()
        );
        run.all().await;
    });
}

impl Run {
    async fn client(&self, database: &str) -> Client {
        let mut config = Config::new();
        config
            .host("127.0.0.1")
            .port(self.server.port())
            .user("postgres");
        config.password(PostgresServer::PASSWORD).dbname(database);
        let (client, connection) = config.connect(NoTls).await.expect("a connection");
        tokio::spawn(async { drop(connection.await) });
        client
    }

    fn database(&self, of: usize) -> String {
        format!("shop{}", of % self.databases)
    }

    async fn all(&self) {
        let home = self.client("postgres").await;
        for n in 0..self.databases {
            let name = self.database(n);
            home.batch_execute(&format!("CREATE DATABASE {name}"))
                .await
                .expect("a database");
            let tables = "CREATE TABLE items (id serial, name text); CREATE TABLE more (id int)";
            self.client(&name)
                .await
                .batch_execute(tables)
                .await
                .expect("tables");
        }
        let provider = ProviderName::new("database").expect("a name");
        let mut at = ProviderSettings::new(
            provider.clone(),
            "postgres",
            "127.0.0.1",
            self.server.port(),
        );
        at.admin = Some(Admin {
            user: "postgres".to_owned(),
            password: Some(Secret::from(PostgresServer::PASSWORD)),
        });
        at.options
            .insert("generated_rounds".to_owned(), self.rounds.into());
        let mesh = MeshId::new("bench").expect("a name");
        let marker = Marker::new(mesh, "i1", provider, Secret::from("key"));
        let adapter = AnyKind::open(&PostgresKind, at).expect("an adapter");
        let wishes: Vec<Wish> = (0..self.count).map(|n| self.wish(n)).collect();
        let asked: Vec<Asked<'_>> = wishes
            .iter()
            .map(|wish| Asked {
                wish,
                adopted: false,
            })
            .collect();
        let cx = Cx::default();

        let sink = Sink::new(self.count);
        let start = Instant::now();
        adapter
            .create_all(&cx, &marker, &asked, &sink)
            .await
            .expect("create_all");
        let made = start.elapsed();
        assert!(sink.take().into_iter().all(|one| one == Some(Ok(()))));
        let raw_read = self.raw_read(&home).await;
        let mut looked = Duration::MAX;
        for _ in 0..3 {
            let sink = Sink::new(self.count);
            let start = Instant::now();
            adapter
                .holds_all(&cx, &marker, &asked, &sink)
                .await
                .expect("holds_all");
            looked = looked.min(start.elapsed());
            let held = |one: Option<Result<Answer, _>>| matches!(one, Some(Ok(Answer::Held(_))));
            assert!(sink.take().into_iter().all(held));
        }
        let raw_made = self.raw_create(&home).await;
        pair("create", raw_made, made);
        pair("look", raw_read, looked);
    }

    fn wish(&self, n: usize) -> Wish {
        let values = serde_json::json!({ "database": self.database(n), "privileges": "readonly" });
        let parsed = PostgresKind.parse_values(values).expect("values");
        let consumer = ConsumerName::new(&format!("app-{n:06}")).expect("a name");
        let parts = WishParts {
            login: Login::from(&consumer),
            password: Some(Secret::from(format!("password-of-{n}"))),
            consumer,
            values: parsed.values,
            canonical_values: parsed.canonical,
            enabled: true,
            adopt: false,
            exact: false,
            second: None,
            base: None,
            generated: true,
        };
        Wish::new(parts, &Secret::from("key"))
    }

    /// The verifiers and marks of all, and of each database the rights on its tables.
    async fn raw_read(&self, home: &Client) -> Duration {
        let roles = "SELECT rolname, rolpassword, rolcanlogin, rolvaliduntil, description FROM pg_authid a \
            LEFT JOIN pg_shdescription d ON d.objoid = a.oid";
        let rights = "SELECT relname, grantee, privilege_type FROM pg_class, \
            aclexplode(relacl || '{}'::aclitem[]) WHERE relnamespace = 'public'::regnamespace";
        let mut best = Duration::MAX;
        for _ in 0..3 {
            let start = Instant::now();
            let mut rows = home.query(roles, &[]).await.expect("roles").len();
            for n in 0..self.databases {
                let client = self.client(&self.database(n)).await;
                rows += client.query(rights, &[]).await.expect("rights").len();
            }
            best = best.min(start.elapsed());
            assert!(rows >= self.count);
        }
        best
    }

    /// As many other roles with the same rights, by plain batches.
    async fn raw_create(&self, home: &Client) -> Duration {
        // One verifier for all, with as many rounds: the server tries each all the same.
        let of = "SELECT rolpassword FROM pg_authid WHERE rolname = 'app-000000'";
        let verifier: String = home.query_one(of, &[]).await.expect("a verifier").get(0);
        let start = Instant::now();
        for database in 0..self.databases {
            let client = self.client(&self.database(database)).await;
            let mine: Vec<usize> = (0..self.count)
                .filter(|n| n % self.databases == database)
                .collect();
            for part in mine.chunks(BATCH) {
                let names: Vec<String> = part.iter().map(|n| format!("raw_{n}")).collect();
                let mut sql = String::from("BEGIN;");
                for name in &names {
                    sql.push_str(&format!(
                        "CREATE ROLE {name} LOGIN PASSWORD '{verifier}'; COMMENT ON ROLE {name} IS 'raw';"
                    ));
                }
                let all = names.join(", ");
                sql.push_str(&format!(
                    "GRANT SELECT ON items, more TO {all}; GRANT SELECT ON items_id_seq TO {all}; \
                     ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON TABLES TO {all}; \
                     ALTER DEFAULT PRIVILEGES IN SCHEMA public GRANT SELECT ON SEQUENCES TO {all}; COMMIT"
                ));
                client.batch_execute(&sql).await.expect("a batch");
            }
        }
        start.elapsed()
    }
}

fn pair(what: &str, raw: Duration, ours: Duration) {
    let ratio = ours.as_secs_f64() / raw.as_secs_f64();
    println!("  {what}: plain {raw:.3?}, adapter {ours:.3?}, {ratio:.2} times");
}
