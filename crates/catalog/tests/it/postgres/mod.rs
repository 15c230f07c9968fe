//! PostgreSQL.

mod access;
mod bench;
mod bulk;
mod cases;
mod fence;
mod kept;
mod owner;
mod reverse;
mod rights;
mod suite;
mod tls;

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};
use mesh_sdk::provision::WishParts;
use mesh_sdk::{Difference, Wish};
use serde_json::{Value, json};

use crate::wishes::wish_of;

type Ours = crate::ours::Ours<PostgresKind>;

/// A server, or a failure that says how to get one.
async fn server(flavor: PostgresFlavor, options: PostgresOptions) -> PostgresServer {
    match PostgresServer::start(flavor, options).await {
        Ok(server) => server,
        Err(error) => panic!("{error}"),
    }
}

/// Options with these settings.
fn with(config: &[(&str, &str)]) -> PostgresOptions {
    let config = config
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    PostgresOptions {
        config: config.collect(),
        ..PostgresOptions::default()
    }
}

/// What lets a test count what the adapter says.
const LOGGED: [(&str, &str); 2] = [("log_statement", "all"), ("log_line_prefix", "%a|")];

/// Statements of the adapter in a server's log that hold one of these words.
fn said(server: &PostgresServer, words: &[&str]) -> Vec<String> {
    let log = server.log();
    let ours = log
        .lines()
        .filter(|line| line.starts_with("meshkeeper|LOG:"));
    let with_word = ours.filter(|line| words.is_empty() || words.iter().any(|w| line.contains(w)));
    with_word.map(str::to_owned).collect()
}

/// Words of statements that change something.
const WRITES: [&str; 6] = [
    "CREATE ",
    "ALTER ",
    "GRANT ",
    "REVOKE ",
    "COMMENT ON",
    "DROP ",
];

fn only(differences: impl IntoIterator<Item = Difference>) -> mesh_sdk::Differences {
    differences.into_iter().collect()
}

fn wish(name: &str, values: Value) -> Wish {
    wish_with(name, values, |_| ())
}

fn wish_with(name: &str, values: Value, change: impl FnOnce(&mut WishParts)) -> Wish {
    wish_of(&PostgresKind, name, values, change)
}

fn password(name: &str) -> String {
    format!("password-of-{name}")
}

fn readonly() -> Value {
    json!({ "database": "shop", "privileges": "readonly" })
}

fn readwrite() -> Value {
    json!({ "database": "shop", "privileges": "readwrite" })
}

fn owner(database: &str) -> Value {
    json!({ "database": database, "privileges": "owner" })
}
