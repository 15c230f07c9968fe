//! PostgreSQL.

mod access;
mod bench;
mod bulk;
mod cases;
mod owner;
mod reverse;
mod rights;
mod suite;
mod tls;

use mesh_catalog::postgres::PostgresKind;
use mesh_conformance::servers::{PostgresFlavor, PostgresOptions, PostgresServer};
use mesh_sdk::adapter::{Cx, ProviderSettings, Sink};
use mesh_sdk::handle::{AdapterHandle, AnyKind, Asked};
use mesh_sdk::provision::{Departing, WishParts};
use mesh_sdk::{Answer, Difference, Error, Held, Lost, Marker, MeshId, ProviderName, Secret, Wish};
use serde_json::{Value, json};

use crate::wishes::wish_of;

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

/// One adapter with what its calls need.
struct Ours {
    adapter: AdapterHandle,
    marker: Marker,
    cx: Cx,
}

impl Ours {
    fn on(settings: ProviderSettings) -> Self {
        let mesh = MeshId::new("test").expect("a name");
        let provider = ProviderName::new("database").expect("a name");
        AnyKind::check_provider(&PostgresKind, &settings).expect("good settings");
        Self {
            adapter: AnyKind::open(&PostgresKind, settings).expect("an adapter"),
            marker: Marker::new(mesh, "i1", provider, Secret::from("key")),
            cx: Cx::default(),
        }
    }
    async fn create(&self, wish: &Wish) -> Result<(), Error> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        self.adapter.create(&self.cx, &self.marker, asked).await
    }
    async fn holds(&self, wish: &Wish) -> Result<Answer, Error> {
        let asked = Asked {
            wish,
            adopted: false,
        };
        self.adapter.holds(&self.cx, &self.marker, asked).await
    }
    async fn held(&self, wish: &Wish) -> Held {
        match self.holds(wish).await {
            Ok(Answer::Held(held)) => held,
            other => panic!("{wish:?}: {other:?}"),
        }
    }
    async fn lost(&self, wish: &Wish) -> Lost {
        match self.holds(wish).await {
            Ok(Answer::Lost(lost)) => *lost,
            other => panic!("{wish:?}: {other:?}"),
        }
    }
    async fn made(&self, wish: &Wish) {
        self.create(wish).await.expect("created");
        assert_eq!(self.held(wish).await.warning, None, "{wish:?}");
    }
    async fn remove(&self, wish: &Wish) -> Result<(), Error> {
        self.adapter
            .remove(&self.cx, &self.marker, &going(wish))
            .await
    }
    async fn create_all(&self, wishes: &[Wish]) -> Vec<Result<(), Error>> {
        let asked: Vec<Asked<'_>> = asked(wishes);
        let sink = Sink::new(wishes.len());
        let ended = self
            .adapter
            .create_all(&self.cx, &self.marker, &asked, &sink)
            .await;
        ended.expect("an end");
        sink.take()
            .into_iter()
            .map(|one| one.expect("an outcome"))
            .collect()
    }
    async fn holds_all(&self, wishes: &[Wish]) -> Vec<Result<Answer, Error>> {
        let asked: Vec<Asked<'_>> = asked(wishes);
        let sink = Sink::new(wishes.len());
        let ended = self
            .adapter
            .holds_all(&self.cx, &self.marker, &asked, &sink)
            .await;
        ended.expect("an end");
        sink.take()
            .into_iter()
            .map(|one| one.expect("an answer"))
            .collect()
    }
}

fn asked(wishes: &[Wish]) -> Vec<Asked<'_>> {
    wishes
        .iter()
        .map(|wish| Asked {
            wish,
            adopted: false,
        })
        .collect()
}

fn going(wish: &Wish) -> Departing {
    Departing::new(wish.consumer().clone(), wish.login().clone())
}

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
